//! The engine and the oracle side by side: one limit, one subject, every operation on both.
#![allow(dead_code, clippy::unwrap_used)] // each test binary uses its part; tests may unwrap

use tollgate::engine::{self, Mode, Part, VecStates};
use tollgate::{LimitSet, Time};
use tollgate_proof::conformance::rule_of;
use tollgate_proof::oracle::{self, Oracle, OracleAnswer};

/// One subject under one limit, in the engine and in the oracle.
pub(crate) struct Twins {
    pub(crate) limits: LimitSet,
    pub(crate) held: VecStates,
    pub(crate) oracle: Oracle,
}

impl Twins {
    /// Fresh ones; `grouped` takes the oracle's form for long runs.
    pub(crate) fn new(limit: &str, grouped: bool) -> Self {
        let limits: LimitSet = limit.parse().unwrap_or_else(|e| panic!("{limit}: {e}"));
        let limit_of_it = &limits.limits()[0];
        let rule = rule_of(limit_of_it).unwrap();
        let oracle = if grouped { Oracle::grouped(rule) } else { Oracle::new(rule) };
        let oracle = oracle.and_then(|oracle| oracle.with_debt(limit_of_it.debt()));
        let oracle = oracle.unwrap_or_else(|e| panic!("{limit}: {e}"));
        Self { held: VecStates::fresh(&limits), limits, oracle }
    }

    pub(crate) fn engine(&mut self, now_us: u64, cost: u64, mode: Mode) -> (OracleAnswer, u64) {
        let mut parts = [Part::new(&self.limits, &mut self.held)];
        let outcome =
            engine::decide(&mut parts, Time::from_micros(now_us), cost.into(), mode, None).unwrap();
        let fields = outcome.fields[0];
        let answer = OracleAnswer {
            admitted: outcome.granted > 0,
            granted: if mode.is_peek() { 0 } else { outcome.granted },
            fields: oracle::Fields {
                remaining: fields.remaining,
                retry_after_us: fields.retry_after_us,
                reset_after_us: fields.reset_after_us,
            },
        };
        (answer, fields.charged_at_us)
    }

    /// A check on both; every field must be equal. Answers it, and when it was charged.
    pub(crate) fn check(&mut self, now_us: u64, cost: u64) -> (OracleAnswer, u64) {
        let (answer, at_us) = self.engine(now_us, cost, Mode::Whole);
        let expected = self.oracle.check_guessed(now_us, cost, answer.fields);
        assert_eq!(answer, expected, "{} check {cost} at {now_us}: {:?}", self.limits, self.held);
        if answer.admitted {
            assert_eq!(at_us, self.oracle.charged_at(), "{} charged at", self.limits);
        }
        (answer, at_us)
    }

    /// A peek on both; the engine's state must stay as it is.
    pub(crate) fn peek(&mut self, now_us: u64, cost: u64) -> OracleAnswer {
        let before = self.held.clone();
        let (answer, _) = self.engine(now_us, cost, Mode::Peek);
        let expected = self.oracle.peek(now_us, cost);
        assert_eq!(answer, expected, "{} peek {cost} at {now_us}: {before:?}", self.limits);
        assert_eq!(self.held, before, "a peek changed the state");
        answer
    }

    /// A partial check on both.
    pub(crate) fn partial(&mut self, now_us: u64, cost: u64) -> (OracleAnswer, u64) {
        let (answer, at_us) = self.engine(now_us, cost, Mode::Partial);
        let expected = self.oracle.partial(now_us, cost);
        assert_eq!(answer, expected, "{} partial {cost} at {now_us}", self.limits);
        (answer, at_us)
    }

    /// A refund on both: `units` of a charge when `left` were not given back before.
    pub(crate) fn refund(&mut self, now_us: u64, at_us: u64, left: u64, units: u64) -> u64 {
        let portion = engine::Portion::part(left.into(), 0.into(), units.into());
        let now = Time::from_micros(now_us);
        let limits = &self.limits;
        let part = &mut engine::Part::new(limits, &mut self.held);
        let given = engine::refund(part, limits, (&[at_us], now), &portion, now)[0];
        let expected = self.oracle.refund_part(now_us, at_us, left, units);
        let limits = &self.limits;
        assert_eq!(given, expected, "{limits} refund {units}/{left} of {at_us} at {now_us}");
        given
    }

    /// An adjustment on both.
    pub(crate) fn adjust(&mut self, now_us: u64, delta: i64) {
        let part = &mut engine::Part::new(&self.limits, &mut self.held);
        engine::adjust(part, &delta.into(), Time::from_micros(now_us));
        self.oracle.adjust(now_us, delta);
    }
}
