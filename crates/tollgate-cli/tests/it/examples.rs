//! The programs of `examples/redis`, run as they stand. The client libraries of Python and Node are
//! stood in for (`tests/stand_in`), so that nothing has to be installed but the languages.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::Place;
use crate::redis::{Redis, redis_cli};
use crate::scripts::sh;

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn example(name: &str) -> PathBuf {
    folder("../../examples/redis").join(name)
}

/// Writes what the examples take: the script, and the object with all of it.
fn make(place: &Place) {
    for (format, file, more) in
        [("lua", "limit.lua", &["--answer", "boolean"][..]), ("json", "limit.json", &[])]
    {
        let args = ["scripts", "2/h via gcra", "--format", format];
        let (code, out, err) = place.run(&[&args[..], more].concat());
        assert_eq!(code, 0, "{err}");
        std::fs::write(place.path().join(file), out).unwrap();
    }
}

fn told(output: &Output) -> (Option<i32>, String) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    (output.status.code(), text(&output.stdout))
}

/// Runs `ask` for a subject until it is denied, with the script forgotten in between; then looks
/// whether the command line sees the same count.
fn admits_twice_then_denies(place: &Place, url: &str, subject: &str, ask: impl Fn() -> Output) {
    assert_eq!(told(&ask()).0, Some(0));
    redis_cli(&place.path().join("redis.sock"), &["SCRIPT", "FLUSH"]);
    let (code, out) = told(&ask());
    assert!(code == Some(0) && out.starts_with("allow"), "{out}");
    let (code, out) = told(&ask());
    assert!(code == Some(1) && out.starts_with("deny"), "{out}");
    let peek = ["peek", subject, "--limit", "2/h via gcra", "--store", url, "--json"];
    assert_eq!(place.json(&peek)["remaining"], 0, "{subject}");
}

#[test]
fn a_shell_asks() {
    let place = Place::new();
    let Some((_server, url)) = Redis::start(place.path(), &[]) else { return };
    make(&place);
    let line = format!("sh '{}' user:42", example("limit.sh").display());
    admits_twice_then_denies(&place, &url, "user:42", || sh(&place, &line));
    let output = sh(&place, &format!("rm limit.lua; {line}"));
    assert_eq!(output.status.code(), Some(2), "no answer is no admission: {output:?}");
}

/// What the others are asked for: everything that is escaped is in it.
const VALUE: &str = "a b,c{d}%\u{e9}";
const WRITTEN: &str = "user:a%20b%2Cc{d}%25%C3%A9";

#[test]
fn python_asks() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("SKIPPED: python3 is not installed: apt-get install python3");
        return;
    }
    let place = Place::new();
    let Some((_server, url)) = Redis::start(place.path(), &[]) else { return };
    make(&place);
    admits_twice_then_denies(&place, &url, WRITTEN, || {
        let mut python = Command::new("python3");
        python.arg(example("limit.py")).args(["user", VALUE]).current_dir(place.path());
        python.env("REDIS_URL", &url).env("PYTHONPATH", folder("tests/stand_in"));
        python.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap()
    });
}

#[test]
fn node_asks() {
    if Command::new("node").arg("--version").output().is_err() {
        println!("SKIPPED: node is not installed: apt-get install nodejs");
        return;
    }
    let place = Place::new();
    let Some((_server, url)) = Redis::start(place.path(), &[]) else { return };
    make(&place);
    // Node looks for a package beside the file that names it.
    let package = place.path().join("node_modules/redis");
    std::fs::create_dir_all(&package).unwrap();
    std::fs::copy(folder("tests/stand_in/redis.mjs"), package.join("index.mjs")).unwrap();
    let manifest = r#"{"name": "redis", "type": "module", "exports": "./index.mjs"}"#;
    std::fs::write(package.join("package.json"), manifest).unwrap();
    std::fs::copy(example("limit.mjs"), place.path().join("limit.mjs")).unwrap();
    admits_twice_then_denies(&place, &url, WRITTEN, || {
        let mut node = Command::new("node");
        node.args(["limit.mjs", "user", VALUE]).current_dir(place.path());
        node.env("REDIS_URL", &url).output().unwrap()
    });
}
