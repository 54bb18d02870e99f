//! A list of events (time, cost), in the order in which they were recorded.

use std::collections::VecDeque;
use std::ops::Range;

/// An admitted check that may still count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event {
    time: i128,
    cost: i128,
    /// The cost of all events up to this one, itself included. Only the indexed form reads it.
    total: i128,
}

/// The list. No event in it has a cost of 0.
///
/// The plain form looks at every event at every question. The indexed form, for long runs, finds
/// the ends of a range by halving, and subtracts two totals; its times must never go back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Events {
    list: VecDeque<Event>,
    indexed: bool,
}

impl Events {
    pub(super) fn empty(indexed: bool) -> Self {
        Self { list: VecDeque::new(), indexed }
    }

    /// Forgets everything but one event; that too when its cost is 0.
    pub(super) fn become_one(&mut self, time: i128, cost: i128) {
        self.list.clear();
        self.record(time, cost);
    }

    pub(super) fn record(&mut self, time: i128, cost: i128) {
        if cost > 0 {
            let total = self.list.back().map_or(0, |last| last.total) + cost;
            self.list.push_back(Event { time, cost, total });
        }
    }

    /// Records in the last event when that has the same time.
    pub(super) fn record_merged(&mut self, time: i128, cost: i128) {
        match self.list.back_mut() {
            Some(last) if last.time == time => {
                last.cost += cost;
                last.total += cost;
            }
            _ => self.record(time, cost),
        }
    }

    /// The cost of the events whose time is in `times`.
    pub(super) fn cost(&self, times: Range<i128>) -> i128 {
        if self.indexed {
            return self.total_before(times.end) - self.total_before(times.start);
        }
        self.list.iter().filter(|event| times.contains(&event.time)).map(|event| event.cost).sum()
    }

    /// The total of the events before `time`, counted from the same start for every `time`.
    fn total_before(&self, time: i128) -> i128 {
        match self.list.back() {
            None => 0,
            // Most questions are about a time to come.
            Some(last) if last.time < time => last.total,
            Some(_) => {
                let next = &self.list[self.list.partition_point(|event| event.time < time)];
                next.total - next.cost
            }
        }
    }

    /// The times and costs of the events after `time`, one after the other.
    pub(super) fn pairs_after(&self, time: i128) -> Vec<i128> {
        let after = self.list.iter().filter(|event| event.time > time);
        after.flat_map(|event| [event.time, event.cost]).collect()
    }

    /// The newest time.
    pub(super) fn newest(&self) -> Option<i128> {
        if self.indexed {
            return self.list.back().map(|event| event.time);
        }
        self.list.iter().map(|event| event.time).max()
    }

    /// Forgets the events before `time`.
    pub(super) fn forget_before(&mut self, time: i128) {
        if self.indexed {
            let position = self.list.partition_point(|event| event.time < time);
            self.list.drain(..position);
        } else {
            self.list.retain(|event| event.time >= time);
        }
    }

    /// Takes up to `units` from the events whose time is in `times`, the first recorded first.
    pub(super) fn take(&mut self, times: Range<i128>, units: i128) {
        let mut left = units;
        for event in self.list.iter_mut().filter(|event| times.contains(&event.time)) {
            let taken = event.cost.min(left);
            event.cost -= taken;
            left -= taken;
        }
        self.tidy();
    }

    /// Takes `cost` from the events of the microsecond `time`, if they hold that much.
    pub(super) fn take_own(&mut self, time: i128, cost: i128) {
        if self.cost(time..time + 1) >= cost {
            self.take(time..time + 1, cost);
        }
    }

    /// Moves every event by so many microseconds. Those of one time, which no question tells apart,
    /// become one.
    pub(super) fn shift(&mut self, by: i128) {
        let list = std::mem::take(&mut self.list);
        for event in list {
            self.record_merged(event.time + by, event.cost);
        }
    }

    /// Forgets the events that nothing is left of, and adds up the totals again.
    fn tidy(&mut self) {
        self.list.retain(|event| event.cost > 0);
        let mut total = 0;
        for event in &mut self.list {
            total += event.cost;
            event.total = total;
        }
    }
}
