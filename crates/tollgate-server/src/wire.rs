//! Extra fields of a gate's answer on the wire, beside its decision.

use tollgate::wire::{Answer, HoldAnswer, Renewed, Shadow, Shown};

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

/// An answer, with the hold where one was placed.
pub(crate) fn held(held: &tollgate_policy::Admission, holding: Option<Holding>) -> HoldAnswer<'_> {
    let hold = holding.map(|Holding { hold, fence, end }| (hold, fence, end));
    HoldAnswer::new(answer(&held.answer), hold, held.ahead)
}

/// A hold that was renewed. One whose caller knows it by its id alone has no text.
pub(crate) fn renewed(Holding { hold, fence, end }: Holding, is_by_id: bool) -> Renewed {
    Renewed::new((!is_by_id).then_some((hold, fence)), end)
}
