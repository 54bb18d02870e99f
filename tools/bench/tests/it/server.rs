//! `server`: the program that is measured.

use crate::{bench, said_by};

#[test]
fn a_program_that_is_not_there_is_named() {
    let mut command = bench(&["server", "--program", "none/tollgate"]);
    // Whether there is a wrk or none: one that says its version and sends nothing.
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/true", dir.path().join("wrk")).unwrap();
    command.env("PATH", dir.path());
    let (code, _, err) = said_by(command);
    assert!(code == 2 && err.contains("none/tollgate cannot be started"), "{err}");
}
