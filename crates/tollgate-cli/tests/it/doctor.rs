//! `doctor`: exit codes, lines and JSON. Its findings are tested in `tollgate-redis`, with the
//! fixture that tests of this program may not use.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use crate::Place;
use crate::redis;

#[test]
fn a_fit_server_is_0() {
    let place = Place::new();
    let arguments = ["--maxmemory", "100mb", "--appendonly", "yes"];
    let Some((_server, url)) = redis::start(place.path(), &arguments) else { return };
    let (code, out, err) = place.run(&["doctor", "--store", &url]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains(" is fit: 0 failures, 0 warnings\n"), "{out}");
    assert!(out.contains("\n  ok       eviction     maxmemory is set"), "{out}");
    let json = place.json(&["doctor", "--store", &url, "--json"]);
    assert_eq!(json["fit"], true);
    assert!(json["address"].as_str().unwrap().ends_with("redis.sock"), "{json}");
    let findings = json["findings"].as_array().unwrap();
    assert!(findings.iter().all(|finding| finding["level"] == "ok"), "{json}");
    let ids: Vec<_> = findings.iter().map(|finding| finding["id"].as_str().unwrap()).collect();
    for id in ["version", "lua", "rights", "role", "eviction", "persistence", "clock", "latency"] {
        assert!(ids.contains(&id), "{id} is not in {ids:?}");
    }
}

#[test]
fn an_unfit_server_is_1_and_says_what_to_do() {
    let place = Place::new();
    let arguments = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let Some((_server, url)) = redis::start(place.path(), &arguments) else { return };
    let (code, out, err) = place.run(&["doctor", "--store", &url]);
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    assert!(out.contains(" is unfit: 1 failure, 1 warning\n"), "{out}");
    assert!(out.contains("-> CONFIG SET maxmemory-policy noeviction"), "{out}");
    let json = place.json(&["doctor", "--store", &url, "--json"]);
    assert_eq!(json["fit"], false);
    let findings = json["findings"].as_array().unwrap();
    let eviction = findings.iter().find(|finding| finding["id"] == "eviction").unwrap();
    assert_eq!(eviction["level"], "failure");
    assert!(eviction["remedy"].as_str().unwrap().contains("noeviction"));
}

#[test]
fn a_wrong_password_is_1_and_is_not_shown() {
    let place = Place::new();
    let Some((_server, url)) = redis::start(place.path(), &["--requirepass", "right"]) else {
        return;
    };
    let with = |password: &str| url.replace("://", &format!("://:{password}@"));
    for url in [url.clone(), with("wrong-one")] {
        let (code, out, err) = place.run(&["doctor", "--store", &url]);
        assert_eq!((code, err.as_str()), (1, ""), "{out}");
        assert!(out.contains("failure  login") && !out.contains("wrong-one"), "{out}");
    }
    let (code, _, _) = place.run(&["doctor", "--store", &with("right")]);
    assert_eq!(code, 0);
}

#[test]
fn what_cannot_be_reached_is_2() {
    let place = Place::new();
    // A port on which nobody listens: one that was just given back.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("redis://:secret@127.0.0.1:{port}");
    let (code, out, err) = place.run(&["doctor", "--store", &url]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains(&format!("no Redis can be reached at 127.0.0.1:{port}")), "{err}");
    assert!(!err.contains("secret"), "{err}");
    for (scheme, path, what) in
        [("redis+cluster", "", "Redis"), ("redis+sentinel", "/main", "sentinel")]
    {
        let url = format!("{scheme}://:secret@127.0.0.1:{port}{path}");
        let (code, out, err) = place.run(&["doctor", "--store", &url]);
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(
            err.contains(&format!("no {what} can be reached at 127.0.0.1:{port}{path}")),
            "{err}"
        );
        assert!(!err.contains("secret"), "{err}");
    }
}

#[test]
fn findings_of_clusters_and_sentinels_name_their_nodes() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // A server that knows neither clusters nor sentinels. One command is sent at a time.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            while stream.read(&mut [0; 1024]).is_ok_and(|length| length > 0) {
                let _ = stream.write_all(b"-ERR unknown command\r\n");
            }
        }
    });
    for (url, id, what) in [
        (format!("redis+cluster://{address}"), "seeds", "it is not a node of a cluster"),
        (format!("redis+sentinel://{address}/main"), "sentinels", "it is not a sentinel"),
    ] {
        let (code, out, err) = place.run(&["doctor", "--store", &url]);
        assert_eq!((code, err.as_str()), (1, ""), "{out}");
        assert!(out.contains(&format!("failure  {id:<12} {address}: {what}\n")), "{out}");
        let json = place.json(&["doctor", "--store", &url, "--json"]);
        let finding = &json["findings"][0];
        assert_eq!((&finding["id"], &finding["what"]), (&id.into(), &what.into()), "{json}");
        assert_eq!(finding["nodes"], serde_json::json!([address]));
    }
}

#[test]
fn what_is_no_redis_is_2() {
    let place = Place::new();
    for says in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"\0\xff\x01garbage\r\n", b""] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let answering = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Something is asked first; then the answer, and the end.
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(says);
        });
        let (code, out, err) = place.run(&["doctor", "--store", &url]);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains("no Redis") || err.contains("connection was lost"), "{err}");
        answering.join().unwrap();
    }
}

#[test]
fn other_stores_and_bad_urls_are_2() {
    let place = Place::new();
    for (url, says) in [
        ("sqlite:///tmp/x.db", "`sqlite://` cannot be checked"),
        ("http://secret@example.com", "write `redis://HOST`"),
        ("", "write `redis://HOST`"),
    ] {
        let (code, _, err) = place.run(&["doctor", "--store", url]);
        assert_eq!(code, 2, "{url}");
        assert!(err.contains(says) && !err.contains("secret"), "{url}: {err}");
    }
}
