//! The fronts of the model: the programs and configurations of `examples/llm`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tollgate_testbed::Program;

use crate::Place;
use crate::clients::{folder, node_with};
use crate::proxies::nginx::Nginx;
use crate::proxies::{Places, Proxy, envoy, example, replaced, started};
use crate::serving::Serving;

/// The budgets of a test: nothing flows back while it runs.
const REQUESTS: u64 = 600;
const TOKENS: u64 = 10_000;
const MICRODOLLARS: u64 = 50_000_000;
pub(super) const LIMITS: [u64; 3] = [REQUESTS, TOKENS, MICRODOLLARS];
pub(super) const SLOTS: u64 = 150;

/// The policies of the example with the budgets of a test.
pub(super) fn text(hold: &str) -> String {
    let limits = [
        ("60/m via gcra", format!("{REQUESTS}/366d via gcra")),
        ("100000/m of tokens", format!("{TOKENS}/366d of tokens")),
        ("20 at once hold 5m", format!("{SLOTS} at once hold {hold}")),
        ("hold = \"5m\"", format!("hold = \"{hold}\"")),
    ];
    replaced(example("llm/policies.toml"), &limits.each_ref().map(|(old, new)| (*old, &**new)))
}

/// The same with more than any test uses.
pub(super) fn without_end() -> String {
    let limits = [
        (&*format!("{REQUESTS}/366d via gcra"), "1000000/366d via fixed_window"),
        (
            &*format!("{TOKENS}/366d of tokens debt 100000 via gcra"),
            "1000000000/366d of tokens via fixed_window",
        ),
        (&*format!("{MICRODOLLARS}/month"), "1000000000000/month"),
    ];
    replaced(text("5m"), &limits)
}

/// The policies of a test in a file.
pub(super) fn policies(place: &Place, hold: &str) -> String {
    let path = place.path().join("policies.toml");
    std::fs::write(&path, text(hold)).unwrap();
    path.display().to_string()
}

/// A program before the model.
pub(super) struct Front {
    pub(super) address: SocketAddr,
    pub(super) program: Program,
}

impl Front {
    /// `None` where it is not installed; that has been said then.
    pub(super) fn fastapi(place: &Place, service: SocketAddr, model: SocketAddr) -> Option<Self> {
        let uvicorn = folder("../../target/tools/fastapi/bin/uvicorn");
        if !uvicorn.exists() {
            println!("SKIPPED: fastapi is not installed: cargo xtask test installs it");
            return None;
        }
        let app = folder("../../examples/llm");
        Some(Self::start(place, "fastapi", service, model, |address| {
            let mut command = Command::new(&uvicorn);
            let port = address.port().to_string();
            command.arg("--app-dir").arg(&app).args(["--port", &port, "--log-level", "warning"]);
            command.arg("app:app").env("PYTHONDONTWRITEBYTECODE", "1");
            command
        }))
    }

    /// The same.
    pub(super) fn express(place: &Place, service: SocketAddr, model: SocketAddr) -> Option<Self> {
        let node = node_with(place, "express", &folder("../../examples/llm/app.mjs"))?;
        Some(Self::start(place, "express", service, model, |address| {
            let mut command = Command::new(node.get_program());
            command.args(node.get_args()).current_dir(place.path());
            command.env("PORT", address.port().to_string());
            command
        }))
    }

    fn start(
        place: &Place,
        name: &str,
        service: SocketAddr,
        model: SocketAddr,
        command: impl Fn(SocketAddr) -> Command,
    ) -> Self {
        let log = place.path().join(format!("{name}.log"));
        let (address, program) = started(&log, |address| {
            let mut command = command(address);
            command.env("TOLLGATE", format!("http://{service}"));
            command.env("MODEL", format!("http://{model}"));
            command
        });
        Self { address, program }
    }
}

/// Envoy with the example.
pub(super) struct Envoy {
    pub(super) address: SocketAddr,
    _program: Program,
}

impl Envoy {
    /// `None` where it is not installed; that has been said then.
    pub(super) fn start(place: &Place, service: &Serving, model: SocketAddr) -> Option<Self> {
        let program = envoy::find()?;
        let grpc: SocketAddr = service.line_after("grpc       ").parse().unwrap();
        let at = [model, service.address(), grpc];
        let (address, program) = envoy::before(&program, place, &example("llm/envoy.yaml"), at);
        Some(Self { address, _program: program })
    }
}

/// nginx with the example.
pub(super) struct NginxBefore;

impl Proxy for NginxBefore {
    const EXAMPLE: &'static str = "llm/nginx.conf";
    const SECOND: &'static str = Nginx::SECOND;

    fn find() -> Option<PathBuf> {
        Nginx::find()
    }

    fn command(program: &Path, example: &str, at: &Places<'_>) -> Command {
        Nginx::command(program, example, at)
    }
}
