//! A recorded log as traffic: its subjects and its spacing.

use super::ask::{Ask, DriverError};
use super::options::RecordedLog;
use super::session::Session;

/// The name of this traffic.
pub(super) const NAME: &str = "a recorded log";

/// A week. A clock that is set begins at the time of the week of the log, so that its requests lie
/// in windows as they did.
const WEEK_US: u64 = 7 * 86_400 * 1_000_000;

/// The time from the first request to the last, in microseconds.
pub(super) fn span_us(log: &RecordedLog) -> u64 {
    let ends = log.requests.first().zip(log.requests.last());
    ends.map_or(0, |(first, last)| last.at_us.saturating_sub(first.at_us))
}

/// Asks the requests in their order, each as long after the first as it was in the log. One client
/// asks one at a time, so that requests of one instant follow each other at once.
pub(super) fn ask(session: &mut Session<'_>) -> Result<(), DriverError> {
    let RecordedLog { requests, of } = &session.options.recorded;
    let Some(first) = requests.first() else { return Ok(()) };
    let asked = requests.len();
    if u64::try_from(asked).is_ok_and(|asked| asked < *of) {
        session.open.push(format!("{NAME}: its requests after the first {asked} of {of}"));
    }
    let prefix = session.fresh();
    let began_us = session.begin_at(first.at_us % WEEK_US, WEEK_US);
    for request in requests {
        session.wait_until(began_us + request.at_us.saturating_sub(first.at_us));
        let ask = session.question(&format!("{prefix}-{}", request.subject));
        let cost = if session.able.costs { request.cost } else { 1 };
        session.one(Ask { cost: i64::try_from(cost).unwrap_or(i64::MAX), ..ask })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::CallOutcome;
    use crate::judge::{Abilities, Disturbance, Driver, Flood, Options, Recorded, Reply, judge};

    /// It admits everything, and notes what it is asked and when.
    struct Noted {
        able: Abilities,
        now_us: u64,
        asked: Vec<(u64, String, i64)>,
    }

    impl Driver for Noted {
        fn abilities(&self) -> Abilities {
            self.able
        }

        fn ask(&mut self, asks: &[Ask]) -> Result<Vec<Reply>, DriverError> {
            self.now_us += 1;
            let now_us = self.now_us;
            let asked =
                asks.iter().map(|it| (it.now_us.unwrap_or(now_us), it.subject.clone(), it.cost));
            self.asked.extend(asked);
            let outcome = CallOutcome::Allowed { remaining: None };
            let (invoked_us, returned_us) = (now_us, now_us);
            let reply = Reply { outcome, decided_us: None, invoked_us, returned_us };
            Ok(vec![reply; asks.len()])
        }

        fn flood(&mut self, _: &Flood) -> Result<Vec<(usize, Reply)>, DriverError> {
            Ok(Vec::new())
        }

        fn disturb(&mut self, _: Disturbance) -> Result<(), DriverError> {
            Err(DriverError::new("it cannot be disturbed"))
        }

        fn now_us(&self) -> u64 {
            self.now_us
        }

        fn sleep_until(&mut self, until_us: u64) {
            self.now_us = self.now_us.max(until_us);
        }
    }

    /// 2015-05-20 21:05:59 UTC, and two requests of one instant after it.
    const FIRST_US: u64 = 1_432_155_959_000_000;

    fn recorded() -> RecordedLog {
        let request = |after_us, subject: &str, cost| Recorded {
            at_us: FIRST_US + after_us,
            subject: subject.to_owned(),
            cost,
        };
        let requests =
            vec![request(0, "a", 1), request(90_000_000, "b", 3), request(90_000_000, "a", 1)];
        RecordedLog { requests, of: 5 }
    }

    /// The times, subjects and costs of the log's requests, and the lines about what is open.
    fn asked(able: Abilities, within_us: u64) -> (Vec<(u64, String, i64)>, Vec<String>) {
        let mut options = Options::new("1000/s via gcra".parse().unwrap());
        options.recorded = recorded();
        options.within_us = within_us;
        let mut driver = Noted { able, now_us: 1, asked: Vec::new() };
        let judgement = judge(&mut driver, &options, &mut |_| {}).unwrap();
        let row = judgement.traffic.iter().find(|row| row.name == NAME);
        let count = row.map_or(0, |row| usize::try_from(row.asked).unwrap());
        let about = judgement.open.into_iter().filter(|line| line.starts_with(NAME));
        (driver.asked.split_off(driver.asked.len() - count), about.collect())
    }

    fn shown(asked: &[(u64, String, i64)]) -> Vec<(u64, &str, i64)> {
        let first_us = asked[0].0;
        let row = |(at_us, subject, cost): &'_ (u64, String, i64)| {
            let name = &subject[subject.len() - 1..];
            (at_us - first_us, if name == "a" { "a" } else { "b" }, *cost)
        };
        asked.iter().map(row).collect()
    }

    #[test]
    fn a_clock_that_is_set_shows_the_spacing_and_the_time_of_the_week() {
        let able = Abilities { clock: true, costs: true, steps: true, ..Abilities::default() };
        let (asked, open) = asked(able, 1);
        assert_eq!(shown(&asked), [(0, "a", 1), (90_000_000, "b", 3), (90_000_002, "a", 1)]);
        assert_eq!(asked[0].0 % WEEK_US, FIRST_US % WEEK_US);
        assert_eq!(open, ["a recorded log: its requests after the first 3 of 5"]);
    }

    #[test]
    fn a_clock_of_its_own_is_waited_for_if_the_time_allows() {
        let (asked_of, _) = asked(Abilities::default(), 600_000_000);
        let shown = shown(&asked_of);
        assert_eq!(shown[0], (0, "a", 1));
        // Without costs each costs 1.
        assert!(shown[1].0 >= 90_000_000 && shown[1].2 == 1, "{shown:?}");
        let (asked_of, open) = asked(Abilities::default(), 80_000_000);
        assert!(asked_of.is_empty());
        assert!(open[0].contains("it takes 90 s"), "{open:?}");
    }
}
