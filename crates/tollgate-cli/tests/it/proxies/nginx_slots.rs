//! nginx, with `examples/nginx/slots.conf`: a slot for each request at work.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use tollgate_testbed::Program;

use super::nginx::Nginx;
use super::rolling::{Busy, Replicas, keeps_every_slot, second};
use super::slots::{
    At, MANY, always_given_back, answer, at_work, closed, free, hung_up, never_more, sent_elsewhere,
};
use super::wire::Client;
use super::{Places, Plan, Proxy, Setup, proxied};
use crate::page::block;
use crate::serving::{self, LONG};

const PAGE: &str = include_str!("../../../../../docs/proxies.md");

struct Slots;

impl Proxy for Slots {
    const EXAMPLE: &'static str = "nginx/slots.conf";
    const SECOND: &'static str = Nginx::SECOND;

    fn find() -> Option<PathBuf> {
        Nginx::find()
    }

    fn command(program: &Path, example: &str, at: &Places<'_>) -> Command {
        Nginx::command(program, example, at)
    }
}

/// A page for paths that the backend does not have.
const MISSING: (&str, &str) = (
    "proxy_set_header Host $host;",
    "proxy_set_header Host $host; proxy_intercept_errors on; error_page 404 =200 /to;",
);

/// Two slots in place of twenty, before this backend.
fn setup(backend: &TcpListener, is_direct: bool) -> Option<Setup> {
    switched(backend, is_direct, &[("20 at once", "2 at once"), MISSING])
}

fn switched(backend: &TcpListener, is_direct: bool, switches: &[(&str, &str)]) -> Option<Setup> {
    let backend = Some(backend.local_addr().unwrap());
    Setup::planned::<Slots>(&Plan { switches, backend, is_direct, ..Plan::default() })
}

impl Setup {
    fn at(&self) -> At {
        At { proxy: self.proxy, service: self.asked }
    }
}

#[test]
fn no_more_requests_are_at_work_than_there_are_slots() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some(setup) = setup(&backend, false) else { return };
    never_more(&setup.at(), &backend, "GET /");
}

#[test]
fn a_client_that_goes_and_a_backend_that_fails_give_the_slot_back() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some(setup) = setup(&backend, false) else { return };
    always_given_back(&setup.at(), &backend, "HTTP/1.1 502");
}

#[test]
fn clients_that_hang_up_early_leave_every_slot_free() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some(setup) = switched(&backend, true, &[MANY, MISSING]) else { return };
    hung_up(&setup.at(), &backend, &["/", "/from", "/missing"]);
}

/// nginx asks for a slot again where the backend sends it elsewhere, and for the page of an error,
/// under the same id.
#[test]
fn a_request_that_nginx_serves_twice_takes_one_slot() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some(setup) = setup(&backend, true) else { return };
    sent_elsewhere(&setup.at(), &backend, &["/from", "/missing"]);
}

/// Two slots and two replicas, before a busy backend.
fn two_replicas() -> Option<(Replicas, Busy, SocketAddr, Program)> {
    let program = Slots::find()?;
    let replicas = Replicas::start("", &[])?;
    let busy = Busy::open();
    let (old, new) = second::<Slots>(&replicas);
    let switches = [("20 at once", "2 at once"), (old, &*new)];
    let at = (busy.address, replicas.address(0));
    let (proxy, running) = proxied::<Slots>(&program, replicas.place.path(), &switches, at);
    Some((replicas, busy, proxy, running))
}

#[test]
fn a_rolling_restart_of_two_replicas_keeps_every_slot() {
    let Some((mut replicas, busy, proxy, _running)) = two_replicas() else { return };
    keeps_every_slot(&mut replicas, &busy, proxy);
}

/// The other is asked, also by a release, which nginx sends with the method of the client.
#[test]
fn a_silent_replica_keeps_no_slot() {
    let Some((replicas, _busy, proxy, _running)) = two_replicas() else { return };
    replicas.running[1].program.freeze().unwrap();
    let ask = || Client(1).ask(proxy, "POST /\n\nname=a").status;
    let statuses = [(); 4].map(|()| ask());
    free(replicas.address(0), 2);
    replicas.running[1].program.thaw().unwrap();
    assert_eq!(statuses, [200; 4]);
    // Old questions at the silent one take no slot.
    free(replicas.address(1), 2);
}

/// nginx with the slots of each address by the policy of the page, with this limit.
pub(super) fn by_address(limit: &str) -> Option<(Setup, TcpListener)> {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let policies = block(PAGE, "toml", 0).replace("4 at once hold 2m", limit);
    let switches = [
        ("        default '{\"subject\"", "        #default '{\"subject\""),
        ("        #default '{\"policy\"", "        default '{\"policy\""),
        (
            "    server {",
            "    set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For; server {",
        ),
    ];
    let plan = Plan {
        policies: &policies,
        switches: &switches,
        backend: Some(backend.local_addr().unwrap()),
        ..Plan::default()
    };
    Some((Setup::planned::<Slots>(&plan)?, backend))
}

/// The addresses of one `/64` are one client, as for every limit on `ip`.
#[test]
fn an_ipv6_client_has_its_slots_by_its_network() {
    let Some((setup, backend)) = by_address("1 at once hold 2m") else { return };
    let from = |address: &str| {
        let request = format!("GET /\nX-Forwarded-For: {address}");
        std::thread::spawn(move || Client(1).ask(setup.proxy, &request).status)
    };
    let one = from("2001:db8:0:1::1");
    let first = at_work(&backend);
    assert_eq!(from("2001:db8:0:1:ffff::2").join().unwrap(), 429, "of the same network");
    let other = from("2001:db8:0:2::1");
    let second = at_work(&backend);
    answer(first);
    answer(second);
    assert_eq!([one, other].map(|asked| asked.join().unwrap()), [200; 2]);
    // The slot comes back after the answer.
    let (until, question) = (
        Instant::now() + LONG,
        r#"{"policy": "slots", "fields": {"ip": "2001:db8:0:1::3"}, "kind": "acquire"}"#,
    );
    while !peeked(setup.asked, question).contains("\"remaining\":1") {
        assert!(Instant::now() < until, "{}", peeked(setup.asked, question));
    }
}

fn peeked(service: SocketAddr, question: &str) -> String {
    let mut client = serving::Client::connect(service).unwrap();
    client.ask("POST", "/v1/peek", question).unwrap().1
}

#[test]
fn without_the_service_nothing_reaches_the_backend() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some(mut setup) = setup(&backend, false) else { return };
    setup.kill_service();
    closed(setup.proxy, &backend);
}
