//! Answers and decisions.

use core::fmt;

use serde::{Serialize, Serializer};
use tollgate::{Carried, Decision, Report};
use tollgate_policy::{Answer, Field, Revision, Shadow};

use super::Wait;

/// As it is displayed, without a text in between.
fn shown<T: fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// One limit's part in a decision.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ReportJson<'a> {
    /// Whose count, in the written form of a subject.
    pub subject: &'a str,
    /// The policy that the limit is of; none for limits that a caller gave inline.
    pub policy: Option<&'a str>,
    /// The limit's identity.
    pub identity: &'a str,
    /// The limit in its full form.
    pub limit: &'a str,
    /// What a fresh subject can take.
    pub capacity: u64,
    /// The largest cost that this limit would admit now.
    pub remaining: u64,
    /// The least wait until it admits the cost; none for never.
    pub retry_after: Option<Wait>,
    /// The least wait until it is fresh.
    pub reset_after: Wait,
    /// Whether it admits the cost.
    pub admits: bool,
    /// What became of the count when the limit's numbers had changed: `same`, `over`, `fresh`.
    pub carried: &'static str,
}

impl<'a> ReportJson<'a> {
    /// The part of one limit, of this policy.
    #[must_use]
    pub fn new(report: &Report<'a>, policy: Option<&'a str>) -> Self {
        Self {
            subject: report.subject(),
            policy,
            identity: report.limit().identity(),
            limit: report.limit().full_text(),
            capacity: report.limit().capacity(),
            remaining: report.remaining(),
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

/// What a gate answers.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct AnswerJson<'a> {
    /// Whether the request may go on.
    pub allowed: bool,
    /// What became of it.
    pub outcome: &'static str,
    /// Who says so.
    pub authority: &'static str,
    /// The policy that decided.
    pub policy: Option<&'a str>,
    /// The policies that it was given under.
    #[serde(serialize_with = "shown")]
    pub revision: &'a Revision,
    /// The capacity of the limit that binds.
    pub limit: Option<u64>,
    /// The largest cost that every limit would admit now.
    pub remaining: Option<u64>,
    /// The units that were admitted.
    pub granted: Option<u64>,
    /// How long to wait on a denial; none when it was admitted, or never will be.
    pub retry_after: Option<Wait>,
    /// The least wait until the limit that binds is fresh.
    pub reset_after: Option<Wait>,
    /// Every limit's part.
    pub limits: Vec<ReportJson<'a>>,
    /// What policies in shadow would have said.
    pub shadows: Vec<ShadowJson<'a>>,
    /// Whether the memory store is full, and had no room for a count of a subject's own: it was
    /// judged by one that newcomers share, or denied where there was no room for that either.
    pub shared: bool,
    /// The field without which there is no answer but no.
    pub missing: Option<String>,
    /// Why the store could not answer.
    pub error: Option<String>,
    /// What gives the charge back.
    pub receipt: Option<String>,
}

/// What a policy in shadow would have said.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ShadowJson<'a> {
    policy: Option<&'a str>,
    outcome: &'static str,
    remaining: Option<u64>,
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
            limit: binding.map(|binding| binding.limit().capacity()),
            remaining: decision.map(Decision::remaining),
            granted: decision.map(Decision::granted),
            retry_after: answer.retry_after().map(Wait),
            reset_after: binding.map(|binding| Wait(binding.reset_after())),
            limits: reports(answer),
            shadows: answer.shadows().map(|shadow| ShadowJson::new(&shadow)).collect(),
            shared: decision.is_some_and(Decision::is_shared),
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
        }
    }
}

/// The limits of policies with their names; those that a caller gave inline without.
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
