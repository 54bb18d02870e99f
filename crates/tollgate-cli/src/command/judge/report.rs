//! The report of a judgement, as JSON has it; text and page show the same.

use serde::Serialize;
use tollgate_proof::history::Verdict;
use tollgate_proof::judge::{Abilities, Area, Judgement, Options, Strictness};

/// A judgement.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// How the limiter was reached.
    pub(super) limiter: String,
    /// The limits, as they were given.
    pub(super) limit: String,
    /// The strictness: `definition` or `bound`.
    pub(super) promise: &'static str,
    /// `kept` or `broken`.
    pub(super) verdict: &'static str,
    /// Whether the judge set the limiter's clock.
    pub(super) clock_was_set: bool,
    pub(super) seed: u64,
    /// The step of the limiter's clock in microseconds, where the judge did not set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) precision_us: Option<u64>,
    pub(super) verdicts: Vec<VerdictRow>,
    pub(super) most_admitted: Vec<MostRow>,
    pub(super) traffic: Vec<TrafficRow>,
    /// All that was not asked or not decided, and why.
    pub(super) not_decided: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) flood: Option<FloodRow>,
}

/// One promise.
#[derive(Debug, Serialize)]
pub(super) struct VerdictRow {
    pub(super) promise: &'static str,
    /// `kept`, `broken` or `not decided`.
    pub(super) verdict: &'static str,
    pub(super) checked: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) traffic: Option<&'static str>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) reason: String,
    /// The smallest history that shows it, in the form that `tollgate help proof` has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) history: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct MostRow {
    pub(super) limit: String,
    pub(super) units: u64,
    pub(super) period_us: u64,
    pub(super) admitted: u64,
    pub(super) traffic: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct TrafficRow {
    pub(super) name: &'static str,
    pub(super) asked: u64,
    pub(super) allowed: u64,
    pub(super) denied: u64,
    /// Errors, and replies that were lost.
    pub(super) no_decision: u64,
    pub(super) broken: Vec<&'static str>,
}

/// Many clients at once.
#[derive(Debug, Serialize)]
pub(super) struct FloodRow {
    pub(super) asked: u64,
    pub(super) took_us: u64,
    pub(super) clients: usize,
}

impl FloodRow {
    pub(super) fn per_second(&self) -> u64 {
        self.asked.saturating_mul(1_000_000) / self.took_us.max(1)
    }
}

impl Report {
    pub(super) fn new(
        limiter: &str,
        limit: &str,
        options: &Options,
        able: Abilities,
        judgement: &Judgement,
    ) -> Self {
        let broken = !judgement.broken().is_empty();
        let verdicts = judgement.judged.iter().map(|one| VerdictRow {
            promise: one.area.name(),
            verdict: match one.verdict {
                Verdict::Held => "kept",
                Verdict::Broken => "broken",
                Verdict::Unknown => "not decided",
            },
            checked: one.checked,
            traffic: one.traffic,
            reason: one.reason.clone(),
            history: one.part.to_string().lines().map(str::to_owned).collect(),
        });
        let most = judgement.most.iter().map(|row| MostRow {
            limit: row.limit.clone(),
            units: row.units,
            period_us: row.period_us,
            admitted: row.admitted,
            traffic: row.traffic,
        });
        let traffic = judgement.traffic.iter().map(|row| TrafficRow {
            name: row.name,
            asked: row.asked,
            allowed: row.allowed,
            denied: row.denied,
            no_decision: row.undecided,
            broken: row.broken.iter().copied().map(Area::name).collect(),
        });
        let clients = options.clients;
        Self {
            limiter: limiter.to_owned(),
            limit: limit.to_owned(),
            promise: options.held.name(),
            verdict: if broken { "broken" } else { "kept" },
            clock_was_set: able.clock,
            seed: options.seed,
            precision_us: (!able.clock).then_some(options.precision_us),
            verdicts: verdicts.collect(),
            most_admitted: most.collect(),
            traffic: traffic.collect(),
            not_decided: not_decided(able, options, judgement),
            flood: judgement.flood.map(|(asked, took_us)| FloodRow { asked, took_us, clients }),
        }
    }

    pub(super) fn is_kept(&self) -> bool {
        self.verdict == "kept"
    }

    /// The judgement in one sentence.
    pub(super) fn headline(&self) -> String {
        let Self { limiter, limit, .. } = self;
        match self.promise {
            "definition" => format!("{limiter}, held to the definition of `{limit}`"),
            _ => format!("{limiter}, held to the bound of `{limit}` and to its own answers"),
        }
    }
}

/// Conclusions that the verdicts do not allow.
fn not_decided(able: Abilities, options: &Options, judgement: &Judgement) -> Vec<String> {
    let mut open = Vec::new();
    if options.held == Strictness::Bound {
        open.push(
            "which of its answers are exact: the promise is the bound alone, and answers that fit \
             each other"
                .to_owned(),
        );
    }
    if able.clock {
        for (ability, name) in [
            (able.steps, "a clock that is set back"),
            (able.costs, "costs"),
            (able.requests, "request ids"),
            (able.restart, "a restart"),
            (able.failover, "a failover"),
        ] {
            if !ability {
                open.push(format!("{name}: the driver cannot ask it"));
            }
        }
        open.push("real time: the limiter was asked under a clock that was set".to_owned());
    }
    open.extend(judgement.open.iter().cloned());
    open.dedup();
    open
}
