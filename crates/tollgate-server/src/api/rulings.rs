//! `/v1/admin/ban`, `exempt`, `lift` and `rulings`: rulings that administrators make at run time.

use core::fmt;
use core::time::Duration;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Deserialize as Read, Serialize};
use tollgate_policy::{Condition, Effect, Field, Gate, Pattern, Ruling};
use tollgate_stores::AnyStore;

use super::Api;
use super::answer::json;
use super::problem::Problem;
use super::question::not_null;
use super::text::{Text, duration};
use crate::http::Reply;
use crate::service::{HASH_OR_KEY, Refusal, looks_hashed, no_policy};

/// The requests that a ruling matches, and its duration.
#[derive(Read)]
#[serde(deny_unknown_fields)]
pub(super) struct RulingBody<'a> {
    #[serde(default, deserialize_with = "not_null")]
    when: Option<When>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    policy: Option<Text<'a>>,
    #[serde(borrow, default, rename = "for", deserialize_with = "not_null")]
    lasts: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    reason: Option<Text<'a>>,
}

/// Conditions, with the field names of a policy file.
struct When(Vec<Condition>);

/// The values that one field may have.
#[derive(Read)]
#[serde(untagged, expecting = "a text, or a list of texts")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// One ruling as JSON.
#[derive(Serialize)]
struct RulingJson {
    effect: &'static str,
    when: serde_json::Map<String, serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    left_ms: u64,
}

/// The rulings in force, freshly read from the store.
pub(super) async fn list(gate: &Gate<AnyStore>) -> Result<Reply, Problem> {
    gate.admin().read_rulings().await.map_err(Refusal::from)?;
    let rulings: Vec<RulingJson> = gate.admin().rulings().into_iter().map(ruling_json).collect();
    Ok(json(&serde_json::json!({ "rulings": rulings })))
}

fn ruling_json((ruling, left): (Ruling, Duration)) -> RulingJson {
    let when = ruling.when.iter().map(|condition| {
        let any_of: Vec<String> = condition.any_of.iter().map(Pattern::to_string).collect();
        (condition.field.to_string(), any_of.into())
    });
    let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    let effect = ruling.effect.name();
    RulingJson {
        effect,
        when: when.collect(),
        policy: ruling.policy,
        reason: ruling.reason,
        left_ms,
    }
}

/// Bans or exempts. `of` receives the description for the log.
pub(super) async fn rule(
    api: &Api,
    effect: Effect,
    about: RulingBody<'_>,
    of: &mut String,
) -> Result<Reply, Problem> {
    let gate = &api.service.gate;
    let lasts = about.lasts.as_ref().ok_or_else(|| {
        Problem::bad("`for` is missing, e.g. \"1h\": a ruling has an end").at("for")
    })?;
    let lasts = duration(&lasts.0).map_err(|_| {
        let detail = "write a duration up to 366d, as in `90s`, `1h30m`, `30d`: a permanent ban \
                      belongs in the policies";
        Problem::bad(detail).at("for")
    })?;
    if let Some(Text(policy)) = &about.policy
        && gate.current().policies().policies().iter().all(|known| known.name != **policy)
    {
        return Err(no_policy(policy).into());
    }
    let ruling = gate.admin().as_stored(about.ruling(effect)?);
    *of = ruling.to_string();
    gate.admin().rule(&ruling, lasts).await.map_err(Refusal::from)?;
    let lacking = ruling.when.iter().find_map(|condition| {
        let option = api.auth.lacks(&condition.field)?;
        Some(format!(
            "no request at /v1/auth has `{}`, since `{option}` is not given: this matches only \
             requests whose caller sends that field",
            condition.field
        ))
    });
    let mut answer = serde_json::json!({ "ruled": ruling_json((ruling, lasts)) });
    if let Some(lacking) = lacking {
        answer["warning"] = lacking.into();
    }
    Ok(json(&answer))
}

/// Lifts the rulings on these requests.
pub(super) async fn lift(
    gate: &Gate<AnyStore>,
    about: RulingBody<'_>,
    of: &mut String,
) -> Result<Reply, Problem> {
    for (field, is_there) in [("for", about.lasts.is_some()), ("reason", about.reason.is_some())] {
        if is_there {
            return Err(Problem::bad(format!("lifting a ruling takes no `{field}`")).at(field));
        }
    }
    let Ruling { when, policy, .. } = gate.admin().as_stored(about.ruling(Effect::Ban)?);
    of.clone_from(&when.iter().map(Condition::to_string).collect::<Vec<_>>().join(", "));
    let was_there = gate.admin().lift(&when, policy.as_deref()).await.map_err(Refusal::from)?;
    // Report the rulings on the same conditions for other policies, or for all: one of them may be
    // meant.
    let same = gate.admin().rulings().into_iter().filter(|(ruling, _)| ruling.when == when);
    let others: Vec<Option<String>> = same.map(|(ruling, _)| ruling.policy).collect();
    Ok(json(&serde_json::json!({ "was_there": was_there, "others": others })))
}

impl RulingBody<'_> {
    fn ruling(self, effect: Effect) -> Result<Ruling, Problem> {
        let Some(When(when)) = self.when else {
            let detail = "`when` is missing, e.g. {\"ip\": \"203.0.113.0/24\"}";
            return Err(Problem::bad(detail).at("when"));
        };
        let wrong = |error: tollgate::ParseError| Problem::bad(error.to_string());
        let mut ruling = Ruling::new(effect, when).map_err(|error| wrong(error).at("when"))?;
        if let Some(Text(policy)) = self.policy {
            ruling = ruling.in_policy(policy);
        }
        if let Some(Text(reason)) = self.reason {
            ruling = ruling.because(reason).map_err(|error| wrong(error).at("reason"))?;
        }
        Ok(ruling)
    }
}

impl<'de> Deserialize<'de> for When {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = When;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("conditions, e.g. {\"ip\": \"203.0.113.0/24\"}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<When, A::Error> {
                let mut all = Vec::new();
                while let Some(Text(field)) = map.next_key()? {
                    let any_of = match map.next_value()? {
                        OneOrMany::One(text) => vec![text],
                        OneOrMany::Many(texts) => texts,
                    };
                    let condition = Condition::parse(&field, any_of.iter().map(String::as_str));
                    let condition = condition.map_err(de::Error::custom)?;
                    if condition.field == Field::ApiKey
                        && any_of.iter().any(|key| looks_hashed(key))
                    {
                        return Err(de::Error::custom(HASH_OR_KEY));
                    }
                    all.push(condition);
                }
                Ok(When(all))
            }
        }
        deserializer.deserialize_map(All)
    }
}
