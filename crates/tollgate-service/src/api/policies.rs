//! `/v1/policies` and `/v1/explain`: the policies, and how they would decide a request.

use core::time::Duration;
use std::collections::BTreeMap;

use serde::Serialize;
use tollgate::wire::{Answer, Wait};
use tollgate_policy::{Current, Dimension, Policy, Standing};

use super::answer::json;
use super::problem::Problem;
use super::query::Query;
use crate::http::Reply;
use crate::operations::Operation;
use crate::service::{DescribedFields, Description, Service, no_policy};
use crate::wire;

/// The default number of policies on a page.
const PAGE: usize = 100;

/// The most policies on a page.
const MAX_PAGE: usize = 1_000;

#[derive(Serialize)]
struct PoliciesJson<'a> {
    revision: String,
    #[serde(rename = "match")]
    combine: &'static str,
    policies: Vec<PolicyJson>,
    /// The last policy of this page, from which the next one continues; `None` on the last page.
    next: Option<&'a str>,
}

#[derive(Serialize)]
struct PolicyJson {
    name: String,
    when: Vec<ConditionJson>,
    limits: Vec<EntryJson>,
    unlimited: bool,
    /// The file of tiers, its keys, and the field that they are values of.
    #[serde(skip_serializing_if = "Option::is_none")]
    tiers: Option<String>,
    cost: String,
    on_failure: String,
    deadline: Wait,
    shadow: bool,
    /// The headers that it chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<&'static str>,
}

#[derive(Serialize)]
struct ConditionJson {
    field: String,
    any_of: Vec<String>,
    /// Whether the field must be none of them.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    negated: bool,
}

#[derive(Serialize)]
struct EntryJson {
    subject: Vec<String>,
    limit: String,
    absent: BTreeMap<String, String>,
    overrides: Vec<OverrideJson>,
}

#[derive(Serialize)]
struct OverrideJson {
    when: Vec<ConditionJson>,
    limit: String,
}

fn policy_json(policy: &Policy, usual: Duration) -> PolicyJson {
    PolicyJson {
        name: policy.name.clone(),
        when: policy.when.iter().map(condition_json).collect(),
        limits: policy
            .entries
            .iter()
            .map(|entry| EntryJson {
                subject: entry.subject.iter().map(Dimension::to_string).collect(),
                limit: entry.limits.to_string(),
                absent: entry
                    .absent
                    .iter()
                    .map(|(field, what)| (field.to_string(), what.to_string()))
                    .collect(),
                overrides: entry
                    .overrides
                    .iter()
                    .map(|other| OverrideJson {
                        when: other.when.iter().map(condition_json).collect(),
                        limit: other.rule.to_string(),
                    })
                    .collect(),
            })
            .collect(),
        unlimited: policy.unlimited,
        tiers: policy.tiers.as_ref().map(ToString::to_string),
        cost: policy.cost.to_string(),
        on_failure: policy.on_failure.to_string(),
        deadline: Wait(policy.deadline.unwrap_or(usual)),
        shadow: policy.shadow,
        headers: policy.headers.map(tollgate_policy::ResponseHeaders::name),
    }
}

fn condition_json(condition: &tollgate_policy::Condition) -> ConditionJson {
    ConditionJson {
        field: condition.field.to_string(),
        any_of: condition.any_of.iter().map(ToString::to_string).collect(),
        negated: condition.negated,
    }
}

#[derive(Serialize)]
struct ExplainJson<'a> {
    answer: Answer<'a>,
    policies: Vec<StandingJson<'a>>,
}

#[derive(Serialize)]
struct StandingJson<'a> {
    policy: &'a str,
    applies: bool,
    shadow: bool,
    why: String,
    /// Its limits, each behind the dimensions that it counts by, where it applies.
    limits: Vec<String>,
    /// The condition that does not match.
    fails: Option<ConditionJson>,
}

impl<'a> StandingJson<'a> {
    fn new(standing: &Standing<'a>, fields: &DescribedFields<'_>, current: &Current) -> Self {
        let why = match (standing.applies, standing.fails) {
            (true, _) => {
                let set = current.set_limits(&standing.policy.name, fields);
                let set: Vec<_> = set.iter().map(ToString::to_string).collect();
                let sign = if set.is_empty() { "" } else { ", under set limits: " };
                format!("every condition holds{sign}{}", set.join(", "))
            }
            (false, None) => "an earlier policy counts, and `match` is \"first\"".to_owned(),
            (false, Some(condition)) => match condition.value_of(fields) {
                Some(value) => format!("`{}` is `{value}`", condition.field),
                None => format!("`{}` is absent", condition.field),
            },
        };
        let limits = standing.policy.entries.iter().filter(|_| standing.applies).map(|entry| {
            let subject: Vec<_> = entry.subject.iter().map(Dimension::to_string).collect();
            format!("{}: {}", subject.join(", "), entry.limits)
        });
        Self {
            limits: limits.collect(),
            policy: &standing.policy.name,
            applies: standing.applies,
            shadow: standing.policy.shadow,
            why,
            fails: standing.fails.map(condition_json),
        }
    }
}

/// A page of the current policies.
pub(super) fn list(service: &Service, query: Query<'_>) -> Result<Reply, Problem> {
    let query = query.only(Operation::Policies)?;
    let count = query.number("count", PAGE, MAX_PAGE)?;
    let current = service.gate.current();
    let policies = current.policies();
    let all = policies.policies();
    let begin = match query.get("after") {
        None => 0,
        Some(name) => {
            let found = all.iter().position(|policy| policy.name == name);
            found.map(|place| place + 1).ok_or_else(|| no_policy(name).at("after"))?
        }
    };
    let rest = all.get(begin..).unwrap_or_default();
    let (page, more) = rest.split_at_checked(count).unwrap_or((rest, &[]));
    let next = page.last().filter(|_| !more.is_empty());
    Ok(json(&PoliciesJson {
        revision: current.revision().to_string(),
        combine: policies.combine().name(),
        policies: page.iter().map(|policy| policy_json(policy, current.deadline())).collect(),
        next: next.map(|policy| policy.name.as_str()),
    }))
}

/// Which policies match a request, those first, and how they would decide it.
pub(super) async fn explain(service: &Service, query: Query<'_>) -> Result<Reply, Problem> {
    let mut fields = Description::default();
    for (name, value) in query.pairs() {
        fields.add(&name, value).map_err(|why| Problem::bad(why).at(name.into_owned()))?;
    }
    let fields = fields.read(&service.reading).map_err(Problem::bad)?;
    let answer = service.gate.ask(service.gate.prepare(&fields).peek()).await;
    let current = service.gate.current();
    let mut standings = current.policies().standings(&fields);
    standings.sort_by_key(|standing| !standing.applies);
    Ok(json(&ExplainJson {
        answer: wire::answer(&answer),
        policies: standings.iter().map(|one| StandingJson::new(one, &fields, &current)).collect(),
    }))
}
