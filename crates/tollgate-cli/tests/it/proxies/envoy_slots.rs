//! Envoy, with `examples/envoy/slots.yaml`: a slot for each request at work.

use std::net::TcpListener;

use super::envoy::{self, Setup};
use super::rolling::{Busy, Replicas, keeps_every_slot};
use super::slots::{At, MANY, always_given_back, closed, hung_up, never_more};

/// Two slots in place of twenty, before this backend.
fn setup(backend: &TcpListener) -> Option<(Setup, At)> {
    switched(backend, &[("20 at once", "2 at once")])
}

fn switched(backend: &TcpListener, switches: &[(&str, &str)]) -> Option<(Setup, At)> {
    let setup = Setup::of("envoy/slots.yaml", switches, Some(backend.local_addr().unwrap()))?;
    let at = At { proxy: setup.envoy, service: setup.service.address() };
    Some((setup, at))
}

#[test]
fn no_more_requests_are_at_work_than_there_are_slots() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some((_setup, at)) = setup(&backend) else { return };
    // Nobody passes with a hold of another.
    never_more(&at, &backend, "GET /\ntollgate-hold: of-another");
}

#[test]
fn a_client_that_goes_and_a_backend_that_fails_give_the_slot_back() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some((_setup, at)) = setup(&backend) else { return };
    always_given_back(&at, &backend, "HTTP/1.1 503");
}

#[test]
fn clients_that_hang_up_early_leave_every_slot_free() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some((_setup, at)) = switched(&backend, &[MANY]) else { return };
    hung_up(&at, &backend, &["/"]);
}

/// With `--linger`, in which Envoy sees that a replica ends.
#[test]
fn a_rolling_restart_of_two_replicas_keeps_every_slot() {
    let Some(program) = envoy::find() else { return };
    let Some(mut replicas) = Replicas::start("", &["--linger", "2s"]) else { return };
    let busy = Busy::open();
    let text = envoy::with_second("envoy/slots.yaml", &replicas).replace("20 at once", "2 at once");
    let at = [busy.address, replicas.address(0), replicas.grpc[0]];
    let (proxy, _running) = envoy::before(&program, &replicas.place, &text, at);
    keeps_every_slot(&mut replicas, &busy, proxy);
}

#[test]
fn without_the_service_nothing_reaches_the_backend() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some((setup, at)) = setup(&backend) else { return };
    setup.service.program.freeze().unwrap();
    closed(at.proxy, &backend);
    setup.service.program.thaw().unwrap();
}
