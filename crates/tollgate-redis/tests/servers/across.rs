//! Checks over subjects in several slots of a real cluster: the answers of one server, and the
//! charges and give-backs meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tollgate::{
    Ask, Decision, Error, LimitSet, Limiter, ManualClock, MemoryStore, Reserve, Store, Subject,
    Verdict,
};
use tollgate_redis::{Keys, Options, RedisStore};
use tollgate_testbed::{
    ClusterOptions, Mode, Proxy, RedisCluster, RedisServer, SKIPPED, cluster_or_skip,
    redis_or_skip, redis_program,
};

use crate::common::{pause, runtime};

/// Far away: the machine may be busy.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) const NOON: u64 = 1_763_640_000_000_000;

/// Five seconds before midnight in Berlin: the windows of calendars end within a story.
const BEFORE_MIDNIGHT: u64 = NOON + 39_595_000_000;

pub(crate) fn limits(text: &str) -> LimitSet {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

pub(crate) fn options(cluster: &RedisCluster) -> Options {
    Options::from_url(&cluster.url()).unwrap().deadline(LONG)
}

/// One cluster for all tests of this binary that leave it whole; none where no server is installed.
pub(crate) fn cluster() -> Option<&'static RedisCluster> {
    static CLUSTER: OnceLock<Option<RedisCluster>> = OnceLock::new();
    let start = || redis_program().map(|_| ClusterOptions::new().replicas(0).start());
    let cluster = CLUSTER.get_or_init(start).as_ref();
    if cluster.is_none() {
        println!("{SKIPPED}");
    }
    cluster
}

/// Subjects of these limits whose counts are on different nodes.
pub(crate) fn apart(cluster: &RedisCluster, set: &LimitSet, prefix: &str) -> [Subject; 3] {
    let mut found = BTreeMap::new();
    for n in 0.. {
        let subject = Subject::new(prefix, n.to_string()).unwrap();
        let key = Keys::new().state(&subject, set);
        found.entry(cluster.owner_of(key.as_bytes()).unwrap()).or_insert(subject);
        if found.len() == 3 {
            break;
        }
    }
    let found: Vec<Subject> = found.into_values().collect();
    found.try_into().unwrap()
}

pub(crate) fn seen(decision: &Decision<'_>) -> String {
    let each = decision.reports().map(|report| {
        let (left, retry, reset) = (report.remaining(), report.retry_after(), report.reset_after());
        format!("{} {}: {left} {retry:?} {reset:?}", report.subject(), report.limit())
    });
    format!("{} {}", decision.granted(), each.collect::<Vec<_>>().join("; "))
}

/// A store's answers to checks over three subjects, step by step, by a given clock.
async fn story<S: Store>(
    store: S,
    subjects: &[Subject; 3],
    set: &str,
    clock: &ManualClock,
) -> Vec<String> {
    let set = limits(set);
    let tight = limits("4/10s via gcra, log: 6/20s via sliding_log");
    let limiter = Limiter::new(set.clone(), store);
    let [a, b, c] = subjects;
    let ask = || Ask::from([(a.clone(), &set), (b.clone(), &tight), (c.clone(), &set)]);
    let mut told = Vec::new();
    let mut receipts = Vec::new();
    for n in 0..14 {
        clock.advance(Duration::from_millis(700));
        let ask = ask().cost(1 + n % 3);
        let ask = if n % 4 == 3 { ask.partial() } else { ask };
        let decision = limiter.check(ask).await.unwrap().into_owned();
        told.push(seen(&decision));
        receipts.extend(decision.receipt());
        told.push(seen(&limiter.check(Ask::from(a).peek()).await.unwrap()));
    }
    for receipt in [&receipts[0], receipts.last().unwrap(), receipts.last().unwrap()] {
        told.push(format!("{:?}", limiter.refund(receipt).await.unwrap()));
    }
    clock.advance(Duration::from_millis(100));
    let costly = limiter.check(ask().cost(2)).await.unwrap().into_owned();
    told.push(seen(&costly));
    if let Some(receipt) = costly.receipt() {
        told.push(format!("{:?}", limiter.refund(receipt.part(1)).await.unwrap()));
    }
    told.push(seen(&limiter.check(ask().peek()).await.unwrap()));
    told.push(seen(&limiter.check(ask().cost(7)).await.unwrap()));
    told
}

/// Alone, a check over several slots answers what memory answers: in every field, with refunds.
#[test]
fn alone_it_answers_what_one_server_answers() {
    let Some(cluster) = cluster() else { return };
    runtime().block_on(async {
        for set in [
            "9/10s via gcra",
            "5/10s via token_bucket, 30/1m via fixed_window",
            "9/10s precision 1s via sliding_window",
            "9/10s refill interval via token_bucket",
            "9/10s via sliding_log",
            "1/3s via uniform",
            "4/day in Europe/Berlin, 9/month in Europe/Berlin",
        ] {
            let subjects = apart(cluster, &limits(set), "user");
            let (here, there) = [(); 2].map(|()| ManualClock::at_micros(BEFORE_MIDNIGHT)).into();
            let memory = MemoryStore::builder().clock(here.clone()).build();
            let run = format!("across-{}", set.len());
            let store = RedisStore::builder(options(cluster)).run(&run, there.clone());
            let store = store.connect().await.unwrap();
            let expected = story(memory, &subjects, set, &here).await;
            let told = story(store.clone(), &subjects, set, &there).await;
            for (n, (told, expected)) in told.iter().zip(&expected).enumerate() {
                assert_eq!(told, expected, "{set}, step {n}");
            }
            store.clear_run().await.unwrap();
        }
        for server in cluster.servers() {
            assert_eq!(server.without_ttl(), Vec::<Vec<u8>>::new());
        }
    });
}

/// A store's answers while holds are open, and where bans count denials.
async fn beside_holds<S: Store>(
    store: S,
    [a, b, _]: &[Subject; 3],
    clock: &ManualClock,
) -> Vec<String> {
    let limiter = Limiter::new(limits("1/s"), store);
    let mut told = Vec::new();
    // A denial of one subject says what remains of the other beside its open hold.
    let (five, one) = (limits("5/1h via fixed_window"), limits("1/1h via uniform"));
    for cost in [1, 2] {
        let terms = Reserve::from(Duration::from_secs(50));
        let held = limiter.hold(Ask::new(a).under(&five).cost(cost).reserve(terms)).await.unwrap();
        told.push(seen(&held.decision));
        clock.advance(Duration::from_secs(1));
        let both = Ask::from([(a.clone(), &five), (b.clone(), &one)]).cost(2);
        told.push(seen(&limiter.check(both).await.unwrap()));
    }
    // A denial counts for a ban, whichever subject denied before.
    let banned = limits(
        "n2: ban 10m after 3 denials in 1h, n1: 2/1s via sliding_log, n0: 1 at once hold 30s",
    );
    let slot = limits("n0: 1 at once hold 30s");
    let acquire = async |ask: Ask<'_>| {
        clock.advance(Duration::from_millis(10));
        seen(&limiter.hold(ask.acquire()).await.unwrap().decision)
    };
    let both = || Ask::from([(a.clone(), &banned), (b.clone(), &slot)]);
    told.push(acquire(Ask::new(b).under(&slot)).await);
    told.push(acquire(both()).await);
    for _ in 0..5 {
        told.push(acquire(both().cost(50)).await);
        told.push(seen(&limiter.check(Ask::new(a).under(&banned).peek()).await.unwrap()));
    }
    told
}

#[test]
fn beside_holds_it_answers_what_one_server_answers() {
    let Some(cluster) = cluster() else { return };
    let server = redis_or_skip!();
    runtime().block_on(async {
        let subjects = apart(cluster, &limits("n0: 1 at once hold 30s"), "held");
        let clocks = [(); 3].map(|()| ManualClock::at_micros(NOON));
        let [memory, alone, across] = &clocks;
        let in_memory = MemoryStore::builder().clock(memory.clone()).build();
        let expected = beside_holds(in_memory, &subjects, memory).await;
        let one = RedisStore::builder(Options::from_url(&server.url()).unwrap().deadline(LONG));
        let one = one.run("beside-holds", alone.clone()).connect().await.unwrap();
        let several = RedisStore::builder(options(cluster)).run("beside-holds", across.clone());
        let several = several.connect().await.unwrap();
        for (place, store, clock) in [("one", one, alone), ("cluster", several, across)] {
            let told = beside_holds(store.clone(), &subjects, clock).await;
            for (n, (told, expected)) in told.iter().zip(&expected).enumerate() {
                assert_eq!(told, expected, "{place}, step {n}");
            }
            store.clear_run().await.unwrap();
        }
        assert!(expected.last().unwrap().contains("n2: ban") && expected.len() == 16);
        println!("{}", expected.join("\n"));
    });
}

/// Concurrent callers: never more than the limits, and the charges of a denial are given back.
#[test]
fn many_at_once_never_get_more_and_a_denial_costs_nothing() {
    let Some(cluster) = cluster() else { return };
    runtime().block_on(async {
        let (shared, own) = (limits("300/30d via fixed_window"), limits("20/30d via gcra"));
        let [resource, ..] = apart(cluster, &shared, "resource");
        let store = RedisStore::builder(options(cluster)).run_now("many").connect().await.unwrap();
        let limiter = Limiter::new(shared.clone(), store.clone());
        // Thirty consumers with 20 each want 600 of the 300.
        let asks = (0..900).map(|n| {
            let consumer = Subject::new("consumer", (n % 30).to_string()).unwrap();
            limiter.check(Ask::from([(resource.clone(), &shared), (consumer, &own)]))
        });
        let decisions = join_all(asks).await;
        let mut admitted = BTreeMap::new();
        for (n, decision) in decisions.iter().enumerate() {
            let decision = decision.as_ref().unwrap();
            *admitted.entry(n % 30).or_insert(0) += u64::from(decision.is_allowed());
        }
        let sum: u64 = admitted.values().sum();
        println!("admitted at once: {sum} of 300");
        assert!(sum <= 300 && admitted.values().all(|it| *it <= 20), "{sum} {admitted:?}");
        // The remaining units are those that were not admitted, for the resource and for each
        // consumer.
        assert_eq!(
            limiter.check(Ask::from(&resource).peek()).await.unwrap().remaining(),
            300 - sum
        );
        for (consumer, admitted) in &admitted {
            let consumer = Subject::new("consumer", consumer.to_string()).unwrap();
            let left =
                limiter.check(Ask::new(&consumer).under(&own).peek()).await.unwrap().remaining();
            // Of `gcra` a give-back leaves what would have drained until then, which is less than
            // one unit here.
            let due = 20 - admitted;
            assert!(left <= due && left + 1 >= due, "{consumer}: {left} of {due}");
        }
        // One by one nobody is denied by units that another is about to give back.
        let mut more = 0;
        for n in 0..330 {
            let consumer = Subject::new("consumer", (n % 30).to_string()).unwrap();
            let ask = Ask::from([(resource.clone(), &shared), (consumer, &own)]);
            let decision = limiter.check(ask).await.unwrap();
            more += u64::from(decision.is_allowed());
        }
        assert_eq!(sum + more, 300);
        store.clear_run().await.unwrap();
    });
}

/// A caller that is denied without end beside a shared limit takes no part of it.
#[test]
fn a_caller_that_is_denied_withholds_nothing_from_the_others() {
    let Some(cluster) = cluster() else { return };
    runtime().block_on(async {
        let (shared, own) = (limits("200/1s via gcra"), limits("1/30d via gcra"));
        let [resource, ..] = apart(cluster, &shared, "shared");
        let [consumer, ..] = {
            let [_, b, c] = apart(cluster, &own, "denied");
            [b, c]
        };
        let store =
            RedisStore::builder(options(cluster)).run_now("denied").connect().await.unwrap();
        let limiter = Arc::new(Limiter::new(shared.clone(), store.clone()));
        let stop = Arc::new(AtomicBool::new(false));
        let denied = tokio::spawn({
            let (limiter, stop) = (Arc::clone(&limiter), Arc::clone(&stop));
            let (resource, shared, own) = (resource.clone(), shared.clone(), own.clone());
            async move {
                let mut seen = [0_u64, 0];
                while !stop.load(Ordering::Relaxed) {
                    let ask = Ask::from([(resource.clone(), &shared), (consumer.clone(), &own)]);
                    let decision = limiter.check(ask).await.unwrap();
                    seen[usize::from(decision.is_allowed())] += 1;
                }
                seen
            }
        });
        // The first check of that caller is over.
        pause(50).await;
        // Counted by the store's clock, so a busy machine changes nothing: a unit costs 5 ms of it.
        // The denied caller has one unit at a time, which it gives back.
        let (mut admitted, mut longest, mut first) = (0, Duration::ZERO, None);
        while admitted < 500 {
            let decision = limiter.check(&resource).await.unwrap();
            first.get_or_insert(decision.at().as_micros());
            match decision.verdict() {
                Verdict::Allow => admitted += 1,
                Verdict::NotYet(wait) => longest = longest.max(wait),
                Verdict::Never => panic!("{decision:?}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
        let [denials, allowed] = denied.await.unwrap();
        println!("{denials} denials beside; the longest wait was {longest:?}");
        assert!(denials > 100 && allowed <= 1, "{denials} {allowed}");
        assert!(
            longest <= Duration::from_millis(10),
            "one unit, and one that is lent: {longest:?}"
        );
        let left = limiter.check(Ask::from(&resource).peek()).await.unwrap();
        let passed = left.at().as_micros() - first.unwrap();
        let due = 200 + passed / 5_000;
        let got = admitted + allowed + left.remaining();
        assert!(got.abs_diff(due) <= 1, "{got} of {due}: {admitted} admitted, {allowed} beside");
        store.clear_run().await.unwrap();
    });
}

/// Requests that reached the nodes, and replies that came back.
fn on_the_wire(proxies: &[Proxy]) -> (u64, u64) {
    let seen = proxies.iter().map(Proxy::seen);
    seen.fold((0, 0), |(sent, back), it| (sent + it.requests, back + it.replies))
}

/// Counted on the wire: an admitted check has all its requests under way before the first reply; a
/// denied one sends one more, the give-back, when the replies are there. The next denial sends no
/// charge at all beside the one that denies.
#[test]
fn admitted_takes_one_round_trip_and_denied_takes_two() {
    let Some(cluster) = cluster() else { return };
    runtime().block_on(async {
        let (shared, own) = (limits("100/30d via gcra"), limits("1/30d via gcra"));
        let [resource, ..] = apart(cluster, &shared, "wire-resource");
        let [_, consumer, _] = apart(cluster, &own, "wire-consumer");
        let proxies: Vec<Proxy> =
            cluster.servers().iter().map(|it| Proxy::start(it.address())).collect();
        let mut options = options(cluster);
        for (server, proxy) in cluster.servers().iter().zip(&proxies) {
            let announced = ("127.0.0.1", server.port());
            options = options.reach(announced, ("127.0.0.1", proxy.address().port()));
        }
        let store = RedisStore::builder(options).run_now("wire").connect().await.unwrap();
        store.prepare(&[&shared, &own]).await.unwrap();
        let limiter = Arc::new(Limiter::new(shared.clone(), store.clone()));
        // The nodes get the scripts of checks, of give-backs and of looks by others there.
        let [other_resource, ..] = apart(cluster, &shared, "wire-other-resource");
        let [_, other_consumer, _] = apart(cluster, &own, "wire-other-consumer");
        for is_allowed in [true, false, false] {
            let pair = [(other_resource.clone(), &shared), (other_consumer.clone(), &own)];
            assert_eq!(limiter.check(Ask::from(pair)).await.unwrap().is_allowed(), is_allowed);
        }
        let check = || {
            let (limiter, shared, own) = (Arc::clone(&limiter), shared.clone(), own.clone());
            let (resource, consumer) = (resource.clone(), consumer.clone());
            tokio::spawn(async move {
                let ask = Ask::from([(resource, &shared), (consumer, &own)]);
                let decision = limiter.check(ask).await.unwrap();
                (decision.is_allowed(), decision.is_isolated())
            })
        };
        let wait_for = async |at_least: (u64, u64)| {
            let begin = Instant::now();
            loop {
                let now = on_the_wire(&proxies);
                if now.0 >= at_least.0 && now.1 >= at_least.1 {
                    return now;
                }
                assert!(begin.elapsed() < LONG, "{now:?}, not {at_least:?}");
                pause(1).await;
            }
        };
        // Long enough that a machine that is busy sees the requests before the first reply.
        let late = Duration::from_secs(1);
        proxies.iter().for_each(|it| it.set(Mode::Delay { least: late, most: late }));

        let (sent, back) = on_the_wire(&proxies);
        let admitted = check();
        assert_eq!(wait_for((sent + 2, back)).await, (sent + 2, back));
        assert_eq!(admitted.await.unwrap(), (true, false));
        // A proxy counts a reply after it has passed it on.
        assert_eq!(wait_for((sent + 2, back + 2)).await, (sent + 2, back + 2));

        let (sent, back) = (sent + 2, back + 2);
        let denied = check();
        assert_eq!(wait_for((sent + 2, back)).await, (sent + 2, back));
        assert_eq!(wait_for((sent + 3, back + 2)).await, (sent + 3, back + 2));
        assert_eq!(denied.await.unwrap(), (false, false));

        // The one that denied is asked first. It denies: the other is only looked at.
        let (sent, back) = wait_for((sent + 3, back + 3)).await;
        let again = check();
        assert_eq!(again.await.unwrap(), (false, false));
        let (after, _) = on_the_wire(&proxies);
        assert_eq!(after - sent, 2, "{sent} {back} {after}");
        proxies.iter().for_each(Proxy::heal);
        assert_eq!(limiter.check(Ask::from(&resource).peek()).await.unwrap().remaining(), 99);
        store.clear_run().await.unwrap();
    });
}

/// A part whose node is away fails the check, and the other part is given back.
#[test]
fn a_part_that_fails_costs_the_others_nothing() {
    let made = ClusterOptions::new().replicas(0).full_coverage(false);
    let mut cluster = cluster_or_skip!(made);
    runtime().block_on(async {
        let set = limits("5/30d via gcra");
        let [a, b, _] = apart(&cluster, &set, "user");
        let options = options(&cluster).deadline(Duration::from_millis(300));
        let limiter =
            Limiter::new(set.clone(), RedisStore::builder(options).connect().await.unwrap());
        let ask = || Ask::from([(a.clone(), &set), (b.clone(), &set)]);
        let first = limiter.check(ask()).await.unwrap();
        assert_eq!((first.remaining(), first.is_isolated()), (4, false));
        let node = cluster.owner_of(Keys::new().state(&b, &set).as_bytes()).unwrap();
        cluster.kill(node);
        for _ in 0..3 {
            let error = limiter.check(ask()).await.unwrap_err();
            assert!(matches!(error, Error::Store(_)), "{error}");
        }
        assert_eq!(limiter.check(Ask::from(&a).peek()).await.unwrap().remaining(), 4);
        let keys = cluster.servers().iter().filter(|it| it.is_awake());
        let keys: Vec<Vec<u8>> = keys.flat_map(RedisServer::keys).collect();
        assert_eq!(keys.len(), 1, "a give-back leaves no key: {keys:?}");
    });
}

/// Request ids are remembered in one slot, so that none can be half remembered.
#[test]
fn a_request_id_needs_one_slot() {
    let Some(cluster) = cluster() else { return };
    runtime().block_on(async {
        let set = limits("5/30d via gcra");
        let [a, b, _] = apart(cluster, &set, "once");
        let store = RedisStore::builder(options(cluster)).run_now("once").connect().await.unwrap();
        let limiter = Limiter::new(set.clone(), store.clone());
        let ask = || Ask::from([(a.clone(), &set), (b.clone(), &set)]);
        let error = limiter.check(ask().request("id")).await.unwrap_err();
        assert!(
            error.to_string().contains("keep the subjects in one slot with a `shard`"),
            "{error}"
        );
        for _ in 0..2 {
            let decision = limiter.check(ask().shard("x").request("id")).await.unwrap();
            assert_eq!((decision.remaining(), decision.is_isolated()), (4, true));
        }
        store.clear_run().await.unwrap();
    });
}
