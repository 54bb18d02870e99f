//! The cost of a check for the server, beside scripts that do less.

use tollgate::engine::{Mode, VecLog};
use tollgate::strategy::Entry;
use tollgate::{
    Clock as _, Limit, LimitSet, ParseError, StoreError, Strategy, Subject, Unit, WallClock,
};
use tollgate_redis::compose::{Check, Parts};
use tollgate_redis::{Keys, MAX_BATCHED_CHECKS as SHARED, Options, Script, log_entries};

use super::server::{Answers, Probe, Questions, Server};

/// How many subjects take turns.
const SUBJECTS: usize = 1_000;

/// The units of the limits that admit everything: far more than a run asks for.
pub(super) const WIDE: &str = "1000000/s";

/// The limit that denies everything but the first.
const NARROW: &str = "1/30d";

/// The extra rows of `sliding_window`: finer than its default of ten sub-buckets.
const FINE: [(&str, &str); 2] = [("100", "10ms"), ("1000", "1ms")];

/// How many events the log has whose bytes are counted.
const WEIGHED: usize = 10_000;

/// How many events the short log has beside which the long one is denied.
const SHORT: usize = 100;

/// The peers.
const BY_HAND: &str = "gcra by hand";
const SORTED_SETS: &str = "two sorted sets";
const STRINGS: &str = "two strings";

/// Two limits, of one unit and of two; and the window of a calendar.
const TWO_LIMITS: &str = "gcra, 2 limits";
const TWO_UNITS: &str = "gcra, 2 units";
const MONTH: &str = "fixed_window of a month";

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Checks of a probe in one run.
    pub(super) checks: usize,
    /// Runs of every probe, in turns; the medians count.
    pub(super) runs: usize,
    /// How many checks are sent before an answer is read.
    pub(super) depth: usize,
    /// How many events the long log has.
    pub(super) entries: usize,
}

/// Offers to queues, measured beside checks: made elsewhere, asked here.
#[derive(Clone, Debug)]
pub(super) struct Offers {
    /// The row's name.
    pub(super) name: String,
    /// Whether they are accepted.
    pub(super) accepted: bool,
    /// The strategy whose check they are beside.
    pub(super) beside: Strategy,
    /// The text of their script.
    pub(super) script: String,
    /// The keys of each, without what all keys of the measurement begin with.
    pub(super) keys: Vec<Vec<String>>,
    /// The arguments of all.
    pub(super) args: Vec<String>,
}

/// One figure beside another: microseconds of the server's processor for each check.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Row {
    /// The measured case.
    pub(super) what: String,
    /// Its time.
    pub(super) us: f64,
    /// The case beside it.
    pub(super) beside: String,
    /// The time of that case.
    pub(super) beside_us: f64,
    /// The maximum of the ratio.
    pub(super) at_most: Option<f64>,
}

impl Row {
    /// The first over the second.
    pub(super) fn ratio(&self) -> f64 {
        self.us / self.beside_us
    }
}

/// The cost of an admitted and of a denied check of a strategy.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Cost {
    /// The strategy, or a peer.
    pub(super) what: String,
    /// Microseconds of an admitted check.
    pub(super) admitted_us: f64,
    /// Microseconds of a denied one.
    pub(super) denied_us: f64,
}

/// The figures of the server.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Figures {
    /// The name that the server reports.
    pub(super) server: String,
    /// Figures beside others.
    pub(super) rows: Vec<Row>,
    /// The cost of each strategy.
    pub(super) costs: Vec<Cost>,
    /// Bytes for each event of a log, and how many events it had.
    pub(super) bytes_per_event: (f64, usize),
}

/// A measurement on one server, under separate keys, which are removed when this is dropped.
pub(super) struct Bench {
    pub(super) server: Server,
    pub(super) url: String,
    /// The run's part of the keys.
    pub(super) run: String,
}

/// A text in this file that is not a limit is a mistake here.
pub(super) fn ours(error: ParseError) -> StoreError {
    StoreError::permanent(format!("a limit of the measurement: {error}")).because(error)
}

impl Bench {
    /// Connects. `run` names the keys.
    pub(super) fn open(url: &str, run: &str) -> Result<Self, StoreError> {
        let keys = Keys::for_run(run).within(Options::from_url(url)?.key_prefix());
        let server = Server::connect(url, keys)?;
        Ok(Self { server, url: url.to_owned(), run: run.to_owned() })
    }

    /// The beginning of all keys.
    pub(super) fn prefix(&self) -> &str {
        self.server.keys.prefix()
    }

    /// Measures on the server. `step` gets the next measurement, and returns whether to go on.
    pub(super) fn server(
        &mut self,
        plan: &Plan,
        offers: &[Offers],
        step: &mut dyn FnMut(&str) -> bool,
    ) -> Result<Figures, StoreError> {
        let mut go_on = |what: &str| {
            step(what).then_some(()).ok_or_else(|| StoreError::permanent("interrupted"))
        };
        go_on("the states in place")?;
        let mut probes = self.probes(plan)?;
        for offers in offers {
            probes.push(self.offers(plan, offers)?);
        }
        go_on("the logs in place")?;
        let bytes = self.weigh(plan)?;
        probes.extend(self.logs(plan)?);
        for _ in 0..plan.runs {
            for probe in &mut probes {
                go_on(&probe.name)?;
                self.server.run(probe)?;
            }
        }
        Ok(Figures {
            server: self.server.name()?,
            rows: rows(plan, offers, &probes),
            costs: costs(&probes),
            bytes_per_event: bytes,
        })
    }

    /// Everything but logs that are denied.
    fn probes(&mut self, plan: &Plan) -> Result<Vec<Probe>, StoreError> {
        let mut probes = Vec::new();
        for strategy in Strategy::RATES {
            let name = strategy.name();
            for (quota, admits) in [(WIDE, true), (NARROW, false)] {
                let limits = format!("{quota} via {name}").parse().map_err(ours)?;
                probes.push(self.limits(plan, &named(name, admits), &limits, admits)?);
            }
        }
        for (name, limits) in [
            ("token_bucket, interval", "1000000/s refill interval via token_bucket".to_owned()),
            ("fixed_window, 3 windows", three("fixed_window")),
            ("gcra, 3 windows", three("gcra")),
            (TWO_LIMITS, format!("{WIDE} via gcra, 24000000/h via gcra")),
            (TWO_UNITS, format!("{WIDE} via gcra, 24000000/h of tokens via gcra")),
            (MONTH, "1000000000/month in Europe/Berlin".to_owned()),
        ] {
            let limits: LimitSet = limits.parse().map_err(ours)?;
            let around = limits.around(WallClock.now());
            let limits = around.map_or(limits, |(limits, _)| limits);
            probes.push(self.limits(plan, name, &limits, true)?);
        }
        probes.push(self.together(plan)?);
        for (buckets, precision) in FINE {
            let limits = format!("{WIDE} precision {precision} via sliding_window");
            let plan = Plan { checks: plan.checks / 4, ..*plan };
            probes.push(self.limits(
                &plan,
                &fine(buckets),
                &limits.parse().map_err(ours)?,
                true,
            )?);
        }
        let by_hand = |unit: &str, full: &str| {
            include_str!("gcra.lua").replace("$UNIT", unit).replace("$FULL", full)
        };
        const MONTH_US: &str = "2592000000000";
        let sets = include_str!("two_sorted_sets.lua");
        let strings = include_str!("two_strings.lua");
        for (name, admits, text, args) in [
            (BY_HAND, true, by_hand("1", "1000000"), &[][..]),
            (BY_HAND, false, by_hand(MONTH_US, MONTH_US), &[]),
            (SORTED_SETS, true, sets.to_owned(), &["10", "1000000", "1000000"]),
            (SORTED_SETS, false, sets.to_owned(), &["86400", "1", "1"]),
            (STRINGS, true, strings.to_owned(), &["1000000", "1000", "1"]),
            (STRINGS, false, strings.to_owned(), &["1", "86400000", "1"]),
        ] {
            let name = named(name, admits);
            let keys: Vec<Vec<String>> = (0..SUBJECTS)
                .map(|i| {
                    let key = format!("{}:{{user:{i:06}}}:{name}", self.prefix());
                    let both = vec![format!("{key}:1"), format!("{key}:2")];
                    if args.is_empty() { vec![key] } else { both }
                })
                .collect();
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            probes.push(self.server.probe(
                &name,
                &Questions {
                    script: &Script::new(text),
                    keys: &keys,
                    args: &args,
                    admits,
                    answers: Answers::Check,
                    depth: plan.depth,
                    checks: plan.checks,
                },
            )?);
        }
        Ok(probes)
    }

    /// A probe of offers.
    fn offers(&mut self, plan: &Plan, offers: &Offers) -> Result<Probe, StoreError> {
        let own = |key: &String| format!("{}:{key}", self.prefix());
        let keys: Vec<Vec<String>> =
            offers.keys.iter().map(|keys| keys.iter().map(own).collect()).collect();
        self.server.probe(
            &offers.name,
            &Questions {
                script: &Script::new(offers.script.clone()),
                keys: &keys,
                args: &offers.args,
                admits: offers.accepted,
                answers: Answers::Offer,
                depth: plan.depth,
                checks: plan.checks,
            },
        )
    }

    /// A probe of limits.
    fn limits(
        &mut self,
        plan: &Plan,
        name: &str,
        limits: &LimitSet,
        admits: bool,
    ) -> Result<Probe, StoreError> {
        let keys = subjects()?
            .iter()
            .map(|subject| {
                let state = self.server.keys.state(subject, limits);
                Keys::for_check(&state, limits)
            })
            .collect::<Vec<_>>();
        self.server.probe(
            name,
            &Questions {
                script: &script(limits)?,
                keys: &keys,
                args: &[arguments(1), vec!["1".to_owned(); units(limits).len() - 1]].concat(),
                admits,
                answers: Answers::Check,
                depth: plan.depth,
                checks: plan.checks,
            },
        )
    }

    /// Checks that share a call, as many as the store lets share one.
    fn together(&mut self, plan: &Plan) -> Result<Probe, StoreError> {
        let limits: LimitSet = format!("{WIDE} via gcra").parse().map_err(ours)?;
        let script = Check::new(Mode::Whole).compose_batch(&[&limits], &Parts::default());
        let script = script.ok_or_else(|| StoreError::permanent("gcra has no step in Lua"))?;
        let states = subjects()?;
        let states = states.iter().map(|subject| self.server.keys.state(subject, &limits));
        let states: Vec<String> = states.collect();
        let (calls, _) = states.as_chunks::<SHARED>();
        let keys: Vec<Vec<String>> = calls.iter().map(|keys| keys.to_vec()).collect();
        self.server.probe(
            &together(),
            &Questions {
                script: &script,
                keys: &keys,
                args: &vec![arguments(1); SHARED].concat(),
                admits: true,
                answers: Answers::Checks(SHARED),
                depth: plan.depth.div_ceil(SHARED),
                checks: plan.checks,
            },
        )
    }

    /// Logs that are full, and denials by them: at cost 1, and at half the limit.
    fn logs(&mut self, plan: &Plan) -> Result<Vec<Probe>, StoreError> {
        let mut probes = Vec::new();
        for count in [SHORT, plan.entries] {
            let limits = format!("{count}/1h via sliding_log").parse().map_err(ours)?;
            let key = self.log(&limits, count, |_| 1)?;
            let script = script(&limits)?;
            for (cost, checks) in [(1, plan.checks), (count / 2, plan.checks / 4)] {
                let name = denied_log(count, cost);
                let keys = vec![vec![key.clone()]; plan.depth];
                let args = arguments(cost);
                probes.push(self.server.probe(
                    &name,
                    &Questions {
                        script: &script,
                        keys: &keys,
                        args: &args,
                        admits: false,
                        answers: Answers::Check,
                        depth: plan.depth,
                        checks,
                    },
                )?);
            }
        }
        Ok(probes)
    }

    /// Bytes for each event, of random costs at different times.
    fn weigh(&mut self, plan: &Plan) -> Result<(f64, usize), StoreError> {
        let count = WEIGHED.min(plan.entries);
        let limits = "1000000000/1h via sliding_log".parse().map_err(ours)?;
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let key = self.log(&limits, count, |_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            1 + random % 10_000
        })?;
        Ok((self.server.bytes(&key)? as f64 / count as f64, count))
    }

    /// A log of this many events, spread over ten minutes until now. Answers its key.
    fn log(
        &mut self,
        limits: &LimitSet,
        count: usize,
        mut cost: impl FnMut(usize) -> u64,
    ) -> Result<String, StoreError> {
        const SPREAD_US: u64 = 600_000_000;
        let from = self.server.now_us()? - SPREAD_US;
        let apart = SPREAD_US / u64::try_from(count).unwrap_or(1).max(1);
        let mut entry = Entry { at_us: from, total: 0 };
        let entries = (0..count).map(|i| {
            entry = Entry { at_us: entry.at_us + apart, total: entry.total + cost(i) };
            entry
        });
        let log = VecLog::new(0, entries);
        // Of its own: limits of one period lie at one key, whatever their units.
        let subject = Subject::literal(&format!("log:{limits}")).map_err(ours)?;
        let key = self.server.keys.state(&subject, limits);
        let limit: &Limit = &limits.limits()[0];
        self.server.fill(&key, &log_entries(limit, &log))?;
        Ok(key)
    }
}

pub(super) fn subjects() -> Result<Vec<Subject>, StoreError> {
    (0..SUBJECTS).map(|i| Subject::literal(&format!("user:{i:06}")).map_err(ours)).collect()
}

pub(super) fn script(limits: &LimitSet) -> Result<Script, StoreError> {
    let mut check = Check::new(Mode::Whole);
    check.units = units(limits);
    check
        .compose(&[limits], &Parts::default())
        .ok_or_else(|| StoreError::permanent("a strategy has no step in Lua"))
}

/// The units of the cost that is asked for: of each that the limits count, requests first.
fn units(limits: &LimitSet) -> Vec<Unit> {
    let mut units = vec![Unit::REQUESTS];
    units.extend(limits.limits().iter().map(|limit| *limit.unit()));
    units.dedup();
    units
}

/// The cost and a nonce as long as those of a store.
fn arguments(cost: usize) -> Vec<String> {
    vec![cost.to_string(), "1125899906842624".to_owned()]
}

fn named(name: &str, admits: bool) -> String {
    if admits { name.to_owned() } else { format!("{name}, denied") }
}

fn three(strategy: &str) -> String {
    ["1000000/s", "12000000/m", "24000000/h"]
        .map(|quota| format!("{quota} via {strategy}"))
        .join(", ")
}

fn fine(buckets: &str) -> String {
    format!("sliding_window, {buckets} sub-buckets")
}

fn together() -> String {
    format!("gcra, {SHARED} in a call")
}

fn denied_log(count: usize, cost: usize) -> String {
    format!("log of {count}, cost {cost} denied")
}

/// True for a strategy whose state does not grow with its numbers.
fn is_constant(strategy: Strategy) -> bool {
    !matches!(strategy, Strategy::SlidingLog | Strategy::SlidingWindow)
}

fn rows(plan: &Plan, offers: &[Offers], probes: &[Probe]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |what: &str, beside: &str, at_most| {
        let of = |name| probes.iter().find(|probe| probe.name == name).map(Probe::median_us);
        if let (Some(us), Some(beside_us)) = (of(what), of(beside)) {
            let (what, beside) = (what.to_owned(), beside.to_owned());
            rows.push(Row { what, us, beside, beside_us, at_most });
        }
    };
    row("gcra", BY_HAND, Some(1.25));
    row("gcra, denied", "gcra by hand, denied", None);
    row(&together(), "gcra", None);
    row("fixed_window, 3 windows", "fixed_window", Some(1.6));
    row("gcra, 3 windows", "gcra", Some(1.6));
    row(TWO_UNITS, TWO_LIMITS, Some(1.1));
    row(MONTH, "fixed_window", Some(1.15));
    let constant = Strategy::RATES.iter().filter(|strategy| is_constant(**strategy));
    for name in constant.map(|strategy| strategy.name()).chain(["token_bucket, interval"]) {
        row(name, SORTED_SETS, Some(1.0));
        row(name, STRINGS, Some(1.0));
    }
    row("sliding_window", "gcra", Some(2.0));
    for (buckets, _) in FINE {
        row(&fine(buckets), "gcra", None);
    }
    for offers in offers {
        row(&offers.name, &named(offers.beside.name(), offers.accepted), None);
    }
    let long = plan.entries;
    row(&denied_log(long, 1), &denied_log(SHORT, 1), Some(3.0));
    row(&denied_log(long, long / 2), &denied_log(SHORT, SHORT / 2), Some(8.0));
    rows
}

fn costs(probes: &[Probe]) -> Vec<Cost> {
    let names = Strategy::RATES.iter().map(|strategy| strategy.name());
    let of = |name: &str| probes.iter().find(|probe| probe.name == name).map(Probe::median_us);
    names
        .chain([BY_HAND, SORTED_SETS, STRINGS])
        .filter_map(|name| {
            Some(Cost {
                what: name.to_owned(),
                admitted_us: of(name)?,
                denied_us: of(&named(name, false))?,
            })
        })
        .collect()
}
