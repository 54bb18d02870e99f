//! The JSON format of questions.

use std::borrow::Cow;
use std::fmt;

use core::time::Duration;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tollgate::Subject;
use tollgate_policy::{OnFailure, Terms};

use super::cost::{CostJson, UsedJson};
use super::on_failure::OnFailureJson;
use super::problem::Problem;
use super::subject::{SubjectJson, subject_of};
use super::text::{Text, Value, bounded};
use crate::operations::MAX_BATCH;
use crate::service::{By, Description, Parts, Question, Service, kind_of_peek, profile_of};

/// One question, or a batch.
#[derive(Debug)]
pub(crate) enum Body<'a> {
    One(Box<QuestionJson<'a>>),
    Many(Vec<&'a RawValue>),
}

/// One question.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuestionJson<'a> {
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(crate) policy: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(crate) fields: Option<Description<'a>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(crate) subject: Option<SubjectJson<'a>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(crate) written_subject: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(crate) limit: Option<LimitsJson<'a>>,
    /// Each element is an [`On`].
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(crate) on: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(crate) shard: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(crate) on_failure: Option<OnFailureJson<'a>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(crate) deadline: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(crate) idempotency_key: Option<Text<'a>>,
    #[serde(default, deserialize_with = "not_null")]
    pub(crate) cost: Option<CostJson>,
    #[serde(default, deserialize_with = "not_null")]
    pub(crate) receipt: Option<bool>,
    /// The headers of the response that the answer includes, for a check or a peek.
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(crate) response: Option<Text<'a>>,
    /// The kind of cost that a peek judges, for `/v1/peek`.
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(crate) kind: Option<Text<'a>>,
    /// How long a hold lasts, for `/v1/reserve`.
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(crate) ttl: Option<Text<'a>>,
    /// The caller's id for a hold, for the paths of holds.
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(crate) id: Option<Text<'a>>,
    /// Whether the caller waits where it is denied.
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(crate) waiting: Option<Text<'a>>,
    /// The units that were used of a hold with an id, for `/v1/commit`.
    #[serde(default, deserialize_with = "not_null")]
    pub(crate) actual: Option<UsedJson>,
    /// The action at the end of a hold, for `/v1/reserve`.
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(crate) at_end: Option<Text<'a>>,
}

/// Rejects `null`, which differs from an absent field. A template filled with nothing must not ask
/// another question than intended.
pub(crate) fn not_null<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl<'a> QuestionJson<'a> {
    /// The same as a question for a charge without a check, which a store answers or not.
    pub(crate) fn into_charge(self, service: &Service) -> Result<Question<'a>, Problem> {
        let own =
            [(self.on_failure.is_some(), "on_failure"), (self.deadline.is_some(), "deadline")];
        if let Some((_, field)) = own.into_iter().find(|(is_given, _)| *is_given) {
            let detail = format!("a charge without a check has no `{field}`: leave it out");
            return Err(Problem::bad(detail).at(field));
        }
        self.into_question(service)
    }

    /// Converts the JSON into a question to the service.
    pub(crate) fn into_question(self, service: &Service) -> Result<Question<'a>, Problem> {
        let Self { policy, fields, limit, on, shard, on_failure, deadline, cost, receipt, .. } =
            self;
        for (is_given, field) in [(self.ttl.is_some(), "ttl"), (self.at_end.is_some(), "at_end")] {
            if is_given {
                let detail = format!("`{field}` is for POST /v1/reserve: leave it out");
                return Err(Problem::bad(detail).at(field));
            }
        }
        if self.actual.is_some() {
            let detail = "`actual` is for POST /v1/commit: leave it out";
            return Err(Problem::bad(detail).at("actual"));
        }
        if self.id.is_some() {
            let detail = "`id` names a hold, and nothing is held here: leave it out";
            return Err(Problem::bad(detail).at("id"));
        }
        let subject = subject_of(self.subject, self.written_subject)?;
        let inline = subject.is_some() || limit.is_some() || on.is_some();
        let by = match (inline, policy.is_some() || fields.is_some()) {
            (true, true) => {
                return Err(Problem::bad(
                    "set either `policy` and `fields`, or `subject` and `limit` (or `on`), not \
                     both",
                ));
            }
            (false, false) => {
                return Err(Problem::bad("empty request: set `subject` and `limit`, or `fields`"));
            }
            (false, true) => {
                let own = [
                    shard.map(|_| "shard"),
                    on_failure.map(|_| "on_failure"),
                    deadline.map(|_| "deadline"),
                ];
                if let Some(field) = own.into_iter().flatten().next() {
                    let detail = format!("policies say their own `{field}`: leave it out");
                    return Err(Problem::bad(detail).at(field));
                }
                let fields = fields.unwrap_or_default().read(&service.reading);
                let fields = fields.map_err(|why| Problem::bad(why).at("fields"))?;
                By::Policies { policy: policy.map(|Text(name)| name), fields }
            }
            (true, false) => {
                let deadline = match deadline {
                    Some(Text(text)) => deadline_of(&text)?,
                    None => service.gate.current().deadline(),
                };
                let rule = on_failure.map_or(Ok(OnFailure::Deny), |rule| rule.read(service))?;
                let terms = Terms::new(rule).deadline(deadline);
                let parts = parts(service, subject, limit, on)?;
                By::Limits { parts, shard: shard.map(|Text(shard)| shard), terms }
            }
        };
        let idempotency_key = self.idempotency_key.map(|Text(key)| key);
        let kind = self.kind.map(|Text(name)| kind_of_peek(&name)).transpose()?.flatten();
        let waiting = self.waiting.map(|Text(said)| service.patience(&said)).transpose()?;
        let (receipt, patience) = (receipt.unwrap_or(false), waiting.unwrap_or_default());
        let cost = cost.map(|CostJson(cost)| cost);
        let response = self.response.map(|Text(name)| profile_of(&name)).transpose()?;
        Ok(Question { by, cost, idempotency_key, receipt, response, kind, patience })
    }
}

/// The subjects with their limits, from either of the two notations.
pub(crate) fn parts(
    service: &Service,
    subject: Option<Subject>,
    limit: Option<LimitsJson<'_>>,
    on: Option<Vec<&RawValue>>,
) -> Result<Parts, Problem> {
    match (subject, limit, on) {
        (Some(subject), Some(LimitsJson(text)), None) => {
            Ok(vec![(subject, service.limits(&text)?)])
        }
        (None, None, Some(list)) => {
            let each = list.iter().enumerate().map(|(place, item)| {
                let part = || {
                    let On { subject, written_subject, limit: LimitsJson(text) } =
                        read_one(item.get().as_bytes())?;
                    let subject = subject_of(subject, written_subject)?.ok_or_else(no_subject)?;
                    Ok((subject, service.limits(&text)?))
                };
                part().map_err(|problem: Problem| problem.within(&format!("on[{place}]")))
            });
            each.collect()
        }
        (None, Some(_), None) => Err(no_subject()),
        (Some(_), None, None) => Err(Problem::bad("`limit` is missing, e.g. \"10/s\"").at("limit")),
        _ => Err(Problem::bad(
            "`on` lists all subjects: put `subject` and `limit` into it, or leave it out",
        )
        .at("on")),
    }
}

pub(crate) fn no_subject() -> Problem {
    Problem::bad("`subject` is missing, e.g. \"user:42\"").at("subject")
}

fn deadline_of(text: &str) -> Result<Duration, Problem> {
    tollgate_policy::parse_deadline(text).ok_or_else(|| {
        let detail =
            format!("`{text}` is not a deadline: write a duration from 1ms to 1m, e.g. \"20ms\"");
        Problem::bad(detail).at("deadline")
    })
}

/// A subject with its own limits.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct On<'a> {
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(crate) subject: Option<SubjectJson<'a>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(crate) written_subject: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) limit: LimitsJson<'a>,
}

/// One text, or a list of texts, joined as in the notation of limits.
#[derive(Debug)]
pub(crate) struct LimitsJson<'a>(pub(crate) Cow<'a, str>);

/// Parses a body: one question, or `{"checks": [...]}`.
pub(crate) fn read(body: &[u8]) -> Result<Body<'_>, Problem> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Batch<'a> {
        #[serde(borrow)]
        checks: Vec<&'a RawValue>,
    }
    if is_list(body) {
        return Err(no_object());
    }
    let one = match serde_json::from_slice::<QuestionJson<'_>>(body) {
        Ok(question) => return Ok(Body::One(Box::new(question))),
        Err(error) => error,
    };
    // A batch has `checks` as its only key. A body that is neither is explained as a single
    // question.
    match serde_json::from_slice::<Batch<'_>>(body) {
        Ok(Batch { checks }) if checks.is_empty() => {
            Err(Problem::bad("an empty list asks nothing").at("checks"))
        }
        Ok(Batch { checks }) if checks.len() > MAX_BATCH => {
            let detail = format!("a batch has at most {MAX_BATCH} items, not {}", checks.len());
            Err(Problem::bad(detail).at("checks"))
        }
        Ok(Batch { checks }) => Ok(Body::Many(checks)),
        Err(_) => Err(explain::<QuestionJson<'_>>(body, &one)),
    }
}

/// Parses a single JSON object.
pub(crate) fn read_one<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    if is_list(body) {
        return Err(no_object());
    }
    serde_json::from_slice(body).map_err(|error| explain::<T>(body, &error))
}

/// Serde accepts a list for an object without keys. That is refused, since its meaning would depend
/// on the order of the elements.
fn is_list(json: &[u8]) -> bool {
    json.trim_ascii_start().starts_with(b"[")
}

fn no_object() -> Problem {
    Problem::bad(
        "this is a list, and should be an object, e.g. {\"subject\": \"a\", \"limit\": \"1/s\"}",
    )
}

/// Explains what is wrong with a body, and where. It parses a second time with the slower method
/// that reports the place.
#[cold]
fn explain<'a, T: Deserialize<'a>>(body: &'a [u8], error: &serde_json::Error) -> Problem {
    if core::str::from_utf8(body).is_err() {
        return Problem::bad("the body is not UTF-8: JSON is");
    }
    if body.iter().all(u8::is_ascii_whitespace) {
        return Problem::bad(
            "the body is empty: ask in JSON, e.g. {\"subject\": \"user:42\", \"limit\": \"10/s\"}",
        );
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(found) => {
            let path = found.path().to_string();
            let detail = in_words(&found.into_inner().to_string());
            if path == "." { Problem::bad(detail) } else { Problem::bad(detail).at(path) }
        }
        // The second parser stops at the end of the object, so it does not see what follows.
        Ok(_) => Problem::bad(error.to_string()),
    }
}

/// The names of types of numbers are words of this program's language, not of JSON.
fn in_words(detail: &str) -> String {
    detail
        .replace("expected u64", "expected a whole number of 0 or more")
        .replace("expected i64", "expected a whole number, e.g. 5 or -5")
}

impl<'de: 'a, 'a> Deserialize<'de> for LimitsJson<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct One;
        impl<'de> Visitor<'de> for One {
            type Value = LimitsJson<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a limit as a text, or a list of them")
            }

            fn visit_borrowed_str<E: de::Error>(
                self,
                text: &'de str,
            ) -> Result<LimitsJson<'de>, E> {
                bounded(text)?;
                Ok(LimitsJson(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<LimitsJson<'de>, E> {
                bounded(text)?;
                Ok(LimitsJson(Cow::Owned(text.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> Result<LimitsJson<'de>, A::Error> {
                let mut joined = String::new();
                while let Some(Text(text)) = list.next_element()? {
                    if text.trim().is_empty() {
                        return Err(de::Error::custom("an empty text is not a limit"));
                    }
                    if !joined.is_empty() {
                        joined.push_str(", ");
                    }
                    joined.push_str(&text);
                    bounded(&joined)?;
                }
                Ok(LimitsJson(Cow::Owned(joined)))
            }
        }
        deserializer.deserialize_any(One)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Description<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Description<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the fields of a request, e.g. {\"ip\": \"192.0.2.7\"}")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Description<'de>, A::Error> {
                let mut described = Description::default();
                while let Some(Text(name)) = map.next_key()? {
                    let Value(value) = map.next_value()?;
                    described.add(&name, value).map_err(de::Error::custom)?;
                }
                Ok(described)
            }
        }
        deserializer.deserialize_map(All)
    }
}
