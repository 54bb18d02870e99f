//! nginx, with `examples/nginx/slots.conf`: a slot for each request at work.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::nginx::Nginx;
use super::rolling::{Busy, Replicas, keeps_every_slot, second};
use super::slots::{At, MANY, always_given_back, closed, hung_up, never_more, sent_elsewhere};
use super::{Places, Plan, Proxy, Setup, proxied};

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

#[test]
fn a_rolling_restart_of_two_replicas_keeps_every_slot() {
    let Some(program) = Slots::find() else { return };
    let Some(mut replicas) = Replicas::start("", &[]) else { return };
    let busy = Busy::open();
    let (old, new) = second::<Slots>(&replicas);
    let (switches, at) =
        ([("20 at once", "2 at once"), (old, &*new)], (busy.address, replicas.address(0)));
    let (proxy, _running) = proxied::<Slots>(&program, replicas.place.path(), &switches, at);
    keeps_every_slot(&mut replicas, &busy, proxy);
}

#[test]
fn without_the_service_nothing_reaches_the_backend() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some(mut setup) = setup(&backend, false) else { return };
    setup.kill_service();
    closed(setup.proxy, &backend);
}
