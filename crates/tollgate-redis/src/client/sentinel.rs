//! The primary that sentinels name.

mod reply;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use redis::Value;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use self::reply::{announced, endpoint, is_unknown_name, named};
use super::elsewhere::{is_unsent, may_be_elsewhere};
use super::single_flight::SingleFlight;
use super::topology::Topology;
use crate::fault::{ChargeState, Fault};
use crate::node::{Call, Connector, Deadline, Node, refused};
use crate::options::{Address, Endpoint, Options, Sentinels, list};

/// How long a sentinel may take to answer while the store runs.
const SENTINEL_TIMEOUT: Duration = Duration::from_millis(500);

/// The pause before a subscription that was lost is made again.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// The most sentinels that are remembered beside those that the options name.
const MAX_LEARNED: usize = 16;

/// Where the sentinel that leads a failover publishes which replica it has told to be a primary. It
/// looks whether that is one after up to a second, and until then names the old primary.
const PROMOTING: &str = "+failover-state-wait-promotion";

/// Where sentinels publish that there is another primary: the one that leads the failover once it
/// has looked, and all of them when it is over. That may be seconds later, and until then the old
/// primary may go on as if nothing were.
const CHANNELS: [&str; 3] = [PROMOTING, "+promoted-slave", "+switch-master"];

/// How long the old primary is not gone back to, though sentinels still name it. If the failover
/// came to nothing, calls fail until then.
const PROMOTION: Duration = Duration::from_secs(3);

/// The primary of a set of servers, as the sentinels name it.
pub(super) struct Primary {
    shared: Arc<Shared>,
    /// The subscriptions to the sentinels.
    followers: Vec<JoinHandle<()>>,
}

struct Shared {
    /// For connections to the primaries.
    connector: Connector,
    sentinels: Sentinels,
    /// For connections to the sentinels.
    asked: Vec<Arc<Connector>>,
    /// The same for sentinels that the options do not name: those that others know.
    learned: Mutex<Vec<Arc<Connector>>>,
    current: RwLock<Current>,
    refreshes: Arc<SingleFlight>,
}

struct Current {
    endpoint: Endpoint,
    node: Node,
    longest_wait: Duration,
    /// The primary that was left before the sentinels named another, and until when it stays so.
    left: Option<(Endpoint, Instant)>,
}

/// A sentinel's answer about the primary.
struct Named {
    endpoint: Endpoint,
    /// Higher for a later failover.
    epoch: u64,
    /// The sentinel that answered.
    by: Arc<Connector>,
    /// The other sentinels that it knows, as they are announced.
    others: Vec<Endpoint>,
}

impl Drop for Primary {
    fn drop(&mut self) {
        self.followers.iter().for_each(JoinHandle::abort);
    }
}

impl Primary {
    /// Asks all sentinels, and connects to the primary that the latest of their answers names.
    pub(super) async fn connect(options: Options, sentinels: Sentinels) -> Result<Self, Fault> {
        let asked = connectors(&options, &sentinels)?;
        let within = options.connect_timeout;
        let named = ask_all(&asked, &sentinels, within).await?;
        let learned = Mutex::new(learn(&asked, &named, Vec::new()));
        let endpoint = options.reachable(named.endpoint);
        let address = tcp(&endpoint, sentinels.server_tls);
        let connector = Connector::to(address, options)?.primaries_only();
        let node = Node::new(connector.at(&endpoint, 0));
        node.fill().await.map_err(|fault| sentinels.failed(&endpoint, fault))?;
        let current = Current { endpoint, node, longest_wait: Duration::ZERO, left: None };
        let shared = Arc::new(Shared {
            connector,
            sentinels,
            asked,
            learned,
            current: RwLock::new(current),
            refreshes: Arc::new(SingleFlight::new()),
        });
        let follow = |sentinel: &Arc<Connector>| {
            tokio::spawn(follow(Arc::downgrade(&shared), Arc::clone(sentinel)))
        };
        let followers = shared.asked.iter().map(follow).collect();
        Ok(Self { shared, followers })
    }

    /// The present primary.
    pub(super) fn node(&self) -> Node {
        self.shared.node()
    }

    /// Asks the sentinels that the options name. Where none answers, the primary is the last known.
    pub(super) async fn topology(&self) -> Topology {
        let shared = &self.shared;
        let name = &shared.sentinels.name;
        let asking = shared.asked.iter().map(|sentinel| ask(sentinel, name, SENTINEL_TIMEOUT));
        let named: Vec<Named> = join_all(asking).await.into_iter().flatten().collect();
        let (answered, all) = (named.len(), shared.asked.len());
        let latest = named.into_iter().max_by_key(|named| named.epoch);
        let known = shared.endpoint();
        let (primary, epoch) = match latest {
            Some(latest) => (shared.connector.options.reachable(latest.endpoint), latest.epoch),
            None => (known.clone(), 0),
        };
        if primary != known {
            shared.refresh();
        }
        Topology {
            primaries: vec![primary.to_string()],
            epoch,
            slots_down: 0,
            sentinels: Some((answered, all)),
            owners: Box::default(),
        }
    }

    pub(super) fn will_wait(&self, longest: Duration) {
        let mut current = self.shared.current.write().unwrap_or_else(PoisonError::into_inner);
        current.longest_wait = current.longest_wait.max(longest);
        current.node.will_wait(longest);
    }

    /// Calls a script on the present primary.
    pub(super) async fn call(
        &self,
        call: &mut Call<'_>,
        by: Deadline,
    ) -> Result<Vec<Value>, Fault> {
        let shared = &self.shared;
        let mut node = shared.node();
        loop {
            let fault = match node.call(call, by).await {
                Ok(answer) => return Ok(answer),
                Err(not) => Fault::from(not),
            };
            if !is_unsent(&fault) {
                if may_be_elsewhere(&fault) {
                    shared.refresh();
                }
                return Err(fault);
            }
            // The pause of a breaker is for callers not to wait, not for the sentinels either.
            if matches!(fault, Fault::Breaker { .. }) {
                shared.refresh();
            } else {
                shared.refreshes.wait(by, || shared.refresh()).await;
            }
            let next = shared.node();
            if next.is(&node) {
                return Err(fault);
            }
            node = next;
        }
    }
}

impl Shared {
    fn node(&self) -> Node {
        self.current.read().unwrap_or_else(PoisonError::into_inner).node.clone()
    }

    fn endpoint(&self) -> Endpoint {
        self.current.read().unwrap_or_else(PoisonError::into_inner).endpoint.clone()
    }

    fn learned(&self) -> MutexGuard<'_, Vec<Arc<Connector>>> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the sentinels in the background. While all are away, the known primary stays.
    fn refresh(self: &Arc<Self>) {
        self.refreshes.start(|| {
            let shared = Arc::downgrade(self);
            async move {
                let Some(shared) = shared.upgrade() else { return };
                if let Ok(named) = shared.ask().await {
                    let mut learned = shared.learned();
                    *learned = learn(&shared.asked, &named, std::mem::take(&mut *learned));
                    drop(learned);
                    shared.adopt(named.endpoint);
                }
            }
        });
    }

    /// Asks the sentinels that the options name, and the others only when none of these answers: an
    /// address that they announce may be one that cannot be reached from here.
    async fn ask(&self) -> Result<Named, Fault> {
        let named = ask_all(&self.asked, &self.sentinels, SENTINEL_TIMEOUT).await;
        let learned = self.learned().clone();
        if named.is_ok() || learned.is_empty() {
            return named;
        }
        ask_all(&learned, &self.sentinels, SENTINEL_TIMEOUT).await
    }

    /// Makes this the primary. Calls that wait for the one before keep waiting, until their
    /// deadlines; no other is sent there.
    fn adopt(&self, announced: Endpoint) {
        let endpoint = self.connector.options.reachable(announced);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.endpoint == endpoint {
            // A primary that was left stays so: the next answer may be of a sentinel that is
            // behind.
            return;
        }
        let is_left =
            |(left, until): &(Endpoint, Instant)| *left == endpoint && Instant::now() < *until;
        if !current.left.as_ref().is_some_and(is_left) {
            let node = Node::new(self.connector.at(&endpoint, 0));
            current.turn_to(endpoint, node);
        }
    }

    /// Makes a replica the primary as soon as it says that it is one.
    async fn adopt_promoted(&self, announced: Endpoint) {
        let endpoint = self.connector.options.reachable(announced);
        let node = Node::new(self.connector.at(&endpoint, 0));
        if !node.fill_by(Instant::now() + PROMOTION).await {
            return;
        }
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.endpoint != endpoint {
            current.left = Some((current.endpoint.clone(), Instant::now() + PROMOTION));
            current.turn_to(endpoint, node);
        }
    }
}

impl Current {
    fn turn_to(&mut self, endpoint: Endpoint, node: Node) {
        node.will_wait(self.longest_wait);
        (self.endpoint, self.node) = (endpoint, node);
    }
}

/// The replica that a message of [`PROMOTING`] is about, if its primary has this name:
/// `slave NAME HOST PORT @ PRIMARY HOST PORT`.
fn promoting(message: &str, name: &str) -> Option<Endpoint> {
    let words: Vec<&str> = message.split(' ').collect();
    match words[..] {
        ["slave", _, host, port, "@", primary, ..] if primary == name => {
            endpoint(host.to_owned(), port)
        }
        _ => None,
    }
}

fn tcp(endpoint: &Endpoint, tls: bool) -> Address {
    let Endpoint { host, port } = endpoint.clone();
    Address::Tcp { host, port, tls }
}

/// Makes connections to the sentinels, with their own login.
fn connectors(options: &Options, sentinels: &Sentinels) -> Result<Vec<Arc<Connector>>, Fault> {
    let login = Options {
        user: sentinels.user.clone(),
        password: sentinels.password.clone(),
        database: 0,
        ..options.clone()
    };
    let to = |sentinel| Connector::to(tcp(sentinel, sentinels.tls), login.clone()).map(Arc::new);
    sentinels.addresses.iter().map(to).collect()
}

/// The sentinels that one knows, itself, and those that were known before: except those of
/// `asked`, and 16 at most.
fn learn(
    asked: &[Arc<Connector>],
    Named { by, others, .. }: &Named,
    before: Vec<Arc<Connector>>,
) -> Vec<Arc<Connector>> {
    let others = others.iter().map(|other| by.options.reachable(other.clone()));
    let others = others.map(|other| Arc::new(by.at(&other, 0)));
    let mut learned: Vec<Arc<Connector>> = Vec::new();
    // The latest first, so that it is old ones that are forgotten.
    for other in others.chain(std::iter::once(Arc::clone(by))).chain(before) {
        let is_other = |known: &Arc<Connector>| known.address != other.address;
        if asked.iter().chain(&learned).all(is_other) {
            learned.push(other);
        }
    }
    learned.truncate(MAX_LEARNED);
    learned
}

/// Where the primary is now.
pub(super) async fn primary_now(
    options: &Options,
    sentinels: &Sentinels,
) -> Result<Address, Fault> {
    let asked = connectors(options, sentinels)?;
    let named = ask_all(&asked, sentinels, options.connect_timeout).await?;
    Ok(tcp(&options.reachable(named.endpoint), sentinels.server_tls))
}

impl Sentinels {
    fn gives_none(&self, why: impl Into<String>) -> Fault {
        let (name, sentinels) = (self.name.clone(), list(&self.addresses));
        Fault::NoPrimary { name, sentinels, why: why.into(), is_final: false }
    }

    /// The fault of a primary that cannot be used, with the sentinels that named it.
    fn failed(&self, endpoint: &Endpoint, fault: Fault) -> Fault {
        match fault {
            Fault::Unreachable { why, .. } => self.gives_none(format!(
                "they name {endpoint}, where nobody can be reached ({why}); `?reach={endpoint}>\
                 HOST:PORT` says where else it is"
            )),
            Fault::NotPrimary => {
                self.gives_none(format!("they name {endpoint}, which is a replica: try again soon"))
            }
            other => other,
        }
    }
}

/// Asks all sentinels concurrently; of their answers, that of the latest failover counts.
async fn ask_all(
    asked: &[Arc<Connector>],
    sentinels: &Sentinels,
    within: Duration,
) -> Result<Named, Fault> {
    let answers = join_all(asked.iter().map(|sentinel| ask(sentinel, &sentinels.name, within)));
    let mut latest: Option<Named> = None;
    let mut why: Vec<String> = Vec::new();
    let mut are_final = true;
    for answer in answers.await {
        are_final &= answer.as_ref().is_err_and(never_passes);
        match answer {
            Ok(named) if latest.as_ref().is_none_or(|known| known.epoch < named.epoch) => {
                latest = Some(named);
            }
            Ok(_) => {}
            Err(Fault::Unreachable { address, why: reason }) => {
                why.push(format!("{address} cannot be reached ({reason})"));
            }
            Err(Fault::NoPrimary { why: reason, .. }) => why.push(reason),
            // A URL's options for the servers do not apply to the sentinels.
            Err(Fault::PlainToTlsPort { address }) => {
                why.push(format!("{address} wants TLS on this port: add `?sentinel_tls=yes`"));
            }
            Err(Fault::TlsToPlainPort { address }) => why.push(format!(
                "{address} does not speak TLS on this port: leave out `sentinel_tls=yes`, or \
                 name the port after `tls-port` in its configuration"
            )),
            Err(fault) if why.is_empty() => why.push(fault.to_string()),
            Err(_) => {}
        }
    }
    latest.ok_or_else(|| {
        why.dedup();
        let (name, names) = (sentinels.name.clone(), list(&sentinels.addresses));
        Fault::NoPrimary { name, sentinels: names, why: why.join("; "), is_final: are_final }
    })
}

/// Whether this answer of a sentinel stays as it is: a wrong password, or no sentinel.
fn never_passes(fault: &Fault) -> bool {
    matches!(fault, Fault::Garbled { .. }) || !fault.is_transient()
}

/// Asks one sentinel in one write: first for the epoch of its primary, then for the address.
///
/// The fields of `SENTINEL MASTER` have an address too. That is the old one until the last replica
/// follows the new primary, which takes seconds.
async fn ask(sentinel: &Arc<Connector>, name: &str, within: Duration) -> Result<Named, Fault> {
    let mut questions = redis::pipe();
    for question in ["MASTER", "GET-MASTER-ADDR-BY-NAME", "SENTINELS"] {
        questions.cmd("SENTINEL").arg(question).arg(name);
    }
    let garbled = || Fault::Garbled { charge: ChargeState::NotCharged };
    let answers = sentinel.ask_all(&questions, within).await?;
    let [fields, address, others]: [Value; 3] = answers.try_into().map_err(|_| garbled())?;
    match fields {
        Value::Array(fields) => {
            let (endpoint, epoch) = named(&fields, address).ok_or_else(garbled)?;
            Ok(Named { endpoint, epoch, by: Arc::clone(sentinel), others: announced(others) })
        }
        Value::ServerError(error) if error.details().is_some_and(is_unknown_name) => {
            Err(Fault::NoPrimary {
                name: name.to_owned(),
                sentinels: sentinel.address.to_string(),
                why: "they know no primary of that name (`SENTINEL MASTERS` lists the names)"
                    .to_owned(),
                // One may be added to a sentinel that runs.
                is_final: false,
            })
        }
        Value::ServerError(error) if error.code() == "ERR" => Err(Fault::NoPrimary {
            name: name.to_owned(),
            sentinels: sentinel.address.to_string(),
            why: "this is not a sentinel: for one server write `redis://`".to_owned(),
            is_final: true,
        }),
        Value::ServerError(error) => Err(refused(&error)),
        _ => Err(Fault::Garbled { charge: ChargeState::NotCharged }),
    }
}

/// Listens to a sentinel, and asks all of them after each failover.
async fn follow(shared: Weak<Shared>, sentinel: Arc<Connector>) {
    loop {
        if let Ok(mut messages) = sentinel.listen(&CHANNELS).await {
            let mut messages = messages.on_message();
            // A failover may have passed unheard.
            loop {
                let Some(strong) = shared.upgrade() else { return };
                strong.refresh();
                drop(strong);
                let Some(message) = messages.next().await else { break };
                if message.get_channel_name() != PROMOTING {
                    continue;
                }
                let (Some(strong), Ok(message)) = (shared.upgrade(), message.get_payload()) else {
                    continue;
                };
                let message: String = message;
                if let Some(replica) = promoting(&message, &strong.sentinels.name) {
                    strong.adopt_promoted(replica).await;
                }
            }
        }
        if shared.strong_count() == 0 {
            return;
        }
        sleep(RECONNECT_PAUSE).await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that cannot go on has failed
mod tests {
    use super::*;
    use crate::options::Target;

    fn sentinel(ip: &str, port: &str) -> Value {
        let words = ["name", "some", "ip", ip, "port", port, "flags", "sentinel"];
        Value::Array(words.map(|word| Value::BulkString(word.as_bytes().to_vec())).to_vec())
    }

    /// The addresses of `others` that the first of these sentinels gives.
    fn learned(options: Options, others: Vec<Value>) -> Vec<String> {
        let Target::Sentinel(sentinels) = &options.target else { panic!("no sentinels") };
        let asked = connectors(&options, sentinels).unwrap();
        let named = Named {
            endpoint: Endpoint::new("primary", 6379),
            epoch: 1,
            by: Arc::clone(&asked[0]),
            others: announced(Value::Array(others)),
        };
        let before = learn(&asked, &named, Vec::new());
        let learned = learn(&asked, &named, before);
        learned.iter().map(|other| other.address.to_string()).collect()
    }

    #[test]
    fn other_sentinels_are_where_the_options_say_that_they_are_reached() {
        let options = Options::sentinel("main", [("10.0.0.9", 26379), ("localhost", 7003)])
            .reach(("10.0.0.2", 26379), ("localhost", 7002))
            .reach(("10.0.0.3", 26379), ("localhost", 7003));
        let others = vec![
            sentinel("10.0.0.1", "26379"),
            sentinel("10.0.0.2", "26379"),
            // Named already.
            sentinel("10.0.0.3", "26379"),
            // No addresses.
            sentinel("", "26379"),
            sentinel("0.0.0.0", "26379"),
            sentinel("10.0.0.4", "0"),
            Value::Nil,
        ];
        assert_eq!(learned(options, others), ["10.0.0.1:26379", "localhost:7002"]);
    }

    #[test]
    fn the_replica_that_is_promoted_is_that_of_the_primary_by_its_name() {
        let message = "slave 10.0.0.2:6379 10.0.0.2 6380 @ main 10.0.0.1 6379";
        assert_eq!(promoting(message, "main"), Some(Endpoint::new("10.0.0.2", 6380)));
        for (message, name) in [
            (message, "other"),
            ("master main 10.0.0.1 6379", "main"),
            ("slave 10.0.0.2:6379 10.0.0.2 x @ main 10.0.0.1 6379", "main"),
            ("", "main"),
        ] {
            assert_eq!(promoting(message, name), None, "{message}");
        }
    }

    /// The sentinel that leads a failover names the new primary first. Where it is late once, the
    /// others still name the old one.
    #[tokio::test]
    async fn a_primary_that_was_left_is_not_gone_back_to_for_a_while() {
        let [old, new] = ["old", "new"].map(|host| Endpoint::new(host, 6379));
        let options = Options::sentinel("main", [("sentinel", 26379)]);
        let Target::Sentinel(sentinels) = options.target.clone() else { panic!("no sentinels") };
        let connector = Connector::to(tcp(&old, false), options).unwrap();
        let node = || Node::new(connector.at(&old, 0));
        let left = |until| Some((old.clone(), until));
        let current = |left| {
            RwLock::new(Current {
                endpoint: new.clone(),
                node: node(),
                longest_wait: Duration::ZERO,
                left,
            })
        };
        let mut shared = Shared {
            connector: connector.at(&old, 0),
            sentinels,
            asked: Vec::new(),
            learned: Mutex::default(),
            current: current(left(Instant::now() + Duration::from_secs(60))),
            refreshes: Arc::new(SingleFlight::new()),
        };
        for (named, primary) in [(&old, &new), (&new, &new), (&old, &new)] {
            shared.adopt(named.clone());
            assert_eq!(shared.endpoint(), *primary, "{named} is named");
        }
        shared.current = current(left(Instant::now()));
        shared.adopt(old.clone());
        assert_eq!(shared.endpoint(), old);
    }

    #[test]
    fn no_more_than_some_are_remembered() {
        let others = (1..=40).map(|n| sentinel(&format!("10.0.0.{n}"), "26379")).collect();
        let options = Options::sentinel("main", [("10.0.1.1", 26379)]);
        assert_eq!(learned(options, others).len(), MAX_LEARNED);
    }
}
