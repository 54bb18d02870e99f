//! Random runs of a right limiter under faults: nothing in them is broken.
//!
//! Replies are lost, and calls without an answer are carried out late or never. State is lost, the
//! clock is set, request ids are repeated, and several calls are decided in one microsecond.

use tollgate::LimitSet;
use tollgate_proof::conformance::rule_of;
use tollgate_proof::history::{
    Bounds, Call, CallOutcome, Fault, FaultKind, History, Promise, RecordedCount, Verdict, check,
};
use tollgate_proof::oracle::{MultiOracle, Rule};

use tollgate_proof::Random;

const LIMITS: [&str; 10] = [
    "5/1s via gcra",
    "7/3s burst 3 via token_bucket",
    "4/1s burst 6 refill interval via token_bucket",
    "5/1s via fixed_window",
    "5/1s anchor first-hit via fixed_window",
    "6/1s via sliding_log",
    "6/1s precision 100ms via sliding_window",
    "6/2s precision 500ms rounding interpolate via sliding_window",
    "6/2s precision 500ms rounding truncate via sliding_window",
    "3/1s via gcra, 9/4s via sliding_log, 20/10s via fixed_window",
];

/// The faults in a run beside calls that are answered.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    lost_replies: bool,
    lost_states: bool,
    clock_steps: bool,
    repeats: bool,
}

/// How long after its return a call is still carried out.
const LATE_US: u64 = 300_000;

struct Run<'r> {
    random: Random,
    limits: &'r LimitSet,
    rules: Vec<Rule>,
    oracle: MultiOracle,
    real_us: u64,
    offset_us: i64,
    /// Calls that will be carried out: when, for whom, at which cost.
    late: Vec<(u64, &'static str, u64)>,
    history: History,
}

impl Run<'_> {
    fn now_us(&self) -> u64 {
        self.real_us.checked_add_signed(self.offset_us).unwrap()
    }

    fn carry_out(&mut self, subject: &str, cost: u64) -> tollgate_proof::oracle::MultiAnswer {
        let asked: Vec<(&str, usize)> = (0..self.rules.len()).map(|rule| (subject, rule)).collect();
        self.oracle.check(self.now_us(), &asked, cost).unwrap()
    }

    fn land(&mut self) {
        let due: Vec<_> = {
            let real_us = self.real_us;
            let (due, late) = self.late.drain(..).partition(|(at, ..)| *at <= real_us);
            self.late = late;
            due
        };
        for (_, subject, cost) in due {
            self.carry_out(subject, cost);
        }
    }

    fn fault(&mut self, kind: FaultKind, lost_states: u32) {
        // Nothing is under way at this instant.
        self.real_us += 50;
        let (began_us, ended_us) = (self.real_us - 30, self.real_us - 20);
        let target = "store".to_owned();
        self.history.faults.push(Fault { kind, began_us, ended_us, target, lost_states });
    }

    fn call(&mut self, id: u64, lost_replies: bool, request: Option<u64>) {
        let subject = ["ann", "bob"][usize::try_from(self.random.below(2)).unwrap()];
        let cost = 1 + self.random.below(2);
        let invoked_us = self.real_us - self.random.below(20);
        let returned_us = self.real_us + self.random.below(20);
        let lost = lost_replies && self.random.below(6) == 0;
        let (outcome, decided_us) = if lost {
            match self.random.below(3) {
                0 => {}
                1 => drop(self.carry_out(subject, cost)),
                _ => {
                    let at_us = returned_us + self.random.below(LATE_US);
                    self.late.push((at_us, subject, cost));
                }
            }
            (CallOutcome::Unknown, None)
        } else {
            let answer = self.carry_out(subject, cost);
            let told = self.random.below(4) > 0;
            let remaining = told.then_some(answer.summary.remaining);
            let outcome = match (answer.admitted, answer.summary.retry_after_us) {
                (true, _) => CallOutcome::Allowed { remaining },
                (false, None) => CallOutcome::Never,
                (false, wait_us) => {
                    CallOutcome::Denied { retry_after_us: wait_us.filter(|_| told), remaining }
                }
            };
            (outcome, Some(self.now_us()))
        };
        let part = RecordedCount { subject: subject.to_owned(), limits: self.limits.clone() };
        let request = request.map(|request| request.to_string());
        let call = Call {
            id,
            client: (id % 4).to_string(),
            invoked_us,
            returned_us: Some(returned_us),
            parts: vec![part],
            cost,
            request,
            decided_us,
            outcome,
        };
        // A right store answers a repeated request as before, and charges nothing.
        if call.request.is_some() && outcome.is_allowed() {
            let (invoked_us, returned_us) = (returned_us + 1, Some(returned_us + 2));
            let again = Call { id: id + 1_000_000, invoked_us, returned_us, ..call.clone() };
            self.history.calls.push(again);
        }
        self.history.calls.push(call);
    }
}

fn run(limits: &LimitSet, trouble: Trouble, seed: u64) -> History {
    let rules: Vec<Rule> = limits.limits().iter().map(|limit| rule_of(limit).unwrap()).collect();
    let mut run = Run {
        random: Random::new(seed),
        limits,
        oracle: MultiOracle::new(&rules).unwrap(),
        rules,
        real_us: 1_000_000_000,
        offset_us: 5_000_000_000,
        late: Vec::new(),
        history: History::default(),
    };
    for id in 0..150 {
        let gap_us = [1, 40, 2_000, 400_000][usize::try_from(run.random.below(4)).unwrap()];
        run.real_us += run.random.below(gap_us);
        if trouble.clock_steps && id % 50 == 49 {
            run.fault(FaultKind::ClockStep, 0);
            let by_us = i64::try_from(run.random.below(8_000_000)).unwrap() - 4_000_000;
            run.offset_us += by_us;
            run.real_us += 50;
        }
        if trouble.lost_states && id % 60 == 59 {
            run.fault(FaultKind::Flush, 1);
            run.oracle = MultiOracle::new(&run.rules).unwrap();
            run.real_us += 50;
        }
        run.land();
        run.call(id, trouble.lost_replies, trouble.repeats.then_some(id));
    }
    run.history
}

#[test]
fn nothing_is_broken_in_a_run_of_a_right_limiter() {
    let bounds = Bounds { late_us: LATE_US, ..Bounds::default() };
    let mut decided = [0_u64; 16];
    for seed in 0..480 {
        let limits: LimitSet =
            LIMITS[usize::try_from(seed).unwrap() % LIMITS.len()].parse().unwrap();
        let kind = (seed / 10) % 16;
        let trouble = Trouble {
            lost_replies: kind & 1 > 0,
            lost_states: kind & 2 > 0,
            clock_steps: kind & 4 > 0,
            repeats: kind & 8 > 0,
        };
        let history = run(&limits, trouble, seed);
        for bounds in [&bounds, &Bounds::default()] {
            let report = check(&history, bounds);
            assert_eq!(report.broken(), [], "{limits} {trouble:?} seed {seed}\n{history}{report}");
            let exact = report.findings().iter().find(|one| one.promise == Promise::Exact).unwrap();
            decided[usize::try_from(kind).unwrap()] += exact.checked;
            let quiet = !(trouble.lost_replies || trouble.lost_states);
            if quiet {
                assert_eq!(report.verdict(Promise::Exact), Verdict::Held, "{limits}\n{report}");
            }
        }
    }
    // A checker that leaves all open is never wrong.
    assert!(decided.iter().all(|&checked| checked > 1_000), "{decided:?}");
}
