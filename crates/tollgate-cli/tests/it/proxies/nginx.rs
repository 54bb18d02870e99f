//! nginx, with `examples/nginx/nginx.conf`.

use std::path::{Path, PathBuf};
use std::process::Command;

use tollgate_testbed::Program;

use super::paths::{PATHLESS, resolved_spellings_are_the_login, spent_for_each_spelling};
use super::promises::promises;
use super::wire::Client;
use super::{Places, Plan, Proxy, Setup, example, replaced};

promises!(Nginx);

pub(super) struct Nginx;

impl Proxy for Nginx {
    const EXAMPLE: &'static str = "nginx/nginx.conf";
    const SECOND: &'static str = "#server 10.0.0.2:8700";

    fn find() -> Option<PathBuf> {
        let Some(program) = Program::find("nginx") else {
            println!("SKIPPED: nginx is not installed: apt-get install nginx");
            return None;
        };
        let built = Command::new(&program).arg("-V").output().unwrap();
        if !String::from_utf8_lossy(&built.stderr).contains("http_auth_request_module") {
            println!("SKIPPED: this nginx has no auth_request: apt-get install nginx");
            return None;
        }
        Some(program)
    }

    fn command(program: &Path, example: &str, at: &Places<'_>) -> Command {
        let folder = at.folder.display().to_string();
        // Its working folders are those of the system else, which belong to others.
        let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {folder}/{name};"));
        let text = replaced(
            example.to_owned(),
            &[
                ("/var/log/nginx", &folder),
                // More than the clients of any test can leave at work on a busy machine; the usual
                // number is 512.
                ("events {}", "events { worker_connections 8192; }"),
                ("http {", &format!("http {{ {}", folders.join(" "))),
                ("127.0.0.1:8700", &at.service.to_string()),
                ("127.0.0.1:3000", &at.pages.to_string()),
                ("listen 8080;", &format!("listen {};", at.listen)),
            ],
        );
        let path = at.folder.join("nginx.conf");
        std::fs::write(&path, text).unwrap();
        let mut command = Command::new(program);
        command.arg("-p").arg(at.folder).arg("-c").arg(path).args(["-e", "stderr", "-g"]);
        // One process, so that nothing is left of it when it is killed.
        command.arg(format!("daemon off; master_process off; pid {folder}/nginx.pid;"));
        command
    }
}

/// The replacement of a comment to keep pages open.
const OPEN: [(&str, &str); 1] = [("#error_page 502", "error_page 502")];

#[test]
fn without_the_service_pages_are_closed() {
    let Some(mut setup) = Setup::unchanged::<Nginx>() else { return };
    setup.kill_service();
    let answer = setup.ask(Client(1), "GET /");
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(body["status"], 503);
    assert_eq!(setup.pages.visits(), 0);
}

#[test]
fn a_service_that_does_not_answer_is_as_none() {
    for (switches, status) in [(&[][..], 503), (&OPEN[..], 200)] {
        let Some(setup) = Setup::changed::<Nginx>(switches) else { return };
        setup.freeze_service();
        assert_eq!(setup.ask(Client(1), "GET /").status, status);
    }
}

#[test]
fn without_the_service_pages_can_be_open() {
    let Some(mut setup) = Setup::changed::<Nginx>(&OPEN) else { return };
    assert_eq!(setup.admitted(Client(1), &["GET /"]), 5);
    setup.kill_service();
    for client in [1, 1, 66] {
        let answer = setup.ask(Client(client), "GET /");
        assert_eq!((answer.status, answer.header("ratelimit")), (200, None), "{answer:?}");
    }
}

#[test]
fn nobody_opens_closed_pages_with_a_request_that_the_service_refuses() {
    let Some(setup) = Setup::changed::<Nginx>(&OPEN) else { return };
    let many: String = (0..120).map(|number| format!("\nX-Many-{number}: 1")).collect();
    let long = "x".repeat(7_000);
    for (request, status) in [
        (format!("GET /{many}"), 503),
        (format!("GET /\nX-A: {long}\nX-B: {long}\nX-C: {long}"), 503),
        ("POST /./login".to_owned(), 403),
        ("GET /<".to_owned(), 403),
        ("GET /`\\^".to_owned(), 403),
    ] {
        let answer = setup.ask(Client(1), &request);
        assert_eq!(answer.status, status, "{request}: {answer:?}");
    }
    assert_eq!(setup.pages.visits(), 0);
}

/// The table of docs/proxies.md: nginx asks again when it redirects a request within itself.
#[test]
fn what_nginx_asks_twice_is_charged_once_with_a_request_id() {
    const FOUR: &str = r#"
        version = 1
        [[policies]]
        name = "all"
        on_failure = "deny"
        limits = [{ subject = "ip", limit = "4/h" }]
    "#;
    for (flags, twice) in [(&[][..], 2), (&["--request-id-header", "X-Request-Id"], 4)] {
        // A separate folder: nginx leaves its socket behind when it is killed.
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("index.html"), "the index").unwrap();
        std::fs::write(folder.path().join("gone.html"), "it is gone").unwrap();
        std::fs::write(folder.path().join("mirrored.html"), "a page").unwrap();
        // nginx's own pages, in place of those behind it, whose address the test replaces.
        let at = folder.path().display();
        let pages = format!(
            "location /sent {{ proxy_pass http://unix:{at}/backend; }}
             location /tried {{ try_files /nothing /index.html; }}
             location /named {{ try_files /nothing @named; }}
             location /rewritten {{ rewrite ^ /index.html last; }}
             location /inside {{ try_files /nothing /inner/index.html; }}
             location /inner {{ internal; auth_request off; alias {at}; }}
             location = /mirrored.html {{ mirror /index.html; }}
             location /returned {{ return 200 returned; }}
             root {at}; index index.html; error_page 404 /gone.html; # http://127.0.0.1:3000;"
        );
        let named = format!(
            "location @named {{ auth_request /_tollgate; error_page 403 = @refused; root {at};
             try_files /index.html =404; }} location @refused {{"
        );
        let backend = format!(
            "http {{ server {{ listen unix:{at}/backend; location / {{
                 add_header X-Accel-Redirect /index.html; return 200; }} }}"
        );
        let switches = [
            ("proxy_pass http://127.0.0.1:3000;", pages.as_str()),
            ("location @refused {", &named),
            ("http {", &backend),
        ];
        let plan = Plan { policies: FOUR, switches: &switches, flags, ..Plan::default() };
        let Some(setup) = Setup::planned::<Nginx>(&plan) else { return };
        for (client, request, status, admitted) in [
            (1, "GET /", 200, twice),
            (2, "GET /no-such-page", 404, twice),
            (3, "GET /sent", 200, twice),
            (4, "GET /tried", 200, twice),
            (5, "GET /named", 200, twice),
            (6, "GET /rewritten", 200, 4),
            (7, "GET /inside", 200, 4),
            (8, "GET /mirrored.html", 200, 4),
            (9, "GET /returned", 200, 6),
        ] {
            // A client that sends an id itself is charged all the same.
            let asked = format!("{request}\nX-Request-Id: mine");
            let answers: Vec<u16> =
                (0..6).map(|_| setup.ask(Client(client), &asked).status).collect();
            let passed = answers.iter().filter(|found| **found == status).count();
            assert_eq!(passed, admitted, "{flags:?}, {request}: {answers:?}");
        }
    }
}

#[test]
fn a_path_that_nginx_reads_as_its_own_location_does_not_get_past_its_limit() {
    // With the lines of `location /` that ask, and another page.
    let whole = example(Nginx::EXAMPLE);
    let asking = whole.split_once("location / {").unwrap().1.split_once("proxy_pass").unwrap().0;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("login.txt"), "the login").unwrap();
    let own = format!(
        "location = /login {{ {asking} root {}; error_page 405 =200 /login.txt; try_files \
         /login.txt =404; }}\n location = /login.txt {{ root {}; }}\n location / {{",
        folder.path().display(),
        folder.path().display()
    );
    let switches: &[(&str, &str)] = &[("location / {", &own)];
    let Some(setup) = Setup::changed::<Nginx>(switches) else { return };
    spent_for_each_spelling(&setup);
    let plan = Plan { policies: PATHLESS, switches, ..Plan::default() };
    resolved_spellings_are_the_login(&Setup::planned::<Nginx>(&plan).unwrap());
}
