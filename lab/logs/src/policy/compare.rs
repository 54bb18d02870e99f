//! The clients with other decisions under new policies.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

use hashbrown::HashMap;
use serde::Serialize;
use tollgate_policy::Policies;

use super::Go;
use super::read::Requests;
use super::replay::BATCH;
use super::side::{Side, SideDecision};
use crate::error::Error;
use crate::event::{ClientId, Clients, Event};

/// The most examples of a policy.
const EXAMPLES: usize = 5;

/// The most clients of a policy that are listed.
const MOST: usize = 10;

/// The effect that a change of policies would have on a log: the object of `diff --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Diff {
    /// All requests.
    pub requests: u64,
    /// The clients of `--by`.
    pub clients: u64,
    /// Lines that are not requests.
    pub unparsed: u64,
    /// Under the old policies.
    pub old: SideTotals,
    /// Under the new policies.
    pub new: SideTotals,
    /// Requests that were admitted and would be denied, by the policies of the new file that deny.
    pub to_denied: Change,
    /// Requests that were denied and would be admitted, by the policies of the old file that
    /// denied.
    pub to_admitted: Change,
}

/// The decisions of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct SideTotals {
    /// Requests that it admits.
    pub admitted: u64,
    /// Requests that it denies.
    pub denied: u64,
}

/// All changes of one direction.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// How many requests change.
    pub requests: u64,
    /// How many clients have such a request.
    pub clients: u64,
    /// The same by policy, those that change.
    pub policies: Vec<PolicyChange>,
}

/// The changes of one direction under one policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PolicyChange {
    /// The policy.
    pub policy: String,
    /// How many requests change.
    pub requests: u64,
    /// How many clients have such a request.
    pub clients: u64,
    /// The first requests, in order of time.
    pub examples: Vec<Example>,
    /// The clients with the most such requests, and how many.
    pub clients_most: Vec<(String, u64)>,
}

/// A request that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Example {
    /// The number of its line, from 1.
    pub line: u32,
    /// Microseconds since the Unix epoch.
    pub at_us: u64,
    /// The client in printable form.
    pub client: String,
}

/// A request that changes, for writers of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changed<'a> {
    /// The number of its line, from 1.
    pub line: u32,
    /// Microseconds since the Unix epoch.
    pub at_us: u64,
    /// The client as in the log, byte for byte.
    pub client: &'a [u8],
    /// Whether the new policies admit it; the old ones do not, or the other way round.
    pub is_admitted: bool,
    /// The policy that denies it on one side.
    pub policy: Option<&'a str>,
}

impl Diff {
    /// Whether nobody is decided otherwise.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.to_denied.requests == 0 && self.to_admitted.requests == 0
    }
}

/// Decides every request under both, and reports each change to `each`.
///
/// Memory: the counts of both sides, and about 40 bytes for each client that changes.
///
/// # Errors
/// As [`super::replay`].
pub fn diff(
    requests: &Requests,
    old: &Policies,
    new: &Policies,
    each: &mut dyn FnMut(Changed<'_>) -> Result<(), Error>,
    go: &mut Go<'_>,
) -> Result<Diff, Error> {
    let (old, new) = (Side::new(old)?, Side::new(new)?);
    let mut totals = [SideTotals::default(); 2];
    let (mut to_denied, mut to_admitted) = (Tally::default(), Tally::default());
    let total = requests.len();
    let mut done = 0;
    let mut events = requests.iter()?;
    std::thread::scope(|scope| -> Result<(), Error> {
        let old_side = Elsewhere::new(scope, &old, requests);
        loop {
            let batch: Result<Vec<Event>, Error> = events.by_ref().take(BATCH).collect();
            let batch = Arc::new(batch?);
            if batch.is_empty() {
                return Ok(());
            }
            old_side.begin(&batch);
            let are = new.decide_batch(requests, &batch)?;
            let were = old_side.end()?;
            for (event, (was, is)) in batch.iter().zip(were.into_iter().zip(are)) {
                for (totals, decision) in totals.iter_mut().zip([was, is]) {
                    totals.count(decision);
                }
                if was.is_admitted == is.is_admitted {
                    continue;
                }
                let client = requests.client(event);
                // The side that denies knows why.
                let (tally, decision, side) = if is.is_admitted {
                    (&mut to_admitted, was, &old)
                } else {
                    (&mut to_denied, is, &new)
                };
                tally.count(decision.policy, client, event);
                each(Changed {
                    line: event.line,
                    at_us: event.at_us,
                    client: requests.clients().name(client).unwrap_or_default(),
                    is_admitted: is.is_admitted,
                    policy: side.name(decision.policy),
                })?;
            }
            done += batch.len() as u64;
            go((done, total))?;
        }
    })?;
    let [old_totals, new_totals] = totals;
    Ok(Diff {
        requests: requests.summary.events,
        clients: requests.clients().len() as u64,
        unparsed: requests.summary.unparsed,
        old: old_totals,
        new: new_totals,
        to_denied: to_denied.finish(&new, requests.clients()),
        to_admitted: to_admitted.finish(&old, requests.clients()),
    })
}

type Decisions = Result<Vec<SideDecision>, Error>;

/// A side that decides on a separate thread: neither side needs the other's decisions. The thread
/// is one for all batches, since an allocator gives what a thread has allocated back to it.
struct Elsewhere {
    batches: SyncSender<Arc<Vec<Event>>>,
    decided: Receiver<Decisions>,
}

impl Elsewhere {
    fn new<'s>(scope: &'s Scope<'s, '_>, side: &'s Side, requests: &'s Requests) -> Self {
        let (batches, taken) = sync_channel::<Arc<Vec<Event>>>(1);
        let (deciding, decided) = sync_channel(1);
        scope.spawn(move || {
            let each = taken.iter().map(|batch| side.decide_batch(requests, &batch));
            // Nobody waits any more after an error of the other side.
            let _ = each.map(|decisions| deciding.send(decisions)).find(Result::is_err);
        });
        Self { batches, decided }
    }

    /// Gives it the next requests.
    fn begin(&self, batch: &Arc<Vec<Event>>) {
        // A thread that panicked is reported at the end of the scope.
        let _ = self.batches.send(Arc::clone(batch));
    }

    /// Its decisions on those.
    fn end(&self) -> Decisions {
        let gone = |_| Error::Policies { why: "one of the two sides gave no answer".to_owned() };
        self.decided.recv().map_err(gone)?
    }
}

impl SideTotals {
    fn count(&mut self, decision: SideDecision) {
        if decision.is_admitted {
            self.admitted += 1;
        } else {
            self.denied += 1;
        }
    }
}

/// The changes of one direction so far.
#[derive(Default)]
struct Tally {
    requests: u64,
    /// How often each client changes under each policy.
    by_client: HashMap<(Option<usize>, ClientId), u64>,
    examples: HashMap<Option<usize>, Vec<(Event, ClientId)>>,
}

impl Tally {
    fn count(&mut self, policy: Option<usize>, client: ClientId, event: &Event) {
        self.requests += 1;
        *self.by_client.entry((policy, client)).or_default() += 1;
        let examples = self.examples.entry(policy).or_default();
        if examples.len() < EXAMPLES {
            examples.push((*event, client));
        }
    }

    fn finish(self, side: &Side, clients: &Clients) -> Change {
        let mut all: Vec<ClientId> = self.by_client.keys().map(|(_, client)| *client).collect();
        all.sort_unstable();
        all.dedup();
        let mut places: Vec<Option<usize>> = self.examples.keys().copied().collect();
        places.sort_unstable();
        let policies = places.into_iter().map(|place| {
            let of_policy = self.by_client.iter().filter(|((policy, _), _)| *policy == place);
            let mut ranked: Vec<(u64, &[u8], ClientId)> = of_policy
                .map(|((_, client), count)| {
                    (*count, clients.name(*client).unwrap_or_default(), *client)
                })
                .collect();
            ranked.sort_unstable_by(|one, other| (other.0, one.1).cmp(&(one.0, other.1)));
            let printable = |client: ClientId| clients.printable(client).unwrap_or_default();
            let examples = self.examples.get(&place).into_iter().flatten();
            PolicyChange {
                policy: side.name(place).unwrap_or_default().to_owned(),
                requests: ranked.iter().map(|(count, ..)| count).sum(),
                clients: ranked.len() as u64,
                examples: examples
                    .map(|(event, client)| Example {
                        line: event.line,
                        at_us: event.at_us,
                        client: printable(*client),
                    })
                    .collect(),
                clients_most: ranked
                    .iter()
                    .take(MOST)
                    .map(|(count, _, client)| (printable(*client), *count))
                    .collect(),
            }
        });
        Change { requests: self.requests, clients: all.len() as u64, policies: policies.collect() }
    }
}
