//! HAProxy, with `examples/haproxy`.

use std::path::{Path, PathBuf};
use std::process::Command;

use tollgate_testbed::Program;

use super::promises::promises;
use super::wire::Client;
use super::{Places, Proxy, Setup, example, replaced};

promises!(HaProxy);

pub(super) struct HaProxy;

impl Proxy for HaProxy {
    const EXAMPLE: &'static str = "haproxy/haproxy.cfg";
    const SECOND: &'static str = "#server second 10.0.0.2:8700";

    fn find() -> Option<PathBuf> {
        let Some(program) = Program::find("haproxy") else {
            println!("SKIPPED: haproxy is not installed: apt-get install haproxy");
            return None;
        };
        let built = Command::new(&program).arg("-vv").output().unwrap();
        if !String::from_utf8_lossy(&built.stdout).contains("+LUA") {
            println!("SKIPPED: this haproxy has no Lua: apt-get install haproxy");
            return None;
        }
        Some(program)
    }

    fn command(program: &Path, example_text: &str, at: &Places<'_>) -> Command {
        let (service, more) = (at.service.to_string(), at.more.to_string());
        let script = at.folder.join("tollgate.lua");
        let text = replaced(example("haproxy/tollgate.lua"), &[("127.0.0.1:8702", &more)]);
        std::fs::write(&script, text).unwrap();
        let text = replaced(
            example_text.to_owned(),
            &[
                ("/etc/haproxy/tollgate.lua", script.to_str().unwrap()),
                ("bind :8080", &format!("bind {}", at.listen)),
                ("127.0.0.1:3000", &at.pages.to_string()),
                ("127.0.0.1:8702", &more),
                ("127.0.0.1:8700", &service),
            ],
        );
        let path = at.folder.join("haproxy.cfg");
        std::fs::write(&path, text).unwrap();
        let mut command = Command::new(program);
        // One process, in the foreground, so that nothing is left of it when it is killed; and a
        // port that somebody has is not shared with it.
        command.args(["-db", "-dR", "-f"]).arg(path);
        command
    }
}

/// The replacement of a word to keep pages open.
const OPEN: [(&str, &str); 1] = [("lua.tollgate closed", "lua.tollgate open")];

#[test]
fn without_the_service_pages_are_closed() {
    let Some(mut setup) = Setup::unchanged::<HaProxy>() else { return };
    setup.kill_service();
    for _ in 0..3 {
        assert_eq!(setup.ask(Client(1), "GET /").status, 503);
    }
    assert_eq!(setup.pages.visits(), 0);
}

#[test]
fn a_service_that_does_not_answer_is_as_none() {
    for (switches, status) in [(&[][..], 503), (&OPEN[..], 200)] {
        let Some(setup) = Setup::changed::<HaProxy>(switches) else { return };
        setup.freeze_service();
        assert_eq!(setup.ask(Client(1), "GET /").status, status);
    }
}

#[test]
fn without_the_service_pages_can_be_open() {
    let Some(mut setup) = Setup::changed::<HaProxy>(&OPEN) else { return };
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
    let Some(setup) = Setup::changed::<HaProxy>(&OPEN) else { return };
    // Above the bounds of the script, which are those that keep HAProxy from ending; above those of
    // HAProxy itself; and requests that the service refuses.
    let many = |number: usize| -> String {
        (0..number).map(|number| format!("\nX-Many-{number}: 1")).collect()
    };
    let long = |length: usize| "x".repeat(length);
    for request in [
        format!("GET /{}", many(65)),
        format!("GET /{}", many(98)),
        format!("GET /{}", many(120)),
        format!("GET /{}\nX-A: {}", long(7_000), long(4_000)),
        format!("GET /{}\nX-A: {}", long(7_000), long(8_000)),
        format!("GET /{}", long(12_000)),
        format!("GET /{}", long(15_000)),
        format!("GET /\nX-A: {}", long(14_500)),
        format!("GET /\nX-A: {}", long(15_200)),
        "POST /./login".to_owned(),
    ] {
        let answer = setup.ask(Client(1), &request);
        assert!(answer.status >= 400 || answer.header("ratelimit").is_some(), "{answer:?}");
    }
    let visits = setup.pages.visits();
    let left = setup.admitted(Client(1), &["GET /"]);
    assert_eq!(visits + left, 5, "each page that was seen was counted");
}
