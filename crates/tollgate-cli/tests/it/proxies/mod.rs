//! The examples for proxies, each with the real proxy before real pages and `tollgate serve`
//! beside it. What people copy is what runs here: only ports and paths are replaced.

mod backend;
mod caddy;
mod envoy;
mod envoy_slots;
mod haproxy;
mod limit_req;
mod nginx;
mod nginx_slots;
mod paths;
mod promises;
mod slots;
mod wire;

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

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

    /// The example for other addresses, in this folder, and the command that runs it.
    fn command(program: &Path, example: &str, at: &Places<'_>) -> Command;
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

/// What a test sets up, beside the proxy.
struct Plan<'p> {
    policies: &'p str,
    /// Lines of the example that are switched, as it says.
    switches: &'p [(&'p str, &'p str)],
    /// Words for `tollgate serve`.
    flags: &'p [&'p str],
    /// What stands behind the proxy, in place of its pages.
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

/// A program that is killed with the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Pages behind a proxy that asks the service.
struct Setup {
    proxy: SocketAddr,
    pages: Pages,
    tap: Tap,
    /// What the proxy asks.
    asked: SocketAddr,
    service: Running,
    _running: Running,
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
        let example = replaced(example(P::EXAMPLE), plan.switches);
        let log = place.path().join("proxy.log");
        let deadline = Instant::now() + STARTS_WITHIN;
        let (proxy, running) = loop {
            let places = Places {
                folder: place.path(),
                listen: free_port(),
                more: free_port(),
                pages: plan.backend.unwrap_or(pages.address),
                service: asked,
            };
            let mut command = P::command(&program, &example, &places);
            let output = std::fs::File::create(&log).unwrap();
            command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
            let mut running = Running(command.spawn().unwrap());
            if listens(&mut running, places.listen, deadline) {
                break (places.listen, running);
            }
            // Somebody else may have taken a port between our look and the proxy's.
            let said = std::fs::read_to_string(&log).unwrap();
            assert!(said.to_lowercase().contains("address already in use"), "{said}");
        };
        Some(Self { proxy, pages, tap, asked, service, _running: running, _place: place })
    }

    fn ask(&self, client: Client, request: &str) -> Answer {
        client.ask(self.proxy, request)
    }

    /// Asks until it is refused, at most twice the limit: how many were admitted.
    fn admitted(&self, client: Client, requests: &[&str]) -> usize {
        let asked = (0..10).map(|turn| self.ask(client, requests[turn % requests.len()]).status);
        asked.take_while(|status| *status == 200).count()
    }

    fn kill_service(&mut self) {
        self.service.0.kill().unwrap();
        self.service.0.wait().unwrap();
    }

    /// Stops the service where it is: connections are still taken, by the system.
    fn freeze_service(&self) {
        let pid = Pid::from_child(&self.service.0);
        kill_process(pid, Signal::STOP).unwrap();
        waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT).unwrap();
    }
}

/// Starts `tollgate serve` as planned.
fn serve(place: &Place, plan: &Plan<'_>) -> (Running, SocketAddr) {
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
    let mut service = Running(command.spawn().unwrap());
    let mut lines = BufReader::new(service.0.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("listening  http://").map(str::parse);
    // The rest of what it says, so that it is never kept waiting.
    thread::spawn(move || lines.read_to_end(&mut Vec::new()));
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

/// Where proxies listen: below the ports that systems give to whoever asks for any, as pages and
/// services do here, and below those that the servers of other tests take.
const PORTS: Range<u16> = 10_000..20_000;

/// A port on which nobody listens right now, and which no other test of this program was given: a
/// test must not take what listens for another for its own proxy.
pub(crate) fn free_port() -> SocketAddr {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    loop {
        // Each process begins somewhere else.
        let turn = std::process::id() % 100_000 * 97 + GIVEN.fetch_add(1, Ordering::Relaxed);
        let offset = u16::try_from(turn % u32::from(PORTS.end - PORTS.start)).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORTS.start + offset));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// True when it listens, false when it has ended.
pub(crate) fn listens(running: &mut Running, at: SocketAddr, deadline: Instant) -> bool {
    loop {
        if running.0.try_wait().unwrap().is_some() {
            return false;
        }
        if TcpStream::connect(at).is_ok() {
            return true;
        }
        assert!(Instant::now() < deadline, "nothing listens at {at}");
        thread::yield_now();
    }
}

/// The program on the path, or where systems keep those of administrators.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}
