//! A store whose user lacks a right, or whose keys hold something else: it does nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_executor::block_on;
use tollgate::operation::{Post, Withdraw};
use tollgate::{Ask, LimitSet, Limiter, Notice, Store as _, Subject};
use tollgate_redis::doctor::{Connection, acl_line, gather};
use tollgate_redis::{Options, RedisStore};
use tollgate_testbed::{RedisServer, Reply, redis_or_skip};

use crate::common::runtime;

/// Sets of limits that scripts of every form count: a state, a log, several of both, and slots.
const SETS: [&str; 4] = [
    "1000/h via gcra",
    "1000/h via sliding_log",
    "a: 1000/h via gcra, b: 1000/h via sliding_log, c: 1000/h via sliding_window",
    "1000/h via fixed_window, 20 at once hold 2m",
];

const OPERATIONS: [&str; 17] = [
    "check",
    "check once",
    "check both",
    "reserve",
    "acquire",
    "commit",
    "renew",
    "charge",
    "adjust",
    "refund",
    "hold named",
    "repeat named",
    "release unknown",
    "renew named",
    "release named",
    "reset",
    "notices",
];

/// The commands that no script needs.
const OF_LOGINS: [&str; 8] =
    ["eval", "ping", "hello", "client|setinfo", "client|setname", "select", "auth", "info"];

/// All that lies on a server, without how long.
fn all(server: &RedisServer) -> BTreeMap<Vec<u8>, Reply> {
    let dump = |key: &Vec<u8>| server.command(&[b"DUMP", key]);
    server.keys().iter().map(|key| (key.clone(), dump(key))).collect()
}

fn type_in(server: &RedisServer, line: &str) {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    assert_eq!(server.command(&words), Reply::Status("OK".into()), "{line}");
}

fn user(server: &RedisServer) -> String {
    let made = block_on(gather(&mut Connection::open(&server.url()).unwrap()));
    acl_line(&made.unwrap())
}

async fn connect(server: &RedisServer, set: &str) -> Limiter<RedisStore> {
    let options = Options::from_url(&server.url()).unwrap().deadline(Duration::from_secs(30));
    let options = options.user("tollgate").password("PASSWORD");
    let limits: LimitSet = set.parse().unwrap();
    Limiter::new(limits, RedisStore::builder(options).connect().await.unwrap())
}

/// The name of a hold of `bob` that is open.
const OPEN: &str = "the-name-of-an-open-hold";

/// Holds something of `bob` under this name.
async fn named(
    limiter: &Limiter<RedisStore>,
    name: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let ask = Ask::new("bob").cost(1).named(name.parse()?);
    assert!(limiter.hold(ask.reserve(Duration::from_secs(60))).await?.hold.is_some());
    Ok(())
}

/// Does one thing with what `made` has, which another did before.
async fn operate(
    limiter: &Limiter<RedisStore>,
    what: &str,
    made: &Made,
) -> Result<(), Box<dyn std::error::Error>> {
    let (bob, eve) = (Subject::literal("bob")?, Subject::literal("eve")?);
    let is_slots = limiter.limits().needs_hold();
    match what {
        "check both" if !is_slots => {
            drop(limiter.check(Ask::new(&bob).and(&eve).cost(7)).await?);
        }
        "check once" if !is_slots => {
            drop(limiter.check(Ask::new(&eve).cost(7).request("an id of eve")).await?);
        }
        "check" if !is_slots => drop(limiter.check(Ask::new(&eve).cost(7)).await?),
        "reserve" => {
            let ask = Ask::new(&bob).cost(400);
            assert!(limiter.hold(ask.reserve(Duration::from_secs(60))).await?.hold.is_some());
        }
        "acquire" if is_slots => drop(limiter.hold(Ask::from(&bob).acquire()).await?),
        "commit" => drop(limiter.commit(&made.hold, 3).await?),
        "renew" => {
            let ttl = Some(Duration::from_secs(90));
            limiter.renew(&mut made.hold.clone(), ttl).await?;
        }
        "charge" if !is_slots => drop(limiter.charge(&bob).await?),
        "adjust" => drop(limiter.admin().adjust(&bob, -5).await?),
        "refund" => drop(limiter.refund(&made.receipt).await?),
        "hold named" => named(limiter, "the-name-of-another-hold").await?,
        "repeat named" => named(limiter, OPEN).await?,
        "release unknown" => {
            let ask = Ask::new(&bob).named("a-name-that-is-not-held".parse()?);
            limiter.release(&ask.named_hold(limiter.limits())?).await?;
        }
        "renew named" => {
            let ask = Ask::new(&bob).named(OPEN.parse()?);
            let ttl = Some(Duration::from_secs(90));
            limiter.renew(&mut ask.named_hold(limiter.limits())?, ttl).await?;
        }
        "release named" => {
            let ask = Ask::new(&bob).named(OPEN.parse()?);
            limiter.release(&ask.named_hold(limiter.limits())?).await?;
        }
        "reset" => drop(limiter.admin().reset(&bob).await?),
        "notices" => {
            let notice = Notice::new("x", "y", Duration::from_secs(60))?;
            limiter.store().perform(&Post::new(&notice)).await?;
            limiter.store().perform(&Withdraw::new("n")).await?;
        }
        _ => {}
    }
    Ok(())
}

/// The objects of operations.
struct Made {
    hold: tollgate::Hold,
    receipt: tollgate::Receipt,
}

async fn prepare(limiter: &Limiter<RedisStore>) -> Made {
    let (bob, ann) = (Subject::literal("bob").unwrap(), Subject::literal("ann").unwrap());
    let reserve = Ask::new(&bob).and(&ann).cost(10);
    let holding = limiter.hold(reserve.reserve(Duration::from_secs(60))).await.unwrap();
    named(limiter, OPEN).await.unwrap();
    let rates: LimitSet = "1000/h via gcra, 500/h via sliding_log".parse().unwrap();
    let ask = Ask::new(&ann).under(&rates).cost(9);
    let decision = limiter.check(ask).await.unwrap();
    let receipt = decision.receipt().unwrap();
    let notice = Notice::new("n", "y", Duration::from_secs(60)).unwrap();
    limiter.store().perform(&Post::new(&notice)).await.unwrap();
    Made { hold: holding.hold.unwrap(), receipt }
}

/// Each right is taken away in turn: an operation that needs it fails, names it, and changes
/// nothing; one that does not need it succeeds.
#[test]
fn a_missing_right_is_named_and_changes_nothing() {
    let server = redis_or_skip!();
    let line = user(&server);
    type_in(&server, &line);
    let mut rights: Vec<&str> = line.split(' ').filter_map(|word| word.strip_prefix('+')).collect();
    rights.retain(|right| !OF_LOGINS.contains(right));
    assert!(rights.contains(&"zadd"), "{line}");
    runtime().block_on(async {
        let mut refused = 0;
        for set in SETS {
            let limiter = connect(&server, set).await;
            server.command(&[b"FLUSHALL"]);
            let made = prepare(&limiter).await;
            // Every script is loaded before a right is missing.
            for what in OPERATIONS {
                operate(&limiter, what, &made).await.unwrap_or_else(|e| panic!("{what}: {e}"));
            }
            for right in &rights {
                server.command(&[b"FLUSHALL"]);
                let made = prepare(&limiter).await;
                for what in OPERATIONS {
                    let before = all(&server);
                    type_in(&server, &format!("ACL SETUSER tollgate -{right}"));
                    let done = operate(&limiter, what, &made).await;
                    type_in(&server, &format!("ACL SETUSER tollgate +{right}"));
                    let Err(error) = done else { continue };
                    refused += 1;
                    assert_eq!(all(&server), before, "{set}: {what} without {right}: {error}");
                    let is_call = ["evalsha", "script|load"].contains(right);
                    assert!(is_call || error.to_string().contains(right), "{what}: {error}");
                }
            }
        }
        assert!(refused > 300, "{refused}");
    });
}

/// Something else at any key of a count or its holds: an operation that meets it fails, and changes
/// nothing.
#[test]
fn a_key_of_another_kind_is_named_and_changes_nothing() {
    let server = redis_or_skip!();
    type_in(&server, &user(&server));
    runtime().block_on(async {
        let mut refused = 0;
        for set in SETS {
            let limiter = connect(&server, set).await;
            prepare(&limiter).await;
            let mut keys = server.keys();
            let states: Vec<Vec<u8>> =
                keys.iter().filter(|key| !key.contains(&b'@')).cloned().collect();
            for state in &states {
                keys.extend(
                    ["@", "@sums", "@marks", "!reset"].map(|end| [state, end.as_bytes()].concat()),
                );
            }
            for key in keys {
                server.command(&[b"FLUSHALL"]);
                let made = prepare(&limiter).await;
                server.command(&[b"DEL", &key]);
                server.command(&[b"HSET", &key, b"of", b"others"]);
                for what in OPERATIONS {
                    let before = all(&server);
                    let Err(error) = operate(&limiter, what, &made).await else { continue };
                    refused += 1;
                    let key = String::from_utf8_lossy(&key);
                    assert_eq!(all(&server), before, "{set}: {what} at {key}: {error}");
                }
            }
        }
        assert!(refused > 100, "{refused}");
    });
}

/// A server that has no memory left, or one of the commands renamed away.
#[test]
fn a_server_that_refuses_a_write_keeps_what_it_has() {
    let server = redis_or_skip!("--rename-command", "ZADD", "");
    runtime().block_on(async {
        let options = Options::from_url(&server.url()).unwrap();
        let store = RedisStore::builder(options.deadline(Duration::from_secs(30)));
        let store = store.connect().await.unwrap();
        let limiter = Limiter::new(SETS[0].parse().unwrap(), store);
        let ask = || Ask::new("bob").cost(400);
        for _ in 0..4 {
            let error = limiter.hold(ask().reserve(Duration::from_secs(60))).await.unwrap_err();
            assert!(error.to_string().contains("the right to zadd;"), "{error}");
        }
        assert!(all(&server).is_empty(), "four failed reserves hold nothing");
        drop(limiter.check(ask()).await.unwrap());
        let before = all(&server);
        server.command(&[b"CONFIG", b"SET", b"maxmemory", b"1"]);
        let error = limiter.check(ask()).await.unwrap_err().to_string();
        assert!(error.contains("out of memory"), "{error}");
        assert_eq!(all(&server), before);
    });
}
