//! Sockets that systemd opens and passes to the service.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::Place;
use crate::serving::{Client, Serving};

/// Starts it as systemd does: with sockets from 3 on, and their names.
fn activated(place: &Place, names: &str, sockets: &[&dyn AsFd], args: &[&str]) -> Command {
    // The shell has the first as its input and the second as its output, and moves them.
    let serve = Serving::command(place, args);
    let mut command = Command::new("sh");
    let moved = "exec 3<&0 4>&1 </dev/null 1>&5 5>&-; export LISTEN_PID=$$; exec \"$@\"";
    command.args(["-c", &format!("exec 5>&2; {moved}"), "sh"]);
    command.arg(serve.get_program()).args(serve.get_args());
    command.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("LISTEN_FDS", sockets.len().to_string()).env("LISTEN_FDNAMES", names);
    command.current_dir(place.path());
    let passed = |socket: &dyn AsFd| Stdio::from(socket.as_fd().try_clone_to_owned().unwrap());
    command.stdin(passed(sockets[0]));
    command.stdout(sockets.get(1).map_or_else(Stdio::null, |socket| passed(*socket)));
    command.stderr(Stdio::piped());
    command
}

/// The first answer at an address, of a service that may have to start yet.
fn first_answer(address: SocketAddr) -> (u16, String) {
    Client::connect(address).unwrap().ask("GET", "/healthz", "").unwrap()
}

#[test]
fn sockets_that_systemd_passes_keep_connections_over_a_restart() {
    let place = Place::new();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let path = place.path().join("admin.socket");
    let unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let address = tcp.local_addr().unwrap();
    let args = ["--listen", "systemd:http", "--admin", "systemd:admin"];
    let sockets: [&dyn AsFd; 2] = [&tcp, &unix];
    for _ in 0..2 {
        // This one waits in the socket, before anybody accepts it.
        let mut early = Client::connect(address).unwrap();
        let mut child = activated(&place, "http:admin", &sockets, &args).spawn().unwrap();
        assert_eq!(early.ask("GET", "/healthz", "").unwrap().0, 200);
        assert_eq!(first_answer(address).0, 200);
        let mut admin = std::os::unix::net::UnixStream::connect(&path).unwrap();
        admin.write_all(b"GET /healthz HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
        let mut said = String::new();
        admin.read_to_string(&mut said).unwrap();
        assert!(said.contains(" 200 "), "{said}");
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert!(child.wait().unwrap().success());
        // It is not its file.
        assert!(path.exists());
    }
}

#[test]
fn sockets_that_systemd_does_not_pass_are_errors() {
    let place = Place::new();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let path = place.path().join("admin.socket");
    let unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let sockets: [&dyn AsFd; 2] = [&tcp, &unix];
    let ends = |names: &str, args: &[&str]| {
        let output = activated(&place, names, &sockets, args).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (names, args, says) in [
        ("http:admin", ["--listen", "systemd:web"], "systemd passed `http`, `admin`"),
        ("http:http", ["--listen", "systemd:http"], "passed 2 sockets of this name"),
        ("http:admin", ["--admin", "systemd:admin"], "`SocketMode=0600`"),
        ("http:admin", ["--listen", "systemd:"], "`FileDescriptorName=`"),
    ] {
        let (code, log) = ends(names, &args);
        assert!(code == Some(2) && log.contains(says), "{args:?}: {code:?} {log}");
    }
    let output = Serving::command(&place, &["--listen", "systemd:http"]).output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("systemd passed no socket to this process"), "{log}");
}
