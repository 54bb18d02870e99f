//! Replicas on one store without a given key: one takes the signatures of the other.

use std::thread;
use std::time::Instant;

use serde_json::{Value, json};
use tollgate_testbed::{SentinelOptions, sentinels_or_skip};

use crate::Place;
use crate::redis::{self, redis_cli};
use crate::serving::{LONG, Serving};

/// Replicas that start at the same moment.
fn start<const N: usize>(place: &Place, store: &str) -> [Serving; N] {
    let one = || Serving::start(place, &["--store", store]);
    thread::scope(|scope| {
        let all = [(); N].map(|()| scope.spawn(one));
        all.map(|it| it.join().unwrap())
    })
}

fn post(serving: &Serving, path: &str, body: Value) -> (u16, Value) {
    let (status, text) = serving.client().ask("POST", path, &body.to_string()).unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

/// A charge at one, with its receipt.
fn receipt(serving: &Serving) -> Value {
    let question = json!({ "subject": "user:1", "limit": "900/h", "receipt": true });
    let (status, said) = post(serving, "/v1/check", question);
    assert_eq!(status, 200, "{said}");
    json!({ "receipt": said["receipt"] })
}

fn hold(serving: &Serving) -> Option<Value> {
    let question = json!({ "subject": "user:1", "limit": "3 at once" });
    let (_, said) = post(serving, "/v1/acquire", question);
    said["hold"].is_string().then(|| json!({ "hold": said["hold"] }))
}

/// A hold of one replica is released at the other, and a charge is refunded there.
fn rounds(one: &Serving, other: &Serving) {
    for round in 0..5 {
        let (here, there) = if round % 2 == 0 { (one, other) } else { (other, one) };
        let holds: Vec<Value> = (0..4).filter_map(|_| hold(here)).collect();
        assert_eq!(holds.len(), 3, "round {round}");
        for hold in holds {
            let (status, said) = post(there, "/v1/release", hold);
            assert_eq!((status, said), (200, json!({ "released": true })), "round {round}");
        }
        let (status, said) = post(there, "/v1/refund", receipt(here));
        assert_eq!((status, &said["given"]), (200, &json!([1])), "round {round}: {said}");
    }
}

#[test]
fn what_one_signed_the_other_takes() {
    let place = Place::new();
    let file = format!("sqlite://{}", place.path().join("counts.db").display());
    let [one, other] = start(&place, &file);
    rounds(&one, &other);
    let Some((_redis, url)) = redis::start(place.path(), &[]) else { return };
    let [one, other] = start(&place, &url);
    rounds(&one, &other);
    let (before, slot) = (receipt(&one), hold(&one).unwrap());
    let key =
        || redis_cli(&place.path().join("redis.sock"), &["HGET", "tg1:notices", "receipt-key"]);
    let first = key();
    let secret = first.trim().split_once(':').unwrap().1.to_owned();
    assert_eq!(secret.len(), 43, "32 bytes");
    // A caller that still has it writes it back.
    redis_cli(&place.path().join("redis.sock"), &["FLUSHALL"]);
    let begin = Instant::now();
    while key() == "\n" {
        assert!(begin.elapsed() < LONG, "nobody writes it back");
        thread::yield_now();
    }
    let [late] = start(&place, &url);
    for replica in [&other, &late] {
        let (status, said) = post(replica, "/v1/refund", before.clone());
        assert_eq!((status, &said["given"]), (200, &json!([0])), "{said}");
        // It is known, and gone with the counts: a release of it is as a second one.
        assert_eq!(post(replica, "/v1/release", slot.clone()).0, 200);
    }
    rounds(&other, &late);
    assert!(key().contains(&secret));
    // No command and no answer shows it.
    let (_, rulings) = one.admin().ask("GET", "/v1/admin/rulings", "").unwrap();
    let mut shown = rulings;
    for command in [
        &["doctor", "--store", &url][..],
        &["doctor", "--json", "--store", &url],
        &["inspect", "user:1", "--limit", "900/h", "--json", "--store", &url],
    ] {
        let (_, out, err) = place.run(command);
        shown += &(out + &err);
    }
    for serving in [one, other, late] {
        shown += &serving.end();
    }
    assert!(!shown.contains(&secret), "{shown}");
}

/// A given key signs alone, and its signatures are for one environment.
#[test]
fn an_environment_takes_nothing_of_another() {
    let place = Place::new();
    let Some((_redis, url)) = redis::start(place.path(), &[]) else { return };
    let with_key = |query: &str| {
        let store = format!("{url}{query}");
        let mut command = Serving::command(&place, &["--store", &store]);
        command.env("TOLLGATE_RECEIPT_KEY", "0123456789abcdef0123456789abcdef");
        Serving::start_command(command)
    };
    let queries = ["", "?db=1", "?prefix=staging", "?db=1&prefix=staging"];
    let all = queries.map(with_key);
    let keys = redis_cli(&place.path().join("redis.sock"), &["KEYS", "*notices*"]);
    assert_eq!(keys, "\n", "it does not lie in the store");
    for (number, one) in all.iter().enumerate() {
        let (receipt, hold) = (receipt(one), hold(one).unwrap());
        for (other, there) in all.iter().enumerate() {
            let refused = post(there, "/v1/refund", receipt.clone()).0;
            let released = post(there, "/v1/release", hold.clone()).0;
            if other != number {
                assert!(
                    refused == 400 && released == 404,
                    "{number}, {other}: {refused} {released}"
                );
            } else {
                assert_eq!((refused, released), (200, 200), "{number}");
            }
        }
    }
}

/// The key is where the counts are, so it goes over to a new primary with them.
#[test]
fn a_failover_keeps_the_key() {
    let sentinels = sentinels_or_skip!(SentinelOptions::new().replicas(1));
    let place = Place::new();
    let [one, other] = start(&place, &format!("{}?deadline=2s", sentinels.url()));
    rounds(&one, &other);
    let before = receipt(&one);
    let begin = Instant::now();
    let key = |server: usize| {
        let words: [&[u8]; 3] = [b"HGET", b"tg1:notices", b"receipt-key"];
        sentinels.server(server).command(&words).text()
    };
    let first = key(sentinels.primary_index()).unwrap();
    while (0..2).any(|server| key(server).as_ref() != Some(&first)) {
        assert!(begin.elapsed() < LONG, "the replica does not hear of it");
        thread::yield_now();
    }
    let new = sentinels.failover();
    assert_eq!(key(new).unwrap(), first);
    // The old primary may have answered last: then the next question finds the new one.
    while post(&other, "/v1/refund", before.clone()).0 != 200 {
        assert!(begin.elapsed() < LONG, "{:?}", post(&other, "/v1/refund", before));
        thread::yield_now();
    }
    rounds(&one, &other);
}
