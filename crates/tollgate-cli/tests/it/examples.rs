//! The programs of `examples/redis` for one server, run unchanged.

use std::path::Path;
use std::process::Output;

use tollgate_testbed::redis_or_skip;

use crate::Place;
use crate::clients::{self, code_and_output, example, make};
use crate::redis::{self, redis_cli};
use crate::scripts::sh;

/// A server that was started, and a subject as the command line writes it.
struct Asked<'a> {
    url: &'a str,
    socket: &'a Path,
    subject: &'a str,
}

/// Runs `ask` for a subject until it is denied, with the script forgotten in between; then looks
/// whether the command line sees the same count.
fn admits_twice_then_denies(place: &Place, asked: &Asked<'_>, mut ask: impl FnMut() -> Output) {
    let Asked { url, socket, subject } = asked;
    assert_eq!(code_and_output(&ask()).0, Some(0));
    redis_cli(socket, &["SCRIPT", "FLUSH"]);
    let (code, out) = code_and_output(&ask());
    assert!(code == Some(0) && out.starts_with("allow"), "{out}");
    let (code, out) = code_and_output(&ask());
    assert!(code == Some(1) && out.starts_with("deny"), "{out}");
    let peek = ["peek", subject, "--limit", "2/h via gcra", "--store", url, "--json"];
    assert_eq!(place.json(&peek)["remaining"], 0, "{subject}");
}

#[test]
fn a_shell_asks() {
    let place = Place::new();
    let Some((_server, url)) = redis::start(place.path(), &[]) else { return };
    make(&place);
    let line = format!("sh '{}' user:42", example("limit.sh").display());
    let socket = place.path().join("redis.sock");
    let asked = Asked { url: &url, socket: &socket, subject: "user:42" };
    admits_twice_then_denies(&place, &asked, || sh(&place, &line));
    let output = sh(&place, &format!("rm limit.lua; {line}"));
    assert_eq!(output.status.code(), Some(2), "no answer is no admission: {output:?}");
}

/// The value for the others: it has all characters that are escaped.
const VALUE: &str = "a b,c{d}%\u{e9}";
const WRITTEN: &str = "user:a%20b%2Cc{d}%25%C3%A9";

#[test]
fn python_asks() {
    let place = Place::new();
    let Some(mut python) = clients::python(&place, "limit.py") else { return };
    let server = redis_or_skip!();
    make(&place);
    python.args(["user", VALUE]).env("REDIS_URL", server.url());
    let asked = Asked { url: &server.url(), socket: &server.socket(), subject: WRITTEN };
    admits_twice_then_denies(&place, &asked, || python.output().unwrap());
}

#[test]
fn node_asks() {
    let place = Place::new();
    let Some(mut node) = clients::node(&place, "redis", "limit.mjs") else { return };
    let server = redis_or_skip!();
    make(&place);
    node.args(["user", VALUE]).env("REDIS_URL", server.url());
    let asked = Asked { url: &server.url(), socket: &server.socket(), subject: WRITTEN };
    admits_twice_then_denies(&place, &asked, || node.output().unwrap());
}
