//! A processor's counter corrected by the system's monotonic clock: as cheap to read as the
//! counter, and as right as the clock.
//!
//! A *line* converts counter readings to nanoseconds for the next [`SPAN_NS`]. A reader that comes
//! later reads the system clock and draws the next line from there. That line never begins before
//! the end of the last one. If the counter was fast, the new line begins at that end and is
//! flatter, so no correction sets the clock back. If the counter itself jumps back, the clock goes
//! back by one span at most.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use parking_lot::Mutex;

/// How long a line is valid: 1 ms. A counter whose rate is wrong by one in a thousand is 1 us off
/// after it. One reading of the system clock per span costs too little to measure.
pub(super) const SPAN_NS: u64 = 1_000_000;

/// A pair of readings is good enough if the counter advances by at most 1/`TIGHT` of a span around
/// the reading of the system clock. A thread that is interrupted between the two would take a wrong
/// pair.
const TIGHT: u64 = 512;

/// The most attempts at a tight pair; after them the tightest is used.
const ATTEMPTS: usize = 4;

/// Fractional bits of a rate in nanoseconds per tick.
const FRACTION: u32 = 32;

/// A counter, and the reference clock that corrects it.
pub(super) trait Counter {
    /// The counter now, in ticks.
    fn ticks(&self) -> u64;

    /// Nanoseconds since some fixed moment, by the reference clock.
    fn reference_ns(&self) -> u64;

    /// Converts ticks to nanoseconds at the rate measured at the start.
    fn nominal_ns(&self, ticks: u64) -> u64;
}

/// The conversion from counter readings to nanoseconds for one span.
#[derive(Clone, Copy, Debug)]
struct Line {
    ticks: u64,
    ns: u64,
    /// Nanoseconds per tick, times 2^32.
    rate: u64,
}

impl Line {
    /// The line's time in nanoseconds, `ticks` after its start; `ticks` is at most a span.
    #[inline]
    fn after(&self, ticks: u64) -> u64 {
        self.ns + ((ticks * self.rate) >> FRACTION)
    }
}

/// Nanoseconds by the counter, corrected by the reference. They go back only if the counter does.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Disciplined<C> {
    /// Odd while a line is being written: its fields may then belong to two lines.
    turn: AtomicU64,
    ticks: AtomicU64,
    ns: AtomicU64,
    rate: AtomicU64,
    /// The ticks for which a line is valid.
    span: u64,
    /// The rate of a line without a correction.
    nominal: u64,
    counter: C,
    drawing: Mutex<()>,
}

impl<C: Counter> Disciplined<C> {
    pub(super) fn new(counter: C) -> Self {
        // Over 2^40 ticks, some minutes, so that the rate keeps its precision.
        let nominal = (counter.nominal_ns(1 << 40) >> (40 - FRACTION)).max(1);
        let (ticks, ns) = pair(&counter, u64::MAX);
        Self {
            turn: AtomicU64::new(0),
            ticks: AtomicU64::new(ticks),
            ns: AtomicU64::new(ns),
            rate: AtomicU64::new(nominal),
            span: ((SPAN_NS << FRACTION) / nominal).max(1),
            nominal,
            counter,
            drawing: Mutex::new(()),
        }
    }

    /// The current time in nanoseconds, on the reference's scale.
    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        let turn = self.turn.load(Ordering::Acquire);
        let line = self.line();
        let ticks = self.counter.ticks().wrapping_sub(line.ticks);
        fence(Ordering::Acquire);
        // If the turn has not changed, the counter was read before the start of the next line.
        let whole = turn.is_multiple_of(2) && self.turn.load(Ordering::Relaxed) == turn;
        if whole && ticks <= self.span { line.after(ticks) } else { self.synchronize() }
    }

    #[inline]
    fn line(&self) -> Line {
        Line {
            ticks: self.ticks.load(Ordering::Relaxed),
            ns: self.ns.load(Ordering::Relaxed),
            rate: self.rate.load(Ordering::Relaxed),
        }
    }

    /// Reads the reference and draws the next line, unless another thread has just done so.
    #[cold]
    fn synchronize(&self) -> u64 {
        let _drawing = self.drawing.lock();
        let line = self.line();
        let since = self.counter.ticks().wrapping_sub(line.ticks);
        if since <= self.span {
            return line.after(since);
        }
        self.turn.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::Release);
        let (ticks, ns) = pair(&self.counter, self.span / TIGHT);
        let next = self.next(line, ticks, ns);
        self.ticks.store(next.ticks, Ordering::Relaxed);
        self.ns.store(next.ns, Ordering::Relaxed);
        self.rate.store(next.rate, Ordering::Relaxed);
        self.turn.fetch_add(1, Ordering::Release);
        next.ns
    }

    /// The line that starts at this pair of readings. It makes up for the last line's lead within
    /// one span, or at half speed if the lead was more than half a span.
    fn next(&self, last: Line, ticks: u64, ns: u64) -> Line {
        // No reading went beyond the last line's span. A counter that jumped back counts as beyond
        // it.
        let said = last.after(ticks.wrapping_sub(last.ticks).min(self.span));
        let ahead = said.saturating_sub(ns).min(SPAN_NS / 2);
        let slower = u128::from(self.nominal) * u128::from(ahead) / u128::from(SPAN_NS);
        let slower = u64::try_from(slower).unwrap_or(0);
        Line { ticks, ns: ns.max(said), rate: self.nominal - slower }
    }
}

/// Reads the counter and the reference together. The counter is read last: an interruption between
/// the two makes the line late, never early, and the next line corrects it.
fn pair(counter: &impl Counter, tight: u64) -> (u64, u64) {
    let look = || {
        let before = counter.ticks();
        let ns = counter.reference_ns();
        let after = counter.ticks();
        (after.wrapping_sub(before), after, ns)
    };
    let mut best = look();
    for _ in 1..ATTEMPTS {
        if best.0 <= tight {
            break;
        }
        best = best.min(look());
    }
    (best.1, best.2)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that cannot go on has failed
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A counter of 2.45 GHz that is off by parts per billion, under a time that is set.
    struct Wrong {
        now_ns: AtomicU64,
        /// Added to the counter: a jump, as when a machine is moved to another host.
        jump: AtomicU64,
        off_ppb: i64,
    }

    /// Ticks in 1000 ns.
    const TICKS: u128 = 2_450;

    impl Wrong {
        fn new(off_ppb: i64) -> Self {
            Self { now_ns: AtomicU64::new(0), jump: AtomicU64::new(1 << 50), off_ppb }
        }
    }

    impl Counter for Wrong {
        fn ticks(&self) -> u64 {
            let billion = 1_000_000_000;
            let pace = u128::try_from(billion + self.off_ppb).unwrap();
            let now = u128::from(self.now_ns.load(Ordering::SeqCst));
            let ticks = now * TICKS * pace / 1_000 / u128::try_from(billion).unwrap();
            u64::try_from(ticks).unwrap().wrapping_add(self.jump.load(Ordering::SeqCst))
        }

        fn reference_ns(&self) -> u64 {
            self.now_ns.load(Ordering::SeqCst)
        }

        fn nominal_ns(&self, ticks: u64) -> u64 {
            u64::try_from(u128::from(ticks) * 1_000 / TICKS).unwrap()
        }
    }

    const DAY_NS: u64 = 86_400 * 1_000_000_000;

    /// Reads the clock over a day, in steps of all sizes, and says how far it was off at most.
    fn most_off(off_ppb: i64) -> u64 {
        let clock = Disciplined::new(Wrong::new(off_ppb));
        let (mut last, mut most, mut random) = (0, 0, 0x9e37_79b9_7f4a_7c15_u64);
        let mut now = 0;
        while now < DAY_NS {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // From nanoseconds to half a minute, and mostly short.
            now += (random >> 20) % (1 << ((random >> 58) % 36).max(1)) + 1;
            clock.counter.now_ns.store(now, Ordering::SeqCst);
            let said = clock.now_ns();
            assert!(said >= last, "{off_ppb} ppb: {said} after {last}");
            (last, most) = (said, most.max(said.abs_diff(now)));
        }
        most
    }

    #[test]
    fn a_counter_of_a_wrong_rate_is_never_a_microsecond_off() {
        // Held to nothing, one part per million is 86.4 ms after this day.
        for ppm in [0, 1, 34, 500, 990] {
            for off_ppb in [ppm * 1_000, -ppm * 1_000] {
                let off = most_off(off_ppb);
                assert!(off <= 1_000, "{off_ppb} ppb: {off} ns off");
            }
        }
    }

    #[test]
    fn readings_without_a_pause_are_right_too() {
        for off_ppb in [1_000, -1_000, 34_000, 990_000, -990_000] {
            let clock = Disciplined::new(Wrong::new(off_ppb));
            let mut last = 0;
            for now in (0..5_000_000_000_u64).step_by(7_919) {
                clock.counter.now_ns.store(now, Ordering::SeqCst);
                let said = clock.now_ns();
                assert!(said >= last && said.abs_diff(now) <= 1_000, "{off_ppb}: {said} at {now}");
                last = said;
            }
        }
    }

    proptest! {
        /// A counter may jump either way, as when a machine moves to another host: the clock goes
        /// at most a span along, and is right again after seven.
        #[test]
        fn a_counter_that_jumps_does_not_take_the_clock_along(
            jump in prop_oneof![any::<i64>(), -5_000_000..5_000_000_i64],
            before in 0..3 * SPAN_NS,
        ) {
            let clock = Disciplined::new(Wrong::new(0));
            let back = jump.min(0).unsigned_abs().min(SPAN_NS);
            let mut last = 0;
            let mut read = |now: u64| {
                clock.counter.now_ns.store(now, Ordering::SeqCst);
                let said = clock.now_ns();
                assert!(said + back >= last, "{said} after {last}");
                last = said;
                said
            };
            read(before);
            clock.counter.jump.fetch_add(jump.cast_unsigned(), Ordering::SeqCst);
            let said = read(before + 1);
            prop_assert!(said.abs_diff(before) <= SPAN_NS + 1, "{said} at {before}");
            for step in 1..=300 {
                read(before + step * SPAN_NS / 50);
            }
            let end = before + 7 * SPAN_NS;
            let said = read(end);
            prop_assert!(said.abs_diff(end) <= 1_000, "{said} at {end}");
        }
    }
}
