//! A Redis of a test's own.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Pid;

/// A Redis on a unix socket alone, killed with the test.
pub(crate) struct Redis(Child);

impl Redis {
    /// None when none is installed.
    pub(crate) fn start(dir: &Path, arguments: &[&str]) -> Option<(Self, String)> {
        let named = std::env::var_os("TOLLGATE_REDIS_SERVER");
        let programs = named.map_or_else(
            || vec!["redis-server".into(), "valkey-server".into()],
            |named| vec![named],
        );
        let socket = dir.join("redis.sock");
        let start = |program: &OsString| {
            Command::new(program)
                .args(["--port", "0", "--save", "", "--unixsocket"])
                .arg(&socket)
                .arg("--dir")
                .arg(dir)
                .args(arguments)
                .stdout(Stdio::null())
                .spawn()
        };
        let Some(server) = programs.iter().find_map(|program| start(program).ok()) else {
            println!("SKIPPED: redis-server is not installed: apt-get install redis-server");
            return None;
        };
        let mut server = Self(server);
        let deadline = Instant::now() + Duration::from_secs(10);
        while !answers(&socket) {
            assert!(server.0.try_wait().unwrap().is_none(), "redis-server ended");
            assert!(Instant::now() < deadline, "redis-server does not answer");
            thread::yield_now();
        }
        Some((server, format!("unix://{}", socket.display())))
    }

    /// Its process, to be sent signals.
    pub(crate) fn process(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn answers(socket: &Path) -> bool {
    let ping = || {
        let mut stream = UnixStream::connect(socket)?;
        stream.write_all(b"PING\r\n")?;
        stream.read(&mut [0; 64])
    };
    ping().is_ok_and(|length| length > 0)
}

/// What redis-cli would print for these words, at the server with this socket.
pub(crate) fn redis_cli(socket: &Path, words: &[&str]) -> String {
    let output = Command::new("redis-cli").arg("-s").arg(socket).args(words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
