//! The sliding window of sub-buckets: one count per `D/b`; a rounding applies to the bucket that is
//! partly inside the window.
//!
//! The words are the index of the newest bucket with a cost, then `b + 1` counts. Bucket `i` is at
//! `i mod (b + 1)`. All zeros is fresh.

use crate::limit::{Element, LimitKind, MAX_UNITS, Quota, QuotaError, Rounding};
use crate::strategy::period::{mul_div, mul_div_up};
use crate::strategy::{
    Cell, Charge, Descriptor, Judgement, LuaSpec, LuaStep, MAX_EXACT, NEVER_US, Recorded, Shape,
    Traits, worst_window,
};
use crate::time::{Period, SKEW_US, Time};

/// The most sub-buckets a window may have.
pub(crate) const MAX_BUCKETS: u64 = 1_000;

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "sliding_window",
    kind: LimitKind::Rate,
    code: 's',
    summary: "a window of sub-buckets that moves: small state, with a stated rounding",
    page: include_str!("sliding_window.md"),
    options: &["precision", "rounding", "debt"],
    steps: &[&LUA],
    traits,
    most_in,
};

/// The step in Lua.
const LUA: LuaStep = LuaStep {
    name: "window",
    code: 's',
    numbers: 4,
    capacity: 1,
    edges: None,
    words: None,
    sound_numbers: "n[1] <= 1099511627776 and n[3] > 0 and n[3] <= 1000
      and n[2] * n[3] <= 31622400000000 and n[4] <= 2",
    sound_words: "w[1] * n[2] < 9007199254740992 and math.max(unpack(w, 2)) <= 1099511627776",
    text: include_str!("sliding_window.lua"),
};

/// `units` per window of `buckets` sub-buckets of `precision_us`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    units: u64,
    precision_us: u64,
    buckets: u64,
    rounding: Rounding,
}

pub(crate) fn compile(quota: &Quota) -> Result<Step, QuotaError> {
    let period_us = quota.period.as_micros();
    let precision_us = match quota.precision {
        Some(precision) => precision.as_micros(),
        None => default_precision_us(period_us).ok_or_else(|| {
            QuotaError::new(
                Element::Period,
                format!("{} cannot be cut into 10 equal sub-buckets", quota.period),
                "give a precision that divides it, as in `precision 1us`".to_owned(),
            )
        })?,
    };
    if !period_us.is_multiple_of(precision_us) {
        return Err(QuotaError::new(
            Element::Precision,
            format!("the precision does not divide {}", quota.period),
            format!("choose one that does, as in `precision {}`", divisor(quota, precision_us)),
        ));
    }
    let buckets = period_us / precision_us;
    if buckets > MAX_BUCKETS {
        return Err(QuotaError::new(
            Element::Precision,
            format!("this precision makes {buckets} sub-buckets"),
            format!("at most {MAX_BUCKETS}: `via sliding_log` is exact without any"),
        ));
    }
    let rounding = quota.rounding.unwrap_or_default();
    Ok(Step { units: quota.units, precision_us, buckets, rounding })
}

/// A tenth of the duration, if that is a whole number of microseconds.
pub(crate) fn default_precision_us(period_us: u64) -> Option<u64> {
    period_us.is_multiple_of(10).then_some(period_us / 10)
}

/// How far from a precision a whole one that divides the duration is looked for.
const NEAR: u64 = 1_000;

/// A precision near the given one that divides the duration: in the unit in which that was written,
/// the shorter of two that are equally near; else the next longer one.
fn divisor(quota: &Quota, precision_us: u64) -> Period {
    let period_us = quota.period.as_micros();
    let fits = |us: &u64| *us > 0 && period_us.is_multiple_of(*us) && period_us / us <= MAX_BUCKETS;
    let units = [86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000, 1_000, 1];
    let unit_us = units.into_iter().find(|us| precision_us.is_multiple_of(*us)).unwrap_or(1);
    let near = (1..NEAR).flat_map(|steps| {
        let by_us = steps * unit_us;
        [precision_us.saturating_sub(by_us), precision_us + by_us]
    });
    let found = near.take_while(|us| *us < 2 * period_us).find(fits);
    let us = found.unwrap_or_else(|| {
        let mut buckets = (period_us / precision_us).clamp(1, MAX_BUCKETS);
        while !period_us.is_multiple_of(buckets) {
            buckets -= 1;
        }
        period_us / buckets
    });
    Period::from_micros(us).unwrap_or(quota.period)
}

/// The counts at one time.
struct View {
    /// The bucket of the effective time.
    bucket: u64,
    /// The effective time: now, or the newest bucket's start if the clock is behind it.
    at_us: u64,
    /// The units that count in full: the buckets `bucket - b + 1` to `bucket`.
    inside: u64,
    /// The units of the bucket `bucket - b`, which is partly inside the window.
    straddling: u64,
    /// True when the state is in the future: all of its units are then counted at now.
    stepped_back: bool,
}

impl Step {
    #[allow(clippy::cast_possible_truncation)] // at most 1,001 slots
    fn slot(&self, bucket: u64) -> usize {
        1 + (bucket % (self.buckets + 1)) as usize
    }

    /// The count of a bucket; 0 if it is not stored.
    fn count(&self, words: &[u64], bucket: u64) -> u64 {
        let newest = words[0];
        if bucket > newest || bucket + self.buckets < newest {
            return 0;
        }
        words[self.slot(bucket)]
    }

    /// The units of the buckets from `first` to `last`. One division finds the first slot, and
    /// the others follow it: a division for each bucket would take most of a check.
    #[allow(clippy::cast_possible_truncation)] // at most 1,001 slots
    fn sum(&self, words: &[u64], first: u64, last: u64) -> u64 {
        let newest = words[0];
        let first = first.max(newest.saturating_sub(self.buckets));
        let last = last.min(newest);
        if first > last {
            return 0;
        }
        let (start, length) = (self.slot(first), (last - first + 1) as usize);
        let to_end = length.min(words.len() - start);
        let row: u64 = words[start..start + to_end].iter().sum();
        row + words[1..1 + length - to_end].iter().sum::<u64>()
    }

    /// The count of the bucket partly inside the window that ends with `bucket`, if there can be
    /// one.
    fn straddling(&self, words: &[u64], bucket: u64) -> u64 {
        bucket.checked_sub(self.buckets).map_or(0, |oldest| self.count(words, oldest))
    }

    fn view_at(&self, words: &[u64], at_us: u64) -> View {
        let bucket = at_us / self.precision_us;
        let first = (bucket + 1).saturating_sub(self.buckets);
        let inside = self.sum(words, first, bucket);
        let straddling = self.straddling(words, bucket);
        View { bucket, at_us, inside, straddling, stepped_back: false }
    }

    fn view(&self, words: &[u64], now: Time) -> View {
        let now_us = now.as_micros();
        let newest_us = words[0] * self.precision_us;
        if newest_us <= now_us {
            return self.view_at(words, now_us);
        }
        let newest = self.view_at(words, newest_us);
        if newest_us - now_us <= SKEW_US {
            return newest;
        }
        View {
            bucket: now_us / self.precision_us,
            at_us: now_us,
            inside: self.used(&newest).min(MAX_UNITS),
            straddling: 0,
            stepped_back: true,
        }
    }

    /// The units that count against the limit, rounded up.
    fn used(&self, view: &View) -> u64 {
        let into_us = view.at_us - view.bucket * self.precision_us;
        view.inside + self.weight(view.straddling, into_us)
    }

    /// The weight of the bucket partly inside the window, `into_us` after the newest bucket began.
    fn weight(&self, straddling: u64, into_us: u64) -> u64 {
        match self.rounding {
            Rounding::Conservative => straddling,
            Rounding::Interpolate => straddling - mul_div(straddling, into_us, self.precision_us),
            Rounding::Truncate => 0,
        }
    }

    /// When `cost` is first admitted, in microseconds since the Unix epoch, if nothing else is
    /// charged.
    fn ready_at_us(&self, words: &[u64], view: &View, cost: u64) -> u64 {
        let fits =
            |inside: u64, counted: u64| (inside + counted).saturating_add(cost) <= self.units;
        let counts = |bucket| if view.stepped_back { 0 } else { self.count(words, bucket) };
        let (mut inside, mut straddling) = (view.inside, view.straddling);
        let mut bucket = view.bucket;
        // The loop ends: one bucket after the window nothing counts, and `cost` is at most `units`.
        loop {
            let start_us = bucket * self.precision_us;
            let from_us = start_us.max(view.at_us);
            if fits(inside, self.weight(straddling, from_us - start_us)) {
                return from_us;
            }
            if self.rounding == Rounding::Interpolate && fits(inside, 0) {
                // Within this bucket, enough of the partial one leaves the window.
                let surplus = inside + straddling + cost - self.units;
                return start_us + mul_div_up(surplus, self.precision_us, straddling);
            }
            // At the next bucket, the oldest full bucket becomes the partial one.
            straddling = if view.stepped_back && bucket + 1 == view.bucket + self.buckets {
                view.inside
            } else {
                (bucket + 1).checked_sub(self.buckets).map_or(0, counts)
            };
            inside -= straddling;
            bucket += 1;
        }
    }

    /// The number of buckets after the newest one until its cost stops counting.
    fn lifetime(&self) -> u64 {
        match self.rounding {
            Rounding::Truncate => self.buckets,
            Rounding::Conservative | Rounding::Interpolate => self.buckets + 1,
        }
    }

    /// The wait in microseconds until nothing counts.
    fn reset_us(&self, newest: u64, now: Time) -> u64 {
        ((newest + self.lifetime()) * self.precision_us).saturating_sub(now.as_micros())
    }

    /// Makes `bucket` the newest, and clears what no longer counts.
    fn advance(&self, words: &mut [u64], bucket: u64) {
        let newest = words[0];
        if bucket > newest + self.buckets {
            words.fill(0);
        } else {
            for passed in newest + 1..=bucket {
                words[self.slot(passed)] = 0;
            }
        }
        words[0] = words[0].max(bucket);
    }

    /// Recomputes the first word after counts were reduced.
    fn settle(&self, words: &mut [u64]) {
        let held = words[0].saturating_sub(self.buckets)..=words[0];
        match held.rev().find(|bucket| self.count(words, *bucket) > 0) {
            // The slots above it are zero. The slots that move into the window at its start must be
            // zero too: none of their buckets is stored any more.
            Some(newest) => words[0] = newest,
            None => words.fill(0),
        }
    }
}

impl super::Step for Step {
    #[allow(clippy::cast_possible_truncation)] // at most 1,002 words
    fn shape(&self) -> Shape {
        Shape::Words(self.buckets as usize + 2)
    }

    fn capacity(&self) -> u64 {
        self.units
    }

    fn judge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Judgement {
        let words = cell.words();
        let view = self.view(words, now);
        let used = self.used(&view);
        let remaining = self.units.saturating_sub(used);
        let retry_after_us = if used.saturating_add(cost) <= self.units {
            0
        } else if cost > self.units {
            NEVER_US
        } else {
            self.ready_at_us(words, &view, cost) - now.as_micros()
        };
        let newest = if view.stepped_back { view.bucket } else { words[0] };
        let counts = view.inside > 0 || self.weight(view.straddling, 0) > 0;
        let reset_after_us = if counts { self.reset_us(newest, now) } else { 0 };
        Judgement { remaining, retry_after_us, reset_after_us, stepped_back: view.stepped_back }
    }

    fn charge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Recorded {
        self.repair(cell, now);
        let words = cell.words();
        // After a repair the newest bucket is at most the skew ahead.
        let at_us = now.as_micros().max(words[0] * self.precision_us);
        let bucket = at_us / self.precision_us;
        self.advance(words, bucket);
        words[self.slot(bucket)] += cost;
        Recorded { at_us, reset_after_us: self.reset_us(bucket, now) }
    }

    fn repair(&self, cell: &mut Cell<'_>, now: Time) {
        let words = cell.words();
        if words[0] * self.precision_us <= now.as_micros() {
            return;
        }
        let view = self.view(words, now);
        if view.stepped_back {
            words.fill(0);
            if view.inside > 0 {
                words[0] = view.bucket;
                words[self.slot(view.bucket)] = view.inside;
            }
        }
    }

    fn fresh_at_us(&self, cell: &mut Cell<'_>) -> u64 {
        let newest = cell.words()[0];
        if cell.words().iter().all(|word| *word == 0) {
            return 0;
        }
        (newest + self.lifetime()) * self.precision_us
    }

    fn refund(&self, cell: &mut Cell<'_>, now: Time, charge: Charge) {
        self.repair(cell, now);
        let words = cell.words();
        let bucket = charge.at_us / self.precision_us;
        let current = self.view(words, now).bucket;
        if bucket <= words[0] && bucket + self.lifetime() > current {
            let slot = self.slot(bucket);
            if self.count(words, bucket) > 0 {
                words[slot] = words[slot].saturating_sub(charge.units);
                self.settle(words);
            }
        }
    }

    fn spent_until_us(&self, at_us: u64, _: u64) -> u64 {
        (at_us / self.precision_us + self.lifetime()) * self.precision_us
    }

    fn grant(&self, cell: &mut Cell<'_>, now: Time, units: u64) {
        self.repair(cell, now);
        let words = cell.words();
        let current = self.view(words, now).bucket;
        let mut left = units;
        let oldest = (current + 1).saturating_sub(self.lifetime());
        for bucket in oldest..=words[0] {
            if self.count(words, bucket) > 0 {
                let given = self.count(words, bucket).min(left);
                words[self.slot(bucket)] -= given;
                left -= given;
            }
        }
        self.settle(words);
    }

    fn is_sound(&self, words: &[u64]) -> bool {
        let Some((newest, counts)) = words.split_first() else { return false };
        let newest_us = newest.checked_mul(self.precision_us);
        newest_us.is_some_and(|us| us < MAX_EXACT) && counts.iter().all(|c| *c <= MAX_UNITS)
    }

    fn lua_spec(&self) -> LuaSpec {
        let rounding = match self.rounding {
            Rounding::Conservative => 0,
            Rounding::Interpolate => 1,
            Rounding::Truncate => 2,
        };
        LuaSpec::plain(&LUA, &[self.units, self.precision_us, self.buckets, rounding])
    }

    fn with_capacity(&self, most: u64) -> Self {
        Self { units: most, ..self.clone() }
    }

    fn migrate(&self, cell: &mut Cell<'_>, was: &Self, old: &mut Cell<'_>, now: Time) {
        let (words, old) = (cell.words(), &*old.words());
        let view = was.view(old, now);
        let same_buckets = self.precision_us == was.precision_us && self.buckets == was.buckets;
        if same_buckets && !view.stepped_back {
            words.copy_from_slice(old);
            return;
        }
        // Another rounding may have allowed twice the largest limit. One bucket never counts that
        // much, and no limit can tell the difference.
        let used = was.used(&view).min(MAX_UNITS);
        if used > 0 {
            let bucket = view.at_us / self.precision_us;
            words[0] = bucket;
            words[self.slot(bucket)] = used;
        }
    }
}

fn most_in(quota: &Quota, span_us: u64) -> u128 {
    let units = u128::from(quota.units);
    let in_period = match quota.rounding.unwrap_or_default() {
        Rounding::Conservative => units,
        Rounding::Interpolate => 2 * units - 1,
        Rounding::Truncate => 2 * units,
    };
    in_period * u128::from(span_us.div_ceil(quota.period.as_micros()))
}

fn traits(quota: &Quota) -> Traits {
    let period_us = quota.period.as_micros();
    let precision_us = quota
        .precision
        .map(Period::as_micros)
        .or_else(|| default_precision_us(period_us))
        .unwrap_or(period_us);
    let buckets = period_us / precision_us;
    let rounding = quota.rounding.unwrap_or_default();
    let sustained = match rounding {
        Rounding::Conservative => format!("{buckets}/{} of {}", buckets + 1, quota.rate()),
        Rounding::Interpolate | Rounding::Truncate => quota.rate(),
    };
    Traits {
        worst_window: worst_window(quota, most_in),
        sustained,
        bytes: format!("8 x ({buckets} + 2) = {}", 8 * (buckets + 2)),
        burst: format!("{} at once, then as the sub-buckets leave the window", quota.units),
        retry: "the exact time at which enough sub-buckets have left the window",
    }
}
