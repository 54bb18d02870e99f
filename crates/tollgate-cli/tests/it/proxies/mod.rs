//! The examples for proxies, each with the real proxy before real pages and `tollgate serve` beside
//! it. The test runs the text that people copy: only ports and paths are replaced.

mod backend;
mod caddy;
mod envoy;
mod envoy_slots;
mod haproxy;
mod limit_req;
mod llm;
mod nginx;
mod nginx_slots;
mod paths;
mod promises;
mod reference;
mod rolling;
mod slots;
mod traefik;
mod wire;
mod xds;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tollgate_testbed::{Program, free_port};

use crate::Place;
use wire::{Answer, Client, Pages, Tap};

/// How long a program may take until it listens, on a machine that is busy with other tests.
pub(crate) const STARTS_WITHIN: Duration = Duration::from_secs(20);

/// Five an hour for each address, apart for logins.
const POLICIES: &str = include_str!("policies.toml");

/// A proxy that has an example.
trait Proxy {
    /// The program, and where it is; else that the test is skipped, and how to get it.
    fn find() -> Option<PathBuf>;

    /// Its example.
    const EXAMPLE: &'static str;

    /// Its line for a second replica, which is a comment.
    const SECOND: &'static str;

    /// More words for replicas that restart, as the example says.
    const LINGER: &'static [&'static str] = &[];

    /// The most connections to the service over which it asks 40 questions, one after the other.
    const KEPT: usize = 1;

    /// The example for other addresses, in this folder, and the command that runs it.
    fn command(program: &Path, example: &str, at: &Places<'_>) -> Command;

    /// Whether it knows its routes. Most do when they listen.
    fn is_ready(_listen: SocketAddr) -> bool {
        true
    }
}

/// Where things are, for an example.
struct Places<'p> {
    folder: &'p Path,
    listen: SocketAddr,
    /// Another free port, for whatever it takes.
    more: SocketAddr,
    pages: SocketAddr,
    service: SocketAddr,
}

/// The setup of a test, beside the proxy.
struct Plan<'p> {
    policies: &'p str,
    /// Lines of the example that are switched, as it says.
    switches: &'p [(&'p str, &'p str)],
    /// Words for `tollgate serve`.
    flags: &'p [&'p str],
    /// The server behind the proxy, in place of its pages.
    backend: Option<SocketAddr>,
    /// Whether the proxy asks the service without a tap between them, which would read answers that
    /// the proxy does not.
    is_direct: bool,
}

impl Default for Plan<'_> {
    fn default() -> Self {
        Self { policies: POLICIES, switches: &[], flags: &[], backend: None, is_direct: false }
    }
}

/// Pages behind a proxy that asks the service.
struct Setup {
    proxy: SocketAddr,
    pages: Pages,
    tap: Tap,
    /// The address that the proxy asks.
    asked: SocketAddr,
    service: Program,
    _running: Program,
    _place: Place,
}

impl Setup {
    /// None when the proxy is not installed; that has been said then.
    fn unchanged<P: Proxy>() -> Option<Self> {
        Self::planned::<P>(&Plan::default())
    }

    /// The same with lines of the example switched, as it says.
    fn changed<P: Proxy>(switches: &[(&str, &str)]) -> Option<Self> {
        Self::planned::<P>(&Plan { switches, ..Plan::default() })
    }

    /// The same as a test plans it.
    fn planned<P: Proxy>(plan: &Plan<'_>) -> Option<Self> {
        let program = P::find()?;
        let place = Place::new();
        let (service, address) = serve(&place, plan);
        let (pages, tap) = (Pages::open(), Tap::before(address));
        let asked = if plan.is_direct { address } else { tap.address };
        let at = (plan.backend.unwrap_or(pages.address), asked);
        let (proxy, running) = proxied::<P>(&program, place.path(), plan.switches, at);
        Some(Self { proxy, pages, tap, asked, service, _running: running, _place: place })
    }

    fn ask(&self, client: Client, request: &str) -> Answer {
        client.ask(self.proxy, request)
    }

    /// Asks until it is refused, at most twice the limit: how many were admitted.
    fn admitted(&self, client: Client, requests: &[&str]) -> usize {
        let mut asked = (0..10).map(|turn| self.ask(client, requests[turn % requests.len()]));
        let refused = asked.position(|answer| {
            if answer.status != 200 {
                println!("the first that was not admitted: {answer:?}");
            }
            answer.status != 200
        });
        refused.unwrap_or(10)
    }

    fn kill_service(&mut self) {
        self.service.kill();
    }

    /// Stops the service where it is: connections are still taken, by the system.
    fn freeze_service(&self) {
        self.service.freeze().unwrap();
    }
}

/// Starts a proxy with its example, before these pages and with this service.
fn proxied<P: Proxy>(
    program: &Path,
    folder: &Path,
    switches: &[(&str, &str)],
    (pages, service): (SocketAddr, SocketAddr),
) -> (SocketAddr, Program) {
    let example = replaced(example(P::EXAMPLE), switches);
    let (listen, running) = started(&folder.join("proxy.log"), |listen| {
        let places = Places { folder, listen, more: free_port(), pages, service };
        P::command(program, &example, &places)
    });
    let began = Instant::now();
    while !P::is_ready(listen) {
        assert!(began.elapsed() < STARTS_WITHIN, "it does not find its routes");
    }
    (listen, running)
}

/// Starts a proxy by the command for an address, and returns that when it listens there. Its output
/// goes to a log.
fn started(log: &Path, command: impl Fn(SocketAddr) -> Command) -> (SocketAddr, Program) {
    loop {
        let listen = free_port();
        let output = std::fs::File::create(log).unwrap();
        let mut command = command(listen);
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let mut running = Program::start(&mut command).unwrap();
        let Err(why) = running.listens(listen, STARTS_WITHIN) else { return (listen, running) };
        // Somebody else may have taken a port between our look and the proxy's.
        let said = std::fs::read_to_string(log).unwrap();
        assert!(said.to_lowercase().contains("address already in use"), "{why}: {said}");
    }
}

/// Starts `tollgate serve` as planned.
fn serve(place: &Place, plan: &Plan<'_>) -> (Program, SocketAddr) {
    let (config, log) = (place.path().join("policies.toml"), place.path().join("service.log"));
    std::fs::write(&config, plan.policies).unwrap();
    let listen = ["serve", "--listen", "127.0.0.1:0", "--admin", "off", "--store", "memory://"];
    let mut command = place.std(&listen);
    command
        .arg("--config")
        .arg(&config)
        .args(plan.flags)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command.stderr(std::fs::File::create(&log).unwrap());
    let mut service = Program::start(&mut command).unwrap();
    let line = service.lines(|_| true).unwrap().concat();
    let address = line.strip_prefix("listening  http://").map(str::parse);
    let said = || panic!("{line}{}", std::fs::read_to_string(&log).unwrap());
    (service, address.unwrap_or_else(said).unwrap())
}

/// The text of an example.
fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// The text with each of these replaced, which must be there.
fn replaced(mut text: String, pairs: &[(&str, &str)]) -> String {
    for (old, new) in pairs {
        assert!(text.contains(old), "the example has no {old}");
        text = text.replace(old, new);
    }
    text
}
