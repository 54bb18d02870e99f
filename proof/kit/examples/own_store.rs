//! A store of one's own: counts in a map behind a lock, as a database would keep them. It keeps no
//! holds, as its type shows. The page docs/stores.md explains it.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate::engine::{self, Carries, Outcome, Part, Portion, VecLog, VecStates};
use tollgate::operation::{Operation, Operations};
use tollgate::{
    Adjustment, Amounts, Charges, Clock, Cost, Counted, Inspection, Keeps, LimitSet, Question,
    Receipt, Refund, SKEW_US, Store, StoreError, Time, WallClock,
};

/// Counts in a map.
#[derive(Debug)]
pub struct MapStore<C = WallClock> {
    clock: C,
    identity: u64,
    tables: Mutex<Tables>,
}

/// The tables that a database would have.
#[derive(Debug, Default)]
struct Tables {
    /// Each count, by its subject and the identity of its limits.
    counts: HashMap<(String, String), Count>,
    /// The refunded units of each receipt, and until when they are kept.
    refunded: HashMap<u64, (Cost, u64)>,
    /// The number of the last charge.
    charges: u64,
}

/// The state of one count.
#[derive(Clone, Debug)]
struct Count {
    /// The limits that the state was written under, which may have had other numbers.
    limits: LimitSet,
    states: VecStates,
    /// The last charge before the count was reset: receipts up to this one refund nothing.
    reset: u64,
    /// Until when it is kept, in microseconds since the Unix epoch.
    until_us: u64,
}

impl Count {
    fn fresh(limits: &LimitSet) -> Self {
        let states = VecStates::fresh(limits);
        Self { limits: limits.clone(), states, reset: 0, until_us: 0 }
    }

    /// The same count under these limits, and what that changed.
    fn under(mut self, limits: &LimitSet, now: Time) -> (Self, Carries) {
        if self.limits.counts_as(limits) {
            // They may be written in another order, in which their answers are given.
            return (Self { limits: limits.clone(), ..self }, Carries::new());
        }
        let mut states = VecStates::fresh(limits);
        let carried = engine::migrate(limits, &mut states, &self.limits, &mut self.states, now);
        // Charges under the former numbers can still be refunded.
        let until_us = self.until_us.max(engine::refundable_until_us(&self.limits, now));
        (Self { limits: limits.clone(), states, until_us, ..self }, carried)
    }
}

fn key(counted: Counted<'_>) -> (String, String) {
    (counted.subject.as_str().to_owned(), counted.limits.identity().to_owned())
}

impl Tables {
    /// A copy of a count, under the limits that it was written under.
    fn written(&self, counted: Counted<'_>) -> Count {
        let found = self.counts.get(&key(counted)).cloned();
        found.unwrap_or_else(|| Count::fresh(counted.limits))
    }

    /// Writes a count back, to be kept for as long as a charge of it may be refunded.
    fn write(&mut self, counted: Counted<'_>, mut count: Count, now: Time) {
        let fresh_at_us = engine::fresh_at_us(&count.limits, &mut count.states);
        let refundable_us = engine::refundable_until_us(&count.limits, now);
        count.until_us = count.until_us.max(fresh_at_us).max(refundable_us);
        self.counts.insert(key(counted), count);
    }
}

impl<C: Clock> MapStore<C> {
    /// An empty store whose time is this clock's.
    pub fn new(clock: C) -> Self {
        // Another number in each store: receipts tell whose they are.
        let identity = RandomState::new().hash_one("identity");
        Self { clock, identity, tables: Mutex::default() }
    }

    /// Forgets what no longer counts. A program calls it now and then.
    pub fn sweep(&self) {
        let (mut tables, now) = self.begin();
        let is_kept = |until_us: u64| until_us.saturating_add(SKEW_US) > now.as_micros();
        tables.counts.retain(|_, count| is_kept(count.until_us));
        tables.refunded.retain(|_, (_, until_us)| is_kept(*until_us));
    }

    /// Begins a transaction: one lock, and one reading of the clock.
    fn begin(&self) -> (MutexGuard<'_, Tables>, Time) {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        (tables, now)
    }
}

impl<C: Clock> Store for MapStore<C> {
    /// No holds, no charges without a check, no request ids, no notices.
    const KEEPS: Keeps = Keeps::COUNTS;

    fn identity(&self) -> u64 {
        self.identity
    }

    async fn perform<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        operation.visit(self).await
    }
}

impl<C: Clock> Operations for MapStore<C> {
    async fn check(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        let (mut tables, now) = self.begin();
        let mut counts: Vec<(Count, Carries)> = Vec::new();
        for counted in question.parts {
            counts.push(tables.written(*counted).under(counted.limits, now));
        }
        let mut parts: Vec<Part<'_>> = Vec::new();
        for (Count { limits, states, .. }, carried) in &mut counts {
            parts.push(Part::new(limits, states).carrying(carried.clone()));
        }
        let mut outcome = engine::decide(&mut parts, now, question.cost, question.mode, None)?;
        if outcome.granted > 0 && question.charges() {
            outcome.receipt = tables.charges + 1;
            tables.charges += question.receipts;
        }
        // All parts are written, or none.
        if outcome.changed {
            for (counted, (count, _)) in question.parts.iter().zip(counts) {
                tables.write(*counted, count, now);
            }
        }
        Ok(outcome)
    }

    async fn refund(&self, receipt: &Receipt, units: Amounts<'_>) -> Result<Refund, StoreError> {
        let (mut tables, now) = self.begin();
        let before = tables.refunded.get(&receipt.number).map(|(units, _)| units.clone());
        let before = before.unwrap_or_else(|| Cost::from(0));
        let portion = Portion::part(receipt.cost.amounts(), before.amounts(), units);
        if portion.is_nothing() {
            let limits = receipt.charges.iter().map(|charges| charges.at_us.len()).sum();
            return Ok(Refund::already(limits, portion.left_after()));
        }
        let mut given = Vec::new();
        for Charges { subject, limits, at_us, .. } in &receipt.charges {
            let counted = Counted::new(subject, limits);
            let mut count = tables.written(counted);
            if receipt.number <= count.reset {
                given.extend(at_us.iter().map(|_| 0));
                continue;
            }
            let mut part = Part::new(&count.limits, &mut count.states);
            let times = (&at_us[..], receipt.at);
            given.extend(engine::refund(&mut part, limits, times, &portion, now));
            tables.write(counted, count, now);
        }
        let until_us = engine::receipt_until_us(receipt).max(now.as_micros());
        tables.refunded.insert(receipt.number, (portion.sum(), until_us));
        Ok(Refund::new(given, portion.left_after()))
    }

    async fn adjust(&self, counted: Counted<'_>, by: &Adjustment) -> Result<Vec<i64>, StoreError> {
        let (mut tables, now) = self.begin();
        let (mut count, carried) = tables.written(counted).under(counted.limits, now);
        let mut part = Part::new(&count.limits, &mut count.states).carrying(carried);
        let changes = engine::adjust(&mut part, by, now).into_vec();
        tables.write(counted, count, now);
        Ok(changes)
    }

    async fn reset(&self, counted: Counted<'_>) -> Result<bool, StoreError> {
        let (mut tables, now) = self.begin();
        let charges = tables.charges;
        let Some(count) = tables.counts.get_mut(&key(counted)) else { return Ok(false) };
        let fresh = VecStates::fresh(&count.limits);
        let was_there = count.states != fresh;
        (count.states, count.reset) = (fresh, charges);
        count.until_us = count.until_us.max(engine::refundable_until_us(&count.limits, now));
        Ok(was_there)
    }

    async fn inspect(&self, counted: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
        let (tables, _) = self.begin();
        let Some(count) = tables.counts.get(&key(counted)) else { return Ok(None) };
        let mut states = count.states.clone();
        if states == VecStates::fresh(&count.limits) {
            return Ok(None);
        }
        let fresh_at = Time::from_micros(engine::fresh_at_us(&count.limits, &mut states));
        let logs = states.logs.iter().map(VecLog::events).collect();
        let text = count.limits.full_text().to_owned();
        Ok(Some(Inspection::new(text, states.words, logs, fresh_at, false)))
    }
}

#[allow(dead_code, reason = "a test takes this file as a module")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = MapStore::new(WallClock);
    let limiter = tollgate::Limiter::new("2/h".parse()?, store);
    for _ in 0..3 {
        println!("{}", limiter.check("user:42").await?);
    }
    Ok(())
}
