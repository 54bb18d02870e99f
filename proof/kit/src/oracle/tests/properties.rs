//! Properties over random histories: bound, exact waits, exact `remaining`, pure peeks, idle
//! returns to fresh, refunds that never give too much, and the grouped form equal to the list.

use proptest::prelude::*;

use super::*;

/// A step of a history. Times are in the unit of the rule, so that edges are met often.
#[derive(Clone, Debug)]
enum Step {
    Check {
        after: u64,
        cost: u64,
    },
    /// Asks at the instant, or one microsecond before, at which the last denial said it could.
    Retry {
        early: bool,
    },
    Partial {
        after: u64,
        cost: u64,
    },
    Peek {
        after: u64,
        cost: u64,
    },
    Refund {
        after: u64,
        receipt: usize,
    },
    Adjust {
        after: u64,
        delta: i64,
    },
    Charge {
        after: u64,
        cost: u64,
    },
    Back {
        by: u64,
    },
}

/// A rule in small numbers, and the length of a step of time.
fn rules() -> impl Strategy<Value = (Rule, u64)> {
    let unit = prop::sample::select(vec![1, 7, 100 * MS, S]);
    (0..8_u8, 1..9_u64, 1..7_u64, 1..9_u64, 1..4_u64, unit).prop_map(
        |(kind, n, b, burst, precision, unit)| {
            let d_us = b * precision * unit;
            let precision_us = precision * unit;
            let window = |rounding| Rule::Window { n, d_us, precision_us, rounding };
            let rule = match kind {
                0 => Rule::Greedy { n, d_us, burst },
                1 => Rule::Interval { n, d_us, burst },
                2 => Rule::FixedEpoch { n, d_us },
                3 => Rule::FixedFirstHit { n, d_us },
                4 => Rule::Log { n, d_us },
                5 => window(Rounding::Conservative),
                6 => window(Rounding::Interpolate),
                _ => window(Rounding::Truncate),
            };
            (rule, unit)
        },
    )
}

fn forward() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..9_u64, 1..10_u64).prop_map(|(after, cost)| Step::Check { after, cost }),
        2 => any::<bool>().prop_map(|early| Step::Retry { early }),
        1 => (0..5_u64, 1..10_u64).prop_map(|(after, cost)| Step::Partial { after, cost }),
        1 => (0..5_u64, 0..10_u64).prop_map(|(after, cost)| Step::Peek { after, cost }),
    ]
}

fn charge() -> impl Strategy<Value = Step> {
    (0..9_u64, 1..20_u64).prop_map(|(after, cost)| Step::Charge { after, cost })
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => forward(),
        2 => (0..9_u64, 0..40_usize).prop_map(|(after, receipt)| Step::Refund { after, receipt }),
        1 => (0..5_u64, -9..10_i64).prop_map(|(after, delta)| Step::Adjust { after, delta }),
        1 => charge(),
        2 => (1..30_u64).prop_map(|by| Step::Back { by }),
    ]
}

/// A subject, its clock, and its answers.
struct Run {
    oracle: Oracle,
    unit: u64,
    now: u64,
    last_retry_us: u64,
    /// (at, cost) of each admitted check.
    receipts: Vec<(u64, u64)>,
}

impl Run {
    fn new(oracle: Oracle, unit: u64) -> Self {
        Self { oracle, unit, now: 1_000 * unit, last_retry_us: 0, receipts: Vec::new() }
    }

    /// Takes the step; returns the answer, if it has one, and the cost asked.
    fn step(&mut self, step: &Step) -> Option<(OracleAnswer, u64)> {
        let (after, cost) = match *step {
            Step::Check { after, cost }
            | Step::Partial { after, cost }
            | Step::Peek { after, cost } => (after * self.unit, cost),
            Step::Retry { early } => (self.last_retry_us.saturating_sub(u64::from(early)), 1),
            Step::Refund { after, .. } | Step::Adjust { after, .. } => (after * self.unit, 0),
            Step::Charge { after, cost } => (after * self.unit, cost),
            Step::Back { by } => {
                self.now -= (by * self.unit).min(self.now);
                return None;
            }
        };
        // The parts of a unit of time are reached too, by a pattern of the time itself.
        self.now += after + if self.unit > 1 { self.now % 3 } else { 0 };
        let answer = match *step {
            Step::Partial { .. } => self.oracle.partial(self.now, cost),
            Step::Peek { .. } => self.oracle.peek(self.now, cost),
            Step::Refund { receipt, .. } => {
                if receipt < self.receipts.len() {
                    let (at, cost) = self.receipts.swap_remove(receipt);
                    self.oracle.refund(self.now, at, cost);
                }
                return None;
            }
            Step::Adjust { delta, .. } => {
                self.oracle.adjust(self.now, delta);
                return None;
            }
            Step::Charge { .. } => {
                let cut = self.oracle.charge(self.now, cost).cut;
                if cut < cost {
                    self.receipts.push((self.now, cost - cut));
                }
                return None;
            }
            _ => self.oracle.check(self.now, cost),
        };
        if answer.granted > 0 {
            self.receipts.push((self.oracle.charged_at(), answer.granted));
        }
        if let Some(retry @ 1..) = answer.fields.retry_after_us {
            self.last_retry_us = retry;
        }
        Some((answer, if matches!(step, Step::Partial { .. }) { 1 } else { cost }))
    }
}

/// The bound of each strategy over admitted events in time order, with so much more that charges
/// without a check may take.
fn bound_holds(rule: Rule, debt: u64, events: &[(u64, u64)]) -> Result<(), String> {
    for (i, &(from, _)) in events.iter().enumerate() {
        for (j, &(to, _)) in events.iter().enumerate().skip(i) {
            let sum: u64 = events[i..=j].iter().map(|event| event.1).sum();
            let span = to - from;
            let holds = match larger(rule, debt) {
                Rule::Greedy { n, d_us, burst } => sum * d_us <= burst * d_us + n * span,
                Rule::Interval { n, d_us, burst } => sum <= burst + n * (to / d_us - from / d_us),
                Rule::FixedEpoch { n, d_us } => {
                    sum <= n * (to / d_us - from / d_us + 1) && (span >= d_us || sum <= 2 * n)
                }
                Rule::FixedFirstHit { n, d_us } => span >= d_us || sum <= 2 * n,
                Rule::Dates { n, d_us, .. } => span >= d_us * 2 / 3 || sum <= 2 * n,
                Rule::Log { n, d_us } => span >= d_us || sum <= n,
                Rule::Window { n, d_us, precision_us, rounding } => match rounding {
                    Rounding::Conservative => span >= d_us || sum <= n,
                    Rounding::Interpolate => span >= d_us || sum <= 2 * n,
                    Rounding::Truncate => {
                        (span >= d_us || sum <= 2 * n) && (span >= d_us - precision_us || sum <= n)
                    }
                },
            };
            if !holds {
                return Err(format!("{sum} units in [{from}, {to}]: {events:?}"));
            }
        }
    }
    Ok(())
}

/// The same rule, with a capacity that is larger by `debt`.
fn larger(rule: Rule, debt: u64) -> Rule {
    match rule {
        Rule::Greedy { n, d_us, burst } => Rule::Greedy { n, d_us, burst: burst + debt },
        Rule::Interval { n, d_us, burst } => Rule::Interval { n, d_us, burst: burst + debt },
        Rule::FixedEpoch { n, d_us } => Rule::FixedEpoch { n: n + debt, d_us },
        Rule::FixedFirstHit { n, d_us } => Rule::FixedFirstHit { n: n + debt, d_us },
        Rule::Dates { n, d_us, edges } => Rule::Dates { n: n + debt, d_us, edges },
        Rule::Log { n, d_us } => Rule::Log { n: n + debt, d_us },
        Rule::Window { n, d_us, precision_us, rounding } => {
            Rule::Window { n: n + debt, d_us, precision_us, rounding }
        }
    }
}

/// The longest that anybody waits for a fresh subject, from any state and after any step: a full
/// refill, and the debt, which is as much again.
fn full_refill_us(rule: Rule) -> u64 {
    match rule {
        Rule::Greedy { n, d_us, burst } => (2 * burst * d_us).div_ceil(n),
        Rule::Interval { n, d_us, burst } => (2 * burst).div_ceil(n) * d_us,
        Rule::FixedEpoch { d_us, .. }
        | Rule::FixedFirstHit { d_us, .. }
        | Rule::Log { d_us, .. }
        | Rule::Window { d_us, rounding: Rounding::Truncate, .. } => d_us,
        Rule::Dates { d_us, .. } => d_us * 3 / 2,
        Rule::Window { d_us, precision_us, .. } => d_us + precision_us,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None,
        ..ProptestConfig::default() })]

    /// With a clock that goes forward, every half-open window holds its bound.
    #[test]
    fn bound((rule, unit) in rules(), steps in prop::collection::vec(forward(), 1..40)) {
        let mut run = Run::new(fresh(rule), unit);
        for step in &steps {
            run.step(step);
        }
        prop_assert_eq!(bound_holds(rule, 0, &run.receipts), Ok(()));
    }

    /// With charges without a check, the admitted and charged units keep the bound of a limit that
    /// is larger by the debt.
    #[test]
    fn bound_with_charges((rule, unit) in rules(), debt in 0..9_u64,
                          steps in prop::collection::vec(prop_oneof![3 => forward(), 1 => charge()],
                                                         1..40)) {
        let mut run = Run::new(fresh(rule).with_debt(debt).unwrap(), unit);
        for step in &steps {
            run.step(step);
        }
        prop_assert_eq!(bound_holds(rule, debt, &run.receipts), Ok(()));
    }

    /// After any history, backward steps, refunds and adjustments included: every answer is exact.
    #[test]
    fn answers_are_exact((rule, unit) in rules(),
                         steps in prop::collection::vec(any_step(), 1..40)) {
        let mut run = Run::new(fresh(rule), unit);
        for step in &steps {
            let before = run.oracle.clone();
            let Some((answer, cost)) = run.step(step) else { continue };
            let (oracle, now, fields) = (&run.oracle, run.now, answer.fields);
            if matches!(step, Step::Peek { .. }) {
                prop_assert_eq!(oracle, &before);
                continue; // a peek keeps no repair, so only a check's fields stay exact
            }
            prop_assert!(oracle.peek(now, fields.remaining).admitted || fields.remaining == 0);
            prop_assert!(!oracle.peek(now, fields.remaining + 1).admitted);
            match fields.retry_after_us {
                None => prop_assert!(cost > oracle.limit()),
                Some(0) => prop_assert!(answer.admitted),
                Some(retry) => {
                    prop_assert!(!answer.admitted);
                    prop_assert!(oracle.peek(now + retry, cost).admitted);
                    prop_assert!(!oracle.peek(now + retry - 1, cost).admitted);
                }
            }
            let reset = fields.reset_after_us;
            prop_assert!(oracle.peek(now + reset, oracle.limit()).admitted);
            prop_assert!(reset == 0 || !oracle.peek(now + reset - 1, oracle.limit()).admitted);
            prop_assert!(reset <= full_refill_us(rule) + S, "reset {}", reset);
        }
    }

    /// Going back never makes more remain, however far; a second longer than a full refill is the
    /// longest wait after it.
    #[test]
    fn no_step_back_gives_units((rule, unit) in rules(),
                                steps in prop::collection::vec(any_step(), 1..30),
                                back in 1..3_000_000_u64) {
        let mut run = Run::new(fresh(rule), unit);
        for step in &steps {
            run.step(step);
            let there = run.oracle.peek(run.now, 1).fields.remaining;
            let earlier = run.now.saturating_sub(back);
            let after = run.oracle.clone().check(earlier, 1 + run.oracle.limit()).fields;
            prop_assert!(after.remaining <= there);
            prop_assert!(after.reset_after_us <= full_refill_us(rule) + S);
        }
    }

    /// A denial without a step back changes nothing at all.
    #[test]
    fn denials_are_free((rule, unit) in rules(), steps in prop::collection::vec(forward(), 1..40)) {
        let mut run = Run::new(fresh(rule), unit);
        for step in &steps {
            let before = run.oracle.clone();
            if let Some((OracleAnswer { admitted: false, .. }, _)) = run.step(step) {
                prop_assert_eq!(&run.oracle, &before);
            }
        }
    }

    /// A cost of w is w costs of 1 at the same instant.
    #[test]
    fn a_weight_is_so_many_units((rule, unit) in rules(),
                                 steps in prop::collection::vec(forward(), 0..20),
                                 cost in 1..9_u64) {
        let mut run = Run::new(fresh(rule), unit);
        for step in &steps {
            run.step(step);
        }
        if run.oracle.peek(run.now, cost).fields.remaining == 0 {
            run.now += run.oracle.peek(run.now, cost).fields.reset_after_us;
        }
        let cost = cost.min(run.oracle.peek(run.now, 1).fields.remaining);
        let mut single = run.oracle.clone();
        let answer = run.oracle.check(run.now, cost);
        prop_assert!(answer.admitted);
        let last = (0..cost).map(|_| single.check(run.now, 1)).last().unwrap();
        prop_assert_eq!(last.fields, answer.fields);
    }

    /// A refund leaves at most what there would be, had the charge never been made; exactly that
    /// for the strategies that count events. (Without its first event a first-hit window is
    /// another window, so there only the rise is compared.)
    #[test]
    fn refunds_never_give_too_much((rule, unit) in rules(),
                                   steps in prop::collection::vec(forward(), 1..25),
                                   which in 0..25_usize, after in 0..12_u64) {
        let mut run = Run::new(fresh(rule), unit);
        for step in &steps {
            run.step(step);
        }
        if run.receipts.is_empty() {
            run.step(&Step::Check { after: 1_000, cost: 1 });
        }
        let which = which % run.receipts.len();
        let now = run.now + after * unit;
        let mut without = fresh(rule);
        for (index, &(at, cost)) in run.receipts.iter().enumerate() {
            if index != which {
                prop_assert!(without.check(at, cost).admitted || !refund_is_exact(rule));
            }
        }
        let (at, cost) = run.receipts[which];
        let before = run.oracle.peek(now, 1).fields.remaining;
        let rise = run.oracle.refund(now, at, cost);
        let remaining = run.oracle.peek(now, 1).fields.remaining;
        prop_assert_eq!(remaining, before + rise);
        prop_assert!(rise <= cost);
        let least = without.peek(now, 1).fields.remaining;
        match rule {
            Rule::FixedFirstHit { .. } => {}
            _ if refund_is_exact(rule) => prop_assert_eq!(remaining, least),
            _ => prop_assert!(remaining <= least),
        }
    }

    /// The grouped form answers as the list does, whatever happens.
    #[test]
    fn grouped_is_equal((rule, unit) in rules(),
                        steps in prop::collection::vec(any_step(), 1..60)) {
        let mut list = Run::new(fresh(rule), unit);
        let mut grouped = Run::new(Oracle::grouped(rule).unwrap(), unit);
        for step in &steps {
            prop_assert_eq!(list.step(step), grouped.step(step));
            prop_assert_eq!(&list.receipts, &grouped.receipts);
            prop_assert_eq!(list.oracle.peek(list.now, 1), grouped.oracle.peek(list.now, 1));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None,
        ..ProptestConfig::default() })]

    /// Several limits in one check are that many subjects asked together. All are charged or none,
    /// each answers as it would alone, and the longest wait is exact for all of them.
    #[test]
    fn several_limits_are_all_or_nothing(
        rules in prop::collection::vec(rules(), 1..4),
        steps in prop::collection::vec((0..9_u64, 0..20_u64, 1..7_u64, any::<bool>()), 1..25),
    ) {
        let unit = rules[0].1;
        let rules: Vec<Rule> = rules.into_iter().map(|(rule, _)| rule).collect();
        let asked: Vec<_> = (0..rules.len()).map(|index| ("a", index)).collect();
        let mut several = crate::oracle::MultiOracle::new(&rules).unwrap();
        let mut alone: Vec<Oracle> = rules.iter().map(|&rule| fresh(rule)).collect();
        let mut now = 100 * unit;
        for (after, back, cost, partial) in steps {
            // One step in five goes back.
            now = if back < 4 { now - (back * unit).min(now) } else { now + after * unit };
            let least = alone.iter().map(|it| it.peek(now, 1).fields.remaining).min().unwrap();
            let peek = several.peek(now, &asked, cost).unwrap();
            let (answer, cost) = if partial {
                (several.partial(now, &asked, cost).unwrap(), cost.min(least).max(1))
            } else {
                (several.check(now, &asked, cost).unwrap(), cost)
            };
            prop_assert_eq!(answer.admitted, cost <= least);
            prop_assert_eq!(answer.granted, if answer.admitted { cost } else { 0 });
            prop_assert!(partial || peek.admitted == answer.admitted);
            for (index, oracle) in alone.iter_mut().enumerate() {
                let fields = if answer.admitted {
                    oracle.check(now, cost).fields
                } else {
                    let uncharged = oracle.peek(now, cost).fields;
                    oracle.check(now, u64::MAX); // a denial, which keeps the repair
                    uncharged
                };
                prop_assert_eq!(answer.each[index], fields);
            }
            let summary = answer.summary;
            let remaining = answer.each.iter().map(|fields| fields.remaining).min();
            prop_assert_eq!(Some(summary.remaining), remaining);
            prop_assert_eq!(summary.reset_after_us, answer.each[answer.binding].reset_after_us);
            if let Some(retry @ 1..) = summary.retry_after_us {
                prop_assert!(several.peek(now + retry, &asked, cost).unwrap().admitted);
                prop_assert!(!several.peek(now + retry - 1, &asked, cost).unwrap().admitted);
            } else {
                let never = alone.iter().any(|oracle| cost > oracle.limit());
                prop_assert_eq!(summary.retry_after_us.is_none(), never);
            }
        }
    }
}

/// Whether a refund is the same as never having charged: where charges are counted one by one and
/// nothing comes back by itself before they expire.
fn refund_is_exact(rule: Rule) -> bool {
    matches!(rule, Rule::FixedEpoch { .. } | Rule::Log { .. } | Rule::Window { .. })
}

/// The generated histories reach every outcome, so that the properties above are about something.
#[test]
fn generated_histories_reach_every_outcome() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let case = (rules(), prop::collection::vec(any_step(), 1..40));
    // Allow, not yet, never, asked after a step back.
    let (mut outcomes, mut all) = ([0; 4], 0);
    for _ in 0..500 {
        let ((rule, unit), steps) = case.new_tree(&mut runner).unwrap().current();
        let mut run = Run::new(fresh(rule), unit);
        for step in &steps {
            let late = run.oracle.clone();
            if let Some((answer, _)) = run.step(step) {
                let outcome = match answer.fields.retry_after_us {
                    Some(0) => 0,
                    Some(_) => 1,
                    None => 2,
                };
                outcomes[outcome] += 1;
                outcomes[3] += u32::from(late.count().repair_due(i128::from(run.now)));
                all += 1;
            }
        }
    }
    assert!(outcomes.iter().all(|&share| share * 100 >= all), "{outcomes:?} of {all}");
}
