//! Holds while the keys of a slot lie on two nodes of a cluster: none is forgotten, and calls wait
//! only where keys of their count have not moved.

use std::time::Duration;

use tollgate::{Ask, Error, HoldName, LimitSet, Limiter, Subject};
use tollgate_redis::{Keys, Options, RedisStore};
use tollgate_testbed::{ClusterOptions, RedisCluster, SlotMove, cluster_or_skip, key_slot};

use crate::common::runtime;

/// So long a call waits for keys that stay where they are.
const SOON: Duration = Duration::from_millis(250);

/// A count of a slot that is to move.
struct World<'c> {
    cluster: &'c RedisCluster,
    limiter: Limiter<RedisStore>,
    subject: Subject,
    way: SlotMove,
}

impl<'c> World<'c> {
    async fn new(cluster: &'c RedisCluster, limits: &str, subject: &str) -> Self {
        let limits: LimitSet = limits.parse().unwrap();
        let options = Options::from_url(&cluster.url()).unwrap().deadline(SOON);
        let store = RedisStore::builder(options).connect().await.unwrap();
        let subject = Subject::literal(subject).unwrap();
        let slot = key_slot(Keys::new().state(&subject, &limits).as_bytes());
        let from = cluster.owner_of_slot(slot).unwrap();
        let way = SlotMove { slot, from, to: (from + 1) % 3 };
        Self { cluster, limiter: Limiter::new(limits, store), subject, way }
    }

    /// Its keys that have not moved.
    fn left(&self) -> Vec<Vec<u8>> {
        let mut keys = self.cluster.servers()[self.way.from].keys();
        keys.retain(|key| String::from_utf8_lossy(key).contains(self.subject.as_str()));
        keys
    }

    fn move_key(&self, key: &[u8]) {
        let moved = self.cluster.move_key(self.way, key);
        assert!(moved, "nobody has written it on the other node");
    }
}

/// The error of a call that met keys on two nodes until its deadline.
fn assert_is_moving(error: &Error) {
    let error = error.to_string();
    // The last of its calls may have met the deadline on its way.
    let is_late = error.starts_with("no answer from Redis within");
    assert!(is_late || error.contains("is being moved between"), "{error}");
}

fn name(number: u64) -> HoldName {
    format!("request-{number:016}").parse().unwrap()
}

/// While the keys of a count with open holds lie on two nodes, no order of the moves lets anybody
/// have what is held: a call waits for the others, and fails at its deadline where they stay.
#[test]
fn holds_of_a_slot_that_is_half_moved_are_not_forgotten() {
    let cluster = cluster_or_skip!(ClusterOptions::new().replicas(0));
    runtime().block_on(async {
        let one = "9 at once hold 2m";
        let two = "9 at once hold 2m, 99/1h via fixed_window";
        let log = "9 at once hold 2m, log: 99/1h via sliding_log";
        let cases = [
            (one, false, 0),
            (one, false, 2),
            (one, true, 0),
            (one, true, 2),
            (two, false, 0),
            (log, false, 0),
            (log, false, 2),
        ];
        for (number, (set, is_named, first_key)) in cases.into_iter().enumerate() {
            let world = World::new(&cluster, set, &format!("half:{number}")).await;
            let limiter = &world.limiter;
            let acquire = async |number: u64| {
                let ask = Ask::new(&world.subject);
                limiter.hold((if is_named { ask.named(name(number)) } else { ask }).acquire()).await
            };
            let mut open = vec![acquire(0).await.unwrap().hold.unwrap()];
            let (mut asked, mut failed) = (0, 0);
            cluster.begin_migration(world.way);
            loop {
                asked += 1;
                // The first is asked for again, too: a name that is open is answered with its hold.
                match acquire(if is_named { asked / 2 } else { asked }).await {
                    Ok(held) => {
                        let hold = held.hold.expect("some are free");
                        if hold.answer <= 1 {
                            open.push(hold);
                        }
                        for (report, most) in held.decision.reports().zip([9, 99]) {
                            let left = most - open.len() as u64;
                            assert_eq!(report.remaining(), left, "{set} {first_key} {asked}");
                        }
                    }
                    Err(error) => {
                        failed += 1;
                        assert_is_moving(&error);
                    }
                }
                let keys = world.left();
                let Some(key) = keys.get(first_key.min(keys.len().wrapping_sub(1))) else { break };
                world.move_key(key);
            }
            println!("{set}, named {is_named}, key {first_key}: {failed} of {asked} failed");
            assert!(failed > 0 && failed < asked, "the keys were never on two nodes");
            cluster.finish_migration(world.way);
            let left =
                async || limiter.check(Ask::from(&world.subject).peek()).await.unwrap().remaining();
            assert_eq!(left().await, 9 - open.len() as u64);
            for hold in open {
                assert!(limiter.release(&hold).await.unwrap());
            }
            assert_eq!(left().await, 9);
        }
    });
}

/// A move that is left open in the middle stops the holds of no count whose keys have all moved, or
/// which has none yet: whatever the limits are, no call names a key that need not be there.
#[test]
fn holds_of_counts_that_lie_on_one_node_go_on_while_their_slot_is_half_moved() {
    let cluster = cluster_or_skip!(ClusterOptions::new().replicas(0));
    runtime().block_on(async {
        let mut all_failed = 0;
        for (number, set) in [
            "100/1h via gcra",
            "100/1h via gcra, 100/1d via fixed_window",
            "9 at once hold 2m, 100/1h via gcra, ban 1m after 10 denials in 1m",
            "100/1h via sliding_log",
            "100/1h via gcra, 100/1d via sliding_log",
            "100/1h via sliding_log, 100/1d via sliding_log",
            "9 at once hold 2m, log: 100/1h via sliding_log",
        ]
        .into_iter()
        .enumerate()
        {
            for is_there in [false, true] {
                let world = World::new(&cluster, set, &format!("whole:{number}{is_there}")).await;
                let (limiter, subject) = (&world.limiter, &world.subject);
                let ttl = Duration::from_secs(60);
                let before = match is_there {
                    true => limiter.hold(Ask::new(subject).reserve(ttl)).await.unwrap().hold,
                    false => None,
                };
                cluster.begin_migration(world.way);
                world.left().iter().for_each(|key| world.move_key(key));
                let (mut asked, mut failed) = (0, 0);
                let mut note = |error: Option<Error>| {
                    asked += 1;
                    failed += u32::from(error.is_some());
                    error.iter().for_each(assert_is_moving);
                };
                for _ in 0..2 {
                    let placed = limiter.hold(Ask::new(subject).reserve(ttl)).await;
                    let hold = placed.as_ref().ok().and_then(|it| it.hold.clone());
                    note(placed.err());
                    let Some(mut hold) = hold.or_else(|| before.clone()) else { continue };
                    note(limiter.renew(&mut hold, Some(ttl)).await.err());
                    note(limiter.commit(&hold, 1).await.err());
                    note(limiter.charge(subject).await.err());
                    note(limiter.admin().adjust(subject, 1).await.err());
                }
                println!("{set}, there before {is_there}: {failed} of {asked} failed");
                if failed == 0 {
                    let left = limiter.check(Ask::new(subject).peek()).await.unwrap();
                    let rate = left.reports().find(|it| it.limit().capacity() == 100).unwrap();
                    assert_eq!(rate.remaining(), 98 - u64::from(is_there), "two commits");
                }
                all_failed += failed;
                cluster.finish_migration(world.way);
            }
        }
        assert_eq!(all_failed, 0);
    });
}

/// A name that was released before its hold came is not forgotten while its mark lies on the old
/// node alone.
#[test]
fn an_early_release_of_a_slot_that_is_half_moved_is_not_forgotten() {
    let cluster = cluster_or_skip!(ClusterOptions::new().replicas(0));
    runtime().block_on(async {
        let world = World::new(&cluster, "9 at once hold 2m", "half:early").await;
        let ask = || Ask::new(&world.subject).named(name(1));
        let hold = ask().named_hold(world.limiter.limits()).unwrap();
        assert!(!world.limiter.release(&hold).await.unwrap());
        cluster.begin_migration(world.way);
        assert_is_moving(&world.limiter.hold(ask().acquire()).await.unwrap_err());
        world.left().iter().for_each(|key| world.move_key(key));
        let over = world.limiter.hold(ask().acquire()).await.unwrap_err().to_string();
        assert!(over.contains("was released or committed before"), "{over}");
        cluster.finish_migration(world.way);
    });
}
