//! A memory store by what it was asked: the operations so far, which give it again.
//!
//! A memory store has locks, so that no state of a model can have a copy of it. It is decided by
//! its operations and their times alone, so a state has those, and runs them on a new store.

use core::time::Duration;

use tollgate::{Ask, LimitSet, Limiter, ManualClock, MemoryStore, Receipt, RequestId, Time};

/// The time between two ticks, in microseconds.
pub(crate) const TICK_US: u64 = 1_000_000;

/// The time of the first tick: a multiple of every window here.
const START_US: u64 = 3_600_000_000;

/// An operation on the one subject of a model.
#[derive(Clone, Copy, Debug, Hash, PartialEq)]
pub(crate) enum Operation {
    /// A check of so many units.
    Check(u64),
    /// A check of one unit under the request id of this number.
    Once(u8),
    /// Some units of the receipt that the operation at this place got.
    Refund { of: usize, units: u64 },
}

/// The answer of the store to an operation.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq)]
pub(crate) struct Answer {
    pub(crate) granted: u64,
    pub(crate) remaining: u64,
    pub(crate) is_repeated: bool,
    pub(crate) is_overused: bool,
    /// The place of the first operation that got the receipt that this one has.
    pub(crate) charged_by: Option<usize>,
    /// The units that a refund gave back.
    pub(crate) given: u64,
}

/// The operations on a store so far, each with its tick.
#[derive(Clone, Debug, Default, Hash, PartialEq)]
pub(crate) struct Past(pub(crate) Vec<(u8, Operation)>);

impl Past {
    /// The answers to all operations, under limits and by request ids that are remembered for so
    /// many ticks.
    pub(crate) fn answers(&self, limits: &LimitSet, remembered: u8) -> Vec<Answer> {
        let clock = ManualClock::at_micros(START_US);
        let limiter =
            Limiter::new(limits.clone(), MemoryStore::builder().clock(clock.clone()).build());
        let mut receipts: Vec<Option<Receipt>> = Vec::new();
        let mut answers = Vec::new();
        for (tick, operation) in &self.0 {
            clock.set(Time::from_micros(START_US + u64::from(*tick) * TICK_US));
            let (receipt, answer) = perform(&limiter, &receipts, operation, remembered);
            let is_same = |before: &Option<Receipt>| receipt.is_some() && *before == receipt;
            let first = receipts.iter().position(is_same);
            let charged_by = receipt.as_ref().map(|_| first.unwrap_or(receipts.len()));
            answers.push(Answer { charged_by, ..answer });
            receipts.push(receipt);
        }
        answers
    }

    /// The same with one operation more, and the answer to it.
    pub(crate) fn then(
        &mut self,
        tick: u8,
        operation: Operation,
        (limits, remembered): (&LimitSet, u8),
    ) -> Answer {
        self.0.push((tick, operation));
        self.answers(limits, remembered).pop().unwrap_or_default()
    }
}

/// Performs an operation; the receipt is that of a check.
fn perform(
    limiter: &Limiter<MemoryStore>,
    receipts: &[Option<Receipt>],
    operation: &Operation,
    remembered: u8,
) -> (Option<Receipt>, Answer) {
    let id;
    let ask = match operation {
        Operation::Check(cost) => Ask::new("ann").cost(*cost),
        Operation::Once(number) => {
            id = format!("request {number}");
            let time = Duration::from_micros(u64::from(remembered) * TICK_US);
            Ask::new("ann").request(RequestId::new(&id).remembered(time))
        }
        Operation::Refund { of, units } => {
            let Some(Some(receipt)) = receipts.get(*of) else { return Default::default() };
            let Ok(refund) = limiter.refund(receipt.part(*units)).now() else {
                return Default::default();
            };
            let given = refund.given.iter().copied().max().unwrap_or(0);
            return (None, Answer { given, ..Answer::default() });
        }
    };
    let Ok(decision) = limiter.check(ask).now() else { return Default::default() };
    let answer = Answer {
        granted: if decision.is_allowed() { decision.granted() } else { 0 },
        remaining: decision.remaining(),
        is_repeated: decision.is_repeated(),
        is_overused: decision.is_id_overused(),
        ..Answer::default()
    };
    (decision.receipt(), answer)
}
