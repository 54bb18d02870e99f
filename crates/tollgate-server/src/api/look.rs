//! What is looked at: the policies, what they would answer, receipts that come back.

use core::time::Duration;
use std::collections::BTreeMap;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tollgate_policy::{Combine, Dimension, Gate, Policy, Rule, Standing};

use super::Reply;
use super::check::{Checks, json, json_of, of_ask};
use super::problem::Problem;
use super::query::Query;
use super::question::{Described, Told, read_one};
use crate::json::{AnswerJson, Wait};
use crate::listen::OneCopy;
use crate::store::AnyStore;

#[derive(Serialize)]
struct PoliciesJson<'a> {
    revision: String,
    #[serde(rename = "match")]
    combine: &'static str,
    policies: Listed<'a>,
}

/// Policies, described one by one as they are written: together they can take far more than their
/// text.
struct Listed<'a> {
    policies: &'a [Policy],
    usual_deadline: Duration,
}

impl Serialize for Listed<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let described = self.policies.iter().map(|policy| policy_json(policy, self.usual_deadline));
        serializer.collect_seq(described)
    }
}

#[derive(Serialize)]
struct PolicyJson {
    name: String,
    when: Vec<ConditionJson>,
    limits: Vec<EntryJson>,
    cost: String,
    on_failure: &'static str,
    deadline: Wait,
    shadow: bool,
}

#[derive(Serialize)]
struct ConditionJson {
    field: String,
    any_of: Vec<String>,
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

/// The answer that lists the policies, written once for each revision: it can be long, and is the
/// same for all.
#[derive(Debug, Default)]
pub(crate) struct PoliciesReply(Mutex<Option<(String, Bytes)>>);

impl PoliciesReply {
    pub(super) fn reply(&self, gate: &Gate<AnyStore>) -> Reply {
        let revision = gate.revision().to_string();
        let mut written = self.0.lock();
        let body = match &*written {
            Some((of, body)) if *of == revision => body.clone(),
            _ => {
                let body = Bytes::from(policies(gate));
                *written = Some((revision, body.clone()));
                body
            }
        };
        drop(written);
        let mut response = json_of(body);
        response.extensions_mut().insert(OneCopy);
        response
    }
}

/// The policies as they count now, as JSON.
fn policies(gate: &Gate<AnyStore>) -> Box<[u8]> {
    // The revision first: policies that are newer than what is said are no harm.
    let (revision, usual_deadline) = (gate.revision().to_string(), gate.usual_deadline());
    let policies = gate.policies();
    let combine = match policies.combine() {
        Combine::First => "first",
        Combine::All => "all",
    };
    let policies = Listed { policies: policies.policies(), usual_deadline };
    let body = serde_json::to_vec(&PoliciesJson { revision, combine, policies });
    body.unwrap_or_default().into_boxed_slice()
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
                        limit: match &other.rule {
                            Rule::Limits(limits) => limits.to_string(),
                            Rule::Unlimited => "unlimited".to_owned(),
                            Rule::Banned => "banned".to_owned(),
                            _ => "other".to_owned(),
                        },
                    })
                    .collect(),
            })
            .collect(),
        cost: policy.cost.to_string(),
        on_failure: policy.on_failure.name(),
        deadline: Wait(policy.deadline.unwrap_or(usual)),
        shadow: policy.shadow,
    }
}

fn condition_json(condition: &tollgate_policy::Condition) -> ConditionJson {
    ConditionJson {
        field: condition.field.to_string(),
        any_of: condition.any_of.iter().map(ToString::to_string).collect(),
    }
}

#[derive(Serialize)]
struct ExplainJson<'a> {
    answer: AnswerJson<'a>,
    policies: Vec<StandingJson<'a>>,
}

#[derive(Serialize)]
struct StandingJson<'a> {
    policy: &'a str,
    applies: bool,
    shadow: bool,
    why: String,
    /// The condition that does not hold.
    fails: Option<ConditionJson>,
}

impl<'a> StandingJson<'a> {
    fn of(standing: &Standing<'a>, fields: &Told<'_>) -> Self {
        use tollgate_policy::Fields as _;
        let why = match (standing.applies, standing.fails) {
            (true, _) => "every condition holds".to_owned(),
            (false, None) => "an earlier policy counts, and `match` is \"first\"".to_owned(),
            (false, Some(condition)) => match fields.field(&condition.field) {
                Some(value) => format!("`{}` is `{value}`", condition.field),
                None => format!("`{}` is absent", condition.field),
            },
        };
        Self {
            policy: &standing.policy.name,
            applies: standing.applies,
            shadow: standing.policy.shadow,
            why,
            fails: standing.fails.map(condition_json),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefundJson {
    receipt: String,
    units: Option<u64>,
}

#[derive(Serialize)]
struct Refunded {
    already: bool,
    given: Vec<u64>,
    left: u64,
}

impl Checks {
    /// Which policies would answer a request, and what.
    pub(crate) async fn explain(&self, query: Query<'_>) -> Result<Response<Full<Bytes>>, Problem> {
        let mut fields = Described::default();
        for (name, value) in query.pairs() {
            fields.add(&name, value).map_err(|why| Problem::bad(why).at(name.into_owned()))?;
        }
        let fields = fields.read(self.paths).map_err(|why| Problem::bad(why).at("path"))?;
        let policies = self.gate.policies();
        let answer = self.gate.peek(self.gate.look(&fields)).await;
        let standings = policies.standings(&fields);
        Ok(json(&ExplainJson {
            answer: AnswerJson::of(&answer),
            policies: standings.iter().map(|one| StandingJson::of(one, &fields)).collect(),
        }))
    }

    /// Gives back what a receipt says, or a part of it.
    pub(crate) async fn refund(&self, body: &[u8]) -> Result<Response<Full<Bytes>>, Problem> {
        let RefundJson { receipt, units } = read_one(body)?;
        let receipt = self.receipts.read(&receipt)?;
        let units = units.unwrap_or(receipt.cost);
        if units == 0 || units > receipt.cost {
            let why = format!("give 1 to {}, of what was charged: {units} is not", receipt.cost);
            return Err(Problem::bad(why).at("units"));
        }
        let refund = self.gate.refund_part(&receipt, units).await;
        let refund = refund.map_err(|error| of_ask(&error))?;
        let (already, given, left) = (refund.already, refund.given, refund.left);
        Ok(json(&Refunded { already, given, left }))
    }

    /// Whether the store can count.
    pub(crate) async fn probe_store(&self) -> Result<(), Problem> {
        self.gate.probe(self.gate.usual_deadline()).await.map_err(|error| of_ask(&error))
    }
}
