//! The strategies whose state is a list of events: `fixed_window`, `sliding_log` and
//! `sliding_window`.

use std::ops::Range;

use super::count::{Count, Used, floor_div};
use super::events::Events;
use super::rule::{MOST_UNITS, Rounding};

/// The windows of a `fixed_window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Windows {
    /// Of this length, since the epoch.
    Epoch(i128),
    /// Of this length, each from its first hit on.
    FirstHit(i128),
    /// Between these times in seconds. Those of one `kind` can follow each other.
    Dates { kind: u64, edges: &'static [i64] },
}

/// `fixed_window`: the events of one window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fixed {
    n: i128,
    pub(super) windows: Windows,
    grouped: bool,
    /// The window that was last written. It counts until its own end.
    pub(super) written: Option<(i128, i128)>,
    pub(super) events: Events,
}

impl Fixed {
    pub(super) fn fresh(n: u64, windows: Windows, grouped: bool) -> Self {
        Self { n: n.into(), windows, grouped, written: None, events: Events::empty(grouped) }
    }

    /// The window that a first event at `t` falls into.
    fn window_at(&self, t: i128) -> (i128, i128) {
        match self.windows {
            Windows::Epoch(d) => {
                let start = floor_div(t, d) * d;
                (start, start + d)
            }
            Windows::FirstHit(d) => (t, t + d),
            Windows::Dates { edges, .. } => {
                let us = |edge: &i64| i128::from(*edge) * 1_000_000;
                let next = edges.iter().position(|edge| us(edge) > t);
                let next = next.filter(|next| *next > 0);
                let next = next.unwrap_or_else(|| panic!("no edges are known around {t}"));
                (us(&edges[next - 1]), us(&edges[next]))
            }
        }
    }

    /// The window that holds `t`, if one was written and is not over.
    fn window(&self, t: i128) -> Option<Range<i128>> {
        self.written.map(|(start, end)| start..end).filter(|window| window.contains(&t))
    }

    fn count_at(&self, t: i128) -> i128 {
        self.window(t).map_or(0, |window| self.events.cost(window))
    }
}

impl Count for Fixed {
    fn limit(&self) -> i128 {
        self.n
    }

    fn used(&self, t: i128) -> Used {
        Used { parts: self.count_at(t), per_unit: 1 }
    }

    fn newest(&self) -> Option<i128> {
        self.written.map(|(start, _)| start)
    }

    fn repair(&mut self, now: i128) {
        if let Some(newest) = self.newest() {
            let carried = self.count_at(newest);
            let window = self.window_at(now);
            self.events.become_one(if self.grouped { window.0 } else { now }, carried);
            self.written = Some(window);
        }
    }

    fn charge(&mut self, t: i128, cost: i128) {
        if self.window(t).is_none() {
            self.events = Events::empty(self.grouped);
            self.written = Some(self.window_at(t));
        }
        if let (true, Some((start, _))) = (self.grouped, self.written) {
            self.events.record_merged(start, cost);
        } else {
            self.events.record(t, cost);
        }
    }

    fn refund(&mut self, t: i128, at: i128, _: i128, units: i128) {
        if self.window(t).is_some_and(|window| window.contains(&at)) {
            self.grant(t, units);
        }
    }

    fn grant(&mut self, t: i128, units: i128) {
        if let Some(window) = self.window(t) {
            self.events.take(window, units);
        }
    }
}

/// `sliding_log`: the events in `(t-d, t]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Log {
    n: i128,
    pub(super) d: i128,
    pub(super) events: Events,
}

impl Log {
    pub(super) fn fresh(n: u64, d_us: u64, grouped: bool) -> Self {
        Self { n: n.into(), d: d_us.into(), events: Events::empty(grouped) }
    }

    /// `(t-d, t]`, in whole microseconds.
    fn window(&self, t: i128) -> Range<i128> {
        t - self.d + 1..t + 1
    }
}

impl Count for Log {
    fn limit(&self) -> i128 {
        self.n
    }

    fn used(&self, t: i128) -> Used {
        Used { parts: self.events.cost(self.window(t)), per_unit: 1 }
    }

    fn newest(&self) -> Option<i128> {
        self.events.newest()
    }

    fn repair(&mut self, now: i128) {
        if let Some(newest) = self.newest() {
            let carried = self.events.cost(self.window(newest));
            self.events.become_one(now, carried);
        }
    }

    fn charge(&mut self, t: i128, cost: i128) {
        self.events.forget_before(self.window(t).start);
        self.events.record(t, cost);
    }

    fn refund(&mut self, t: i128, at: i128, _: i128, units: i128) {
        if self.window(t).contains(&at) {
            self.events.take_own(at, units);
        }
    }

    fn grant(&mut self, t: i128, units: i128) {
        self.events.take(self.window(t), units);
    }
}

/// `sliding_window`: the events by sub-buckets of length `p`; `b` of them make a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sliding {
    n: i128,
    pub(super) p: i128,
    pub(super) b: i128,
    rounding: Rounding,
    grouped: bool,
    pub(super) events: Events,
}

impl Sliding {
    pub(super) fn fresh(n: u64, d_us: u64, p_us: u64, rounding: Rounding, grouped: bool) -> Self {
        let (n, p) = (n.into(), i128::from(p_us));
        let b = i128::from(d_us) / p;
        Self { n, p, b, rounding, grouped, events: Events::empty(grouped) }
    }

    /// The times of the buckets `first` to `last`, both included.
    fn buckets(&self, first: i128, last: i128) -> Range<i128> {
        first * self.p..(last + 1) * self.p
    }

    pub(super) fn bucket_of(&self, t: i128) -> i128 {
        floor_div(t, self.p)
    }

    /// The times of the buckets that count at `t`, in full or in part.
    fn counting(&self, t: i128) -> Range<i128> {
        let k = self.bucket_of(t);
        match self.rounding {
            Rounding::Conservative | Rounding::Interpolate => self.buckets(k - self.b, k),
            Rounding::Truncate => self.buckets(k - self.b + 1, k),
        }
    }
}

impl Count for Sliding {
    fn limit(&self) -> i128 {
        self.n
    }

    fn used(&self, t: i128) -> Used {
        let k = self.bucket_of(t);
        let s = self.events.cost(self.buckets(k - self.b + 1, k));
        let o = || self.events.cost(self.buckets(k - self.b, k - self.b));
        let into_bucket = t - k * self.p; // f, times p
        match self.rounding {
            Rounding::Conservative => Used { parts: s + o(), per_unit: 1 },
            Rounding::Interpolate => {
                Used { parts: s * self.p + o() * (self.p - into_bucket), per_unit: self.p }
            }
            Rounding::Truncate => Used { parts: s, per_unit: 1 },
        }
    }

    /// The start of the newest bucket with a cost.
    fn newest(&self) -> Option<i128> {
        self.events.newest().map(|time| self.bucket_of(time) * self.p)
    }

    fn repair(&mut self, now: i128) {
        if let Some(newest) = self.newest() {
            let used = self.used(newest); // whole: newest is the start of a bucket
            let carried = (used.parts / used.per_unit).min(MOST_UNITS);
            self.events.become_one(self.bucket_of(now) * self.p, carried);
        }
    }

    fn charge(&mut self, t: i128, cost: i128) {
        let k = self.bucket_of(t);
        self.events.forget_before((k - self.b) * self.p);
        if self.grouped {
            self.events.record_merged(k * self.p, cost);
        } else {
            self.events.record(t, cost);
        }
    }

    fn refund(&mut self, t: i128, at: i128, _: i128, units: i128) {
        if self.counting(t).contains(&at) {
            let bucket = self.bucket_of(at);
            self.events.take(self.buckets(bucket, bucket), units);
        }
    }

    fn grant(&mut self, t: i128, units: i128) {
        self.events.take(self.counting(t), units);
    }
}
