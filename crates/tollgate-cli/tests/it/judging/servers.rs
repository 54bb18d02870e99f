//! `judge` with servers that want a password, a database or TLS.

use std::fs;

use serde_json::Value;
use tollgate_testbed::{RedisServer, SKIPPED, redis_program};

use super::usage::SCRIPT;
use crate::Place;
use crate::resp::{PASSWORD, certificate};
use crate::serving::Serving;

const LIMIT: &str = "5/200ms via gcra";

#[test]
fn a_service_with_tls_and_users_is_judged() {
    let place = Place::new();
    let (authority, more) = certificate(&place);
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let mut command = Serving::command(&place, &[&["--resp", "127.0.0.1:0"], &more[..]].concat());
    command.env_remove("TOLLGATE_RESP_PASSWORD");
    command.env("TOLLGATE_RESP_USERS", format!("web:ask:{PASSWORD}"));
    let serving = Serving::start_command(command);
    let port = serving.line_after("redis      ").rsplit_once(':').unwrap().1;
    let words = format!("TOLLGATE.CHECK {{subject}} \"{LIMIT}\" COST {{cost}}");
    let http = format!("https://{}/v1/check", serving.address());
    let body = format!(r#"{{"subject": "{{subject}}", "limit": "{LIMIT}"}}"#);
    let of = |user: &str, password: &str| format!("rediss://{user}:{password}@127.0.0.1:{port}");
    let judge = |args: &[&str], trusted: bool| {
        let args = [&["judge", "--json", "-l", LIMIT, "--within", "3s"], args].concat();
        let mut command = place.tollgate(&args);
        if trusted {
            command.env("SSL_CERT_FILE", &authority);
        }
        let output = command.output().unwrap();
        let report = serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default();
        (output.status.code().unwrap(), report, String::from_utf8(output.stderr).unwrap())
    };
    let url = of("web", PASSWORD);
    let resp = ["--resp", &url, "--ask", &words];
    let http = ["--http", &http, "--body", &body, "--allowed", "json:/allowed=true"];
    for args in [&resp[..], &http] {
        let (code, report, err) = judge(args, true);
        assert_eq!((code, &report["verdict"]), (0, &"kept".into()), "{args:?}: {err}");
        assert!(!report.to_string().contains(PASSWORD), "{report:#}");
        let (code, _, err) = judge(args, false);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains("ertificate"), "{args:?}: {err}");
    }
    let wrong = of("web", "not-the-password");
    let (code, _, err) = judge(&["--resp", &wrong, "--ask", &words], true);
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains("no such user with this password") && !err.contains("not-the-password"),
        "{err}"
    );
}

#[test]
fn a_redis_with_a_password_and_a_database_is_judged() {
    let place = Place::new();
    if redis_program().is_none() {
        println!("{SKIPPED}");
        return;
    }
    let server = RedisServer::with(&["--requirepass", "secret"]);
    let file = place.path().join("limit.lua");
    fs::write(&file, SCRIPT).unwrap();
    let limit = "5/200ms anchor first-hit via fixed_window";
    let judge = |url: &str| {
        let args = ["judge", "-l", limit, "--redis", url, "--script", file.to_str().unwrap()];
        let more = ["--ask", "1 {subject} 5 200", "--allowed", "item:0=1", "--within", "3s"];
        place.run(&[&args[..], &more, &["--precision", "2ms"]].concat())
    };
    let (host, port) = ("127.0.0.1", server.port());
    let (code, out, err) = judge(&format!("redis://:secret@{host}:{port}/3"));
    assert_eq!(code, 0, "{out} {err}");
    assert!(out.contains(&format!("redis://{host}:{port}/3 1 {{subject}} 5 200")), "{out}");
    let socket = server.socket();
    let (code, out, err) = judge(&format!("unix://{}?db=2", socket.display()));
    assert_eq!(code, 2, "without its password: {out} {err}");
    for (url, why) in [
        (format!("redis://:wrong@{host}:{port}"), "password"),
        (format!("redis://:secret@{host}:{port}?deadline=1s"), "`deadline`"),
        (format!("redis+cluster://:secret@{host}:{port}"), "one server"),
        ("redis://:secret@192.0.2.7".to_owned(), "--i-may-load 192.0.2.7"),
        ("postgres://localhost".to_owned(), "the scheme is unknown"),
    ] {
        let (code, out, err) = judge(&url);
        assert_eq!(code, 2, "{url}: {out}");
        assert!(err.contains(why) && !err.contains("secret"), "{url}: {err}");
    }
}
