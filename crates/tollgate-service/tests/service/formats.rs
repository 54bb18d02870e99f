//! The files of earlier builds in `vectors/formats`: counts, receipts and holds on Redis, in a
//! SQLite file and in a snapshot. Each is read, charged, settled and refunded.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tollgate::{ManualClock, MemoryStore};
use tollgate_redis::{Keys, Options as RedisOptions, RedisStore};
use tollgate_service::AnyStore;
use tollgate_sqlite::{Options as SqliteOptions, SqliteStore};
use tollgate_testbed::{RedisServer, Reply as Answer, redis_or_skip};

use super::client::Client;
use super::{FILE, Service, gate_of, here};

/// The key that signed the receipts and holds.
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// The builds whose formats differ from another's.
const BUILDS: [&str; 2] = ["a791ffb", "b2f3974b"];

fn folder(build: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/formats").join(build)
}

fn read(build: &str, name: &str) -> String {
    fs::read_to_string(folder(build).join(name)).unwrap()
}

fn bytes(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// The counts that a build wrote, and its clock.
fn counts(build: &str) -> (Value, ManualClock) {
    let counts: Value = serde_json::from_str(&read(build, "counts.json")).unwrap();
    let clock = ManualClock::at_micros(counts["at"].as_u64().unwrap());
    (counts, clock)
}

async fn remaining(client: &mut Client, row: &Value) -> Value {
    let body = json!({ "subject": row["subject"], "limit": row["limit"] }).to_string();
    let reply = client.post("/v1/peek", &body).await;
    assert_eq!(reply.status, 200, "{row}: {}", reply.text);
    reply.json()["remaining"].clone()
}

/// An inspection shows the open holds of a row, and not how old they are.
async fn no_hold_has_an_age(admin: &mut Client, row: &Value) {
    let body = json!({ "subject": row["subject"], "limit": row["limit"] }).to_string();
    let held = admin.post("/v1/admin/inspect", &body).await.json();
    let holds = held["held"]["holds"].as_array().unwrap();
    assert!(!holds.is_empty() && holds.iter().all(|hold| hold["age"].is_null()), "{row}: {held}");
}

/// Asks a service over a store for everything that a build has left in it. Receipts know the place
/// of their store, so they are tried where it is the same.
async fn all_is_read(store: AnyStore, rows: &Value, has_receipts: bool) {
    let service = Service::start_with(gate_of(FILE, store), |options| {
        options.receipt_key = Some(KEY.as_bytes().to_vec());
        options.admin = Some(here());
    });
    let service = service.await;
    let (mut client, mut admin) = (service.client().await, service.admin().await);
    let rows = rows.as_array().unwrap();
    assert!(rows.len() > 7, "{}", rows.len());
    for row in rows {
        assert_eq!(remaining(&mut client, row).await, row["remaining"], "{row}");
        if let (Some(hold), true) = (row["hold"].as_str(), has_receipts) {
            // Nothing records its age, whoever renews it now.
            no_hold_has_an_age(&mut admin, row).await;
            let ttl = if row["limit"].as_str().unwrap().contains("at once") { "1s" } else { "9s" };
            let body = json!({ "hold": hold, "ttl": ttl }).to_string();
            let reply = client.post("/v1/renew", &body).await;
            assert_eq!(reply.status, 200, "{row}: {}", reply.text);
            no_hold_has_an_age(&mut admin, row).await;
            let (path, body) = match row["limit"].as_str().unwrap().contains("at once") {
                true => ("/v1/release", json!({ "hold": hold })),
                false => ("/v1/commit", json!({ "hold": hold, "actual": 1 })),
            };
            let reply = client.post(path, &body.to_string()).await;
            assert_eq!(reply.status, 200, "{row}: {}", reply.text);
            assert_eq!(remaining(&mut client, row).await, row["settled"], "{row}");
        }
        if let (Some(receipt), true) = (row["receipt"].as_str(), has_receipts) {
            let body = json!({ "receipt": receipt }).to_string();
            let reply = client.post("/v1/refund", &body).await;
            assert_eq!(reply.status, 200, "{row}: {}", reply.text);
            assert_eq!(remaining(&mut client, row).await, row["refunded"], "{row}");
            let reply = client.post("/v1/refund", &body).await;
            assert_eq!(reply.json()["already"], json!(true), "{row}: {}", reply.text);
        }
        let left = remaining(&mut client, row).await.as_u64().unwrap();
        if row["limit"].as_str().unwrap().contains("at once") {
            continue;
        }
        let body = json!({ "subject": row["subject"], "limit": row["limit"] }).to_string();
        let answer = client.check(&body).await;
        assert_eq!(answer["allowed"], json!(left > 0), "{row}: {answer}");
        assert_eq!(answer["remaining"], json!(left.saturating_sub(1)), "{row}: {answer}");
    }
}

#[tokio::test]
async fn files_of_earlier_builds_are_read() {
    for build in BUILDS {
        let (counts, clock) = counts(build);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("counts.db");
        rusqlite::Connection::open(&path)
            .and_then(|file| file.execute_batch(&read(build, "counts.sql")))
            .unwrap();
        let store = SqliteStore::open_with(SqliteOptions::new(&path).clock(clock)).unwrap();
        all_is_read(AnyStore::from(store), &counts["sqlite"], true).await;
    }
}

#[tokio::test]
async fn snapshots_of_earlier_builds_are_restored() {
    for build in BUILDS {
        let (counts, clock) = counts(build);
        let snapshot = bytes(&read(build, "snapshot.txt"));
        let (store, restored) = MemoryStore::builder().clock(clock).restore(&snapshot[..]).unwrap();
        assert!(restored.receipts && restored.subjects > 7, "{restored:?}");
        all_is_read(AnyStore::Memory(store), &counts["snapshot"], true).await;
    }
}

#[tokio::test]
async fn keys_of_earlier_builds_are_read() {
    let server: RedisServer = redis_or_skip!();
    for build in BUILDS {
        let (counts, clock) = counts(build);
        server.command(&[b"FLUSHALL"]);
        for line in read(build, "redis.txt").lines() {
            let (key, dump) = line.split_once(' ').unwrap();
            let key = key.replacen("tg1:", &format!("{}:", Keys::for_run(build).prefix()), 1);
            let done = server.command(&[b"RESTORE", key.as_bytes(), b"0", &bytes(dump)]);
            assert!(!matches!(done, Answer::Error(_)), "{key}: {done:?}");
        }
        let options = RedisOptions::from_url(&server.url()).unwrap();
        let options = options.deadline(Duration::from_secs(30));
        let store = RedisStore::builder(options).run(build, clock).connect().await.unwrap();
        all_is_read(AnyStore::from(store), &counts["redis"], false).await;
    }
}
