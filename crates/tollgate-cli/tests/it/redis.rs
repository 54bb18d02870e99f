//! A Redis in the folder of a test, and the output of redis-cli.

use std::path::Path;
use std::process::Command;

use tollgate_testbed::{Launch, RedisServer, SKIPPED, redis_program};

/// A Redis whose socket lies in this folder, and its URL. None when none is installed.
pub(crate) fn start(dir: &Path, arguments: &[&str]) -> Option<(RedisServer, String)> {
    if redis_program().is_none() {
        println!("{SKIPPED}");
        return None;
    }
    let server = RedisServer::launched(&Launch::new().dir(dir).loading(), arguments);
    let url = format!("unix://{}", server.socket().display());
    Some((server, url))
}

/// The output of redis-cli for these words, at the server with this socket.
pub(crate) fn redis_cli(socket: &Path, words: &[&str]) -> String {
    let output = Command::new("redis-cli").arg("-s").arg(socket).args(words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
