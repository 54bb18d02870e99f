//! Extra fields of a gate's answer on the wire, beside its decision; and its rulings.

use core::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use tollgate::wire::{Answer, HoldAnswer, Renewed, Responded, Response, Shadow, Shown};
use tollgate_policy::{Pattern, Ruling, StandingRuling};
use tollgate_tower::answer::{Answers, Profile};

use crate::service::Holding;

/// An answer, without a receipt.
pub(crate) fn answer<'a>(said: &'a tollgate_policy::Answer<'_>) -> Answer<'a> {
    let (allowed, outcome) = (said.is_allowed(), said.outcome().name());
    let mut answer = match said.decision() {
        Some(decision) => Answer::from(decision),
        None => Answer::uncounted(allowed, outcome, ""),
    };
    (answer.allowed, answer.outcome) = (allowed, outcome);
    answer.authority = said.authority().name();
    answer.policy = said.policy().map(|policy| policy.name.as_str());
    answer.revision = Some(Shown(said.revision()));
    answer.retry_after = said.retry_after().map(tollgate::wire::Wait);
    let shadows = said.shadows().map(|shadow| {
        let policy = shadow.policy().map(|policy| policy.name.as_str());
        Shadow::new(policy, shadow.outcome().name(), shadow.decision())
    });
    answer.shadows = shadows.collect();
    answer.missing = said.missing().map(|field| Shown(field));
    answer.error = said.error().map(|error| Shown(error));
    answer
}

/// An answer, with the response that it stands for: with the headers of this profile.
pub(crate) fn responded<'a>(
    answer: Answer<'a>,
    said: &tollgate_policy::Answer<'_>,
    profile: Profile,
) -> Responded<'a> {
    let (head, body) = tollgate_tower::response(&Answers::new(profile), said).into_parts();
    let headers = head.headers.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.as_str().to_owned(), value)
    });
    let body = String::from_utf8_lossy(&body).into_owned();
    Responded::new(answer, Response::new(head.status.as_u16(), headers, body))
}

/// An answer, with the hold where one was placed.
pub(crate) fn held(held: &tollgate_policy::Admission, holding: Option<Holding>) -> HoldAnswer<'_> {
    let hold = holding.map(|Holding { hold, fence, end }| (hold, fence, end));
    HoldAnswer::new(answer(&held.answer), hold, held.ahead)
}

/// A hold that was renewed. One whose caller knows it by its id alone has no text.
pub(crate) fn renewed(Holding { hold, fence, end }: Holding, is_by_id: bool) -> Renewed {
    Renewed::new((!is_by_id).then_some((hold, fence)), end)
}

/// One ruling as JSON.
#[derive(Serialize)]
pub(crate) struct RulingJson {
    effect: &'static str,
    when: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    limits: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    left_ms: u64,
    /// Why it has no effect under the policies in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_effect: Option<String>,
}

impl RulingJson {
    pub(crate) fn new(ruling: &Ruling, left: Duration) -> Self {
        let when = ruling.when.iter().map(|condition| {
            let any_of: Vec<String> = condition.any_of.iter().map(Pattern::to_string).collect();
            (condition.field.to_string(), any_of.into())
        });
        let limits = ruling.limits.iter().map(|it| (it.name.clone(), it.text().into()));
        Self {
            effect: ruling.effect.name(),
            when: when.collect(),
            limits: limits.collect(),
            policy: ruling.policy.clone(),
            reason: ruling.reason.clone(),
            left_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            no_effect: None,
        }
    }

    pub(crate) fn standing(standing: &StandingRuling) -> Self {
        let StandingRuling { ruling, left, no_effect, .. } = standing;
        Self { no_effect: no_effect.clone(), ..Self::new(ruling, *left) }
    }
}
