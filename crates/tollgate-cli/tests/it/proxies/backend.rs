//! Real backends behind a proxy, of both kinds: one that decodes an escaped slash before it routes,
//! and one that keeps it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use axum::Router;
use axum::extract::Path as Rest;
use axum::routing::any;
use tokio::net::TcpListener;
use tollgate_testbed::Program;

/// Its pages say `the login` at /login, and `other: PATH` at others.
pub(super) struct Backend {
    pub(super) address: SocketAddr,
    _running: Option<Program>,
}

impl Backend {
    /// Flask, which decodes. None when it is not installed; that has been said then.
    pub(super) fn flask() -> Option<Self> {
        Self::python("flask")
    }

    /// Django, which decodes, as [`Backend::flask`].
    pub(super) fn django() -> Option<Self> {
        Self::python("django")
    }

    fn python(module: &str) -> Option<Self> {
        let Some(python) = python_with(module) else {
            println!("SKIPPED: python3 has no {module}: apt-get install python3-{module}");
            return None;
        };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/proxies");
        let mut command = Command::new(python);
        command
            .arg(folder.join(format!("{module}_app.py")))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut running = Program::start(&mut command).unwrap();
        let line = running.lines(|_| true).unwrap().concat();
        let port = line.parse().unwrap_or_else(|_| panic!("no port: {line}"));
        let address = (Ipv4Addr::LOCALHOST, port).into();
        Some(Self { address, _running: Some(running) })
    }

    /// axum, which keeps.
    pub(super) fn axum() -> Self {
        let (told, found) = mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
                told.send(listener.local_addr().unwrap()).unwrap();
                let other = async |Rest(rest): Rest<String>| format!("other: {rest}");
                let app = Router::new()
                    .route("/login", any(async || "the login"))
                    .route("/{segment}", any(other));
                axum::serve(listener, app).await.unwrap();
            });
        });
        Self { address: found.recv().unwrap(), _running: None }
    }
}

/// A Python that has this module: the one of the path, else the system's, for which packages are.
fn python_with(module: &str) -> Option<PathBuf> {
    let candidates = [Program::find("python3"), Some(PathBuf::from("/usr/bin/python3"))];
    candidates.into_iter().flatten().find(|python| {
        let mut command = Command::new(python);
        command.args(["-c", &format!("import {module}")]).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}
