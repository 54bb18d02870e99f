//! Request ids by the thousand: their memory is bounded.

use std::time::Duration;

use futures_util::future::join_all;
use tollgate::engine::MAX_REQUESTS;
use tollgate::{Ask, LimitSet, Limiter, ManualClock, RequestId};
use tollgate_redis::{Options, RedisStore};
use tollgate_testbed::{RedisServer, Reply, redis_or_skip};

use crate::common::runtime;

/// How many are asked at a time.
const AT_ONCE: u64 = 100;

/// So many requests in a minute, each under an id that is remembered for 30 s, of so many subjects.
async fn ask(server: &RedisServer, subjects: u64, requests: u64) -> Limiter<RedisStore> {
    server.command(&[b"FLUSHALL"]);
    let clock = ManualClock::at_micros(1_700_000_000_000_000);
    let options = Options::from_url(&server.url()).unwrap().deadline(Duration::from_secs(30));
    let store = RedisStore::builder(options).run("ids", clock.clone()).connect().await.unwrap();
    let limits: LimitSet = "100000000/h via gcra".parse().unwrap();
    let limiter = Limiter::new(limits, store);
    for first in (0..requests).step_by(usize::try_from(AT_ONCE).unwrap()) {
        clock.advance(Duration::from_micros(60_000_000 * AT_ONCE / requests));
        let each = (first..first + AT_ONCE).map(async |number| {
            let subject = format!("user:{}", number % subjects);
            let id = format!("a request {number}");
            let id = RequestId::new(&id).remembered(Duration::from_secs(30));
            let decision = limiter.check(Ask::new(subject.as_str()).request(id)).await.unwrap();
            assert!(decision.is_allowed() && !decision.is_repeated(), "{number}");
        });
        join_all(each).await;
    }
    limiter
}

/// How many ids there are, and the bytes of the hashes that have them.
fn remembered(server: &RedisServer) -> (u64, u64) {
    let number = |words: &[&[u8]]| match server.command(words) {
        Reply::Int(number) => u64::try_from(number).unwrap(),
        other => panic!("{other:?}"),
    };
    let (mut ids, mut bytes) = (0, 0);
    for key in server.keys() {
        if server.command(&[b"TYPE", &key]) == Reply::Status("hash".into()) {
            ids += number(&[b"HLEN", &key]);
            bytes += number(&[b"MEMORY", b"USAGE", &key, b"SAMPLES", b"0"]);
        }
    }
    (ids, bytes)
}

/// `TOLLGATE_TEST_CASES=1000000` asks a million times.
#[test]
fn a_million_request_ids_are_bounded() {
    let server = redis_or_skip!();
    let wanted = std::env::var("TOLLGATE_TEST_CASES").ok();
    let requests = wanted.map_or(10_000, |text| text.parse().unwrap());
    runtime().block_on(async {
        let limiter = ask(&server, 1, requests).await;
        let (ids, bytes) = remembered(&server);
        println!("one count: {ids} ids, {bytes} bytes");
        // Each hash has one field about itself.
        assert!(ids <= MAX_REQUESTS as u64 + 2, "{ids}");
        assert!(bytes < 2 << 20, "{bytes}");
        // The last ones are known.
        let last = format!("a request {}", requests - 1);
        let again = Ask::new("user:0").request(last.as_str());
        assert!(limiter.check(again).await.unwrap().is_repeated());
        let subjects = requests / 10;
        let _limiter = ask(&server, subjects, requests).await;
        let (ids, bytes) = remembered(&server);
        println!("{subjects} counts: {ids} ids, {bytes} bytes");
        assert!(ids <= requests + 2 * subjects, "{ids}");
        assert!(bytes < requests * 400 + (1 << 20), "{bytes}");
    });
}
