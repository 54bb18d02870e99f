//! `TOLLGATE.REQUEST`: counts by policies, or holds by them.

use crate::resp::answers;
use crate::resp::arguments::{
    AT_END, COST, FIELDS, KIND, NAME, POLICY_NAME, PURE_TOKEN, RECEIPT, RESPONSE, WAITING, after,
};
use crate::resp::command::{COUNTING, Call, Command, MANY, Run};
use crate::resp::options::Options;
use crate::resp::question::Asked;
use crate::resp::why::{Why, refused};
use crate::service::{Act, HoldTerms};

pub(super) const COMMAND: Command = Command {
    name: "tollgate.request",
    words: (2, MANY),
    summary: "Counts a request by the policy of this name, or by all that match (*).",
    arguments: &[
        POLICY_NAME,
        FIELDS,
        COST,
        RECEIPT,
        RESPONSE,
        after("PEEK", "peek", PURE_TOKEN),
        KIND,
        after("CHARGE", "charge", PURE_TOKEN),
        after("RESERVE", "milliseconds", "integer"),
        AT_END,
        after("ACQUIRE", "acquire", PURE_TOKEN),
        NAME,
        WAITING,
    ],
    run: Run::Later(|call| Box::pin(answer(call))),
    ..COUNTING
};

async fn answer(call: Call<'_>) -> Result<(), Why> {
    let service = &call.session.shared.service;
    let asked = Asked::by_policies(COMMAND.arguments, call.words)?;
    let hold = hold_terms(&asked.options)?;
    let question = asked.decided(service)?;
    let has = |option| asked.options.has(option);
    match hold {
        Some(terms) => answers::place(service, question, terms, call.replies).await,
        None if has("CHARGE") => answers::charge(service, question, call.replies).await,
        None => {
            let act = if has("PEEK") { Act::Peek } else { Act::Check };
            answers::ask(service, question, act, call.replies).await
        }
    }
}

/// The terms of the hold that is asked for, if one is.
fn hold_terms(options: &Options<'_>) -> Result<Option<HoldTerms>, Why> {
    let ttl = options.ttl("RESERVE")?;
    let at_end = options.lower("ATEND");
    if ttl.is_none() && at_end.is_some() {
        return Err("ATEND is for reservations: leave it out, or add RESERVE".into());
    }
    let acts = ["RESERVE", "ACQUIRE", "PEEK", "CHARGE"].into_iter();
    if acts.filter(|act| options.has(act)).count() > 1 {
        return Err("RESERVE, ACQUIRE, PEEK and CHARGE exclude each other".into());
    }
    match ttl {
        Some(_) => HoldTerms::reserve(ttl, at_end.as_deref()).map(Some).map_err(refused),
        None => Ok(options.has("ACQUIRE").then(HoldTerms::acquire)),
    }
}
