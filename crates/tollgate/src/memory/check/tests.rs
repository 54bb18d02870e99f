//! The path that answers, and that both give the same answer.

use super::*;
use crate::engine::{Mode, Part, VecStates, decide};
use crate::{Ask, Limiter, ManualClock, Subject};

fn set(text: &str) -> LimitSet {
    text.parse().unwrap()
}

fn limiter(limits: &str) -> (ManualClock, Limiter<MemoryStore>) {
    let clock = ManualClock::at_micros(1_000_000_000);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (clock, Limiter::new(set(limits), store))
}

/// The answer for a subject that has an entry under exactly these limits; `None` for any other.
fn known(
    limiter: &Limiter<MemoryStore>,
    part: Counted<'_>,
    cost: u64,
    mode: Mode,
) -> Option<Outcome> {
    let (subject, ask) = (part.subject.as_str(), (cost, mode));
    limiter.store().answer_known::<false, _>(
        subject,
        part.limits,
        ask,
        Outcome::from,
        Outcome::take,
    )
}

/// A state that is judged where it lies is judged as the engine judges it, which lifts it out.
#[test]
fn the_fast_path_answers_as_the_engine() {
    let sets = [
        "5/10s via gcra",
        "5/10s via fixed_window",
        "5/10s via uniform, 9/1m via token_bucket",
        "6/10s via sliding_window, 3/10s via sliding_log, 20/1h via gcra",
    ];
    for text in sets {
        let limits = set(text);
        let (clock, limiter) = limiter(text);
        let mut held = VecStates::fresh(&limits);
        let subject = Subject::literal("user:42").unwrap();
        let part = Counted::new(&subject, &limits);
        let mut used = 0;
        for i in 0_u64..400 {
            // Steps back too, over more than a skew: a denial repairs the state then.
            let at = 1_000_000_000 + i * 700_000 - if i % 50 == 49 { 20_000_000 } else { 0 };
            clock.set(Time::from_micros(at));
            let mode = [Mode::Whole, Mode::Peek, Mode::Partial, Mode::Whole][(i % 4) as usize];
            let cost = 1 + i % 3 * (i % 2);
            let mut parts = [Part::new(&limits, &mut held)];
            let expected =
                decide(&mut parts, Time::from_micros(at), cost.into(), mode, None).unwrap();
            let answer = match known(&limiter, part, cost, mode) {
                Some(answer) => {
                    used += 1;
                    answer
                }
                None => {
                    let question = Question::new(core::slice::from_ref(&part), cost, mode);
                    limiter.store().answer_general(&question).unwrap()
                }
            };
            assert_eq!(answer.granted, expected.granted, "{text}, check {i}");
            assert_eq!(answer.fields, expected.fields, "{text}, check {i}");
            assert_eq!(answer.now, expected.now, "{text}, check {i}");
            let charged = expected.granted > 0 && !mode.is_peek();
            assert_eq!(answer.receipt > 0, charged, "{text}, check {i}");
        }
        assert_eq!(used, 399, "{text}: only the first check finds no entry");
        let stranger = Subject::literal("user:43").unwrap();
        let part = Counted::new(&stranger, &limits);
        assert!(known(&limiter, part, 1, Mode::Whole).is_none());
        let alike = set(&format!("{text}, n: 1/1h via gcra"));
        let part = Counted::new(&subject, &alike);
        assert!(known(&limiter, part, 1, Mode::Whole).is_none());
    }
}

/// Limits that are parsed again, as when a configuration is loaded again, find the same states as
/// quickly as those that the states were written under.
#[test]
fn limits_that_are_read_anew_take_the_fast_path_too() {
    let sets = [
        ("n: 90/10s via gcra", "n: 3/10s via uniform"),
        ("n: 90/10s via gcra, m: 99/1m via gcra", "n: 3/10s via uniform, m: 9/1m via uniform"),
    ];
    for (text, alike) in sets {
        let (_, limiter) = limiter(text);
        let (bob, eve) = (Subject::literal("bob").unwrap(), Subject::literal("eve").unwrap());
        let fast = |limits: &LimitSet, subject| {
            let part = Counted::new(subject, limits);
            known(&limiter, part, 1, Mode::Whole).map(|outcome| outcome.granted)
        };
        let mut sets = vec![set(text)];
        assert_eq!(fast(&sets[0], &bob), None);
        let mut left = 90;
        for i in 0..12 {
            let ask = Ask::new(bob.clone()).under(&sets[i]);
            left -= 1;
            assert_eq!(limiter.check(ask).now().unwrap().remaining(), left, "{text}, set {i}");
            // The last two are known, and the first, which is kept; subjects that were known
            // between are found, only less quickly.
            for known in &sets[i.saturating_sub(1)..] {
                left -= 1;
                assert_eq!(fast(known, &bob), Some(1), "{text}, set {i}");
            }
            if i >= 3 {
                assert_eq!(fast(&sets[i - 2], &bob), None, "{text}, set {i}");
            }
            sets.push(set(text));
        }
        // A newcomer under a set that is parsed again is known under it.
        let ask = || Ask::new(eve.clone()).under(&sets[12]);
        assert_eq!(limiter.check(ask()).now().unwrap().remaining(), 89);
        assert_eq!(fast(&sets[12], &eve), Some(1));
        // Forgotten with the last state: a set of other numbers that comes to its place, and whose
        // states lie where its own lay, is not taken for it.
        for subject in [&bob, &eve] {
            assert!(limiter.store().reset_now(Counted::new(subject, &sets[12])));
        }
        let other = set(alike);
        assert!(limiter.check(Ask::new(bob.clone()).under(&other)).now().unwrap().is_allowed());
        assert!(sets.iter().all(|set| fast(set, &bob).is_none()), "{text}");
    }
}
