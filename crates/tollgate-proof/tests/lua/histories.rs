//! Random histories: what the scripts answer, and what the engine does.

use std::collections::HashMap;
use std::rc::Rc;

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tollgate::engine;
use tollgate::engine::{Mode, Outcome};
use tollgate::strategy::Shape;
use tollgate::{Carried, LimitSet, Place, SKEW_US, Strategy, Subject, Time};
use tollgate_redis::compose::{self, Check, Clock, Parts};
use tollgate_redis::{Keys, Script};

use super::fake::{Fake, Held, Reply, Snapshot};
use super::model::{Charge, Mark, MarkOf, Model, by_place, reply, whose};

/// How often each thing happened.
#[derive(Default, Debug)]
pub(crate) struct Seen {
    pub(crate) cases: u64,
    counts: HashMap<&'static str, u64>,
}

impl Seen {
    fn saw(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// The share of each branch of a check in percent; all of them, also those never seen.
    #[allow(clippy::cast_precision_loss)] // a share
    pub(crate) fn shares(&self) -> Vec<(&'static str, f64)> {
        let share = |what| {
            let count = self.counts.get(what).copied().unwrap_or_default();
            (what, count as f64 * 100.0 / self.cases as f64)
        };
        BRANCHES.into_iter().map(share).collect()
    }
}

/// What a check may come to.
pub(crate) const BRANCHES: [&str; 12] = [
    "allow",
    "not yet",
    "never",
    "partial less",
    "peek",
    "fresh",
    "full",
    "skew or step back",
    "numbers changed",
    "refund",
    "adjust",
    "something expired",
];

/// What one history tries: limits that take turns on one subject.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The sets of limits, all of the same identities.
    pub(crate) sets: Vec<LimitSet>,
    pub(crate) period_us: u64,
    pub(crate) capacity: u64,
    /// True to change the limits every other time, not every twentieth.
    pub(crate) restless: bool,
}

/// Quotas that must be accepted and exact, and small ones that reach every branch.
const QUOTAS: [&str; 16] = [
    "7/m",
    "3/10s",
    "1000000/d",
    "5000000/h",
    "10000/30d",
    "1000003/30d",
    "1/366d",
    "100000/s",
    "3/10us",
    "5/1us",
    "1/1us",
    "7/3s",
    "2/700ms",
    "60/1m",
    "1099511627776/366d",
    "5/10s",
];

/// One limit under the name `x`, of a strategy, with numbers of its own; none when the numbers
/// do not fit the strategy.
fn limit(rng: &mut ChaCha8Rng, strategy: Strategy) -> Option<String> {
    let quota = match rng.random_range(0..3) {
        0 => (*QUOTAS.choose(rng).unwrap()).to_owned(),
        1 => format!("{}/{}us", rng.random_range(1..30), rng.random_range(1..60)),
        _ => format!("{}/{}ms", rng.random_range(1..50), rng.random_range(1..5000)),
    };
    let options = match strategy {
        Strategy::Gcra | Strategy::TokenBucket => {
            let burst = match rng.random_range(0..4) {
                0 => String::new(),
                1 => " burst 1".to_owned(),
                2 => format!(" burst {}", rng.random_range(1..20)),
                _ => format!(" burst {}", 1_u64 << rng.random_range(0..41)),
            };
            let interval = strategy == Strategy::TokenBucket && rng.random_bool(0.5);
            format!("{burst}{}", if interval { " refill interval" } else { "" })
        }
        Strategy::FixedWindow if rng.random_bool(0.5) => " anchor first-hit".to_owned(),
        Strategy::SlidingWindow => {
            let set: LimitSet = format!("{quota} via fixed_window").parse().ok()?;
            let period_us = set.limits()[0].quota().period.as_micros();
            let buckets = *[1, 2, 3, 4, 5, 7, 10, 12].choose(rng).unwrap();
            if !period_us.is_multiple_of(buckets) {
                return None;
            }
            let rounding = ["conservative", "interpolate", "truncate"].choose(rng).unwrap();
            format!(" precision {}us rounding {rounding}", period_us / buckets)
        }
        _ => String::new(),
    };
    let text = format!("x: {quota}{options} via {strategy}");
    text.parse::<LimitSet>().ok().map(|_| text)
}

fn any_limit(rng: &mut ChaCha8Rng, strategy: Strategy) -> LimitSet {
    loop {
        if let Some(text) = limit(rng, strategy) {
            return text.parse().unwrap();
        }
    }
}

impl Plan {
    /// A limit of a strategy, and three that replace it now and then: most of them of the same
    /// strategy with other numbers.
    pub(crate) fn of(rng: &mut ChaCha8Rng, strategy: Strategy) -> Self {
        let mut sets = vec![any_limit(rng, strategy)];
        for _ in 0..3 {
            let other = rng.random_bool(0.15);
            let strategy = if other { *Strategy::ALL.choose(rng).unwrap() } else { strategy };
            sets.push(any_limit(rng, strategy));
        }
        Self::new(sets)
    }

    pub(crate) fn new(sets: Vec<LimitSet>) -> Self {
        let limit = &sets[0].limits()[0];
        Self {
            period_us: limit.quota().period.as_micros(),
            capacity: limit.capacity(),
            sets,
            restless: false,
        }
    }

    /// Several limits of any strategies for each of several subjects.
    pub(crate) fn several(rng: &mut ChaCha8Rng, limits: usize) -> Self {
        let set = |rng: &mut ChaCha8Rng| -> LimitSet {
            let mut texts = Vec::new();
            for i in 0..limits {
                let strategy = *Strategy::ALL.choose(rng).unwrap();
                let one = any_limit(rng, strategy).to_string();
                texts.push(one.replacen('x', &format!("x{}", (i * 11) % limits), 1));
            }
            texts.join(", ").parse().unwrap()
        };
        let sets = vec![set(rng), set(rng), set(rng)];
        Self::new(sets)
    }
}

/// One of several questions under the same limits.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    asked: Vec<(String, LimitSet)>,
    cost: u64,
    now_us: u64,
}

/// Changes the text of a script.
pub(crate) type Edit = Rc<dyn Fn(&str) -> String>;

/// What scripts are made of, and what is done to each of them once it is composed.
#[derive(Clone, Default)]
pub(crate) struct Texts {
    pub(crate) parts: Parts,
    pub(crate) edit: Option<Edit>,
}

impl Texts {
    pub(crate) fn script(&self, script: Script) -> Script {
        match &self.edit {
            None => script,
            Some(edit) => Script::new(edit(script.text())),
        }
    }
}

/// The scripts of one version of the texts.
pub(crate) struct Scripts {
    texts: Texts,
    clock: Clock,
    checks: HashMap<(Vec<String>, u8, bool), Rc<Script>>,
    /// Those that take their numbers, by the shape of the limits.
    given: HashMap<(String, u8), Rc<Script>>,
    refund: Script,
    adjust: Script,
    reset: Script,
}

fn mode_number(mode: Mode) -> u8 {
    match mode {
        Mode::Whole => 0,
        Mode::Partial => 1,
        Mode::Peek => 2,
        _ => 3,
    }
}

impl Scripts {
    pub(crate) fn new(texts: Texts, clock: Clock) -> Self {
        let parts = &texts.parts;
        Self {
            checks: HashMap::new(),
            given: HashMap::new(),
            refund: texts.script(compose::refund(clock, parts)),
            adjust: texts.script(compose::adjust(clock, parts)),
            reset: texts.script(compose::reset(clock, parts)),
            texts,
            clock,
        }
    }

    /// The script of one such question, or of several.
    pub(crate) fn check(&mut self, sets: &[&LimitSet], mode: Mode, several: bool) -> Rc<Script> {
        let names = sets.iter().map(ToString::to_string).collect();
        let (texts, clock) = (&self.texts, self.clock);
        let script = self.checks.entry((names, mode_number(mode), several)).or_insert_with(|| {
            let mut check = Check::new(mode);
            check.clock = clock;
            let script = match several {
                false => check.compose(sets, &texts.parts),
                true => check.compose_batch(sets, &texts.parts),
            };
            Rc::new(texts.script(script.expect("all are in Lua")))
        });
        Rc::clone(script)
    }

    /// The script of one such question that takes the numbers of its limits.
    fn given(&mut self, sets: &[&LimitSet], mode: Mode) -> Rc<Script> {
        let key = (compose::shape(sets), mode_number(mode));
        let (texts, clock) = (&self.texts, self.clock);
        let script = self.given.entry(key).or_insert_with(|| {
            let mut check = Check::new(mode);
            check.clock = clock;
            let script = check.compose_with_number_args(sets, &texts.parts);
            Rc::new(texts.script(script.expect("all are in Lua")))
        });
        Rc::clone(script)
    }

    fn forget(&mut self) {
        self.checks.clear();
        self.given.clear();
    }
}

/// The scripts and the engine side by side.
pub(crate) struct Pair {
    pub(crate) fake: Fake,
    pub(crate) scripts: Scripts,
    pub(crate) model: Model,
    pub(crate) seen: Seen,
    keys: Keys,
    pub(crate) nonce: u64,
    /// What the last check was answered.
    answer: Option<Reply>,
    /// What has happened, when somebody wants to know.
    pub(crate) trace: Option<Vec<String>>,
}

/// What went wrong, told once.
pub(crate) type Difference = String;

impl Pair {
    /// By the server's clock.
    pub(crate) fn new(texts: Texts) -> Self {
        Self::by(Clock::Server, texts)
    }

    /// By either clock.
    pub(crate) fn by(clock: Clock, texts: Texts) -> Self {
        Self {
            fake: Fake::new(),
            scripts: Scripts::new(texts, clock),
            model: Model::default(),
            seen: Seen::default(),
            keys: Keys::new(),
            nonce: 0,
            answer: None,
            trace: None,
        }
    }

    fn told(&mut self, what: impl Fn() -> String) {
        if let Some(trace) = &mut self.trace {
            let mut keys: Vec<String> = Vec::new();
            for (key, held) in self.fake.keys() {
                let shown = match held {
                    Held::Text(bytes) => show(&bytes),
                    Held::List(rows) => {
                        rows.iter().map(|row| show(row)).collect::<Vec<_>>().join(" ")
                    }
                };
                keys.push(format!("{} = {shown}", String::from_utf8_lossy(&key)));
            }
            trace.push(format!("{}\n    redis {keys:?}\n    rust {:?}", what(), self.model.counts));
        }
    }

    /// Sets the server's clock, or adds the time to the arguments and makes the clock useless.
    fn clock(&self, now_us: u64, args: &mut Vec<String>) {
        match self.scripts.clock {
            Clock::Given => {
                args.push(now_us.to_string());
                self.fake.at(1);
            }
            _ => self.fake.at(now_us),
        }
    }

    /// How long what counts so long lies: a second longer, in whole milliseconds.
    fn lifetime(&self, reset_us: u64) -> u64 {
        match self.scripts.clock {
            Clock::Given => 3_600_000,
            _ => reset_us.div_ceil(1000) + 1000,
        }
    }

    /// Compares how long the keys of a subject lie with how long they count.
    fn lifetimes(&self, state: &str, limits: &LimitSet, resets: &[u64]) -> Result<(), Difference> {
        let (logs, written) = (Keys::logs(state, limits), self.fake.written());
        let mut expected = HashMap::new();
        if compose::has_state(limits) {
            expected.insert(state.to_owned(), resets.iter().copied().max().unwrap_or_default());
        }
        for (i, key) in by_place(limits).into_iter().zip(logs) {
            if limits.limits()[i].shape() == Shape::Log {
                expected.insert(key, resets[i]);
            }
        }
        for (key, reset) in expected {
            let (found, wanted) = (written.get(key.as_bytes()), self.lifetime(reset));
            if found.is_some_and(|found| *found != wanted) {
                return Err(format!("{limits}: {key} lies {found:?} ms, not {wanted}"));
            }
        }
        Ok(())
    }

    /// What an operation that is rare left: nothing where nothing counts, else for how long.
    fn left(
        &mut self,
        subject: &str,
        limits: &LimitSet,
        now_us: u64,
        settled: bool,
    ) -> Result<(), Difference> {
        let (state, logs) = self.keys_of(subject, limits);
        let Some(written) = self.model.limits(subject, limits) else {
            // What counted nothing before may lie there still, and be written again by a refund.
            let written = self.fake.written();
            let mut keys = logs.iter().chain([&state]);
            return match keys.find(|key| settled && written.contains_key(key.as_bytes())) {
                Some(key) => Err(format!("{limits}: {key} is left with nothing in it")),
                None => Ok(()),
            };
        };
        let asked = [(subject.to_owned(), written.clone())];
        let outcome = self.model.check(&asked, 1, Mode::Peek, Time::from_micros(now_us));
        let resets: Vec<u64> = outcome.fields.iter().map(|f| f.reset_after_us).collect();
        self.lifetimes(&state, &written, &resets)?;
        self.states(subject, limits)
    }

    /// Compares what an operation wrote with how Rust writes what the engine holds; of a log the
    /// times and the costs, since only differences of its totals count.
    fn states(&self, subject: &str, limits: &LimitSet) -> Result<(), Difference> {
        if !self.fake.wrote() {
            return Ok(());
        }
        let Some((written, held)) = self.model.held(subject, limits) else { return Ok(()) };
        let (state, logs) = self.keys_of(subject, limits);
        let wrong = |key: &str| {
            let found = self.fake.get(key);
            Err(format!("{limits}: {key} is {found:?}, where Rust has {held:?}"))
        };
        let present = |key: &str| self.fake.written().contains_key(key.as_bytes());
        if let Some(bytes) = tollgate_redis::encode(&written, &held) {
            let found = self.fake.get(&state);
            if present(&state) && found != Some(Held::Text(bytes)) {
                return wrong(&state);
            }
        }
        let is_log = |i: &usize| written.limits()[*i].shape() == Shape::Log;
        let logs = by_place(&written).into_iter().zip(logs).filter(|(i, _)| is_log(i));
        for (i, key) in logs {
            let Place::Log(index) = written.places()[i] else { continue };
            let rows = tollgate_redis::log_entries(&written.limits()[i], &held.logs[index]);
            let found = self.fake.get(&key);
            if let Some(Held::List(found)) = found.filter(|_| present(&key)) {
                let found: Vec<Vec<u8>> = found.into();
                if costs(&found) != costs(&rows) {
                    return wrong(&key);
                }
            }
        }
        Ok(())
    }

    fn keys_of(&self, subject: &str, limits: &LimitSet) -> (String, Vec<String>) {
        let subject = Subject::literal(subject).unwrap();
        let state = self.keys.state(&subject, limits);
        let logs = Keys::logs(&state, limits);
        (state, logs)
    }

    pub(crate) fn check(
        &mut self,
        asked: &[(String, LimitSet)],
        cost: u64,
        mode: Mode,
        now_us: u64,
    ) -> Result<Outcome, Difference> {
        self.nonce += 1;
        self.seen.cases += 1;
        let (keys, args) = self.words(asked, cost, self.nonce, now_us);
        let sets: Vec<&LimitSet> = asked.iter().map(|(_, limits)| limits).collect();
        let script = self.scripts.check(&sets, mode, false);
        let before = mode.is_peek().then(|| self.fake.keys());
        let start = self.fake.snapshot();
        let answer = self.fake.call(&script, &keys, &args);
        self.given_does_the_same(&sets, mode, start, (&keys, &args), &answer)?;
        let outcome = self.model.check(asked, cost, mode, Time::from_micros(now_us));
        let capacities = asked.iter().flat_map(|(_, limits)| limits.limits());
        let charged = if mode.is_peek() { 0 } else { outcome.granted };
        let fresh: Vec<bool> = capacities
            .zip(&outcome.fields)
            .map(|(limit, fields)| fields.remaining + charged == limit.capacity())
            .collect();
        let Reply::List(list) = &answer else {
            return Err(format!("{sets:?} {mode:?} {cost} at {now_us}: {answer:?}"));
        };
        self.told(|| format!("{asked:?} {mode:?} {cost} at {now_us}: {answer:?}"));
        self.answer = Some(answer.clone());
        let whole = list.iter().skip(1).all(|reply| matches!(reply, Reply::Int(_)));
        if !whole || list[0] != Reply::Text(self.nonce.to_string().into_bytes()) {
            return Err(format!("{sets:?} {mode:?} {cost} at {now_us}: {answer:?}"));
        }
        let mut expected = reply(&outcome);
        let mut integers = answer.integers();
        let usual = 2 + 3 * fresh.len();
        let more = integers.get(usual..).unwrap_or_default();
        let says = more.chunks(2).any(|pair| pair != [integers[1], 0]);
        if says != (integers.len() > usual) {
            return Err(format!("{sets:?} {mode:?}: says more than there is: {integers:?}"));
        }
        if integers.len() == usual {
            for _ in &fresh {
                integers.extend([integers[1], 0]);
            }
        }
        for (i, fresh) in fresh.iter().enumerate() {
            // What became of a state that counts nothing is not to be known: it may be forgotten.
            let carried = usual + 2 * i + 1;
            if *fresh && integers.len() == expected.len() && integers[carried] <= 2 {
                (integers[carried], expected[carried]) = (0, 0);
            }
        }
        if integers != expected {
            return Err(format!(
                "{sets:?} {mode:?} {cost} at {now_us}:\n  lua  {integers:?}\n  rust {expected:?}\n  \
                 differ at {:?}",
                (0..integers.len().min(expected.len()))
                    .filter(|i| integers[*i] != expected[*i])
                    .collect::<Vec<_>>()
            ));
        }
        if before.is_some_and(|before| before != self.fake.keys()) {
            return Err(format!("{sets:?}: a peek wrote"));
        }
        let mut resets = outcome.fields.iter().map(|fields| fields.reset_after_us);
        for (subject, limits) in asked {
            let resets: Vec<u64> = resets.by_ref().take(limits.limits().len()).collect();
            self.lifetimes(&self.keys_of(subject, limits).0, limits, &resets)?;
        }
        // What was carried over to nothing may be written or not, and the others with it.
        if says && self.fake.wrote() && !outcome.changed {
            self.model.carry_over(asked, Time::from_micros(now_us));
        }
        for (subject, limits) in asked {
            self.states(subject, limits)?;
        }
        if self.fake.wrote() != outcome.changed && !(says && self.fake.wrote()) {
            let changed = outcome.changed;
            return Err(format!("{sets:?} {mode:?} {cost} at {now_us}: writes, not: {changed}"));
        }
        self.note(&outcome, mode, cost);
        Ok(outcome)
    }

    /// The keys and the arguments of a question.
    fn words(
        &self,
        asked: &[(String, LimitSet)],
        cost: u64,
        nonce: u64,
        now_us: u64,
    ) -> (Vec<String>, Vec<String>) {
        let mut keys = Vec::new();
        for (subject, limits) in asked {
            let (state, _) = self.keys_of(subject, limits);
            keys.extend(Keys::for_check(&state, limits));
        }
        let mut args = vec![cost.to_string(), nonce.to_string()];
        self.clock(now_us, &mut args);
        (keys, args)
    }

    /// Goes back and asks the script that takes its numbers: the answer and what is held must be
    /// the same.
    fn given_does_the_same(
        &mut self,
        sets: &[&LimitSet],
        mode: Mode,
        start: Snapshot,
        (keys, args): (&[String], &[String]),
        answer: &Reply,
    ) -> Result<(), Difference> {
        let script = self.scripts.given(sets, mode);
        let held = self.fake.snapshot();
        self.fake.restore(start);
        let mut args = args.to_vec();
        // Before the clock.
        let at = args.len() - usize::from(self.scripts.clock != Clock::Server);
        args.splice(at..at, compose::number_args(sets));
        let given = self.fake.call(&script, keys, &args);
        if given != *answer || held != self.fake.snapshot() {
            return Err(format!("{sets:?} {mode:?}: {answer:?}, with its numbers given {given:?}"));
        }
        Ok(())
    }

    /// Asks several questions in one call, goes back, and asks them one by one: the answers and
    /// what is held must be the same. Whether they are right the single ones say. By a given clock
    /// each question has a time of its own.
    pub(crate) fn check_many(
        &mut self,
        questions: &[Question],
        mode: Mode,
    ) -> Result<Vec<Outcome>, Difference> {
        let Some(first) = questions.first() else { return Ok(Vec::new()) };
        let sets: Vec<&LimitSet> = first.asked.iter().map(|(_, limits)| limits).collect();
        let script = self.scripts.check(&sets, mode, true);
        let (mut keys, mut args) = (Vec::new(), Vec::new());
        for (question, nonce) in questions.iter().zip(self.nonce + 1..) {
            let Question { asked, cost, now_us } = question;
            let (own_keys, own_args) = self.words(asked, *cost, nonce, *now_us);
            keys.extend(own_keys);
            args.extend(own_args);
        }
        let before = self.fake.snapshot();
        let together = self.fake.call(&script, &keys, &args).unpack_reply();
        let held = self.fake.snapshot();
        self.fake.restore(before);
        self.told(|| format!("{questions:?} {mode:?} at once: {together:?}"));
        let (mut outcomes, mut alone) = (Vec::new(), Vec::new());
        for Question { asked, cost, now_us } in questions {
            outcomes.push(self.check(asked, *cost, mode, *now_us)?);
            alone.extend(self.answer.take());
        }
        if together != Reply::List(alone.clone()) {
            return Err(format!(
                "{questions:?} {mode:?}:\n  at once {together:?}\n  alone   {alone:?}"
            ));
        }
        if held != self.fake.snapshot() {
            return Err(format!("{questions:?} {mode:?}: another state is left"));
        }
        Ok(outcomes)
    }

    fn note(&mut self, outcome: &Outcome, mode: Mode, cost: u64) {
        let fields = &outcome.fields;
        if mode.is_peek() {
            self.seen.saw("peek");
        }
        if outcome.granted > 0 {
            self.seen.saw("allow");
            if outcome.granted < cost {
                self.seen.saw("partial less");
            }
        } else if fields.iter().any(|f| f.retry_after_us.is_none()) {
            self.seen.saw("never");
        } else {
            self.seen.saw("not yet");
        }
        if fields.iter().any(|f| f.remaining == 0) {
            self.seen.saw("full");
        }
        if fields.iter().all(|f| f.reset_after_us == 0) || outcome.granted == cost {
            self.seen.saw("fresh");
        }
        if fields.iter().any(|f| f.carried != Carried::Same) {
            self.seen.saw("numbers changed");
        }
    }

    pub(crate) fn refund(
        &mut self,
        charge: &Charge,
        units: u64,
        now_us: u64,
    ) -> Result<(), Difference> {
        self.nonce += 1;
        self.seen.cases += 1;
        self.seen.saw("refund");
        let (first, _) = self.keys_of(&charge.parts[0].0, &charge.parts[0].1);
        let mark = Keys::mark(&first, charge.number);
        let mut keys = vec![mark.clone()];
        let each = charge.parts.iter().flat_map(|(_, limits, at_us)| {
            let each = limits.limits().iter().zip(at_us);
            each.map(|(limit, at_us)| engine::spent_until_us(limit, *at_us, charge.cost))
        });
        let until_us = each.max().unwrap();
        let mut args = vec![
            self.nonce.to_string(),
            charge.cost.to_string(),
            charge.at_us.to_string(),
            until_us.to_string(),
            charge.number.to_string(),
            units.to_string(),
        ];
        for (subject, limits, at_us) in &charge.parts {
            let (state, logs) = self.keys_of(subject, limits);
            keys.extend([state.clone(), Keys::reset(&state)]);
            keys.extend(logs);
            args.push(limits.limits().len().to_string());
            for i in by_place(limits) {
                let (limit, at_us) = (&limits.limits()[i], at_us[i]);
                let until_us = engine::spent_until_us(limit, at_us, charge.cost);
                args.push(format!("{}{at_us}:{until_us}", limit.strategy().code()));
            }
        }
        self.clock(now_us, &mut args);
        let script = self.scripts.refund.clone();
        let answer = self.fake.call(&script, &keys, &args);
        let expected = match self.model.refund(charge, units, Time::from_micros(now_us)) {
            None => vec![1],
            Some((left, given)) => {
                let numbers = std::iter::once(left).chain(given);
                let numbers = numbers.map(|units| i64::try_from(units).unwrap());
                std::iter::once(0).chain(numbers).collect()
            }
        };
        self.told(|| format!("{charge:?} refunded at {now_us}: {answer:?}"));
        self.compare(&answer, &expected, || format!("refund {charge:?} at {now_us}"))?;
        if expected == [1] {
            return if self.fake.wrote() {
                Err("a second refund writes".to_owned())
            } else {
                Ok(())
            };
        }
        let lies = self.fake.written().get(mark.as_bytes()).copied();
        let wanted = self.lifetime(until_us.saturating_sub(now_us));
        if lies != Some(wanted) {
            return Err(format!("{charge:?} at {now_us}: the mark lies {lies:?} ms, not {wanted}"));
        }
        let of = MarkOf::Refund(charge.number);
        self.model.marks.insert(mark, Mark { of, until_us });
        for (subject, limits, _) in &charge.parts {
            self.left(subject, limits, now_us, false)?;
        }
        Ok(())
    }

    /// Has the fake drop what has expired, and the model what it may forget.
    pub(crate) fn forget(&mut self, now_us: u64) -> Result<(), Difference> {
        // By a given clock everything lies for an hour, which never passes.
        if self.scripts.clock != Clock::Server {
            return Ok(());
        }
        self.fake.at(now_us);
        let gone = self.fake.forget();
        if !gone.is_empty() {
            self.seen.saw("something expired");
        }
        let keys = &self.keys;
        self.model.forget(&gone, now_us, |subject, limits| {
            let state = keys.state(&Subject::literal(subject).unwrap(), limits);
            let logs = Keys::logs(&state, limits);
            (state, logs)
        })?;
        self.told(|| format!("{gone:?} expired at {now_us}"));
        Ok(())
    }

    pub(crate) fn adjust(
        &mut self,
        subject: &str,
        limits: &LimitSet,
        delta: i64,
        now_us: u64,
    ) -> Result<(), Difference> {
        self.nonce += 1;
        self.seen.cases += 1;
        self.seen.saw("adjust");
        let (state, logs) = self.keys_of(subject, limits);
        let mut keys = vec![state];
        keys.extend(logs);
        let mut args = vec![
            self.nonce.to_string(),
            delta.to_string(),
            compose::set_tag(limits),
            u8::from(compose::has_state(limits)).to_string(),
        ];
        self.clock(now_us, &mut args);
        let script = self.scripts.adjust.clone();
        let answer = self.fake.call(&script, &keys, &args);
        let expected = self.model.adjust(subject, limits, delta, Time::from_micros(now_us));
        self.told(|| format!("{limits} {subject} adjust {delta} at {now_us}: {answer:?}"));
        self.compare(&answer, &expected, || format!("{limits}: adjust {delta} at {now_us}"))?;
        let (state, _) = self.keys_of(subject, limits);
        let counts = self.model.limits(subject, limits).is_some();
        if counts && compose::has_state(limits) && self.fake.get(&state).is_none() {
            return Err(format!("{limits}: adjust {delta} at {now_us} leaves no state"));
        }
        self.left(subject, limits, now_us, true)
    }

    pub(crate) fn reset(
        &mut self,
        subject: &str,
        limits: &LimitSet,
        now_us: u64,
    ) -> Result<(), Difference> {
        self.nonce += 1;
        let (state, logs) = self.keys_of(subject, limits);
        let mark = Keys::reset(&state);
        let mut keys = vec![state.clone(), mark.clone()];
        keys.extend(logs);
        let longest_us = engine::refundable_until_us(limits, Time::default());
        let mut args = vec![self.nonce.to_string(), longest_us.to_string()];
        self.clock(now_us, &mut args);
        self.fake.at(if self.scripts.clock == Clock::Server { now_us } else { 1 });
        let lives: Vec<u64> = keys.iter().filter_map(|key| self.fake.left_ms(key)).collect();
        let held = keys.iter().any(|key| *key != mark && self.fake.get(key).is_some());
        let script = self.scripts.reset.clone();
        let answer = self.fake.call(&script, &keys, &args);
        let Reply::List(list) = &answer else { return Err(format!("reset: {answer:?}")) };
        let found = list[1] == Reply::Int(1);
        let longest = lives.iter().copied().max().map(|ms| ms.max(self.lifetime(longest_us)));
        let longest = longest.filter(|_| held);
        let lies = self.fake.written().get(mark.as_bytes()).copied();
        let shown = self.fake.get(&mark);
        let nonce = Reply::Text(self.nonce.to_string().into_bytes());
        let said = list.len() == 2 && list[0] == nonce && list[1] == Reply::Int(found.into());
        if !said || found != held || lies != longest {
            return Err(format!("{limits}: reset at {now_us}: {answer:?}, {lies:?}, {longest:?}"));
        }
        if found && shown != Some(Held::Text(format!("{now_us}:{}", self.nonce).into_bytes())) {
            return Err(format!("{limits}: reset at {now_us}: {shown:?}"));
        }
        let now = Time::from_micros(now_us);
        // What counts nothing may have been forgotten by one and not yet by the other.
        if found == self.model.is_fresh(subject, limits, now) && !found {
            return Err(format!("{limits}: reset at {now_us}: {answer:?}"));
        }
        self.model.reset(subject, limits, found, self.nonce, now);
        if found {
            let until_us = self.model.charged_until_us(subject, limits);
            let of = MarkOf::Reset(whose(subject, limits));
            self.model.marks.insert(mark, Mark { of, until_us });
        }
        self.told(|| format!("{limits} {subject} reset at {now_us}: {answer:?}"));
        Ok(())
    }

    fn compare(
        &self,
        answer: &Reply,
        expected: &[i64],
        what: impl Fn() -> String,
    ) -> Result<(), Difference> {
        match answer {
            Reply::List(list)
                if list.len() == expected.len() + 1
                    && list[0] == Reply::Text(self.nonce.to_string().into_bytes())
                    && list[1..].iter().zip(expected).all(|(a, b)| *a == Reply::Int(*b)) =>
            {
                Ok(())
            }
            other => Err(format!("{}:\n  lua  {other:?}\n  rust {expected:?}", what())),
        }
    }

    /// Starts over with other limits.
    fn clear(&mut self) {
        self.fake.clear();
        self.fake.flush_scripts();
        self.scripts.forget();
        self.model = Model::default();
    }

    /// Adds up to four questions like the first, about the same subjects or others.
    fn more(&self, rng: &mut ChaCha8Rng, questions: &mut Vec<Question>, plan: &Plan) {
        for _ in 0..rng.random_range(1..5) {
            let mut next = questions[questions.len() - 1].clone();
            if rng.random_bool(0.5) {
                for (i, (subject, _)) in next.asked.iter_mut().enumerate() {
                    *subject = format!("t{i}");
                }
            }
            next.cost = cost(rng, plan.capacity);
            // The server's clock is read once for all of them.
            if self.scripts.clock == Clock::Given {
                next.now_us = advance(rng, next.now_us, plan.period_us);
            }
            questions.push(next);
        }
    }

    /// A history of random operations over a plan.
    pub(crate) fn history(
        &mut self,
        rng: &mut ChaCha8Rng,
        plan: &Plan,
        subjects: usize,
        operations: usize,
    ) -> Result<(), Difference> {
        self.clear();
        let mut now_us = match rng.random_range(0..4) {
            0 => rng.random_range(0..plan.period_us * 2),
            1 => (1 << 52) - rng.random_range(0..plan.period_us),
            _ => 1_763_632_025_000_000 + rng.random_range(0..10_000_000_000_000),
        };
        // Composing and compiling is what takes the time: in some histories many come together, and
        // each has one mode beside the usual one, as often as all of them would be.
        let together = if rng.random_bool(0.15) { 0.25 } else { 0.0 };
        let unusual = match rng.random_range(0..4) {
            0 | 1 => Mode::Partial,
            2 => Mode::Peek,
            _ => Mode::PeekPartial,
        };
        let mut charges: Vec<Charge> = Vec::new();
        let mut current = plan.sets[0].clone();
        let mut latest_us = now_us;
        for _ in 0..operations {
            let earlier = now_us;
            now_us = advance(rng, now_us, plan.period_us);
            if now_us < earlier {
                self.seen.saw("skew or step back");
            }
            if now_us + SKEW_US < latest_us {
                self.model.stepped_back();
                latest_us = now_us;
            }
            latest_us = latest_us.max(now_us);
            if rng.random_bool(0.1) {
                self.forget(now_us)?;
            }
            if rng.random_bool(if plan.restless { 0.3 } else { 0.05 }) {
                current = plan.sets.choose(rng).unwrap().clone();
            }
            match rng.random_range(0..40) {
                0..36 => {
                    let cost = cost(rng, plan.capacity);
                    let mode = if rng.random_bool(0.6) { Mode::Whole } else { unusual };
                    let mut asked = Vec::new();
                    for i in 0..subjects {
                        if i == 0 || rng.random_bool(0.6) {
                            asked.push((format!("s{i}"), current.clone()));
                        }
                    }
                    let mut questions = vec![Question { asked, cost, now_us }];
                    if rng.random_bool(together) {
                        self.more(rng, &mut questions, plan);
                        now_us = questions.last().map_or(now_us, |last| last.now_us);
                    }
                    let first = self.nonce + 1;
                    let outcomes = match &questions[..] {
                        [Question { asked, .. }] => vec![self.check(asked, cost, mode, now_us)?],
                        _ => self.check_many(&questions, mode)?,
                    };
                    for ((outcome, question), number) in outcomes.iter().zip(questions).zip(first..)
                    {
                        if outcome.granted > 0 && !mode.is_peek() {
                            let resets = outcome.fields.iter().map(|f| f.reset_after_us);
                            let until_us = outcome.now.as_micros() + resets.max().unwrap_or(0);
                            charges.push(charge(outcome, question.asked, number));
                            self.model.charged(&charges[charges.len() - 1], until_us);
                        }
                    }
                }
                36 | 37 => {
                    if let Some(charge) = charges.choose(rng).cloned() {
                        let whole = rng.random_bool(0.5);
                        let units =
                            if whole { charge.cost } else { rng.random_range(1..=charge.cost) };
                        self.refund(&charge, units, now_us)?;
                    }
                }
                38 => {
                    let most = i64::try_from(plan.capacity.min(1 << 40)).unwrap();
                    let delta = rng.random_range(1..=most);
                    let delta = if rng.random_bool(0.5) { delta } else { -delta };
                    self.adjust("s0", &current, delta, now_us)?;
                }
                _ => {
                    if rng.random_bool(0.2) {
                        self.reset("s0", &current, now_us)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The head of a log without its base, and the times and the costs of its events.
fn costs(rows: &[Vec<u8>]) -> (Vec<u8>, Vec<(Vec<u8>, u64)>) {
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
    let (head, base) = rows[0].split_at(rows[0].len() - 6);
    let mut before = number(base);
    let mut events = Vec::new();
    for row in &rows[1..] {
        let total = number(&row[7..]);
        events.push((row[..7].to_vec(), total.wrapping_sub(before) % (1 << 48)));
        before = total;
    }
    (head.to_vec(), events)
}

/// A state for people: what is text, and its integers.
fn show(bytes: &[u8]) -> String {
    let at = bytes.iter().position(|byte| *byte == b'|').map_or(0, |at| at + 1);
    let text = String::from_utf8_lossy(&bytes[..at]);
    let mut rest = &bytes[at..];
    let mut numbers = Vec::new();
    let mut width = if rest.len() == 6 { 6 } else { 7 };
    while rest.len() >= width {
        numbers.push(rest[..width].iter().fold(0_u64, |n, byte| n << 8 | u64::from(*byte)));
        rest = &rest[width..];
        width = 6;
    }
    format!("{text}{numbers:?}")
}

fn charge(outcome: &Outcome, asked: Vec<(String, LimitSet)>, number: u64) -> Charge {
    let mut times = outcome.fields.iter().map(|fields| fields.charged_at_us);
    let parts = asked.into_iter().map(|(subject, limits)| {
        let at_us = times.by_ref().take(limits.limits().len()).collect();
        (subject, limits, at_us)
    });
    let parts = parts.collect();
    Charge { number, at_us: outcome.now.as_micros(), cost: outcome.granted, parts }
}

fn cost(rng: &mut ChaCha8Rng, capacity: u64) -> u64 {
    match rng.random_range(0..16) {
        0..8 => 1,
        8..12 => rng.random_range(1..=capacity),
        12 => rng.random_range(1..=capacity.min(3)),
        13 => capacity,
        14 => (capacity + rng.random_range(1..3)).min(1 << 40),
        _ => 1 << 40,
    }
}

fn advance(rng: &mut ChaCha8Rng, now_us: u64, period_us: u64) -> u64 {
    let now_us = match rng.random_range(0..24) {
        0..8 => now_us,
        8..11 => now_us + rng.random_range(0..4),
        11..17 => now_us + rng.random_range(0..=period_us / 3 + 1),
        17 => now_us + period_us,
        18 => (now_us / period_us + 1) * period_us - rng.random_range(0..2),
        19 => now_us + rng.random_range(0..period_us * 3),
        20 => now_us.saturating_sub(rng.random_range(0..1_000_001)),
        21 => now_us.saturating_sub(rng.random_range(0..period_us * 2)),
        22 => now_us.saturating_sub(1_000_000 + rng.random_range(0..2)),
        _ => now_us + rng.random_range(0..=period_us / 20 + 1),
    };
    // The year 2255, with room for a full refill.
    now_us.min((1 << 53) - (1 << 52))
}

/// A seeded generator.
pub(crate) fn seeded(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Any number of it, so that callers need not name the trait.
pub(crate) fn next(rng: &mut ChaCha8Rng) -> u64 {
    rng.next_u64()
}
