//! The measurements in sizes that measure nothing: that they run, their output, and their
//! leftovers.

#![allow(clippy::unwrap_used)] // a test may unwrap: its panic is its verdict

mod args;
mod grpc;
mod memory;
mod redis;
mod resp;
mod server;
mod sqlite;

use std::time::Duration;

use assert_cmd::Command;

/// The program with these arguments, and nothing of the environment that it reads.
fn bench(args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("tollgate-bench"));
    command.args(args).timeout(Duration::from_secs(60)).env_remove("TOLLGATE_PROGRAM");
    command
}

/// The exit code, stdout and stderr.
fn said_by(mut command: Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn run(args: &[&str]) -> (i32, String, String) {
    said_by(bench(args))
}

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&run(args).1).unwrap()
}
