//! Counters as a page for Prometheus, for programs that have no page of their own.

use core::fmt::{self, Write as _};

use tollgate::HoldKind;

use super::{Counters, GateCounters};
use crate::outcome::{Authority, Outcome};

/// The most policies with separate series; the others share one, as in the service.
const MAX_POLICIES: usize = 1_000;

/// The series of the policies beyond that.
const OTHER: &str = "other";

/// A page in the text format of Prometheus, version 0.0.4.
///
/// ```
/// use tollgate_policy::Exposition;
/// let mut page = Exposition::default();
/// page.counter("jobs_total", "Jobs by result.", [(&[("result", "done")][..], 3)]);
/// assert_eq!(
///     page.to_string(),
///     "# HELP jobs_total Jobs by result.\n# TYPE jobs_total counter\n\
///      jobs_total{result=\"done\"} 3\n",
/// );
/// ```
#[derive(Clone, Default, Debug)]
pub struct Exposition(String);

/// One label: its name, and its value.
type Label<'l> = (&'l str, &'l str);

impl Exposition {
    /// The `Content-Type` of the page.
    pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    /// Adds a counter with its series. The name ends in `_total`.
    pub fn counter<'l, V: fmt::Display>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (&'l [Label<'l>], V)>,
    ) {
        self.family(name, help, "counter");
        for (labels, value) in series {
            self.sample(name, labels, &value);
        }
    }

    /// Adds a gauge without labels.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl fmt::Display) {
        self.family(name, help, "gauge");
        self.sample(name, &[], &value);
    }

    fn family(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[Label<'_>], value: &dyn fmt::Display) {
        self.0.push_str(name);
        for (place, (label, text)) in labels.iter().enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{before}{label}=\"{text}\"");
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }

    /// Adds the outcomes of one series; those of `always` also at zero.
    fn outcomes(
        &mut self,
        name: &str,
        policy: Option<&str>,
        counters: &Counters,
        always: &[(Outcome, Authority)],
    ) {
        for outcome in Outcome::ALL {
            for authority in Authority::ALL {
                let count = counters.get(outcome, authority);
                if count == 0 && !always.contains(&(outcome, authority)) {
                    continue;
                }
                let policy = policy.map(|policy| ("policy", policy));
                let said = [("outcome", outcome.name()), ("authority", authority.name())];
                let labels: Vec<Label<'_>> = policy.into_iter().chain(said).collect();
                self.sample(name, &labels, &count);
            }
        }
    }
}

impl fmt::Display for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl GateCounters<'_> {
    /// The counters as a page for Prometheus, under the names that the service has for them
    /// (`docs/metrics.md`). A policy appears with its first decision.
    #[must_use]
    pub fn exposition(&self) -> Exposition {
        const USUAL: [(Outcome, Authority); 2] =
            [(Outcome::Allowed, Authority::Store), (Outcome::Denied, Authority::Store)];
        let mut page = Exposition::default();
        let name = "tollgate_decisions_total";
        page.family(name, "Decisions by policy, outcome and authority.", "counter");
        let other = Counters::default();
        let all = self.policies();
        let used = all.iter().filter(|(_, counters)| counters.iter().next().is_some());
        for (place, (policy, counters)) in used.enumerate() {
            if place >= MAX_POLICIES || policy == OTHER {
                other.add_all(counters);
                continue;
            }
            let mut each = counters.iter();
            let is_shadow = each.all(|(_, authority, _)| authority == Authority::Shadow);
            let always = if is_shadow { &[][..] } else { &USUAL[..] };
            page.outcomes(name, Some(policy), counters, always);
        }
        page.outcomes(name, Some(OTHER), &other, &[]);
        let name = "tollgate_unmatched_decisions_total";
        page.family(name, "Decisions about requests to which no policy applied.", "counter");
        page.outcomes(name, None, self.unmatched, &[(Outcome::NoPolicy, Authority::Policy)]);
        let placed = [("acquire", HoldKind::Acquire), ("reserve", HoldKind::Reserve)];
        let placed = placed.map(|(name, kind)| ([("kind", name)], self.holds.placed(kind)));
        page.counter(
            "tollgate_holds_placed_total",
            "Holds that were placed, by kind.",
            placed.iter().map(|(labels, count)| (&labels[..], count)),
        );
        let help = "Holds that were placed here, are not settled, and have not expired.";
        page.gauge("tollgate_holds_open", help, self.holds.open());
        page
    }
}
