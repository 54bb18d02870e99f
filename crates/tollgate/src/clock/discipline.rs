//! A processor's counter held to the system's monotonic clock: read as cheaply as the one, right
//! as the other.
//!
//! A *line* says what the counter's readings mean for the next [`SPAN_NS`]. Whoever reads later
//! than that looks at the system's clock and draws the next line, from where the clock is now. It
//! never begins before the end of the last one: when the counter was fast, it begins there and is
//! flatter. So no correction ever sets the clock back. A counter that itself jumps back takes the
//! clock along by a span at most.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use parking_lot::Mutex;

/// How long a line holds. A counter whose rate is wrong by one in a thousand is 1 us off after it,
/// and one look at the system's clock in so long costs nothing that can be measured.
pub(super) const SPAN_NS: u64 = 1_000_000;

/// Looks at both clocks until no more than this passes between the readings of the counter before
/// and after the system's, in parts of a span: a thread that is interrupted between them would take
/// a wrong pair.
const TIGHT: u64 = 512;

/// How often it tries, and then takes the tightest.
const ATTEMPTS: usize = 4;

/// Bits of a rate below one nanosecond for each tick.
const FRACTION: u32 = 32;

/// A counter, and the clock that it is held to.
pub(super) trait Counter {
    /// The counter now, in ticks.
    fn ticks(&self) -> u64;

    /// Nanoseconds since some moment, by the clock that is right.
    fn reference_ns(&self) -> u64;

    /// Nanoseconds that so many ticks are, as far as is known at the start.
    fn nominal_ns(&self, ticks: u64) -> u64;
}

/// What readings of the counter mean for a span.
#[derive(Clone, Copy, Debug)]
struct Line {
    ticks: u64,
    ns: u64,
    /// Nanoseconds for each tick, times 2^32.
    rate: u64,
}

impl Line {
    /// What the line says `ticks` after its start, which is at most a span.
    #[inline]
    fn after(&self, ticks: u64) -> u64 {
        self.ns + ((ticks * self.rate) >> FRACTION)
    }
}

/// Nanoseconds by the counter, held to the reference. They go back only where the counter does.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Disciplined<C> {
    /// Odd while a line is being drawn: what is read of it then is not one line.
    turn: AtomicU64,
    ticks: AtomicU64,
    ns: AtomicU64,
    rate: AtomicU64,
    /// Ticks that a line holds.
    span: u64,
    /// The rate of a line that has nothing to make up for.
    nominal: u64,
    counter: C,
    drawing: Mutex<()>,
}

impl<C: Counter> Disciplined<C> {
    pub(super) fn new(counter: C) -> Self {
        // Over as many ticks as some minutes have, so that the rate has its digits.
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

    /// Nanoseconds on the reference's scale.
    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        let turn = self.turn.load(Ordering::Acquire);
        let line = self.line();
        let ticks = self.counter.ticks().wrapping_sub(line.ticks);
        fence(Ordering::Acquire);
        // Read within one turn, the counter is not beyond the start of the line that follows.
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

    /// Looks at the reference and draws the next line, unless somebody has just done so.
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

    /// The line from a look at both clocks on. What the last one was ahead is made up for within a
    /// span, or at half the pace where it was more than half a span.
    fn next(&self, last: Line, ticks: u64, ns: u64) -> Line {
        // Nobody has read beyond its span; a counter that jumped back counts as one that did.
        let said = last.after(ticks.wrapping_sub(last.ticks).min(self.span));
        let ahead = said.saturating_sub(ns).min(SPAN_NS / 2);
        let slower = u128::from(self.nominal) * u128::from(ahead) / u128::from(SPAN_NS);
        let slower = u64::try_from(slower).unwrap_or(0);
        Line { ticks, ns: ns.max(said), rate: self.nominal - slower }
    }
}

/// The counter and the reference at one moment. The counter's reading is the later one: an
/// interruption between them makes the line late, which the next one mends, and never early.
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
