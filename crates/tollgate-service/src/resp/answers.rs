//! Answers with the fields that HTTP has, as maps.

use tollgate::wire;
use tollgate_policy::Answer;

use super::reply::Replies;
use super::why::{Why, refused};
use crate::service::{Act, Answered, Charge, HoldTerms, Question, Service, hold_name};
use crate::wire::{answer, held, responded};

/// Asks, and writes the answer.
///
/// # Errors
/// The service refuses.
pub(super) async fn ask(
    service: &Service,
    question: Question<'_>,
    act: Act,
    replies: &mut Replies,
) -> Result<(), Why> {
    let (receipt, profile) = (question.receipt, question.response);
    let said: Answer<'_> = service.answer(question, act).await.map_err(refused)?;
    let mut answer = answer(&said);
    answer.receipt = receipt.then(|| service.receipt(&said)).flatten();
    match profile {
        None => replies.fields(&answer),
        Some(profile) => replies.fields(&responded(answer, &said, profile)),
    }
    Ok(())
}

/// Charges without a check, and writes what was charged.
///
/// # Errors
/// The service refuses.
pub(super) async fn charge(
    service: &Service,
    question: Question<'_>,
    replies: &mut Replies,
) -> Result<(), Why> {
    let Charge { cost, counts, charged } = service.charge(question).await.map_err(refused)?;
    let counts = counts.iter().map(|(subject, limits)| (subject, limits));
    replies.fields(&wire::Charge::new(cost, counts, &charged));
    Ok(())
}

/// Places a hold, and writes it.
///
/// # Errors
/// The service refuses, or the id is invalid.
pub(super) async fn place(
    service: &Service,
    mut question: Question<'_>,
    terms: HoldTerms,
    replies: &mut Replies,
) -> Result<(), Why> {
    // The id of a command that holds is that of the hold.
    let name = question.idempotency_key.take().map(|id| hold_name(&id));
    let name = name.transpose().map_err(refused)?;
    let answered = service.hold(question, terms.named(name)).await.map_err(refused)?;
    let Answered { held: said, holding, undelivered } = answered;
    replies.fields(&held(&said, holding));
    replies.undelivered.extend(undelivered);
    Ok(())
}
