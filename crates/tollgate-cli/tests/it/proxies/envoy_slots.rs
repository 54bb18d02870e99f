//! Envoy, with `examples/envoy/slots.yaml`: a slot for each request at work.

use std::net::TcpListener;

use super::envoy::Setup;
use super::nginx_slots::{answer, answered, at_work, free, send};
use super::wire::Client;

/// Two slots in place of twenty, before this backend.
fn setup(backend: &TcpListener) -> Option<Setup> {
    let switches = &[("20 at once", "2 at once")];
    Setup::of("envoy/slots.yaml", switches, Some(backend.local_addr().unwrap()))
}

#[test]
fn no_more_requests_are_at_work_than_there_are_slots() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some(setup) = setup(&backend) else { return };
    let service = setup.service.address();
    let [one, two] = [send(setup.envoy), send(setup.envoy)];
    let (first, second) = (at_work(&backend), at_work(&backend));
    let full = setup.ask(Client(1), "GET /\ntollgate-hold: of-another");
    assert_eq!((full.status, full.header("retry-after")), (429, Some("1")), "{full:?}");
    assert!(full.body.contains("Every slot is taken"), "{full:?}");
    free(service, 0);
    answer(first);
    free(service, 1);
    let three = send(setup.envoy);
    let third = at_work(&backend);
    assert_eq!(setup.ask(Client(1), "GET /").status, 429);
    answer(second);
    answer(third);
    for client in [one, two, three] {
        let said = answered(client);
        assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("yes"), "{said}");
    }
    free(service, 2);
}

#[test]
fn a_client_that_goes_and_a_backend_that_fails_give_the_slot_back() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some(setup) = setup(&backend) else { return };
    let service = setup.service.address();
    let client = send(setup.envoy);
    let work = at_work(&backend);
    free(service, 1);
    drop(client);
    free(service, 2);
    drop(work);
    let client = send(setup.envoy);
    drop(at_work(&backend));
    assert!(answered(client).starts_with("HTTP/1.1 503"), "the backend closed");
    free(service, 2);
}

#[test]
fn without_the_service_nothing_reaches_the_backend() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some(setup) = setup(&backend) else { return };
    setup.service.signal(rustix::process::Signal::STOP);
    let said = setup.ask(Client(1), "GET /");
    assert_eq!((said.status, said.header("retry-after")), (503, Some("1")), "{said:?}");
    setup.service.signal(rustix::process::Signal::CONT);
    backend.set_nonblocking(true).unwrap();
    assert!(backend.accept().is_err());
}
