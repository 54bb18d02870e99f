//! The state that an operation left, and for how long: compared with that of the engine.

use tollgate::engine::Mode;
use tollgate::strategy::Shape;
use tollgate::{LimitSet, Place, Time};
use tollgate_redis::{Keys, compose};

use super::pair::{Difference, Pair};
use crate::lua::fake::Stored;
use crate::lua::model::by_place;

impl Pair {
    /// Compares how long the keys of a subject lie with how long they count. A state that a clock's
    /// step back left as it was (`is_behind`) lives at least as long as before.
    pub(super) fn lifetimes(
        &self,
        state: &str,
        limits: &LimitSet,
        resets: &[u64],
        is_behind: bool,
    ) -> Result<(), Difference> {
        let logs = Keys::logs(state, limits);
        let mut expected = Vec::new();
        if compose::has_state(limits) {
            expected.push((state.to_owned(), resets.iter().copied().max().unwrap_or_default()));
        }
        for (i, key) in by_place(limits).into_iter().zip(logs) {
            if limits.limits()[i].shape() == Shape::Log {
                expected.push((key, resets[i]));
            }
        }
        for (key, reset) in expected {
            let (found, wanted) = (self.fake.written(&key), self.lifetime(reset));
            let stays = is_behind && found == self.fake.lay(&key) && found > Some(wanted);
            if found.is_some_and(|found| found != wanted) && !stays {
                return Err(format!("{limits}: {key} lies {found:?} ms, not {wanted}"));
            }
        }
        Ok(())
    }

    /// The state that a rare operation left: nothing where nothing counts, else for how long.
    pub(super) fn left(
        &mut self,
        subject: &str,
        limits: &LimitSet,
        now_us: u64,
        settled: bool,
    ) -> Result<(), Difference> {
        let (state, logs) = self.keys_of(subject, limits);
        let Some(written) = self.model.limits(subject, limits) else {
            // A state that counted nothing before may still be there, and be written again by a
            // refund.
            let mut keys = logs.iter().chain([&state]);
            return match keys.find(|key| settled && self.fake.written(key).is_some()) {
                Some(key) => Err(format!("{limits}: {key} is left with nothing in it")),
                None => Ok(()),
            };
        };
        let asked = [(subject.to_owned(), written.clone())];
        let outcome = self.model.check(&asked, &1.into(), Mode::Peek, Time::from_micros(now_us));
        let resets: Vec<u64> = outcome.fields.iter().map(|f| f.reset_after_us).collect();
        let is_behind = self.model.is_behind(subject, limits, Time::from_micros(now_us));
        self.lifetimes(&state, &written, &resets, is_behind)?;
        self.states(subject, limits)
    }

    /// Compares what an operation wrote with how Rust writes what the engine holds; of a log the
    /// times and the costs, since only differences of its totals count.
    pub(super) fn states(&self, subject: &str, limits: &LimitSet) -> Result<(), Difference> {
        if !self.fake.wrote() {
            return Ok(());
        }
        let Some((written, held)) = self.model.held(subject, limits) else { return Ok(()) };
        let (state, logs) = self.keys_of(subject, limits);
        let wrong = |key: &str| {
            let found = self.fake.get(key);
            Err(format!("{limits}: {key} is {found:?}, where Rust has {held:?}"))
        };
        let present = |key: &str| self.fake.written(key).is_some();
        if let Some(bytes) = tollgate_redis::encode(&written, &held) {
            let found = self.fake.get(&state).map(|found| first_version(found, &bytes));
            if present(&state) && found != Some(Stored::Text(bytes)) {
                return wrong(&state);
            }
        }
        let is_log = |i: &usize| written.limits()[*i].shape() == Shape::Log;
        let logs = by_place(&written).into_iter().zip(logs).filter(|(i, _)| is_log(i));
        for (i, key) in logs {
            let Place::Log(index) = written.places()[i] else { continue };
            let rows = tollgate_redis::log_entries(&written.limits()[i], &held.logs[index]);
            let found = self.fake.get(&key);
            if let Some(Stored::List(found)) = found.filter(|_| present(&key)) {
                let found: Vec<Vec<u8>> = found.into();
                if costs(&found) != costs(&rows) {
                    return wrong(&key);
                }
            }
        }
        Ok(())
    }
}

/// A state with more than a burst in use has a different version, and is else the same.
fn first_version(found: Stored, wanted: &[u8]) -> Stored {
    let may_owe = wanted.windows(2).any(|step| matches!(step, b"ug" | b"gg" | b"tg" | b"ti"));
    match found {
        Stored::Text(bytes) if may_owe && bytes.starts_with(b"2") => {
            Stored::Text([b"1", &bytes[1..]].concat())
        }
        found => found,
    }
}

/// The head of a log without its base, and the times and the costs of its events.
fn costs(rows: &[Vec<u8>]) -> (Vec<u8>, Vec<(Vec<u8>, u64)>) {
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
    let (head, base) = rows[0].split_at(rows[0].len() - 6);
    let mut before = number(base);
    let mut events = Vec::new();
    for row in &rows[1..] {
        let total = number(&row[7..]);
        events.push((row[..7].to_vec(), total.wrapping_sub(before) % (1 << 48)));
        before = total;
    }
    (head.to_vec(), events)
}
