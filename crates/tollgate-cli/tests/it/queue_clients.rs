//! A bound for each client: from a shell, over HTTP, and by the printed script.

use serde_json::{Value, json};

use crate::Place;
use crate::redis;
use crate::serving::Serving;

/// The same on every kind of store.
fn everywhere(check: impl Fn(&Place, &str)) {
    let place = Place::new();
    check(&place, &place.store());
    let place = Place::new();
    let Some((_redis, store)) = redis::start(place.path(), &[]) else { return };
    check(&place, &store);
}

fn queue(place: &Place, store: &str, words: &[&str]) -> (i32, String, String) {
    place.run(&[&["queue"], words, &["--store", store]].concat())
}

#[test]
fn a_client_is_refused_for_itself_and_others_are_not() {
    everywhere(|place, store| {
        let push = |words: &[&str]| {
            let all = [&["push", "letters", "to=x"], words].concat();
            queue(place, store, &all)
        };
        let made = ["--client", "ann", "--bound", "4", "--per-client", "2"];
        assert_eq!(push(&made).0, 0);
        assert_eq!(push(&["--client", "ann"]).0, 0);
        let (code, out, err) = push(&["--client", "ann"]);
        assert_eq!(
            (code, out.as_str(), err.as_str()),
            (1, "refused: this client has 2, which is the bound for each client\n", "")
        );
        let (code, out, _) = push(&["--client", "ann", "--json"]);
        let said: Value = serde_json::from_str(&out).unwrap();
        let refused = json!({"outcome": "client_full", "of_client": 2, "retry_after_us": null});
        assert_eq!((code, said), (1, refused));
        // It waits for room as long as the option allows.
        assert_eq!(push(&["--client", "ann", "--wait", "10ms"]).0, 1);
        assert_eq!(push(&["--client", "bob"]).0, 0);
        assert_eq!(push(&[]).0, 0);
        let (code, out, _) = push(&["--client", "bob"]);
        assert!(code == 1 && out.starts_with("refused: full with 4"), "{out}");
        let (_, out, _) = queue(place, store, &["look", "letters"]);
        assert_eq!((out.matches(" ann ").count(), out.matches(" bob ").count()), (2, 1), "{out}");
        let (_, out, _) = queue(place, store, &["look", "letters", "--json"]);
        let look: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(look["waiting"][0]["client"], "ann");
        assert_eq!(look["waiting"][3].get("client"), None);
        // A different bound is reported, and `change` changes it.
        let (code, _, err) = push(&["--bound", "4"]);
        assert!(code == 2 && err.contains("a bound of 4 (waiting), 2 of one client"), "{err}");
        let (_, out, _) = queue(place, store, &["change", "letters", "--bound", "9"]);
        assert!(out.contains("a bound of 9 (waiting), 2 of one client"), "{out}");
        let (_, out, _) = queue(place, store, &["change", "letters", "--no-per-client"]);
        assert!(out.contains("a bound of 9 (waiting), ids"), "{out}");
        assert_eq!(push(&["--client", "ann"]).0, 0);
        for (words, says) in [
            (&["--client", ""][..], "the name of a client of 0 bytes"),
            (&["--client", "@x"], "begins with @"),
            (&["--bound", "4", "--per-client", "0"], "the bound is 1 to 10000000"),
        ] {
            let (code, _, err) = push(words);
            assert!(code == 2 && err.contains(says), "{words:?}: {err}");
        }
    });
}

#[test]
fn a_dead_job_that_its_client_has_no_room_for_stays_dead() {
    everywhere(|place, store| {
        let run = |words: &[&str]| queue(place, store, words);
        let made = ["--bound", "9", "--per-client", "1"];
        for client in ["ann", "bob"] {
            let push = ["push", "mail", "to=x", "--client", client];
            assert_eq!(run(&[&push[..], &made].concat()).0, 0);
        }
        let work = ["work", "mail", "--exec", "exit 1", "--deliveries", "1", "--until-empty"];
        assert_eq!(run(&work).0, 0);
        // The oldest dead job is of who has a job that waits.
        assert_eq!(run(&["push", "mail", "to=y", "--client", "ann"]).0, 0);
        let (code, out, err) = run(&["dead", "mail", "--again", "all"]);
        assert_eq!(code, 1, "{out} {err}");
        let (_, out, _) = run(&["dead", "mail", "--json"]);
        let dead: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            (dead.as_array().unwrap().len(), &dead[0]["client"]),
            (1, &json!("ann")),
            "{out}"
        );
        let (_, out, _) = run(&["look", "mail", "--json"]);
        let look: Value = serde_json::from_str(&out).unwrap();
        let clients: Vec<_> =
            look["waiting"].as_array().unwrap().iter().map(|job| job["client"].clone()).collect();
        assert_eq!(clients, ["ann", "bob"]);
    });
}

#[test]
fn a_service_bounds_each_client() {
    everywhere(|place, store| {
        let args = ["--store", store, "--queue", "mail=3,per-client=1", "--queue-workers"];
        let serving = Serving::start(place, &args);
        let mut client = serving.client();
        let mut ask = |path: &str, body: &str| client.whole("POST", path, body).unwrap();
        assert_eq!(ask("/v1/queues/mail?client=ann", "{}").0, 202);
        let (status, headers, body) = ask("/v1/queues/mail?client=ann", "{}");
        let said: Value = serde_json::from_str(&body).unwrap();
        let refused = json!({"outcome": "client_full", "of_client": 1, "retry_after_us": null});
        assert_eq!((status, said), (429, refused));
        assert!(headers.contains("retry-after: 10\r\n"), "{headers}");
        assert_eq!(ask("/v1/queues/mail?client=bob%20b", "{}").0, 202);
        assert_eq!(ask("/v1/queues/mail", "{}").0, 202);
        let (status, _, body) = ask("/v1/queues/mail?client=ann", "{}");
        assert!(status == 429 && body.contains("\"full\""), "{body}");
        // Taken by a worker, it waits no more.
        assert_eq!(ask("/v1/queues/mail/take", r#"{"worker": "w"}"#).0, 200);
        assert_eq!(ask("/v1/queues/mail?client=ann", "{}").0, 202);
        let (status, _, body) = ask("/v1/queues/mail?client=", "{}");
        assert!(status == 400 && body.contains("the name of a client of 0 bytes"), "{body}");
    });
    let place = Place::new();
    for wrong in
        ["mail=9,per-client=", "mail=9,per-client=x", "mail=9,client=1", "mail=,per-client=1"]
    {
        let store = place.store();
        let (code, _, err) = place.run(&["serve", "--store", &store, "--queue", wrong]);
        assert!(code == 2 && err.contains("NAME=BOUND,per-client=N"), "{wrong}: {err}");
    }
}
