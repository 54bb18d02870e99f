//! The meaning of a limit in words, before it is used: for `explain`, and pages that explain.

use core::time::Duration;

use crate::ask::Ask;
use crate::clock::ManualClock;
use crate::limit::{Limit, LimitKind};
use crate::limiter::Limiter;
use crate::memory::MemoryStore;
use crate::strategy::Traits;
use crate::time::{Period, SKEW_US};

/// The meaning of a limit, as numbers and words.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Meaning {
    /// The strategy in one line.
    pub summary: &'static str,
    /// The identity of its counts.
    pub identity: String,
    /// The capacity of a fresh subject, in units.
    pub capacity: u64,
    /// The maximum debt: the units beyond the capacity that charges without a check may take.
    pub debt: u64,
    /// The most units admitted in any half-open window as long as the limit's duration. `None` for
    /// slots and bans, which have no bound over a time.
    pub worst_window: Option<u64>,
    /// The limit's duration.
    pub window: Period,
    /// The sustained rate under constant demand, as text.
    pub sustained: String,
    /// How bursts are handled, as text.
    pub burst: String,
    /// The bytes of state per subject in the memory store, without its key, as text.
    pub bytes: String,
    /// When a denied caller may retry, as text.
    pub retry: &'static str,
    /// The longest wait for a full refill and the debt: the maximum cost of setting the store's
    /// clock back.
    pub longest_wait: Option<Duration>,
}

impl Limit {
    /// The meaning of this limit, in words.
    ///
    /// ```
    /// use tollgate::Limit;
    /// let limit: Limit = "10/s burst 20 via gcra".parse()?;
    /// let meaning = limit.meaning();
    /// assert_eq!((meaning.capacity, meaning.worst_window), (20, Some(29)));
    /// let rows = meaning.rows(|wait| format!("{wait:?}"));
    /// assert_eq!(rows[2], ("worst window", "at most 29 in any 1s".to_owned()));
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    #[must_use]
    pub fn meaning(&self) -> Meaning {
        let (quota, strategy) = (self.quota(), self.strategy());
        let Traits { worst_window, sustained, bytes, burst, retry } = strategy.traits(quota);
        let (worst_window, longest_wait) = match self.kind() {
            LimitKind::Rate => (Some(worst_window), longest_wait(self)),
            LimitKind::Slots => (None, None),
            LimitKind::Ban => (None, quota.ban.map(|ban| ban.longest.as_duration())),
        };
        Meaning {
            summary: strategy.summary(),
            identity: self.identity().to_owned(),
            capacity: self.capacity(),
            debt: self.debt(),
            worst_window,
            window: quota.period,
            sustained,
            burst,
            bytes,
            retry,
            longest_wait,
        }
    }
}

impl Meaning {
    /// The meaning as rows, each a name and a text. `duration` writes a duration.
    #[must_use]
    pub fn rows(&self, duration: impl Fn(Duration) -> String) -> Vec<(&'static str, String)> {
        let never = "a cost above the capacity is always denied";
        let Some(worst_window) = self.worst_window else {
            return match self.longest_wait {
                Some(longest) => self.rows_of_ban(&duration(longest)),
                None => self.rows_of_slots(never),
            };
        };
        vec![
            ("means", self.summary.to_owned()),
            ("identity", self.identity.clone()),
            ("worst window", format!("at most {worst_window} in any {}", self.window)),
            ("sustained", self.sustained.clone()),
            ("burst", self.burst.clone()),
            ("capacity", format!("{}: {never}", self.capacity)),
            ("debt", format!("at most {} more, by charges without a check", self.debt)),
            ("retry", format!("{}: waiting that long is enough, less is not", self.retry)),
            ("bytes, memory", format!("{} per subject, without its key", self.bytes)),
            ("clock step", self.clock_step(duration)),
        ]
    }

    /// The most that is admitted, in one line.
    #[must_use]
    pub fn bound(&self) -> String {
        let Self { capacity, window, .. } = self;
        match (self.worst_window, self.longest_wait) {
            (Some(worst), _) => format!("{capacity} at once, at most {worst} in any {window}"),
            (None, Some(_)) => self.burst.clone(),
            (None, None) => format!("{capacity} open at a time"),
        }
    }

    /// The rows of a limit of slots.
    fn rows_of_slots(&self, never: &str) -> Vec<(&'static str, String)> {
        let bound = format!(
            "at most {} open at a time, and no bound over a time; a holder that goes on after its \
             hold has ended is one more",
            self.capacity
        );
        let hold = format!("{0}: a slot that is not released is free again after {0}", self.window);
        vec![
            ("means", self.summary.to_owned()),
            ("identity", self.identity.clone()),
            ("bound", bound),
            ("hold", hold),
            ("capacity", format!("{}: {never}", self.capacity)),
            ("retry", self.retry.to_owned()),
            ("bytes, memory", format!("{} per subject, without its key", self.bytes)),
            ("clock step", self.clock_step_of_slots()),
        ]
    }

    /// The rows of a ban.
    fn rows_of_ban(&self, longest: &str) -> Vec<(&'static str, String)> {
        vec![
            ("means", self.summary.to_owned()),
            ("identity", self.identity.clone()),
            ("begins", self.burst.clone()),
            ("lasts", self.sustained.clone()),
            ("counted", "checks that other limits of the set deny, while no ban runs".to_owned()),
            ("retry", self.retry.to_owned()),
            ("bytes, memory", format!("{} per subject, without its key", self.bytes)),
            ("clock step", clock_step_of_ban(longest)),
        ]
    }

    fn clock_step_of_slots(&self) -> String {
        format!(
            "back: each hold keeps the time that it had left; forward: holds end early, and up to \
             {} more slots are taken than are free",
            self.capacity
        )
    }

    /// The effect of setting the store's clock, as text. `duration` writes a duration.
    #[must_use]
    pub fn clock_step(&self, duration: impl Fn(Duration) -> String) -> String {
        let longest = self.longest_wait.map(&duration);
        if self.worst_window.is_none() {
            return longest
                .map_or_else(|| self.clock_step_of_slots(), |longest| clock_step_of_ban(&longest));
        }
        format!(
            "back: never admits more than was left, and nobody waits longer than {}, at most {} \
             more under skew; forward: admits at most what that much time would",
            longest.unwrap_or_else(|| "a full refill and the debt".to_owned()),
            duration(Duration::from_micros(SKEW_US)),
        )
    }
}

fn clock_step_of_ban(longest: &str) -> String {
    format!("back: a ban that runs lasts at most {longest} from then on; forward: it ends early")
}

/// It occurs for a subject that takes everything at a multiple of the window, just after an aligned
/// window has begun. It is computed by the limit itself, so that this code need not know
/// strategies by name.
fn longest_wait(limit: &Limit) -> Option<Duration> {
    if let Some(calendar) = &limit.quota().calendar {
        return Some(Duration::from_micros(calendar.longest_us()));
    }
    let clock = ManualClock::at_micros(limit.quota().period.as_micros());
    let store = MemoryStore::builder().clock(clock).build();
    let limiter = Limiter::new(limit.clone().into(), store);
    let everything = Ask::new("anybody").cost(limit.capacity() + limit.debt());
    Some(limiter.charge(everything).now().ok()?.first()?.reset_after())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_waits_are_those_of_the_definitions() {
        for (text, us) in [
            ("1/10s via uniform", 20_000_000),
            ("1/10s debt 0 via uniform", 10_000_000),
            ("3/10s via uniform", 6_666_667),
            ("5/10s burst 10 debt 3 via gcra", 26_000_000),
            ("5/10s burst 12 refill interval via token_bucket", 50_000_000),
            ("5/10s via sliding_log", 10_000_000),
            ("5/10s via fixed_window", 10_000_000),
            ("5/month in UTC", 31 * 86_400_000_000),
            ("5/day in Europe/Berlin", 25 * 3_600_000_000),
            ("5/10s precision 1s via sliding_window", 11_000_000),
            ("5/10s precision 1s rounding truncate via sliding_window", 10_000_000),
        ] {
            let limit: Limit = text.parse().unwrap();
            assert_eq!(longest_wait(&limit), Some(Duration::from_micros(us)), "{text}");
        }
    }

    /// The waits of docs/faults.md, of a limit that was used up when the clock stepped back.
    #[test]
    fn a_wait_after_a_step_back_has_the_debt_in_it() {
        const HOUR_US: u64 = 3_600_000_000;
        for (text, seconds) in [
            ("10/10s burst 3 via gcra", 4),
            ("10/10s burst 3 debt 0 via gcra", 1),
            ("10/10s burst 3 via token_bucket", 4),
            ("5/m via uniform", 24),
            ("5/m debt 0 via uniform", 12),
            ("1/m burst 3 refill interval via token_bucket", 60),
            ("5/m via sliding_log", 60),
        ] {
            let limit: Limit = text.parse().unwrap();
            let clock = ManualClock::at_micros(10 * HOUR_US);
            let store = MemoryStore::builder().clock(clock.clone()).build();
            let limiter = Limiter::new(limit.clone().into(), store);
            let all = Ask::new("anybody").cost(limit.capacity());
            assert!(limiter.check(all).now().unwrap().is_allowed(), "{text}");
            clock.set(crate::Time::from_micros(9 * HOUR_US));
            let wait = limiter.check("anybody").now().unwrap().retry_after().unwrap();
            assert_eq!(wait, Duration::from_secs(seconds), "{text}");
            assert!(wait <= longest_wait(&limit).unwrap(), "{text}");
            clock.set(crate::Time::from_micros(9 * HOUR_US + seconds * 1_000_000));
            assert!(limiter.check("anybody").now().unwrap().is_allowed(), "{text}: it is exact");
        }
    }
}
