//! A list of events (time, cost), in the order in which they were recorded.

use std::collections::VecDeque;
use std::ops::Range;

/// An admitted check that may still count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event {
    time: i128,
    cost: i128,
}

/// The list. No event in it has a cost of 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Events {
    list: VecDeque<Event>,
}

impl Events {
    /// The list that holds one event, or none when its cost is 0.
    pub(super) fn one(time: i128, cost: i128) -> Self {
        let mut events = Self::default();
        events.record(time, cost);
        events
    }

    pub(super) fn record(&mut self, time: i128, cost: i128) {
        if cost > 0 {
            self.list.push_back(Event { time, cost });
        }
    }

    /// Records in the last event when that has the same time.
    pub(super) fn record_merged(&mut self, time: i128, cost: i128) {
        match self.list.back_mut() {
            Some(last) if last.time == time => last.cost += cost,
            _ => self.record(time, cost),
        }
    }

    /// The cost of the events whose time is in `times`.
    pub(super) fn cost(&self, times: Range<i128>) -> i128 {
        self.list.iter().filter(|event| times.contains(&event.time)).map(|event| event.cost).sum()
    }

    /// The newest time.
    pub(super) fn newest(&self) -> Option<i128> {
        self.list.iter().map(|event| event.time).max()
    }

    /// Forgets the events before `time`.
    pub(super) fn forget_before(&mut self, time: i128) {
        self.list.retain(|event| event.time >= time);
    }

    /// Takes up to `units` from the events whose time is in `times`, the first recorded first.
    pub(super) fn take(&mut self, times: Range<i128>, units: i128) {
        let mut left = units;
        for event in self.list.iter_mut().filter(|event| times.contains(&event.time)) {
            let taken = event.cost.min(left);
            event.cost -= taken;
            left -= taken;
        }
        self.list.retain(|event| event.cost > 0);
    }

    /// Takes `cost` from one event at `time`: one of exactly that cost, else the first of at least
    /// that cost, else nothing.
    pub(super) fn take_own(&mut self, time: i128, cost: i128) {
        let own = |event: &&mut Event| event.time == time && event.cost == cost;
        let covers = |event: &&mut Event| event.time == time && event.cost >= cost;
        if let Some(event) = self.list.iter_mut().find(own) {
            event.cost = 0;
        } else if let Some(event) = self.list.iter_mut().find(covers) {
            event.cost -= cost;
        }
        self.list.retain(|event| event.cost > 0);
    }
}
