//! The JSON format of answers and decisions.

use core::fmt;

use serde::{Serialize, Serializer};
use tollgate::{Carried, Decision, Report};
use tollgate_policy::{Answer, Field, Revision, Shadow};

use super::Wait;

/// Serializes the `Display` form, without an intermediate string.
fn shown<T: fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// One limit's part of a decision.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ReportJson<'a> {
    /// The subject, in its written form.
    pub subject: &'a str,
    /// The policy of the limit; `None` for inline limits.
    pub policy: Option<&'a str>,
    /// The limit's identity.
    pub identity: &'a str,
    /// The limit in its full form.
    pub limit: &'a str,
    /// The units that a fresh subject can take.
    pub capacity: u64,
    /// The largest cost in units that this limit would admit now.
    pub remaining: u64,
    /// What `capacity` and `remaining` count: `requests` or `slots`.
    pub unit: &'static str,
    /// The shortest wait until the limit admits the cost; `None` if it never does.
    pub retry_after: Option<Wait>,
    /// The shortest wait until the limit is fresh.
    pub reset_after: Wait,
    /// Whether the limit admits the cost.
    pub admits: bool,
    /// How the count was carried over when the limit's numbers had changed: `same`, `over`,
    /// `fresh` where it began anew, under another strategy.
    pub carried: &'static str,
}

impl<'a> ReportJson<'a> {
    /// The part of one limit, under this policy.
    #[must_use]
    pub fn new(report: &Report<'a>, policy: Option<&'a str>) -> Self {
        Self {
            subject: report.subject(),
            policy,
            identity: report.limit().identity(),
            limit: report.limit().full_text(),
            capacity: report.limit().capacity(),
            remaining: report.remaining(),
            unit: report.limit().unit().name(),
            retry_after: report.retry_after().map(Wait),
            reset_after: Wait(report.reset_after()),
            admits: report.admits(),
            carried: match report.carried() {
                Carried::Same => "same",
                Carried::Over => "over",
                Carried::Fresh => "fresh",
                _ => "other",
            },
        }
    }
}

/// The answer of a gate.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct AnswerJson<'a> {
    /// Whether the request may proceed.
    pub allowed: bool,
    /// The outcome of the request.
    pub outcome: &'static str,
    /// The authority that decided, for example the store or the failure rule.
    pub authority: &'static str,
    /// The policy that decided.
    pub policy: Option<&'a str>,
    /// The revision of the policies in force.
    #[serde(serialize_with = "shown")]
    pub revision: &'a Revision,
    /// The capacity of the limit that binds; beside a ban, the least of the limits.
    pub limit: Option<u64>,
    /// The largest cost that every limit of this unit would admit now.
    pub remaining: Option<u64>,
    /// What `limit` and `remaining` count: `requests` or `slots`.
    pub unit: Option<&'static str>,
    /// The units that were admitted.
    pub granted: Option<u64>,
    /// How long to wait after a denial; `None` for an admitted request, or one that never will be.
    pub retry_after: Option<Wait>,
    /// Whether `retry_after` is an upper bound: it would be shorter if every open hold were settled
    /// now with 0.
    pub until_hold: bool,
    /// The shortest wait until the limit that binds is fresh.
    pub reset_after: Option<Wait>,
    /// The part of every limit.
    pub limits: Vec<ReportJson<'a>>,
    /// The decisions of policies in shadow mode.
    pub shadows: Vec<ShadowJson<'a>>,
    /// Whether the memory store was full and had no room for a separate count of a subject. The
    /// subject was then judged by a count that new subjects share, or denied if there was no room
    /// for that either.
    pub shared: bool,
    /// Whether it is the first answer under a request id once more: nothing was charged for it.
    pub repeated: bool,
    /// The missing field that made the request a denial.
    pub missing: Option<String>,
    /// Why the store could not answer.
    pub error: Option<String>,
    /// The receipt that refunds the charge.
    pub receipt: Option<String>,
}

/// The decision of a policy in shadow mode.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ShadowJson<'a> {
    policy: Option<&'a str>,
    outcome: &'static str,
    remaining: Option<u64>,
    /// What `remaining` counts.
    unit: Option<&'static str>,
}

impl<'a> AnswerJson<'a> {
    /// An answer, without a receipt.
    #[must_use]
    pub fn new(answer: &'a Answer<'_>) -> Self {
        let decision = answer.decision();
        let binding = decision.map(Decision::binding);
        Self {
            allowed: answer.is_allowed(),
            outcome: answer.outcome().name(),
            authority: answer.authority().name(),
            policy: answer.policy().map(|policy| policy.name.as_str()),
            revision: answer.revision(),
            limit: decision.map(Decision::limit),
            remaining: decision.map(Decision::remaining),
            unit: decision.map(|decision| decision.unit().name()),
            granted: decision.map(Decision::granted),
            retry_after: answer.retry_after().map(Wait),
            until_hold: answer.is_until_hold(),
            reset_after: binding.map(|binding| Wait(binding.reset_after())),
            limits: reports(answer),
            shadows: answer.shadows().map(|shadow| ShadowJson::new(&shadow)).collect(),
            shared: decision.is_some_and(Decision::is_shared),
            repeated: decision.is_some_and(Decision::is_repeated),
            missing: answer.missing().map(Field::to_string),
            error: answer.error().map(ToString::to_string),
            receipt: None,
        }
    }
}

impl<'a> ShadowJson<'a> {
    fn new(shadow: &Shadow<'a>) -> Self {
        Self {
            policy: shadow.policy().map(|policy| policy.name.as_str()),
            outcome: shadow.outcome().name(),
            remaining: shadow.decision().map(Decision::remaining),
            unit: shadow.decision().map(|decision| decision.unit().name()),
        }
    }
}

/// The limits of policies with their policy's name; inline limits without one.
fn reports<'a>(answer: &'a Answer<'_>) -> Vec<ReportJson<'a>> {
    let of_policies = answer.reports();
    let mut found: Vec<_> = of_policies
        .map(|(policy, report)| ReportJson::new(&report, Some(policy.name.as_str())))
        .collect();
    if found.is_empty() {
        let inline = answer.decision().into_iter().flat_map(Decision::reports);
        found.extend(inline.map(|report| ReportJson::new(&report, None)));
    }
    found
}
