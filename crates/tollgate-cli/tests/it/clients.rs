//! Client libraries of other languages, where `cargo xtask test` put them, and their replies.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::Place;

/// The message of a test that cannot run.
const WITHOUT: &str = "is not installed: cargo xtask test installs it";

/// Where this crate's paths begin.
pub(crate) fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A program of `examples/redis`.
pub(crate) fn example(name: &str) -> PathBuf {
    folder("../../examples/redis").join(name)
}

/// Writes what the examples take: the script, and the object with all of it.
pub(crate) fn make(place: &Place) {
    for (format, file, more) in
        [("lua", "limit.lua", &["--answer", "boolean"][..]), ("json", "limit.json", &[])]
    {
        let args = ["scripts", "2/h via gcra", "--format", format];
        let (code, out, err) = place.run(&[&args[..], more].concat());
        assert_eq!(code, 0, "{err}");
        std::fs::write(place.path().join(file), out).unwrap();
    }
}

/// A Python that has redis-py, with the example as its first argument; none when it is not there.
pub(crate) fn python(place: &Place, name: &str) -> Option<Command> {
    python_with(place, &example(name))
}

/// The same with another program.
pub(crate) fn python_with(place: &Place, path: &Path) -> Option<Command> {
    let program = folder("../../target/tools/redis-py/bin/python");
    if !program.exists() {
        println!("SKIPPED: redis-py {WITHOUT}");
        return None;
    }
    let mut python = Command::new(program);
    python.arg(path).current_dir(place.path()).env("PYTHONDONTWRITEBYTECODE", "1");
    Some(python)
}

/// A Node that has this package, with the example as its first argument; none when it is not there.
pub(crate) fn node(place: &Place, package: &str, name: &str) -> Option<Command> {
    node_with(place, package, &example(name))
}

/// The same with another program.
pub(crate) fn node_with(place: &Place, package: &str, path: &Path) -> Option<Command> {
    let modules = folder("../../target/tools/node/node_modules");
    if !modules.join(package).exists() || Command::new("node").arg("--version").output().is_err() {
        println!("SKIPPED: {package} for Node {WITHOUT}");
        return None;
    }
    // Node looks for a package beside the file that names it.
    std::os::unix::fs::symlink(modules, place.path().join("node_modules")).unwrap();
    let name = path.file_name().unwrap();
    std::fs::copy(path, place.path().join(name)).unwrap();
    let mut node = Command::new("node");
    node.arg(name).current_dir(place.path());
    Some(node)
}

/// The exit code and stdout; stderr must be empty.
pub(crate) fn code_and_output(output: &Output) -> (Option<i32>, String) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    (output.status.code(), text(&output.stdout))
}
