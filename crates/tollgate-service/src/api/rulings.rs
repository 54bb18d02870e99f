//! `/v1/admin/ban`, `exempt`, `set`, `lift` and `rulings`: rulings of administrators at run time.

use core::fmt;

use serde::Deserialize as Read;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use tollgate::MAX_LIMITS;
use tollgate_policy::{Condition, Effect, Field, Gate, Ruling};
use tollgate_stores::AnyStore;

use super::Api;
use super::answer::json;
use super::problem::Problem;
use super::question::not_null;
use super::text::{Text, duration};
use crate::http::Reply;
use crate::service::{HASH_OR_KEY, Refusal, looks_hashed, no_policy, no_such};
use crate::wire::RulingJson;

/// The requests that a ruling matches, and its duration.
#[derive(Read)]
#[serde(deny_unknown_fields)]
pub(super) struct RulingBody<'a> {
    #[serde(default, deserialize_with = "not_null")]
    when: Option<When>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    policy: Option<Text<'a>>,
    #[serde(default, deserialize_with = "not_null")]
    limits: Option<Limits>,
    #[serde(borrow, default, rename = "for", deserialize_with = "not_null")]
    lasts: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    reason: Option<Text<'a>>,
}

/// Conditions, with the field names of a policy file.
struct When(Vec<Condition>);

/// Limits by their names in the policy, in order; a name may be there twice.
struct Limits(Vec<(String, String)>);

/// The values that one field may have.
#[derive(Read)]
#[serde(untagged, expecting = "a text, or a list of texts")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// The rulings in force, freshly read from the store.
pub(super) async fn list(gate: &Gate<AnyStore>) -> Result<Reply, Problem> {
    gate.admin().read_rulings().await.map_err(Refusal::from)?;
    let rulings: Vec<_> = gate.admin().standing().iter().map(RulingJson::standing).collect();
    Ok(json(&serde_json::json!({ "rulings": rulings })))
}

/// Bans, exempts, or sets limits. `of` receives the description for the log.
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
    if let Some(Text(policy)) = &about.policy {
        let current = gate.current();
        let policies = current.policies();
        if policies.policies().iter().all(|known| known.name != **policy) {
            let similar = policies.similar(policy);
            return Err(similar.map_or_else(|| no_policy(policy), |it| no_such(policy, it)).into());
        }
    }
    let ruling = gate.admin().as_stored(about.ruling(effect, gate)?);
    *of = ruling.to_string();
    let current = gate.current();
    let unread = ruling.when.iter().find_map(|it| current.policies().unread(&it.field));
    // Fields of requests without a policy can be banned and exempt, and have no limits to set.
    if let (Effect::Set, Some(error)) = (effect, &unread) {
        return Err(Problem::bad(error.to_string()).at("when"));
    }
    gate.admin().read_rulings().await.map_err(Refusal::from)?;
    let is_same = |(it, _): &(Ruling, _)| it.when == ruling.when && it.policy == ruling.policy;
    let replaced = gate.admin().rulings().into_iter().find(is_same);
    gate.admin().rule(&ruling, lasts).await.map_err(Refusal::from)?;
    let lacking = ruling.when.iter().find_map(|condition| {
        let option = api.auth.lacks(&condition.field)?;
        Some(format!(
            "no request at /v1/auth has `{}`, since `{option}` is not given: this matches only \
             requests whose caller sends that field",
            condition.field
        ))
    });
    let mut answer = serde_json::json!({ "ruled": RulingJson::new(&ruling, lasts) });
    if let Some(replaced) = replaced {
        answer["replaced"] = serde_json::json!(RulingJson::new(&replaced.0, replaced.1));
    }
    let unread = unread.map(|error| format!("{}: {}", error.what(), error.remedy()));
    if let Some(warning) = unread.or(lacking) {
        answer["warning"] = warning.into();
    }
    Ok(json(&answer))
}

/// Lifts the rulings on these requests.
pub(super) async fn lift(
    gate: &Gate<AnyStore>,
    about: RulingBody<'_>,
    of: &mut String,
) -> Result<Reply, Problem> {
    for (field, is_there) in [
        ("for", about.lasts.is_some()),
        ("reason", about.reason.is_some()),
        ("limits", about.limits.is_some()),
    ] {
        if is_there {
            return Err(Problem::bad(format!("lifting a ruling takes no `{field}`")).at(field));
        }
    }
    let Ruling { when, policy, .. } = gate.admin().as_stored(about.ruling(Effect::Ban, gate)?);
    of.clone_from(&when.iter().map(Condition::to_string).collect::<Vec<_>>().join(", "));
    let was_there = gate.admin().lift(&when, policy.as_deref()).await.map_err(Refusal::from)?;
    // Report the rulings on the same conditions for other policies, or for all: one of them may be
    // meant.
    let same = gate.admin().rulings().into_iter().filter(|(ruling, _)| ruling.when == when);
    let others: Vec<Option<String>> = same.map(|(ruling, _)| ruling.policy).collect();
    Ok(json(&serde_json::json!({ "was_there": was_there, "others": others })))
}

impl RulingBody<'_> {
    fn ruling(self, effect: Effect, gate: &Gate<AnyStore>) -> Result<Ruling, Problem> {
        let Some(When(when)) = self.when else {
            let detail = "`when` is missing, e.g. {\"ip\": \"203.0.113.0/24\"}";
            return Err(Problem::bad(detail).at("when"));
        };
        let wrong = |error: tollgate::ParseError| Problem::bad(error.to_string());
        let mut ruling = Ruling::new(effect, when).map_err(|error| wrong(error).at("when"))?;
        match (effect, &self.policy, self.limits) {
            (Effect::Set, Some(Text(policy)), Some(Limits(limits))) => {
                let current = gate.current();
                let read = |(name, text): &(String, String)| {
                    let limit = current.policies().ruled_limit(policy, name, text);
                    limit.map_err(|error| wrong(error).at(format!("limits.{name}")))
                };
                let limits = limits.iter().map(read).collect::<Result<Vec<_>, _>>()?;
                let set = ruling.with_limits(limits);
                ruling = set.map_err(|error| wrong(error).at("limits"))?;
            }
            (Effect::Set, None, _) => {
                let detail = "`policy` is missing, e.g. \"api\": a limit is set in one policy";
                return Err(Problem::bad(detail).at("policy"));
            }
            (Effect::Set, _, None) => {
                let detail = "`limits` is missing, e.g. {\"minute\": \"500/m\"}";
                return Err(Problem::bad(detail).at("limits"));
            }
            (_, _, Some(_)) => {
                let detail = "only `set` takes `limits`";
                return Err(Problem::bad(detail).at("limits"));
            }
            (_, _, None) => {}
        }
        if let Some(Text(policy)) = self.policy {
            ruling = ruling.in_policy(policy);
        }
        if let Some(Text(reason)) = self.reason {
            ruling = ruling.because(reason).map_err(|error| wrong(error).at("reason"))?;
        }
        Ok(ruling)
    }
}

impl<'de> Deserialize<'de> for Limits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Limits;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("limits by their names, e.g. {\"minute\": \"500/m\"}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Limits, A::Error> {
                let mut all = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    if all.len() == MAX_LIMITS {
                        let what = format!("a set has at most {MAX_LIMITS} limits");
                        return Err(de::Error::custom(what));
                    }
                    all.push(pair);
                }
                Ok(Limits(all))
            }
        }
        deserializer.deserialize_map(All)
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
