//! Envoy with rules that a control plane sends: one in Python, by grpcio.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

use super::envoy::{command, find};
use super::reference::ENVOY;
use super::wire::{Client, Pages};
use super::{STARTS_WITHIN, replaced, started};
use crate::Place;
use crate::clients::folder;
use crate::serving::{LONG, Serving};

struct ControlPlane {
    program: Child,
    input: ChildStdin,
    output: Receiver<String>,
    port: u16,
}

impl ControlPlane {
    /// None when grpcio is not installed; that has been said then.
    fn start(place: &Path, certificates: Option<&Path>) -> Option<Self> {
        let python = folder("../../target/tools/grpcio/bin/python");
        if !python.exists() {
            println!("SKIPPED: grpcio is not installed: cargo xtask test installs it");
            return None;
        }
        let mut command = Command::new(python);
        command.arg(folder("tests/it/proxies/control_plane.py"));
        command.arg(folder("../tollgate-envoy/proto")).args(certificates).env("TMPDIR", place);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = program.stdin.take().unwrap();
        let output = BufReader::new(program.stdout.take().unwrap());
        let (said, lines) = channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|l| said.send(l)));
        let port = lines.recv_timeout(LONG).unwrap().parse().unwrap();
        Some(Self { program, input, output: lines, port })
    }

    fn send(&mut self, version: &str, rules: &Value) {
        writeln!(self.input, "{}", json!([version, rules])).unwrap();
    }

    /// The version, the nonce and the error of the next request.
    fn asked(&self) -> [String; 3] {
        let [version, nonce, error, _] = self.asked_by();
        [version, nonce, error]
    }

    /// The same, with the node that asked.
    fn asked_by(&self) -> [String; 4] {
        let line = self.output.recv_timeout(LONG).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"))
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// A limit of the header `any`, and of another one that the load has.
fn rules(requests_per_unit: u32) -> Value {
    let limit = |number: u32| json!({ "unit": "YEAR", "requests_per_unit": number });
    json!([{
        "name": "gateway/http",
        "domain": "rl",
        "descriptors": [
            { "key": "any", "rate_limit": limit(requests_per_unit) },
            { "key": "category", "rate_limit": limit(u32::MAX) },
        ],
    }])
}

#[test]
fn envoy_is_limited_by_rules_that_a_control_plane_changes_under_load() {
    let Some(program) = find() else { return };
    let place = Place::new();
    let Some(mut plane) = ControlPlane::start(place.path(), None) else { return };
    let address = format!("127.0.0.1:{}?node=limits", plane.port);
    let args = ["--grpc", "127.0.0.1:0", "--envoy-xds", &address];
    let limits = Serving::start(&place, &[&args[..], &["--envoy-unknown-domain", "deny"]].concat());
    assert_eq!(plane.asked(), ["", "", ""]);
    let (status, why) = limits.client().ask("GET", "/readyz", "").unwrap();
    assert!(status == 503 && why.contains("has not sent rules yet"), "{why}");
    let grpc: SocketAddr = limits.line_after("grpc       ").parse().unwrap();
    let pages = Pages::open();
    let (envoy, _running) = started(&place.path().join("envoy.log"), |listen| {
        let port = |port: u16| format!("port_value: {port} ");
        let (listen, grpc) = (port(listen.port()), port(grpc.port()));
        let pages = port(pages.address.port());
        let text = replaced(
            ENVOY.to_owned(),
            &[
                ("port_value: 8080 ", &*listen),
                ("port_value: 8081 ", &*grpc),
                ("port_value: 3001 ", &*pages),
                ("port_value: 3002 ", &*pages),
            ],
        );
        command(&program, &place.path().join("envoy.yaml"), &text)
    });
    let ask = |header: &str| Client(1).ask(envoy, &format!("GET /headers\n{header}")).status;
    assert_eq!(ask("any: x"), 429, "nobody knows the domain yet");
    plane.send("1", &rules(10));
    assert_eq!(plane.asked(), ["1", "nonce of 1", ""]);
    assert_eq!([ask("any: x"), ask("any: x")], [200; 2]);
    let (is_over, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let load = || {
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(ask("category: load"), 200);
                asked.fetch_add(1, Ordering::Relaxed);
            }
        };
        let loads = [scope.spawn(load), scope.spawn(load)];
        let before = asked.load(Ordering::Relaxed);
        plane.send("2", &rules(20));
        assert_eq!(plane.asked(), ["2", "nonce of 2", ""]);
        let mut broken = rules(1);
        broken[0]["descriptors"][0]["key"] = "".into();
        plane.send("3", &broken);
        let [version, nonce, why] = plane.asked();
        assert_eq!([&*version, &*nonce], ["2", "nonce of 3"]);
        assert!(why.contains("descriptor has empty key --> gateway/http:2:1"), "{why}");
        plane.send("4", &rules(5));
        assert_eq!(plane.asked(), ["4", "nonce of 4", ""]);
        // Two of the five are used.
        let statuses: Vec<_> = (0..4).map(|_| ask("any: x")).collect();
        assert_eq!(statuses, [200, 200, 200, 429]);
        while asked.load(Ordering::Relaxed) == before {
            thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
        for load in loads {
            load.join().unwrap();
        }
    });
    let connected = |wanted: u8| {
        let line = format!("\ntollgate_envoy_control_plane_connected {wanted}\n");
        let began = Instant::now();
        while !limits.client().ask("GET", "/metrics", "").unwrap().1.contains(&line) {
            assert!(began.elapsed() < STARTS_WITHIN, "it is never {wanted}");
            thread::yield_now();
        }
    };
    connected(1);
    // Without it the last rules stay.
    drop(plane);
    connected(0);
    assert_eq!([ask("any: y"), ask("any: x")], [200, 429]);
    let log = limits.end();
    assert!(log.contains("Envoy's rules replaced: 2 in number"), "{log}");
    assert!(log.contains("Envoy's rules not replaced"), "{log}");
    assert!(log.contains("is away, and the last rules stay"), "{log}");
}

/// A certificate for this address and its authority, in this folder, as Envoy Gateway mounts them.
/// The name `localhost` has a second address, whose port may be another program's.
fn certificates(folder: &Path) {
    let authority = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // One that has the name of its issuer would be taken for a self-signed one.
    params.distinguished_name.push(DnType::CommonName, "authority");
    let write = |name: &str, pem: String| std::fs::write(folder.join(name), pem).unwrap();
    write("ca.crt", params.self_signed(&authority).unwrap().pem());
    let issuer = Issuer::new(params, authority);
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    write("tls.crt", own.signed_by(&key, &issuer).unwrap().pem());
    write("tls.key", key.serialize_pem());
}

/// The arguments of the page, with a control plane that asks for certificates.
#[test]
fn the_page_on_envoy_gateway_is_what_happens() {
    const PAGE: &str = include_str!("../../../../../docs/envoy-gateway.md");
    let place = Place::new();
    certificates(place.path());
    let Some(mut plane) = ControlPlane::start(place.path(), Some(place.path())) else { return };
    let args = PAGE.lines().filter_map(|line| line.trim_start().strip_prefix("- --"));
    let (port, folder) = (plane.port, place.path().display());
    let args: Vec<String> = args
        .map(|arg| {
            let arg =
                arg.replace("0.0.0.0:8081", "127.0.0.1:0").replace("0.0.0.0:8080", "127.0.0.1:0");
            let arg = arg.replace("0.0.0.0:19001", "127.0.0.1:0");
            let arg = arg.replace("envoy-gateway:18001", &format!("127.0.0.1:{port}"));
            format!("--{}", arg.replace("/certs/", &format!("{folder}/")))
        })
        .collect();
    assert!(args.len() > 7, "{args:?}");
    let mut command = place.std(&["serve", "--admin", "127.0.0.1:0"]);
    command.env_remove("TOLLGATE_STORE").args(&args);
    let limits = Serving::start_command(command);
    assert_eq!(plane.asked_by(), ["", "", "", "envoy-ratelimit"]);
    let mut probe = limits.client();
    let mut get = |path: &str| probe.ask("GET", path, "").unwrap();
    assert_eq!((get("/healthz").0, get("/readyz").0, get("/healthcheck").0), (200, 503, 500));
    plane.send("1", &rules(3));
    assert_eq!(plane.asked_by(), ["1", "nonce of 1", "", "envoy-ratelimit"]);
    assert_eq!((get("/readyz").0, get("/healthcheck")), (200, (200, "OK".to_owned())));
    let question =
        r#"{"domain": "rl", "descriptors": [{"entries": [{"key": "any", "value": "x"}]}]}"#;
    let said: Vec<_> = (0..4).map(|_| probe.ask("POST", "/json", question).unwrap().0).collect();
    assert_eq!(said, [200, 200, 200, 429]);
    let page = probe.ask("GET", "/metrics", "").unwrap().1;
    let over = "ratelimit_service_rate_limit_over_limit{domain=\"rl\",key1=\"any\"} 1";
    assert!(page.contains(over), "{page}");
}

#[test]
fn an_address_that_is_no_control_plane_starts_no_service() {
    let place = Place::new();
    for (url, says) in [
        ("nowhere", "`nowhere` is not the address of a control plane: HOST:PORT"),
        ("host:1?ca=x", "`ca` is for TLS: write https://host:1?ca=..."),
        ("https://host:1?ca=absent.pem", "absent.pem"),
        ("https://host:1?cert=a.pem", "`cert` and `key` belong together"),
    ] {
        let (code, out, err) = place.run(&["serve", "--listen", "127.0.0.1:0", "--envoy-xds", url]);
        assert_eq!((code, out.as_str()), (2, ""), "{url}: {err}");
        assert!(err.contains(says), "{url}: {err}");
    }
    let both = ["serve", "--envoy-xds", "host:1", "--envoy-config", "rules.yaml"];
    let (code, _, err) = place.run(&both);
    assert!(code == 2 && err.contains("cannot be used with"), "{err}");
    let tls = ["serve", "--tls-cert", "a.pem", "--tls-key", "a.key", "--tls-for", "grpc"];
    let (code, _, err) = place.run(&tls);
    assert!(code == 2 && err.contains("`--tls-for` names no protocol that is served"), "{err}");
}
