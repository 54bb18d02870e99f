//! Traefik, with `examples/traefik`. It shows clients no count on admitted answers, so most
//! promises are asked in another way here.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::promises::{WRITTEN, promises};
use super::wire::Client;
use super::{Places, Proxy, Setup, example, replaced};

promises! { Traefik, paths:
    a_path_that_flask_reads_as_the_login_does_not_get_past_its_limit
    a_path_that_django_reads_as_the_login_does_not_get_past_its_limit
    a_path_that_axum_reads_as_the_login_does_not_get_past_its_limit
}
promises! { Traefik, promises:
    connections_to_the_service_are_kept
    bodies_and_cookies_stay_away_from_the_service
    a_banned_client_is_told_so
    what_cannot_be_counted_is_no_429
}
promises! { Traefik, rolling:
    a_rolling_restart_of_two_replicas_fails_nobody
    a_silent_replica_is_left_out
}

struct Traefik;

impl Proxy for Traefik {
    const EXAMPLE: &'static str = "traefik/tollgate.yaml";
    const LINGER: &'static [&'static str] = &["--linger", "2s"];
    /// It asks itself, and may ask again before its first connection is free.
    const KEPT: usize = 10;
    const SECOND: &'static str = "#- url: http://10.0.0.2:8700";

    fn find() -> Option<PathBuf> {
        let program = crate::clients::folder("../../target/tools/traefik/bin/traefik");
        if !program.is_file() {
            println!("SKIPPED: traefik is not installed: cargo xtask test installs it");
            return None;
        }
        Some(program)
    }

    fn command(program: &Path, example_text: &str, at: &Places<'_>) -> Command {
        let (more, routes) = (at.more.to_string(), at.folder.join("tollgate.yaml"));
        let mut text = example_text.to_owned();
        // Nobody takes the place of one that a busy machine delays: its health is seen once.
        if text.contains(Self::SECOND) {
            text = replaced(text, &[("interval: 500ms, timeout: 500ms", "interval: 60s")]);
        }
        let text = replaced(
            text,
            &[
                ("  routers:\n", READY),
                ("  services:\n", ITSELF),
                ("127.0.0.1:8700", &at.service.to_string()),
                ("127.0.0.1:8702", &more),
                ("127.0.0.1:3000", &at.pages.to_string()),
            ],
        );
        std::fs::write(&routes, text).unwrap();
        let text = replaced(
            example("traefik/traefik.yaml"),
            &[
                ("\":8080\"", &format!("\"{}\"", at.listen)),
                ("127.0.0.1:8702", &more),
                ("/etc/traefik/tollgate.yaml", routes.to_str().unwrap()),
            ],
        );
        let path = at.folder.join("traefik.yaml");
        std::fs::write(&path, text).unwrap();
        let mut command = Command::new(program);
        command.arg(format!("--configfile={}", path.display()));
        command
    }

    /// It listens before it has read its routes, and gives each entry point its own in turn. So
    /// this asks by both.
    fn is_ready(listen: SocketAddr) -> bool {
        Client(1).ask(listen, "GET /ready").status == 200
    }
}

/// The replacement of a word to keep pages open.
const OPEN: [(&str, &str); 1] = [("service: closed\n\n", "service: open\n\n")];

#[test]
fn the_limit_is_exact_and_a_refusal_is_shown() {
    let Some(setup) = Setup::unchanged::<Traefik>() else { return };
    for left in (0..5).rev() {
        let answer = setup.ask(Client(1), "POST /login?next=1\n\nname=a");
        assert_eq!((answer.status, answer.header("ratelimit")), (200, None), "{answer:?}");
        assert!(answer.body.starts_with("the page\nPOST /login?next=1 "), "{answer:?}");
        assert!(answer.body.ends_with("\r\n\r\nname=a"), "{answer:?}");
        // The pages see it.
        assert!(answer.body.contains(&format!("\nRatelimit: \"login\";r={left};t=")), "{answer:?}");
    }
    let answer = setup.ask(Client(1), "POST /login");
    assert_eq!(answer.status, 429, "{answer:?}");
    let wait: u32 = answer.header("retry-after").unwrap().parse().unwrap();
    assert_eq!(answer.header("ratelimit"), Some(&*format!("\"login\";r=0;t={wait}")));
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(setup.ask(Client(1), "GET /login").status, 200, "another policy");
    assert_eq!(setup.ask(Client(2), "POST /login").status, 200, "another client");
    assert_eq!(setup.admitted(Client(3), &["GET /\nHost: other.example"]), 1, "by the host");
    assert_eq!(setup.admitted(Client(4), &["GET /v1/auth", "GET /"]), 5, "a page as any other");
}

#[test]
fn nothing_a_client_writes_changes_its_count() {
    let Some(setup) = Setup::unchanged::<Traefik>() else { return };
    for (client, written) in (1..).zip(WRITTEN) {
        let asked = format!("POST /login\n{written}\n\nname=a");
        let statuses = [(); 7].map(|()| setup.ask(Client(client), &asked).status);
        assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429], "{written}");
    }
    let asked = setup.tap.asked();
    assert!(!asked.contains("x-forwarded-host: other.example"), "{asked}");
}

#[test]
fn what_pages_say_is_left_as_it_is() {
    let Some(setup) = Setup::unchanged::<Traefik>() else { return };
    for status in [201, 401, 403, 404, 429, 500, 502, 503, 504] {
        let answer = setup.ask(Client(1), &format!("GET /free/status/{status}"));
        assert_eq!((answer.status, answer.header("retry-after")), (status, None), "{answer:?}");
    }
    assert_eq!(setup.pages.visits(), 9);
}

#[test]
fn without_the_service_pages_are_closed_or_open() {
    // 503 is the answer once the check of health has missed the service. 500 is seen on a busy
    // machine: Traefik's answer where its call of its own entry point fails.
    for (switches, statuses) in [(&[][..], [500, 502, 503]), (&OPEN[..], [200; 3])] {
        let Some(mut setup) = Setup::changed::<Traefik>(switches) else { return };
        assert_eq!(setup.admitted(Client(1), &["GET /"]), 5);
        setup.kill_service();
        let answers = [1, 66].map(|client| setup.ask(Client(client), "GET /"));
        assert!(answers.iter().all(|it| statuses.contains(&it.status)), "{answers:?}");
        let opened = if switches.is_empty() { 0 } else { 2 };
        assert_eq!(setup.pages.visits(), 5 + opened, "{answers:?}");
    }
}

#[test]
fn nobody_opens_closed_pages_with_a_request_that_the_service_refuses() {
    let Some(setup) = Setup::changed::<Traefik>(&OPEN) else { return };
    let many: String = (0..120).map(|number| format!("\nX-Many-{number}: 1")).collect();
    let long = "x".repeat(40_000);
    for request in [format!("GET /{many}"), format!("GET /\nX-A: {long}"), format!("GET /{long}")] {
        let answer = setup.ask(Client(1), &request);
        assert_eq!(answer.status, 431, "{answer:?}");
    }
    assert_eq!(setup.pages.visits(), 0);
}

#[test]
fn a_service_that_does_not_answer_is_as_none() {
    for (switches, statuses) in [(&[][..], [502, 503, 504]), (&OPEN[..], [200; 3])] {
        let Some(setup) = Setup::changed::<Traefik>(switches) else { return };
        setup.freeze_service();
        let answer = setup.ask(Client(1), "GET /");
        assert!(statuses.contains(&answer.status), "{answer:?}");
    }
}

/// Another route, which nobody counts. It goes the way of a question.
const READY: &str = "  routers:
    ready: { entryPoints: [web], rule: Path(`/ready`), priority: 99, service: itself }
    answer: { entryPoints: [question], rule: Path(`/ready`), service: ping@internal }
";

const ITSELF: &str = "  services:
    itself: { loadBalancer: { servers: [{ url: http://127.0.0.1:8702 }] } }
";
