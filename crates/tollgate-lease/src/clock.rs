//! The clock of a node.

use tollgate::{Clock, Time};

/// The time since this machine started, with the time that it slept. No step of the wall clock
/// moves it, and a process that was stopped finds that time has passed.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct BootClock;

impl Clock for BootClock {
    #[inline]
    fn now(&self) -> Time {
        since_boot()
    }
}

/// By the clock that counts sleep, which Linux has beside the monotonic one.
#[cfg(unix)]
#[inline]
fn since_boot() -> Time {
    use rustix::time::{ClockId, clock_gettime};
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    let since = clock_gettime(clock);
    // Neither is ever negative.
    let (seconds, nanos) = (since.tv_sec.unsigned_abs(), since.tv_nsec.unsigned_abs());
    Time::from_micros(seconds * 1_000_000 + nanos / 1_000)
}

/// By the clock of the standard library, from the first reading on.
#[cfg(not(unix))]
fn since_boot() -> Time {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let first = FIRST.get_or_init(std::time::Instant::now);
    Time::default().plus(first.elapsed())
}

/// How long a wait by the store's clock is, at least, by a node's that may be wrong by one part in
/// a thousand.
pub(crate) fn surely_within(us: u64) -> u64 {
    us - us.div_ceil(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_as_on_the_monotonic_clock() {
        let (before, started) = (BootClock.now(), std::time::Instant::now());
        while started.elapsed().as_millis() < 20 {
            std::hint::spin_loop();
        }
        let passed = BootClock.now().as_micros() - before.as_micros();
        assert!(passed >= 20_000, "{passed}");
    }

    #[test]
    fn drift_is_allowed_for() {
        assert_eq!((surely_within(0), surely_within(1), surely_within(200_000)), (0, 0, 199_800));
    }
}
