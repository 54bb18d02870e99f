//! A ban after too many denials: it counts the denials of the limits beside it.
//!
//! The state is two words. The first is a time: the end of the last ban, or the first denial that
//! is counted since. The second is how many denials are counted, and how many bans are remembered.

use crate::limit::{Element, LimitKind, Quota, QuotaError, MAX_COST};
use crate::strategy::{
    Cell, Charge, Descriptor, Judgement, LuaSpec, LuaStep, MAX_EXACT, NEVER_US, Recorded, Shape,
    Traits,
};
use crate::time::{SKEW_US, Time};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "ban",
    kind: LimitKind::Ban,
    code: 'b',
    summary: "nothing at all for a time, after so many denials by the limits beside it",
    page: include_str!("ban.md"),
    options: &[],
    steps: &[&LUA],
    traits,
    most_in,
};

/// The step in Lua.
pub(crate) const LUA: LuaStep = LuaStep {
    name: "ban",
    code: 'b',
    numbers: 4,
    capacity: 1,
    edges: None,
    words: Some(2),
    sound_numbers: "n[3] > 0 and n[3] <= n[4]",
    sound_words: "w[2] % 64 <= 62 and (w[2] - w[2] % 64) / 64 < n[1]",
    text: include_str!("ban.lua"),
};

/// The second word is the number of denials times this, and the number of bans.
const BANS: u64 = 64;

/// The most bans that are remembered: after so many, every ban is the longest.
const MAX_BANS: u64 = 62;

/// So many denials within a time, and how long the first and the longest ban lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    denials: u64,
    within_us: u64,
    first_us: u64,
    longest_us: u64,
    /// The number of bans after which each is the longest; 0 if the first one is.
    growing: u64,
}

pub(crate) fn compile(quota: &Quota) -> Result<Step, QuotaError> {
    let (denials, within_us) = (quota.units, quota.period.as_micros());
    let Some(ban) = quota.ban else {
        return Err(QuotaError::new(
            Element::Units,
            "a ban has a length".to_owned(),
            "write one, as in `ban 1m after 10 denials in 1m`".to_owned(),
        ));
    };
    let (first_us, longest_us) = (ban.first.as_micros(), ban.longest.as_micros());
    if longest_us < first_us {
        return Err(QuotaError::new(
            Element::Ban,
            format!("the longest ban is shorter than the first: {} and {}", ban.longest, ban.first),
            "leave out `up to` for bans that do not grow".to_owned(),
        ));
    }
    let growing = (0..MAX_BANS).find(|bans| longest_us >> bans <= first_us).unwrap_or(MAX_BANS);
    Ok(Step { denials, within_us, first_us, longest_us, growing })
}

impl Step {
    /// How long a ban lasts after so many before it.
    fn length_us(&self, bans: u64) -> u64 {
        if bans >= self.growing { self.longest_us } else { self.first_us << bans }
    }

    /// After so many bans the next one is the longest: more need not be remembered.
    fn most_bans(&self) -> u64 {
        if self.growing == 0 { 0 } else { self.growing + 1 }
    }

    /// The longest that the present ban can last.
    fn present_us(&self, bans: u64) -> u64 {
        self.length_us(bans.saturating_sub(1))
    }

    /// When nothing is remembered any more.
    fn forgotten_at_us(&self, at_us: u64, denials: u64, bans: u64) -> u64 {
        at_us
            + match (denials, bans) {
                (0, 0) => 0,
                (_, 0) => self.within_us,
                _ => self.longest_us.max(self.within_us),
            }
    }

    /// The time, the denials and the bans as of `now`; and whether the clock has stepped back.
    #[inline(always)]
    fn view(&self, cell: &mut Cell<'_>, now: Time) -> (u64, u64, u64, bool) {
        let words = cell.words();
        let (at_us, denials, bans) = (words[0], words[1] / BANS, words[1] % BANS);
        let now_us = now.as_micros();
        if self.forgotten_at_us(at_us, denials, bans) <= now_us {
            return (0, 0, 0, false);
        }
        let (ahead, right) = match denials {
            0 => (self.present_us(bans), self.present_us(bans)),
            _ => (SKEW_US, 0),
        };
        if at_us > now_us + ahead {
            return (now_us + right, denials, bans, true);
        }
        (at_us, denials, bans, false)
    }

    fn keep(cell: &mut Cell<'_>, (at_us, denials, bans): (u64, u64, u64)) {
        let words = cell.words();
        words[0] = at_us;
        words[1] = denials * BANS + bans;
    }

    fn reset_after_us(&self, at_us: u64, denials: u64, bans: u64, now: Time) -> u64 {
        self.forgotten_at_us(at_us, denials, bans).saturating_sub(now.as_micros())
    }
}

impl super::Step for Step {
    fn shape(&self) -> Shape {
        Shape::Words(2)
    }

    /// A ban takes nothing from a cost: it admits any, or none.
    fn capacity(&self) -> u64 {
        MAX_COST
    }

    fn judge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Judgement {
        let (at_us, denials, bans, stepped_back) = self.view(cell, now);
        let banned_us = if denials == 0 { at_us.saturating_sub(now.as_micros()) } else { 0 };
        Judgement {
            remaining: if banned_us > 0 { 0 } else { MAX_COST },
            retry_after_us: if cost > MAX_COST { NEVER_US } else { banned_us },
            reset_after_us: self.reset_after_us(at_us, denials, bans, now),
            stepped_back,
        }
    }

    fn charge(&self, cell: &mut Cell<'_>, now: Time, _: u64) -> Recorded {
        self.repair(cell, now);
        let (at_us, denials, bans, _) = self.view(cell, now);
        let reset_after_us = self.reset_after_us(at_us, denials, bans, now);
        Recorded { at_us: now.as_micros(), reset_after_us }
    }

    fn deny(&self, cell: &mut Cell<'_>, now: Time) {
        let (at_us, denials, bans, _) = self.view(cell, now);
        let now_us = now.as_micros();
        let is_over = denials == 0 || now_us >= at_us + self.within_us;
        let (at_us, denials) = if is_over { (now_us, 1) } else { (at_us, denials + 1) };
        let next = if denials < self.denials {
            (at_us, denials, bans)
        } else {
            (now_us + self.length_us(bans), 0, (bans + 1).min(self.most_bans()))
        };
        Self::keep(cell, next);
    }

    fn repair(&self, cell: &mut Cell<'_>, now: Time) {
        if let (at_us, denials, bans, true) = self.view(cell, now) {
            Self::keep(cell, (at_us, denials, bans));
        }
    }

    fn fresh_at_us(&self, cell: &mut Cell<'_>) -> u64 {
        let words = cell.words();
        self.forgotten_at_us(words[0], words[1] / BANS, words[1] % BANS)
    }

    fn refund(&self, _: &mut Cell<'_>, _: Time, _: Charge) {}

    fn spent_until_us(&self, at_us: u64, _: u64) -> u64 {
        at_us
    }

    fn grant(&self, _: &mut Cell<'_>, _: Time, _: u64) {}

    fn lua_spec(&self) -> LuaSpec {
        let Self { denials, within_us, first_us, longest_us, growing } = *self;
        let mut spec = LuaSpec::plain(&LUA, &[denials, within_us, first_us, longest_us]);
        spec.arguments.push(growing);
        spec
    }

    fn most(&self) -> Option<u64> {
        Some(MAX_COST)
    }

    fn with_capacity(&self, _: u64) -> Self {
        *self
    }

    fn is_sound(&self, words: &[u64]) -> bool {
        matches!(words, [at_us, counted] if *at_us < MAX_EXACT
            && counted % BANS <= MAX_BANS && counted / BANS < self.denials)
    }

    fn migrate(&self, cell: &mut Cell<'_>, was: &Self, old: &mut Cell<'_>, now: Time) {
        let (at_us, counted, bans, _) = was.view(old, now);
        let denials = counted.min(self.denials - 1);
        // Denials that are no longer counted have no time that could be that of a ban.
        let at_us = if denials < counted { at_us.min(now.as_micros()) } else { at_us };
        Self::keep(cell, (at_us, denials, bans.min(self.most_bans())));
        let (at_us, denials, bans, _) = self.view(cell, now);
        Self::keep(cell, (at_us, denials, bans));
    }
}

/// A ban has no rate: it admits anything while it does not run.
fn most_in(_: &Quota, _: u64) -> u128 {
    u128::from(u64::MAX)
}

fn traits(quota: &Quota) -> Traits {
    let Quota { units, period, ban, .. } = quota;
    let lengths = ban.map_or_else(String::new, |ban| {
        if ban.longest == ban.first {
            format!("each ban lasts {}", ban.first)
        } else {
            format!("{} at first, twice as long each time, at most {}", ban.first, ban.longest)
        }
    });
    Traits {
        worst_window: u64::MAX,
        sustained: lengths,
        bytes: "16".to_owned(),
        burst: format!("a ban begins with the denial that is number {units} within {period}"),
        retry: "when the ban has ended, and the limits beside it admit",
    }
}

#[cfg(test)]
mod tests {
    use crate::{Ask, Limiter, ManualClock, MemoryStore};
    use core::time::Duration;

    /// A history as a reader follows it.
    #[tokio::test]
    async fn a_ban_grows_and_is_forgotten() {
        let clock = ManualClock::at_micros(1_000_000_000);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let limits = "1/10s via gcra, ban 20s after 3 denials in 5s up to 1m".parse().unwrap();
        let limiter = Limiter::new(limits, store);
        let wait = |cost: u64| {
            let decision = limiter.check(Ask::new("a").cost(cost)).now().unwrap();
            decision.retry_after().map_or(0, |wait| wait.as_secs())
        };
        assert_eq!(wait(1), 0);
        assert_eq!((wait(1), wait(1)), (10, 10));
        // The third denial begins a ban, and reports that.
        assert_eq!(wait(1), 20);
        clock.advance(Duration::from_secs(19));
        // Denials by the ban are not counted.
        assert_eq!((wait(1), wait(1), wait(1)), (1, 1, 1));
        clock.advance(Duration::from_secs(1));
        assert_eq!(wait(1), 0);
        assert_eq!((wait(1), wait(1), wait(1)), (10, 10, 40));
        clock.advance(Duration::from_secs(40));
        assert_eq!((wait(1), wait(1), wait(1), wait(1)), (0, 10, 10, 60));
        clock.advance(Duration::from_secs(60));
        // Denials that are too far apart begin none.
        assert_eq!((wait(1), wait(1), wait(1)), (0, 10, 10));
        clock.advance(Duration::from_secs(5));
        assert_eq!((wait(1), wait(1), wait(1)), (5, 5, 60));
        // After a minute without a ban or a denial, the next ban is the first again.
        clock.advance(Duration::from_secs(60 + 60));
        assert_eq!((wait(1), wait(1), wait(1), wait(1)), (0, 10, 10, 20));
        // A reset forgives all.
        assert!(limiter.admin().reset("a").await.unwrap());
        assert_eq!((wait(1), wait(1), wait(1), wait(1)), (0, 10, 10, 20));
    }
}
