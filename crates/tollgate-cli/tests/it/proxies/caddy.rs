//! Caddy, with `examples/caddy/Caddyfile`.

use std::path::{Path, PathBuf};
use std::process::Command;

use tollgate_testbed::Program;

use super::paths::{PATHLESS, resolved_spellings_are_the_login, spent_for_each_spelling};
use super::promises::promises;
use super::wire::Client;
use super::{Places, Plan, Proxy, Setup, replaced};

promises!(Caddy);

pub(super) struct Caddy;

impl Proxy for Caddy {
    const EXAMPLE: &'static str = "caddy/Caddyfile";
    const SECOND: &'static str = "#to 10.0.0.2:8700";

    fn find() -> Option<PathBuf> {
        let program = Program::find("caddy");
        if program.is_none() {
            println!("SKIPPED: caddy is not installed: apt-get install caddy");
        }
        program
    }

    fn command(program: &Path, example: &str, at: &Places<'_>) -> Command {
        let text = replaced(
            example.to_owned(),
            &[
                ("127.0.0.1:8700", &at.service.to_string()),
                ("127.0.0.1:8702", &at.more.to_string()),
                ("http://:8702", &format!("http://:{}", at.more.port())),
                ("127.0.0.1:3000", &at.pages.to_string()),
                ("\n:8080 {", &format!("\n:{} {{", at.listen.port())),
            ],
        );
        let path = at.folder.join("Caddyfile");
        std::fs::write(&path, text).unwrap();
        let mut command = Command::new(program);
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(path);
        // Its files are not in the folders of the person who runs the tests. No two tests share
        // them.
        command.env("CADDY_ADMIN", format!("unix/{}/admin.sock", at.folder.display()));
        for name in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env(name, at.folder);
        }
        command
    }
}

/// The replacement of a line to keep pages open.
const OPEN: [(&str, &str); 1] = [("import closed", "import open")];

#[test]
fn without_the_service_pages_are_closed() {
    let Some(mut setup) = Setup::unchanged::<Caddy>() else { return };
    setup.kill_service();
    for _ in 0..3 {
        let answer = setup.ask(Client(1), "GET /");
        assert_eq!(answer.status, 502, "{answer:?}");
    }
    assert_eq!(setup.pages.visits(), 0);
}

#[test]
fn a_service_that_does_not_answer_is_as_none() {
    for (switches, statuses) in [(&[][..], [502, 504]), (&OPEN[..], [200, 200])] {
        let Some(setup) = Setup::changed::<Caddy>(switches) else { return };
        setup.freeze_service();
        let answer = setup.ask(Client(1), "GET /");
        assert!(statuses.contains(&answer.status), "{answer:?}");
    }
}

#[test]
fn without_the_service_pages_can_be_open() {
    let Some(mut setup) = Setup::changed::<Caddy>(&OPEN) else { return };
    assert_eq!(setup.admitted(Client(1), &["GET /"]), 5);
    setup.kill_service();
    for client in [1, 1, 66] {
        let answer = setup.ask(Client(client), "POST /login\n\nname=a");
        assert_eq!((answer.status, answer.header("ratelimit")), (200, None), "{answer:?}");
        assert!(answer.body.ends_with("name=a"), "{answer:?}");
    }
}

#[test]
fn nobody_opens_closed_pages_with_a_request_that_the_service_refuses() {
    let Some(setup) = Setup::changed::<Caddy>(&OPEN) else { return };
    let many: String = (0..120).map(|number| format!("\nX-Many-{number}: 1")).collect();
    let long = "x".repeat(40_000);
    for (request, status) in [
        (format!("GET /{many}"), 431),
        (format!("GET /\nX-A: {long}"), 431),
        (format!("GET /{long}"), 431),
        ("POST /./login".to_owned(), 400),
    ] {
        let answer = setup.ask(Client(1), &request);
        assert_eq!(answer.status, status, "{answer:?}");
    }
    assert_eq!(setup.pages.visits(), 0);
    assert_eq!(setup.admitted(Client(1), &["GET /"]), 5, "the service is asked as before");
}

#[test]
fn a_path_that_caddy_reads_as_its_own_handler_does_not_get_past_its_limit() {
    let own = "# Your pages.\n\t\trespond /login \"the login\"";
    let switches: &[(&str, &str)] = &[("# Your pages.", own)];
    let Some(setup) = Setup::changed::<Caddy>(switches) else { return };
    spent_for_each_spelling(&setup);
    let plan = Plan { policies: PATHLESS, switches, ..Plan::default() };
    resolved_spellings_are_the_login(&Setup::planned::<Caddy>(&plan).unwrap());
}
