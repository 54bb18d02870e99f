//! `health`: the answers to probes that run a command.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::Place;
use crate::serving::Serving;

#[test]
fn a_service_is_healthy_while_it_serves_on_a_port_or_a_socket() {
    let place = Place::new();
    let socket = format!("unix:{}", place.path().join("tollgate.sock").display());
    let any = ["--listen", "127.0.0.1:0", "--listen", &socket];
    let serving = Serving::start(&place, &any);
    let port = serving.address().to_string();
    for address in [&port, &socket] {
        for (option, says) in [("", "/healthz: 200: ok"), ("--ready", "/readyz: 200: ready")] {
            let args = ["health", address, option];
            let args: Vec<_> = args.into_iter().filter(|arg| !arg.is_empty()).collect();
            let (code, out, error) = place.run(&args);
            assert_eq!((code, &*error), (0, ""), "{args:?}: {out}");
            assert_eq!(out, format!("{address}{says}\n"));
        }
    }
    let found = place.json(&["health", &port, "--store", "--json"]);
    assert_eq!(found["healthy"], true, "{found}");
    assert_eq!((&found["path"], &found["status"]), (&"/readyz?store=1".into(), &200.into()));
    serving.end();
    let (code, out, error) = place.run(&["health", &port]);
    assert_eq!((code, &*error), (1, ""), "{out}");
    assert!(out.contains("Connection refused"), "{out}");
    let found = place.json(&["health", &port, "--json"]);
    assert_eq!((&found["healthy"], found.get("status")), (&false.into(), None), "{found}");
}

#[test]
fn who_does_not_answer_is_not_healthy_and_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (code, out, _) = Place::new().run(&["health", &address, "--timeout", "100ms"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("no answer came within 0.1s"), "{out}");
}

#[test]
fn another_status_is_not_healthy_and_says_why() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 1_024];
        let read = stream.read(&mut head).unwrap();
        let why = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 10\r\n\r\nit is away\n";
        stream.write_all(why.as_bytes()).unwrap();
        String::from_utf8_lossy(&head[..read]).into_owned()
    });
    let (code, out, _) = Place::new().run(&["health", &address, "--ready"]);
    assert_eq!((code, &*out), (1, &*format!("{address}/readyz: 503: it is away\n")));
    assert!(answering.join().unwrap().starts_with("GET /readyz HTTP/1.1\r\n"));
}

#[test]
fn a_wrong_address_says_what_would_be_right() {
    for address in ["localhost", "http://127.0.0.1", "ftp://127.0.0.1:8700", "127.0.0.1:x", "unix:"]
    {
        let (code, out, error) = Place::new().run(&["health", address]);
        assert_eq!(code, 2, "{address}: {out} {error}");
        assert!(error.contains("write HOST:PORT, e.g. `127.0.0.1:8700`"), "{error}");
    }
}
