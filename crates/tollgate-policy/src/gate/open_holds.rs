//! The holds that a gate has placed and that are open as far as it knows.

use core::hash::{BuildHasher as _, Hash as _, Hasher as _};
use core::time::Duration;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::time::Instant;

use parking_lot::Mutex;
use tollgate::{Hold, MAX_PERIOD_US, Time};

/// The most holds that are known. Those beyond are not counted.
const MAX_KNOWN: usize = 65_536;

/// The shortest time between two sweeps of ended holds, which make room when there is none.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(1);

/// The open holds. A hash represents each: two holds with one hash count as one.
#[derive(Debug, Default)]
pub(super) struct OpenHolds {
    hasher: RandomState,
    known: Mutex<HoldEnds>,
}

/// The names of policies that only brought their price to a hold: it has no counts of theirs.
pub(super) type Priced = Box<[String]>;

#[derive(Debug, Default)]
struct HoldEnds {
    ends: HashMap<u64, (End, Priced)>,
    swept: Option<Instant>,
}

/// When a hold ends, by the store's clock and by that of this process.
#[derive(Clone, Copy, Debug)]
struct End {
    by_store: Time,
    here: Instant,
}

/// The time between two times of a store, which a process can wait for.
fn between(from: Time, to: Time) -> Duration {
    Duration::from_micros(to.as_micros().saturating_sub(from.as_micros()).min(MAX_PERIOD_US))
}

impl OpenHolds {
    /// Notes a hold that was placed at a time of the store, which is now, at the prices of these
    /// policies too.
    pub(super) fn placed(&self, hold: &Hold, priced: Priced, at: Time, now: Instant) {
        let key = self.key(hold);
        let mut known = self.known.lock();
        let is_due = |swept: Instant| now.saturating_duration_since(swept) >= BETWEEN_SWEEPS;
        if known.ends.len() >= MAX_KNOWN && known.swept.is_none_or(is_due) {
            known.sweep(now);
        }
        if known.ends.len() < MAX_KNOWN {
            let end = End { by_store: hold.end, here: now + between(at, hold.end) };
            known.ends.insert(key, (end, priced));
        }
    }

    /// Notes the new end of a hold.
    pub(super) fn renewed(&self, hold: &Hold) {
        let key = self.key(hold);
        if let Some((End { by_store, here }, _)) = self.known.lock().ends.get_mut(&key) {
            let sooner = here.checked_sub(between(hold.end, *by_store));
            *here = sooner.unwrap_or(*here) + between(*by_store, hold.end);
            *by_store = hold.end;
        }
    }

    /// Notes that a hold is not open any more.
    pub(super) fn over(&self, hold: &Hold) {
        let key = self.key(hold);
        self.known.lock().ends.remove(&key);
    }

    /// The policies that only brought their price to a hold, where it was placed here.
    pub(super) fn priced(&self, hold: &Hold) -> Priced {
        let key = self.key(hold);
        self.known.lock().ends.get(&key).map(|(_, priced)| priced.clone()).unwrap_or_default()
    }

    /// How many are open.
    pub(super) fn count(&self, now: Instant) -> usize {
        let mut known = self.known.lock();
        known.sweep(now);
        known.ends.len()
    }

    /// A hash of the id without its kind, which a caller that knows the name alone cannot tell. One
    /// name may be given to holds on other subjects.
    fn key(&self, hold: &Hold) -> u64 {
        let [_, id @ ..] = hold.id.as_bytes();
        let mut hasher = self.hasher.build_hasher();
        id.hash(&mut hasher);
        if hold.id.name().is_some() {
            hold.counts.iter().for_each(|(subject, _)| subject.hash(&mut hasher));
        }
        hasher.finish()
    }
}

impl HoldEnds {
    fn sweep(&mut self, now: Instant) {
        self.ends.retain(|_, (end, _)| end.here > now);
        self.swept = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{HoldId, HoldKind, LimitSet, Subject};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn hold(id: HoldId, subject: &str, end: Time) -> Hold {
        let limits: LimitSet = "2 at once hold 30s".parse().unwrap();
        Hold::new(id, 1, 1, end, [(subject.parse::<Subject>().unwrap(), limits)])
    }

    fn slot(end: Time) -> Hold {
        hold(HoldId::random(HoldKind::Acquire, 1_000_000), "jobs", end)
    }

    #[test]
    fn a_hold_is_open_until_its_end_or_until_it_is_settled() {
        let (open, begin, at) = (OpenHolds::default(), Instant::now(), Time::from_micros(7));
        let end = |seconds| at.plus(SECOND * seconds);
        let [short, mut renewed, settled] = [end(1), end(1), end(9)].map(slot);
        for hold in [&short, &renewed, &settled] {
            open.placed(hold, Priced::default(), at, begin);
        }
        assert_eq!(open.count(begin), 3);
        renewed.end = end(5);
        open.renewed(&renewed);
        assert_eq!(open.count(begin + SECOND), 2, "one has ended");
        open.over(&settled);
        open.over(&settled);
        assert_eq!(open.count(begin + SECOND), 1);
        assert_eq!(open.count(begin + 5 * SECOND - Duration::from_micros(1)), 1);
        assert_eq!(open.count(begin + 5 * SECOND), 0);
        // A renewal for a shorter time has the hold for a shorter time.
        let mut cut = slot(end(9));
        open.placed(&cut, Priced::default(), at, begin);
        cut.end = end(2);
        open.renewed(&cut);
        assert_eq!([1, 2].map(|after| open.count(begin + SECOND * after)), [1, 0]);
    }

    #[test]
    fn a_name_is_that_of_a_hold_on_its_subjects_of_whatever_kind() {
        let (open, now, at) = (OpenHolds::default(), Instant::now(), Time::from_micros(7));
        let name = "b1946ac92492d2347c6235b4d2611184".parse().unwrap();
        for subject in ["a", "b", "a"] {
            let named = HoldId::named(HoldKind::Acquire, name);
            open.placed(&hold(named, subject, at.plus(SECOND)), Priced::default(), at, now);
        }
        assert_eq!(open.count(now), 2);
        open.over(&hold(HoldId::of_any_kind(name), "a", Time::default()));
        assert_eq!(open.count(now), 1);
        open.over(&hold(HoldId::of_any_kind(name), "c", Time::default()));
        assert_eq!(open.count(now), 1);
    }

    #[test]
    fn what_is_known_is_bounded_and_ended_holds_make_room() {
        let (open, begin, at) = (OpenHolds::default(), Instant::now(), Time::from_micros(7));
        for _ in 0..MAX_KNOWN + 9 {
            open.placed(&slot(at.plus(SECOND)), Priced::default(), at, begin);
        }
        assert_eq!(open.count(begin), MAX_KNOWN);
        open.placed(&slot(at.plus(9 * SECOND)), Priced::default(), at, begin + SECOND);
        assert_eq!(open.count(begin + SECOND), 1);
    }
}
