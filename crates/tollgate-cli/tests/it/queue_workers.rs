//! `serve --queue-workers`: jobs that are taken over HTTP, from a file and from a Redis.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Place;
use crate::redis;
use crate::serving::{LONG, Serving};

/// The same on every kind of store.
fn everywhere(check: impl Fn(&Place, &str)) {
    let place = Place::new();
    check(&place, &place.store());
    let place = Place::new();
    let Some((_redis, store)) = redis::start(place.path(), &[]) else { return };
    check(&place, &store);
}

fn serve(place: &Place, store: &str) -> Serving {
    Serving::start(place, &["--store", store, "--queue", "mail=9", "--queue-workers"])
}

/// The answer to a worker.
fn post_ok(serving: &Serving, act: &str, body: &Value) -> Value {
    let path = format!("/v1/queues/mail/{act}");
    let (status, text) = serving.client().ask("POST", &path, &body.to_string()).unwrap();
    assert_eq!(status, 200, "{act} {body}: {text}");
    serde_json::from_str(&text).unwrap()
}

fn push(place: &Place, store: &str, to: &str) {
    assert_eq!(place.code(&["queue", "push", "mail", to, "--bound", "9", "--store", store]), 0);
}

#[test]
fn jobs_go_from_push_to_a_worker_over_http_and_back_to_queue_work() {
    everywhere(|place, store| {
        let serving = serve(place, store);
        for to in ["to=ann", "to=bob", "to=cem"] {
            push(place, store, to);
        }
        let taken = post_ok(&serving, "take", &json!({"worker": "w1", "max": 2}));
        let jobs = taken["jobs"].as_array().unwrap();
        assert_eq!((&jobs[0]["fields"], jobs.len()), (&json!({"to": "ann"}), 2), "{taken}");
        let of = |place: usize| json!({"id": jobs[place]["id"], "delivery": 1});
        let done = post_ok(&serving, "done", &json!({"jobs": [of(0), of(0)]}));
        assert_eq!(
            (&done["jobs"][0]["outcome"], &done["jobs"][1]["outcome"]),
            (&json!("done"), &json!("lost"))
        );
        let extended = post_ok(&serving, "extend", &json!({"jobs": [of(0), of(1)]}));
        assert_eq!(extended["jobs"][0]["outcome"], "lost");
        assert_eq!(extended["jobs"][1]["outcome"], "extended");
        let back =
            post_ok(&serving, "nack", &json!({"jobs": [of(1)], "why": "no route", "after": "0"}));
        assert_eq!(back["jobs"][0]["outcome"], "again");
        let work = ["queue", "work", "mail", "--store", store, "--exec", "cat", "--until-empty"];
        let (code, out, err) = place.run(&work);
        assert_eq!((code, err.as_str()), (0, "2 done\n"));
        let first: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
        assert_eq!(first["delivery"], 2);
        assert_eq!(first["fields"], json!({"to": "bob"}));
        let (_, page) = serving.client().ask("GET", "/metrics", "").unwrap();
        for line in [
            "{endpoint=\"/v1/queues/{name}/take\",status=\"2xx\"} 1",
            "{endpoint=\"/v1/queues/{name}/done\",status=\"2xx\"} 1",
            "{endpoint=\"/v1/queues/{name}/extend\",status=\"2xx\"} 1",
            "{endpoint=\"/v1/queues/{name}/nack\",status=\"2xx\"} 1",
        ] {
            assert!(page.contains(&format!("tollgate_http_requests_total{line}")), "{page}");
        }
    });
}

#[test]
fn who_waits_is_given_what_another_process_offers() {
    everywhere(|place, store| {
        let serving = serve(place, store);
        let waiting = ["w1", "w2"].map(|worker| {
            let mut client = serving.client();
            let body = json!({"worker": worker, "wait": "60s"}).to_string();
            std::thread::spawn(move || client.ask("POST", "/v1/queues/mail/take", &body).unwrap())
        });
        let begin = Instant::now();
        push(place, store, "to=ann");
        push(place, store, "to=bob");
        for waiting in waiting {
            let (status, body) = waiting.join().unwrap();
            assert!(status == 200 && body.contains("\"delivery\":1"), "{body}");
        }
        assert!(begin.elapsed() < LONG, "nobody was woken");
    });
}

#[test]
fn the_service_ends_while_somebody_waits() {
    everywhere(|place, store| {
        let serving = serve(place, store);
        let mut client = serving.client();
        let body = r#"{"worker": "w1", "wait": "60s"}"#;
        let waiting = std::thread::spawn(move || client.ask("POST", "/v1/queues/mail/take", body));
        // Messages that were sent before on this machine have been read.
        for _ in 0..50 {
            assert_eq!(serving.client().ask("GET", "/healthz", "").unwrap().0, 200);
        }
        let begin = Instant::now();
        serving.end();
        assert!(begin.elapsed() < Duration::from_secs(30), "it waited for the worker");
        // It is answered, or had not begun.
        if let Ok((status, body)) = waiting.join().unwrap() {
            assert!(status == 200 && body.contains("\"jobs\":[]"), "{status} {body}");
        }
    });
}

#[test]
fn workers_are_let_in_by_the_flag_and_asked_for_the_token() {
    let place = Place::new();
    let store = place.store();
    let serving = Serving::start(&place, &["--store", &store, "--queue", "mail=9"]);
    let body = r#"{"worker": "w1"}"#;
    let ask =
        |serving: &Serving| serving.client().ask("POST", "/v1/queues/mail/take", body).unwrap();
    let (status, said) = ask(&serving);
    assert!(status == 403 && said.contains("start it with `--queue-workers`"), "{said}");
    drop(serving);
    let args = ["--store", &store, "--queue", "mail=9", "--queue-workers"];
    let mut command = Serving::command(&place, &args);
    command.env("TOLLGATE_WORKER_TOKEN", "0123456789abcdef");
    let serving = Serving::start_command(command);
    let (status, said) = ask(&serving);
    assert!(status == 401 && said.contains("TOLLGATE_WORKER_TOKEN"), "{said}");
    drop(serving);
    let refused = |args: &[&str], says: &str| {
        let (code, _, err) = place.run(&[&["serve", "--admin", "off"], args].concat());
        assert!(code == 2 && err.contains(says), "{args:?}: {code} {err}");
    };
    refused(&["--listen", "127.0.0.1:0", "--queue-workers"], "--queue");
    let open = ["--listen", "0.0.0.0:0", "--store", &store, "--queue", "mail=9", "--queue-workers"];
    refused(&open, "set TOLLGATE_WORKER_TOKEN");
}
