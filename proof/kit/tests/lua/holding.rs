//! Whole scripts of holds beside the store in memory: random histories of one or two counts.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use tollgate::engine::{Fields, Mode, OpenHold, ShownHold};
use tollgate::operation::{Adjust, Charge, Check, Inspect, Renew, Settle};
use tollgate::{
    Charged, Counted, Hold, HoldId, HoldKind, HoldTerms, LimitSet, MAX_SHOWN_HOLDS, ManualClock,
    MemoryStore, Patience, Question, Settled, Store as _, Subject, Time,
};
use tollgate_proof::conformance::block_on;
use tollgate_redis::compose::{self, Clock, HoldScripts};
use tollgate_redis::{Keys, Script};

use self::names::{NameTally, Names, refusal_of};
use super::fake::{Fake, Reply};
use super::histories::{Texts, seeded};

#[path = "naming.rs"]
mod names;

/// The charge of a settled hold, as scripts answer it.
fn actual_of(settled: &Settled) -> i64 {
    settled.actual.plain().expect("requests alone").cast_signed()
}

/// Each with other numbers that the same count may have.
pub(crate) const LIMITS: [[&str; 2]; 15] = [
    ["5/3s via uniform", "7/3s via uniform"],
    ["x: 7/3s burst 9 via gcra", "x: 9/3s burst 5 via gcra"],
    ["3/10us burst 7 via gcra", "3/10us burst 12 via gcra"],
    ["x: 10/1s burst 6 debt 3 via token_bucket", "x: 9/4s refill interval via token_bucket"],
    ["9/4s burst 5 refill interval via token_bucket", "4/4s refill interval via token_bucket"],
    ["8/10s via fixed_window", "5/10s via fixed_window"],
    ["x: 6/4s anchor first-hit via fixed_window", "x: 6/4s via fixed_window"],
    ["x: 9/5s via sliding_log", "x: 6/5s via sliding_log"],
    // Not `truncate`: it is free a bucket earlier, so one store may have forgotten what the other
    // still carries over.
    [
        "9/5s precision 1s via sliding_window",
        "9/5s precision 1s rounding interpolate via sliding_window",
    ],
    ["4 at once hold 3s", "6 at once hold 9s"],
    ["x: 6/2s via gcra, y: 9/20s via sliding_log", "x: 9/20s via sliding_log, y: 6/2s via gcra"],
    [
        "x: 6/2s via gcra, y: 8/7s via fixed_window, 3 at once hold 4s",
        "y: 9/7s via fixed_window, x: 6/2s via gcra, 5 at once hold 9s",
    ],
    [
        "a: 8/7s via fixed_window, b: 3 at once hold 9s, c: 7/9s via sliding_log",
        "c: 7/9s via sliding_log, b: 5 at once hold 3s, a: 8/7s via fixed_window",
    ],
    [
        "6/2s via gcra, 3 at once hold 4s, ban 3s after 2 denials in 2s up to 20s",
        "6/2s via gcra, 3 at once hold 4s, ban 2s after 3 denials in 9s up to 9s",
    ],
    [
        "x: 9/5s via sliding_log, ban 3s after 4 denials in 2s",
        "x: 6/5s via sliding_log, ban 7s after 2 denials in 5s up to 1m",
    ],
];

/// Limits with room for a crowd of holds.
pub(crate) const CROWDED: [[&str; 2]; 4] = [
    ["x: 75/9s via gcra", "x: 90/20s via gcra"],
    ["x: 72/9s via sliding_log", "x: 80/9s via sliding_log"],
    ["x: 71 at once hold 9s", "x: 75 at once hold 9s"],
    [
        "a: 76/8s via fixed_window, b: 74 at once hold 9s",
        "a: 90/8s via fixed_window, b: 71 at once hold 9s",
    ],
];

/// The scripts of holds with some steps.
#[derive(Clone)]
struct HoldCalls {
    one: HoldScripts,
    /// Of several questions, where the fast path knows these steps.
    place: Option<Script>,
    settle: Option<Script>,
}

pub(crate) struct Scripts {
    texts: Texts,
    /// By the letters of their steps.
    holds: RefCell<HashMap<String, HoldCalls>>,
    charge: Script,
    adjust: Script,
    open_holds: Script,
}

impl Scripts {
    pub(crate) fn new(texts: &Texts) -> Self {
        let (clock, parts) = (Clock::Server, &texts.parts);
        Self {
            texts: texts.clone(),
            holds: RefCell::default(),
            charge: texts.script(compose::charge(clock, parts)),
            adjust: texts.script(compose::adjust(clock, parts)),
            open_holds: texts.script(compose::open_holds(clock, parts)),
        }
    }

    /// Those of holds with these steps.
    fn of(&self, codes: &str) -> HoldCalls {
        let (clock, parts) = (Clock::Server, &self.texts.parts);
        let make = || {
            let mut one = HoldScripts::of(codes, clock, parts);
            for script in [&mut one.among, &mut one.settle, &mut one.renew] {
                *script = self.texts.script(script.clone());
            }
            let several = |it: Option<Script>| it.map(|script| self.texts.script(script));
            let place = several(HoldScripts::place_many(codes, clock, parts));
            let settle = several(HoldScripts::settle_many(codes, clock, parts));
            HoldCalls { one, place, settle }
        };
        self.holds.borrow_mut().entry(codes.to_owned()).or_insert_with(make).clone()
    }
}

/// The observations of a history.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tally {
    pub(crate) cases: u64,
    pub(crate) names: NameTally,
    pub(crate) denied_by_holds: u64,
    pub(crate) ended: u64,
    /// Calls that a script of fewer steps left to the one of all.
    pub(crate) others: u64,
    /// Calls that the script of several answered, and those that it left to the one of one.
    pub(crate) simple: [u64; 2],
    /// Inspections that showed other credits than the last one.
    pub(crate) paid: u64,
    /// Credits that were refused.
    pub(crate) refused: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.cases += other.cases;
        self.denied_by_holds += other.denied_by_holds;
        self.ended += other.ended;
        self.others += other.others;
        self.simple[0] += other.simple[0];
        self.simple[1] += other.simple[1];
        self.paid += other.paid;
        self.refused += other.refused;
        self.names.add(other.names);
    }
}

/// So many holds are more than a denial looks at.
const CROWD: usize = 70;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Holds,
    Crowded,
    Credits,
}

/// A random history under these limits, compared at every step: it panics where the two differ. In
/// a crowded one more holds are open at first than a denial looks at; in one of credits, subjects
/// are given some.
pub(crate) fn history(
    fake: &mut Fake,
    scripts: &Scripts,
    limits: &[&str],
    seed: u64,
    kind: Kind,
) -> Tally {
    let mut rng = seeded(seed);
    let mut pair = Pair::new(fake, scripts, limits);
    pair.credits = (kind == Kind::Credits).then(Vec::new);
    if kind == Kind::Holds && seed.is_multiple_of(3) {
        pair.names = Some(Names::default());
        for _ in 0..120 {
            pair.step_named(&mut rng, seed);
        }
        return pair.tally;
    }
    // Where one of several limits counts nothing any more, a store may forget that one alone.
    pair.back = seed % 2 == 1 && !limits[0].contains(", ");
    if pair.back {
        pair.begin(seed);
    }
    if kind == Kind::Crowded {
        pair.crowd(&mut rng, seed);
    }
    for _ in 0..120 {
        pair.step(&mut rng, seed);
    }
    pair.tally
}

struct Pair<'f> {
    fake: &'f mut Fake,
    scripts: &'f Scripts,
    memory: MemoryStore,
    clock: ManualClock,
    subjects: Vec<Subject>,
    sets: Vec<LimitSet>,
    open: Vec<Hold>,
    /// The charge of each hold that was settled, and until when that is remembered.
    settled: HashMap<HoldId, (u64, u64)>,
    now_us: u64,
    latest_us: u64,
    nonce: u64,
    /// Whether the clock steps back by any time. Nothing is forgotten then: a store may forget such
    /// a state, but need not.
    back: bool,
    /// In a history with names; the clock goes back by at most the skew.
    names: Option<Names>,
    /// The ids of the credits that were given, in a history with some.
    credits: Option<Vec<HoldId>>,
    /// The credits that the last inspection showed.
    shown: Vec<u64>,
    tally: Tally,
}

impl<'f> Pair<'f> {
    fn new(fake: &'f mut Fake, scripts: &'f Scripts, limits: &[&str]) -> Self {
        fake.clear();
        let now_us = 1_763_632_000_000_000;
        fake.at(now_us);
        let clock = ManualClock::at_micros(now_us);
        let memory = MemoryStore::builder().clock(clock.clone()).build();
        let subjects = ["ann", "bob"].map(|name| Subject::literal(name).unwrap());
        let sets = limits.iter().map(|text| text.parse().unwrap()).collect();
        Self {
            fake,
            scripts,
            memory,
            clock,
            subjects: subjects.into(),
            sets,
            open: Vec::new(),
            settled: HashMap::new(),
            now_us,
            latest_us: now_us,
            nonce: 0,
            back: false,
            names: None,
            credits: None,
            shown: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Charges every count once. A store in memory drops counts that are long over when a new one
    /// comes to the same of its shards: behind a step back it would know less than the scripts.
    fn begin(&mut self, seed: u64) {
        for set in self.sets.clone() {
            for subject in self.subjects.clone() {
                self.charge(&subject, &set, 1, &format!("seed {seed}: at first"));
            }
        }
    }

    /// Opens many holds of one unit.
    fn crowd(&mut self, rng: &mut ChaCha8Rng, seed: u64) {
        let set = self.sets[0].clone();
        for place in 0..CROWD {
            if rng.random_range(0..4) == 0 {
                self.now_us += rng.random_range(0..3);
                self.latest_us = self.latest_us.max(self.now_us);
                self.clock.set(Time::from_micros(self.now_us));
                self.fake.at(self.now_us);
            }
            let kind = [HoldKind::Reserve, HoldKind::Charging][rng.random_range(0..2)];
            let terms = HoldTerms::new(kind, rng.random_range(3_000_000..9_000_000));
            let what = format!("seed {seed}: {place} of a crowd");
            self.ask(rng, &set, 1, Mode::Whole, Some(terms), &what);
        }
    }

    fn step(&mut self, rng: &mut ChaCha8Rng, seed: u64) {
        self.advance(rng);
        self.tally.cases += 1;
        let set = match rng.random_range(0..12) {
            0 => &self.sets[1],
            _ => &self.sets[0],
        };
        let set = set.clone();
        let capacity = set.limits().iter().map(tollgate::Limit::capacity).min().unwrap();
        let cost = match rng.random_range(0..10) {
            0..6 => 1,
            6..9 => rng.random_range(1..=capacity),
            _ => capacity + rng.random_range(1..3),
        };
        let what = format!("seed {seed}: {set} cost {cost} at {}", self.now_us);
        if self.credits.is_some() && rng.random_range(0..8) == 0 {
            self.give(rng, &set, cost, &what);
            return self.inspect(&set, &what);
        }
        match rng.random_range(0..20) {
            // Of slots a check takes none, and is denied.
            0..2 => {
                let mode = [Mode::Whole, Mode::Waiting][rng.random_range(0..2)];
                self.ask(rng, &set, cost, mode, None, &what);
            }
            2 => {
                let mode = [Mode::Partial, Mode::WaitingPartial][rng.random_range(0..2)];
                self.ask(rng, &set, cost, mode, None, &what);
            }
            3 => self.ask(rng, &set, cost, Mode::Peek, None, &what),
            4 => self.ask(rng, &set, cost, Mode::PeekPartial, None, &what),
            5..12 => {
                let kind = match rng.random_range(0..3) {
                    0 if set.needs_hold() => HoldKind::Acquire,
                    1 => HoldKind::Charging,
                    _ => HoldKind::Reserve,
                };
                let terms = HoldTerms::new(kind, rng.random_range(1_000..4_000_000));
                let patience = [Patience::None, Patience::Waiting][rng.random_range(0..2)];
                let terms = terms.with_patience(patience);
                self.ask(rng, &set, cost, Mode::Whole, Some(terms), &what);
            }
            12..16 => self.settle(rng, cost, &what),
            16 | 17 => self.renew(rng, &what),
            18 => self.charge(&self.subjects[0].clone(), &set, cost, &what),
            _ => self.adjust(rng, &set, cost, &what),
        }
        if self.tally.cases.is_multiple_of(4) {
            self.inspect(&set, &what);
        }
    }

    /// Gives a credit: a new one, or one under an id that was given before.
    fn give(&mut self, rng: &mut ChaCha8Rng, set: &LimitSet, cost: u64, what: &str) {
        let ids = self.credits.get_or_insert_default();
        let mut terms = HoldTerms::new(HoldKind::Credit, rng.random_range(1_000..20_000_000));
        match rng.random_range(0..4) {
            0 if !ids.is_empty() => {
                terms.id = ids[rng.random_range(ids.len().saturating_sub(3)..ids.len())];
            }
            _ => ids.push(terms.id),
        }
        let subject = self.subjects[rng.random_range(0..2)].clone();
        let given = self.ask_about(&[(subject, set.clone())], cost, Mode::Whole, Some(terms), what);
        self.tally.refused += u64::from(given.is_err());
    }

    fn advance(&mut self, rng: &mut ChaCha8Rng) {
        let ahead = match rng.random_range(0..16) {
            0..5 => 0,
            5..8 => rng.random_range(0..4),
            8..12 => rng.random_range(0..900_000),
            12 => 1_000_000,
            13 | 14 => rng.random_range(0..4_000_000),
            _ => rng.random_range(0..30_000_000),
        };
        self.now_us += ahead;
        if rng.random_range(0..10) == 0 {
            // So far back no store has forgotten anything.
            self.now_us = self.latest_us.max(self.now_us) - rng.random_range(0..=1_000_000);
        } else if self.back && rng.random_range(0..12) == 0 {
            self.now_us = self.latest_us - rng.random_range(0..20_000_000);
            self.latest_us = self.now_us;
        }
        self.latest_us = self.latest_us.max(self.now_us);
        self.clock.set(Time::from_micros(self.now_us));
        self.fake.at(self.now_us);
        if !self.back && rng.random_range(0..6) == 0 {
            self.fake.at(self.latest_us);
            self.fake.forget();
            self.fake.at(self.now_us);
            self.clock.set(Time::from_micros(self.latest_us));
            self.memory.sweep();
            self.clock.set(Time::from_micros(self.now_us));
        }
    }

    fn call(
        &mut self,
        script: &Script,
        counts: &[(Subject, LimitSet)],
        own: &[String],
    ) -> Vec<i64> {
        self.nonce += 1;
        let (mut keys, mut args) = (Vec::new(), vec![self.nonce.to_string().into_bytes()]);
        args.extend(own.iter().map(|arg| arg.clone().into_bytes()));
        for (subject, limits) in counts {
            keys.push(Keys::new().state(subject, limits));
            args.extend(compose::count_args(limits));
        }
        let reply = self.fake.call(script, &keys, &args);
        let Reply::List(mut list) = reply else { panic!("{reply:?}") };
        // That of several has packed numbers for each.
        if list.len() == 1 {
            let Reply::List(all) = Reply::List(list).unpack_reply() else { unreachable!() };
            let [Reply::List(only)] = &all[..] else { panic!("{all:?}") };
            list = only.clone();
        }
        assert_eq!(list[0], Reply::Text(self.nonce.to_string().into()));
        list.into_iter()
            .skip(1)
            .map(|reply| match reply {
                Reply::Int(number) => number,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    /// Calls a script of the steps of these counts; the one of all where a state names another.
    fn call_holds(
        &mut self,
        which: impl Fn(&HoldScripts) -> &Script,
        counts: &[(Subject, LimitSet)],
        own: &[String],
    ) -> Vec<i64> {
        let each = counts.iter().flat_map(|(_, limits)| limits.limits());
        let steps: BTreeSet<char> = each.map(|it| it.lua_spec().step.unwrap().code).collect();
        let scripts = self.scripts.of(&steps.into_iter().collect::<String>());
        let script = which(&scripts.one);
        let several = match script {
            it if *it == scripts.one.among => &scripts.place,
            it if *it == scripts.one.settle => &scripts.settle,
            _ => &None,
        };
        let several =
            several.as_ref().filter(|_| counts.len() == 1 && self.nonce.is_multiple_of(2));
        let simple = several.map(|it| self.call(it, counts, own)).filter(|got| *got != [-10]);
        if several.is_some() {
            self.tally.simple[usize::from(simple.is_none())] += 1;
        }
        let got = simple.unwrap_or_else(|| self.call(script, counts, own));
        if got != [-4] {
            return got;
        }
        self.tally.others += 1;
        let all: String = tollgate::strategy::lua_steps().map(|step| step.code).collect();
        let scripts = self.scripts.of(&all);
        self.call(which(&scripts.one), counts, own)
    }

    fn ask(
        &mut self,
        rng: &mut ChaCha8Rng,
        set: &LimitSet,
        cost: u64,
        mode: Mode,
        terms: Option<HoldTerms>,
        what: &str,
    ) {
        let counts = self.some_counts(rng, set);
        self.ask_about(&counts, cost, mode, terms, what).unwrap();
    }

    fn some_counts(&self, rng: &mut ChaCha8Rng, set: &LimitSet) -> Vec<(Subject, LimitSet)> {
        let subjects = if rng.random_range(0..3) == 0 { 2 } else { 1 };
        self.subjects[..subjects].iter().map(|subject| (subject.clone(), set.clone())).collect()
    }

    /// Asks both. Returns the hold that was placed or answered again, or why both refused it.
    fn ask_about(
        &mut self,
        counts: &[(Subject, LimitSet)],
        cost: u64,
        mode: Mode,
        terms: Option<HoldTerms>,
        what: &str,
    ) -> Result<Option<Hold>, String> {
        let parts = counts.iter().map(|(subject, limits)| Counted::new(subject, limits));
        let parts: Vec<_> = parts.collect();
        let mut question = Question::new(&parts, cost, mode);
        question.hold = terms.as_ref();
        let outcome = block_on(self.memory.perform(&Check::new(&question)));
        let mode = match mode {
            Mode::Partial => "partial",
            Mode::Peek => "peek",
            Mode::PeekPartial => "peek-partial",
            Mode::Waiting => "waiting",
            Mode::WaitingPartial => "waiting-partial",
            _ => match terms.map_or(Patience::None, |terms| terms.patience) {
                Patience::InLine => "in-line",
                Patience::Waiting => "waiting",
                _ => "whole",
            },
        };
        let (id, ttl) = terms.map_or((String::new(), 0), |it| (it.id.to_string(), it.ttl_us));
        let empty = String::new();
        let own = [cost.to_string(), mode.to_owned(), id, ttl.to_string(), empty, "0".to_owned()];
        let mut got = self.call_holds(|it| &it.among, counts, &own);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                let why = error.to_string();
                assert_eq!(got, [refusal_of(&why)], "{what}: {why}");
                return Err(why);
            }
        };
        if terms.is_some_and(|terms| terms.patience == Patience::InLine) {
            assert_eq!(got.pop(), Some(outcome.ahead.into()), "{what}: ahead");
            self.tally.names.behind += u64::from(outcome.ahead > 0);
        }
        let is_named = terms.is_some_and(|terms| terms.id.name().is_some());
        let answer = outcome.hold.as_deref().map_or(0, |placed| placed.answer);
        if is_named {
            assert_eq!(got.pop(), Some(answer.cast_signed()), "{what}");
        }
        let (head, rows) = got.split_at(4);
        let rows = rows.chunks(6).flat_map(|row| &row[..5]);
        let got: Vec<i64> = head.iter().chain(rows).copied().collect();
        let placed = outcome.hold.as_deref().map(|placed| (placed.fence, placed.end.as_micros()));
        let (fence, end) = placed.unwrap_or_default();
        let head = [outcome.granted, self.now_us, fence, end];
        let mut expected: Vec<i64> = head.iter().map(|it| it.cast_signed()).collect();
        let mut fields = outcome.fields.iter();
        for (_, limits) in counts {
            let each: Vec<&Fields> = fields.by_ref().take(limits.limits().len()).collect();
            for place in by_identity(limits) {
                expected.extend(numbers_of(each[place]));
            }
        }
        let mut got = got;
        if self.back && got[2] > expected[2] && expected[2] > 0 {
            // Behind a step back a store may remember the last number of a free count, or not.
            got[2] = expected[2];
        }
        assert_eq!(got, expected, "{what}: {question:?}");
        self.tally.denied_by_holds +=
            u64::from(outcome.fields.iter().any(|field| field.until_hold));
        let Some((terms, placed)) = terms.zip(outcome.hold.as_deref()) else { return Ok(None) };
        let counts = counts.iter().cloned();
        let mut hold = Hold::new(terms.id, placed.fence, cost, placed.end, counts);
        hold.answer = answer;
        if !is_named {
            self.open.push(hold.clone());
        }
        Ok(Some(hold))
    }

    fn settle(&mut self, rng: &mut ChaCha8Rng, cost: u64, what: &str) {
        if self.open.is_empty() {
            return;
        }
        let place = rng.random_range(0..self.open.len());
        let hold = match rng.random_range(0..4) {
            0 => self.open[place].clone(),
            _ => self.open.remove(place),
        };
        let actual = match hold.kind() {
            HoldKind::Acquire | HoldKind::Credit => 0,
            _ => rng.random_range(0..2) * cost,
        };
        let settled = block_on(self.memory.perform(&Settle::new(&hold, actual.into()))).unwrap();
        let own =
            [hold.id.to_string(), hold.cost.to_string(), actual.to_string(), "60000".to_owned()];
        let got = self.call_holds(|it| &it.settle, &hold.counts, &own);
        if hold.kind() == HoldKind::Credit {
            let how = settled.as_ref().map_or(0, |settled| if settled.already { 1 } else { 2 });
            self.tally.ended += u64::from(how == 0);
            assert_eq!(got[0], how, "{what}: taken back {hold:?}");
            return;
        }
        // Each store remembers settled holds for a minute, and then may forget them at any time.
        let (before, until_us) = self.settled.get(&hold.id).copied().unzip();
        let told = match (got[0], before) {
            (1, Some(before)) => got[1] == before.cast_signed(),
            (0, _) => got[1] == 0 && until_us.is_none_or(|until_us| until_us <= self.latest_us),
            _ => false,
        };
        let done = settled.as_ref().filter(|settled| !settled.already);
        let Some(settled) = done else {
            self.tally.ended += 1;
            let rows = got[2..].iter().all(|number| *number == -2);
            assert!(told && rows, "{what}: settled {hold:?}: {got:?}");
            if settled.as_ref().is_some_and(|settled| settled.already) && before.is_some() {
                assert_eq!(settled.and_then(|settled| settled.actual.plain()), before, "{what}");
            }
            return;
        };
        assert_eq!(got[..2], [2, actual_of(settled)], "{what}: settled {hold:?}");
        if matches!(hold.kind(), HoldKind::Reserve | HoldKind::Charging) {
            // The clock may be behind the latest time by the skew, and step back by as much.
            let until_us = self.latest_us.saturating_add(57_000_000);
            self.settled.insert(hold.id, (actual, until_us));
        }
        assert_rows(&got[2..], &hold, &settled.charged, what);
    }

    fn renew(&mut self, rng: &mut ChaCha8Rng, what: &str) {
        if self.open.is_empty() {
            return;
        }
        let hold = self.open[rng.random_range(0..self.open.len())].clone();
        self.renew_both(&hold, rng.random_range(1_000..4_000_000), what);
    }

    fn renew_both(&mut self, hold: &Hold, ttl_us: u64, what: &str) {
        let end = block_on(self.memory.perform(&Renew::new(hold, ttl_us))).unwrap();
        let asked_us = hold.id.asked_us().unwrap_or(0);
        let numbers = [hold.cost.to_string(), ttl_us.to_string(), asked_us.to_string()];
        let own = [&[hold.id.to_string()][..], &numbers].concat();
        let got = self.call_holds(|it| &it.renew, &hold.counts, &own);
        assert_eq!(got, [end.map_or(0, |end| end.as_micros().cast_signed())], "{what}: {hold:?}");
    }

    /// The open holds that both show, with their ages.
    fn inspect(&mut self, set: &LimitSet, what: &str) {
        for subject in self.subjects.clone() {
            let shown =
                block_on(self.memory.perform(&Inspect::new(Counted::new(&subject, set)))).unwrap();
            let expected = shown.map(|shown| (shown.open, shown.holds)).unwrap_or_default();
            let state = Keys::new().state(&subject, set);
            let most = MAX_SHOWN_HOLDS.to_string().into_bytes();
            let reply = self.fake.call(&self.scripts.open_holds, &[state], &[b"7".to_vec(), most]);
            let Reply::List(list) = &reply else { panic!("{what}: {reply:?}") };
            let [_, Reply::Int(open), Reply::Int(back), Reply::Int(at), Reply::List(rows)] =
                &list[..]
            else {
                panic!("{what}: {reply:?}")
            };
            let [open, back, at] = [open, back, at].map(|number| number.cast_unsigned());
            let each = rows.chunks(3).map(|row| shown_hold(row, back, at));
            assert_eq!((open, each.collect::<Vec<_>>()), expected, "{what}: holds of {subject}");
            let credits = expected.1.iter().filter(|it| it.hold.id.kind() == HoldKind::Credit);
            let left: Vec<u64> = credits.map(|it| it.hold.cost.amounts().first()).collect();
            self.tally.paid += u64::from(left != self.shown);
            self.shown = left;
        }
    }

    fn charge(&mut self, subject: &Subject, set: &LimitSet, cost: u64, what: &str) {
        let counted = Counted::new(subject, set);
        let charged = block_on(self.memory.perform(&Charge::new(counted, cost.into()))).unwrap();
        let count = [(subject.clone(), set.clone())];
        let script = &self.scripts.charge;
        let got = self.call(script, &count, &[cost.to_string()]);
        let each = by_identity(set).into_iter().flat_map(|place| charged_numbers(&charged[place]));
        assert_eq!(got, each.collect::<Vec<_>>(), "{what}: charged");
    }

    fn adjust(&mut self, rng: &mut ChaCha8Rng, set: &LimitSet, cost: u64, what: &str) {
        let delta = cost.cast_signed() * if rng.random_range(0..2) == 0 { 1 } else { -1 };
        let counted = Counted::new(&self.subjects[0], set);
        let changes = block_on(self.memory.perform(&Adjust::new(counted, &delta.into()))).unwrap();
        let count = [(self.subjects[0].clone(), set.clone())];
        let script = &self.scripts.adjust;
        let got = self.call(script, &count, &[delta.to_string()]);
        let each = by_identity(set).into_iter().map(|place| changes[place]);
        assert_eq!(got, each.collect::<Vec<_>>(), "{what}: adjusted {delta}");
    }
}

/// A hold of the reply of an inspection.
fn shown_hold(row: &[Reply], back_us: u64, at_us: u64) -> ShownHold {
    let [Reply::Text(member), Reply::Text(end), Reply::Int(span)] = row else { panic!("{row:?}") };
    let (id, cost) = member.split_first_chunk::<16>().unwrap();
    let id = HoldId::from_bytes(*id).unwrap();
    let cost = cost.iter().fold(0, |cost, byte| cost << 8 | u64::from(*byte)).max(1);
    let end: u64 = std::str::from_utf8(end).unwrap().parse().unwrap();
    let span_us = Some(span.cast_unsigned()).filter(|span_us| *span_us > 0).or(id.asked_us());
    ShownHold::at(OpenHold { end_us: end - back_us, id, cost: cost.into() }, span_us, at_us)
}

/// A script's report of each limit that a hold was settled on is that of memory.
fn assert_rows(rows: &[i64], hold: &Hold, charged: &[Charged], what: &str) {
    let (mut charged, mut rows) = (charged.iter(), rows.chunks(5));
    for (_, limits) in &hold.counts {
        let rows: Vec<&[i64]> = rows.by_ref().take(limits.limits().len()).collect();
        if rows[0][0] == -2 {
            assert!(rows.iter().all(|row| *row == [-2; 5]), "{what}: {rows:?}");
            continue;
        }
        let each: Vec<&Charged> = charged.by_ref().take(limits.limits().len()).collect();
        for (row, place) in rows.iter().zip(by_identity(limits)) {
            assert_eq!(**row, charged_numbers(each[place]), "{what}: settled {hold:?}");
        }
    }
}

/// The places of limits in the order of a state.
fn by_identity(limits: &LimitSet) -> Vec<usize> {
    let mut places: Vec<usize> = (0..limits.limits().len()).collect();
    places.sort_by_key(|place| limits.limits()[*place].identity().to_owned());
    places
}

/// Without what became of the numbers: one may have forgotten a count that is fresh, and the other
/// not yet.
fn numbers_of(fields: &Fields) -> [i64; 5] {
    [
        fields.remaining.cast_signed(),
        fields.retry_after_us.map_or(-1, u64::cast_signed),
        fields.reset_after_us.cast_signed(),
        fields.until_hold.into(),
        fields.charged_at_us.cast_signed(),
    ]
}

fn charged_numbers(charged: &Charged) -> [i64; 5] {
    let Charged { fits, cut, remaining, retry_after_us, reset_after_us, .. } = *charged;
    [
        fits.into(),
        cut.cast_signed(),
        remaining.cast_signed(),
        retry_after_us.map_or(-1, u64::cast_signed),
        reset_after_us.cast_signed(),
    ]
}
