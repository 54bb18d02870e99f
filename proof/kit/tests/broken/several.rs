//! Several limits in one check, and limits whose numbers change.

use super::gcra::{Gcra, Mistake as Arithmetic};
use super::sim::{Ask, At, Limiter, Reply, Said};
use std::collections::HashMap;

/// The mistakes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    Nothing,
    /// The first limit is charged before the second is asked.
    OneAfterTheOther,
    /// All are asked in one round trip, and charged in the next.
    AskThenCharge,
    /// The answer has the largest `remaining` of any limit.
    TellsMost,
}

/// Two limits of whole units: a slow one and one per window. Both are exact on their own.
pub(crate) struct Both {
    mistake: Mistake,
    slow: Gcra,
    fast: Gcra,
    asked: HashMap<usize, bool>,
}

impl Both {
    /// `9/100h via gcra` and `3/10s via gcra`.
    pub(crate) fn new(mistake: Mistake) -> Self {
        let slow = Gcra::new(9, 360_000_000, 9, Arithmetic::Nothing);
        let fast = Gcra::new(3, 10_000_000, 3, Arithmetic::Nothing);
        Self { mistake, slow, fast, asked: HashMap::new() }
    }

    fn join(&self, allowed: bool, slow: Said, fast: Said) -> Said {
        let remaining = match self.mistake {
            Mistake::TellsMost => slow.remaining.max(fast.remaining),
            _ => slow.remaining.min(fast.remaining),
        };
        let waits = [slow, fast].map(|said| if said.allowed { Some(0) } else { said.wait_us });
        let wait_us = waits[0].zip(waits[1]).map(|(one, two)| one.max(two));
        Said { allowed, remaining, wait_us }
    }
}

impl Limiter for Both {
    fn step(&mut self, at: At, ask: &Ask, step: usize) -> Option<Reply> {
        let (now_us, cost) = (at.now_us, ask.cost);
        let slow = self.slow.peek(now_us, cost);
        let fast = self.fast.peek(now_us, cost);
        let mut allowed = slow.allowed && fast.allowed;
        if self.mistake == Mistake::AskThenCharge {
            if step == 0 {
                self.asked.insert(ask.client, allowed);
                return None;
            }
            allowed = self.asked[&ask.client];
            if allowed {
                self.slow.force(now_us, cost);
                self.fast.force(now_us, cost);
                let left = self.join(true, self.slow.peek(now_us, 1), self.fast.peek(now_us, 1));
                return Some(Reply::new(Said { allowed, ..left }, now_us));
            }
        }
        if allowed {
            let (slow, fast) = (self.slow.check(0, now_us, cost), self.fast.check(0, now_us, cost));
            return Some(Reply::new(self.join(true, slow, fast), now_us));
        }
        if self.mistake == Mistake::OneAfterTheOther && slow.allowed {
            self.slow.force(now_us, cost);
        }
        Some(Reply::new(self.join(false, slow, fast), now_us))
    }
}

/// A limit whose numbers are 5 or 7 in 10 s, as two revisions of a program say.
pub(crate) struct Changing {
    forgets: bool,
    count: u64,
    window: u64,
    numbers: usize,
}

impl Changing {
    pub(crate) fn new(forgets: bool) -> Self {
        Self { forgets, count: 0, window: 0, numbers: 0 }
    }
}

impl Limiter for Changing {
    fn step(&mut self, at: At, ask: &Ask, _: usize) -> Option<Reply> {
        const WINDOW_US: u64 = 10_000_000;
        let window = at.now_us / WINDOW_US;
        if window != self.window || (self.forgets && ask.limits != self.numbers) {
            (self.window, self.count) = (window, 0);
        }
        self.numbers = ask.limits;
        let n = [5, 7][ask.limits];
        let allowed = self.count < n;
        self.count += u64::from(allowed);
        let wait_us = Some((window + 1) * WINDOW_US - at.now_us);
        let remaining = n.saturating_sub(self.count);
        Some(Reply::new(Said { allowed, remaining, wait_us }, at.now_us))
    }
}
