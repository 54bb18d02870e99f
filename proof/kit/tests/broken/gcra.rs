//! GCRA and buckets: mistakes of arithmetic and of time.

use std::collections::HashMap;

use super::sim::{Ask, At, Limiter, Reply, Said};

/// The mistakes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    Nothing,
    /// The tolerance is `B*T` in place of `(B-1)*T`.
    Tolerance,
    /// An idle subject saves credit below an empty backlog.
    Credit,
    /// The wait is rounded down.
    FloorWait,
    /// A cost that is never admitted gets a wait.
    WaitForNever,
    /// Only whole units come back, and the rest is dropped at each check.
    Fraction,
    /// Time in seconds as a double.
    Double,
    /// The state is written with 14 digits, as Lua's `tostring` does.
    Digits,
    /// Time in whole seconds.
    Seconds,
    /// The product of cost and time is of 32 bits.
    Narrow,
    /// `remaining` is that before the charge.
    RemainingBefore,
    /// A denied call is charged.
    DenialCharges,
    /// A cost below 1 is taken as it comes.
    NegativeCost,
    /// A cost of 0 is taken for 1.
    ZeroCost,
    /// A step back of the clock counts as time gone by.
    StepBackRefills,
    /// A state from ahead of the clock is left as it is.
    StepForwardBlocks,
    /// Each client decides by its own clock.
    LocalClock,
}

/// `n` units in `d` microseconds, `burst` at once. Times are in parts: microseconds times `n`.
pub(crate) struct Gcra {
    n: i128,
    d: i128,
    burst: i128,
    mistake: Mistake,
    held: HashMap<usize, VecStates>,
}

#[derive(Clone, Copy)]
struct VecStates {
    tat: i128,
    tat_s: f64,
    last: i128,
}

impl Gcra {
    pub(crate) fn new(n: u32, d_us: u32, burst: u32, mistake: Mistake) -> Self {
        let (n, d, burst) = (n.into(), d_us.into(), burst.into());
        Self { n, d, burst, mistake, held: HashMap::new() }
    }

    pub(crate) fn check(&mut self, subject: usize, now_us: u64, cost: i64) -> Said {
        if self.mistake == Mistake::Double {
            return self.check_double(subject, now_us, cost);
        }
        let Self { n, d, burst, mistake, .. } = *self;
        let now_us = match mistake {
            Mistake::Seconds => now_us / 1_000_000 * 1_000_000,
            _ => now_us,
        };
        let (now, cost, full) = (i128::from(now_us) * n, i128::from(cost), burst * d);
        let fresh = VecStates { tat: i128::MIN, tat_s: 0.0, last: now };
        let held = self.held.get(&subject).copied().unwrap_or(fresh);
        let floor = if mistake == Mistake::Credit { now - full + d } else { now };
        let mut debt = held.tat.max(floor) - now;
        match mistake {
            Mistake::StepForwardBlocks => {}
            Mistake::StepBackRefills if now < held.last => {
                debt = (debt - (held.last - now) - (held.last - now)).max(0);
            }
            // The burst, and a debt of as much again.
            _ => debt = debt.min(2 * full),
        }
        if mistake == Mistake::Fraction {
            debt = (debt + d - 1).div_euclid(d) * d;
        }
        let asked = match mistake {
            Mistake::Narrow => i128::from((cost as u32).wrapping_mul(d as u32)),
            _ => cost * d,
        };
        let allowed = match mistake {
            Mistake::Tolerance => debt + asked <= full + d,
            _ => debt + asked <= full,
        };
        let charged = allowed || mistake == Mistake::DenialCharges;
        let owed = if charged { debt + asked } else { debt };
        let mut tat = now + owed;
        if mistake == Mistake::Digits {
            // 16 digits of microseconds become 14.
            let unit = 100 * n;
            tat = (tat + unit / 2).div_euclid(unit) * unit;
        }
        self.held.insert(subject, VecStates { tat, tat_s: 0.0, last: now });
        let told = if mistake == Mistake::RemainingBefore { debt } else { owed };
        let missing = debt + asked - full;
        let wait = match mistake {
            Mistake::FloorWait => missing / n,
            _ => (missing + n - 1) / n,
        };
        let never = cost > burst && mistake != Mistake::WaitForNever;
        Said {
            allowed,
            remaining: u64::try_from(((full - told).div_euclid(d)).max(0)).unwrap(),
            wait_us: (!never).then(|| u64::try_from(wait.max(0)).unwrap()),
        }
    }

    /// The answer for the subject 0, without a charge.
    pub(crate) fn peek(&self, now_us: u64, cost: i64) -> Said {
        let (n, d, burst, mistake) = (self.n, self.d, self.burst, self.mistake);
        let mut copy = Self { n, d, burst, mistake, held: self.held.clone() };
        let said = copy.check(0, now_us, cost);
        let back = if said.allowed { u64::try_from(cost).unwrap() } else { 0 };
        Said { remaining: said.remaining + back, ..said }
    }

    /// Charges the subject 0 whether it has so much or not.
    pub(crate) fn force(&mut self, now_us: u64, cost: i64) {
        let now = i128::from(now_us) * self.n;
        let tat = self.held.get(&0).map_or(now, |held| held.tat.max(now));
        let tat = tat + i128::from(cost) * self.d;
        self.held.insert(0, VecStates { tat, tat_s: 0.0, last: now });
    }

    /// As it is written in languages whose only number is a double.
    fn check_double(&mut self, subject: usize, now_us: u64, cost: i64) -> Said {
        let (now, one) = (now_us as f64 / 1e6, self.d as f64 / self.n as f64 / 1e6);
        let full = self.burst as f64 * one;
        let tat = self.held.get(&subject).map_or(now, |held| held.tat_s.max(now));
        let next = tat + cost as f64 * one;
        let allowed = next - now <= full;
        let tat_s = if allowed { next } else { tat };
        self.held.insert(subject, VecStates { tat: 0, tat_s, last: 0 });
        let remaining = ((full - (tat_s - now)) / one).floor().max(0.0) as u64;
        let wait_us = Some(((next - now - full) * 1e6).ceil().max(0.0) as u64);
        Said { allowed, remaining, wait_us }
    }
}

impl Limiter for Gcra {
    fn step(&mut self, at: At, ask: &Ask, _: usize) -> Option<Reply> {
        let cost = match self.mistake {
            Mistake::NegativeCost => ask.cost,
            Mistake::ZeroCost if ask.cost == 0 => 1,
            _ if ask.cost < 1 => return Some(Reply::REFUSED),
            _ => ask.cost,
        };
        let now_us = if self.mistake == Mistake::LocalClock { at.client_us } else { at.now_us };
        Some(Reply::new(self.check(ask.subject, now_us, cost), now_us))
    }
}
