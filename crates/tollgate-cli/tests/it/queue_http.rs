//! `serve --queue`: jobs that are offered over HTTP, and worked off by `queue work`.

use std::time::Instant;

use crate::Place;
use crate::redis;
use crate::serving::{LONG, Serving};

fn serve(place: &Place, store: &str) -> Serving {
    Serving::start(place, &["--store", store, "--queue", "mail=2", "--queue", "scans=1"])
}

#[test]
fn jobs_come_by_http_and_go_by_queue_work() {
    let place = Place::new();
    come_and_go(&place, &place.store());
}

#[test]
fn the_same_on_a_redis() {
    let place = Place::new();
    let Some((_redis, store)) = redis::start(place.path(), &[]) else { return };
    come_and_go(&place, &store);
}

fn come_and_go(place: &Place, store: &str) {
    let serving = serve(place, store);
    let json = |body: &str| serde_json::from_str::<serde_json::Value>(body).unwrap();
    let mut client = serving.client();
    let mut offer = |path: &str, body: &str| client.whole("POST", path, body).unwrap();
    let (status, _, body) = offer("/v1/queues/mail?once=order:1", "{\"to\": \"ann\", \"n\": 1}");
    assert_eq!((status, &json(&body)["outcome"]), (202, &"accepted".into()), "{body}");
    let (status, _, body) = offer("/v1/queues/mail?once=order:1", "{}");
    assert_eq!((status, &json(&body)["outcome"]), (202, &"known".into()), "{body}");
    let (status, _, body) = offer("/v1/queues/mail?deadline=1h", "{}");
    assert_eq!((status, &json(&body)["depth"]), (202, &2.into()), "{body}");
    let (status, headers, body) = offer("/v1/queues/mail", "{}");
    assert_eq!((status, &json(&body)["outcome"]), (429, &"full".into()), "{body}");
    // Nobody works: asked again in as long as a rate is measured over.
    assert!(headers.contains("retry-after: 10\r\n"), "{headers}");
    let (status, _, body) = serving.client().whole("GET", "/v1/queues/mail", "").unwrap();
    let stats = json(&body);
    assert_eq!((status, &stats["waiting"], &stats["refused"]), (200, &2.into(), &1.into()));

    let work = ["queue", "work", "mail", "--store", store, "--exec", "cat", "--until-empty"];
    let (code, out, err) = place.run(&work);
    assert_eq!((code, err.as_str()), (0, "2 done\n"));
    let first = json(out.lines().next().unwrap());
    assert_eq!(first["fields"], serde_json::json!({"to": "ann", "n": "1"}));
    for _ in 0..2 {
        assert_eq!(offer("/v1/queues/mail", "{}").0, 202);
    }
    // Two have left in the last seconds: one more will have within ten.
    let (status, headers, body) = offer("/v1/queues/mail", "{}");
    assert_eq!(status, 429);
    let after = json(&body)["retry_after_us"].as_u64().unwrap();
    let header = format!("retry-after: {}\r\n", after.div_ceil(1_000_000));
    assert!(after <= 10_000_000 && headers.contains(&header), "{headers} {body}");

    let (mut watcher, begin) = (serving.client(), Instant::now());
    let waiting = "tollgate_queue_waiting_jobs{queue=\"mail\"} 2";
    let page = loop {
        let (_, _, page) = watcher.whole("GET", "/metrics", "").unwrap();
        if page.contains(waiting) {
            break page;
        }
        assert!(begin.elapsed() < LONG, "{page}");
    };
    for line in [
        "tollgate_queue_offers_total{queue=\"mail\",outcome=\"accepted\"} 4",
        "tollgate_queue_offers_total{queue=\"mail\",outcome=\"known\"} 1",
        "tollgate_queue_offers_total{queue=\"mail\",outcome=\"refused\"} 2",
        "tollgate_queue_offers_total{queue=\"scans\",outcome=\"accepted\"} 0",
        "tollgate_queue_in_flight_jobs{queue=\"mail\"} 0",
        "tollgate_queue_oldest_age_seconds{queue=\"mail\"} ",
        "tollgate_http_requests_total{endpoint=\"/v1/queues/{name}\",status=\"2xx\"} ",
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
}

#[test]
fn a_list_is_a_queue_as_well() {
    let place = Place::new();
    let Some((_redis, store)) = redis::start(place.path(), &[]) else { return };
    let args = ["--store", &store, "--queue", "mail=2", "--queue-form", "list"];
    let serving = Serving::start(&place, &args);
    let (status, _, body) = serving.client().whole("POST", "/v1/queues/mail", "{}").unwrap();
    assert_eq!(status, 202, "{body}");
    let work = ["queue", "work", "mail", "--store", &store, "--exec", "true", "--until-empty"];
    let (code, _, err) = place.run(&work);
    assert!(code == 2 && err.contains("its jobs in a list, and not with its jobs in a"), "{err}");
    let (code, _, err) = place.run(&[&work[..], &["--form", "list"]].concat());
    assert_eq!((code, err.as_str()), (0, "1 done\n"));
}

#[test]
fn a_queue_that_is_changed_is_told_or_taken_up() {
    let place = Place::new();
    let store = place.store();
    for name in ["said", "asked"] {
        assert_eq!(place.code(&["queue", "push", name, "--bound", "1"]), 0);
    }
    let args = ["--store", &store, "--queue", "said=1", "--queue", "asked"];
    let serving = Serving::start(&place, &args);
    let mut client = serving.client();
    let mut offer = |path: &str| client.whole("POST", path, "{}").unwrap();
    assert_eq!((offer("/v1/queues/said").0, offer("/v1/queues/asked").0), (429, 429));
    for name in ["said", "asked"] {
        assert_eq!(place.code(&["queue", "change", name, "--bound", "2", "--count", "all"]), 0);
    }
    let (status, headers, body) = offer("/v1/queues/said");
    assert!(status == 500 && body.contains("was made with a bound of 2 (all)"), "{body}");
    assert!(!headers.contains("retry-after"), "it does not pass: {headers}");
    assert_eq!((offer("/v1/queues/asked").0, offer("/v1/queues/asked").0), (202, 429));
}

#[test]
fn wrong_offers_are_told() {
    let place = Place::new();
    let serving = serve(&place, &place.store());
    let mut client = serving.client();
    for (path, body, status, says) in [
        ("/v1/queues/other", "{}", 404, "no queue `other` here; those there are: mail, scans"),
        ("/v1/queues/", "{}", 404, "no queue `` here"),
        ("/v1/queues/mail", "[]", 400, "no job: "),
        ("/v1/queues/mail", "", 400, "there is no body: a job is one JSON object"),
        ("/v1/queues/mail", "{\"a\": null}", 400, "the field `a` is null"),
        ("/v1/queues/mail", "{\"@a\": 1}", 400, "which is reserved"),
        ("/v1/queues/mail?deadline=5", "{}", 400, "write a duration as in `90s`"),
        ("/v1/queues/mail?deadline=m", "{}", 400, "write a duration as in `90s`"),
        ("/v1/queues/mail?bound=5", "{}", 400, "`bound` is unknown here"),
        ("/v1/queues/mail?once=", "{}", 400, "the id of a job of 0 bytes"),
    ] {
        let (is, _, said) = client.whole("POST", path, body).unwrap();
        assert!(is == status && said.contains(says), "{path} {body}: {is} {said}");
    }
    let mut bytes = |body| {
        let kind = "content-type: application/octet-stream\r\n";
        client.whole_with(kind, "POST", "/v1/queues/scans", body).unwrap()
    };
    let (status, _, said) = bytes("");
    assert!(status == 400 && said.contains("there is no body: the bytes of a job"), "{said}");
    assert_eq!(bytes("x").0, 202);
    let (_, _, stats) = client.whole("GET", "/v1/queues/mail", "").unwrap();
    assert!(stats.contains("\"accepted\":0"), "{stats}");
    drop(serving);
    // Impossible settings are reported before anything serves.
    let refused = |args: &[&str], says: &str| {
        let all = [&["serve", "--listen", "127.0.0.1:0", "--admin", "off"], args].concat();
        let (code, _, err) = place.run(&all);
        assert!(code == 2 && err.contains(says), "{args:?}: {code} {err}");
    };
    let store = place.store();
    refused(&["--store", "memory://", "--queue", "mail=2"], "needs a store that workers reach");
    refused(&["--store", &store, "--queue", "new"], "the queue `new` is new: set how many");
    refused(&["--store", &store, "--queue", "mail=x"], "write NAME=BOUND");
    refused(&["--store", &store, "--queue", "m m=1"], "is not the name of a queue");
    refused(&["--store", &store, "--queue", "mail=1", "--queue", "mail=2"], "`mail` twice");
    assert_eq!(place.code(&["queue", "push", "mail", "--bound", "3"]), 0);
    refused(&["--store", &store, "--queue", "mail=2"], "was made with a bound of 3 (waiting)");
}
