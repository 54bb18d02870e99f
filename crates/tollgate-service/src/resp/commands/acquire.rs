//! `TOLLGATE.ACQUIRE`: takes a slot, under limits in the call.

use crate::resp::answers;
use crate::resp::arguments::{
    COST, DEADLINE, LIMITS, MORE, NAME, ON_FAILURE, SHARD, SUBJECT, WAITING,
};
use crate::resp::command::{COUNTING, Call, Command, MANY, Run};
use crate::resp::question::Asked;
use crate::resp::why::Why;
use crate::service::HoldTerms;

pub(super) const COMMAND: Command = Command {
    name: "tollgate.acquire",
    words: (3, MANY),
    summary: "Takes a slot of a concurrency limit.",
    arguments: &[SUBJECT, LIMITS, MORE, COST, SHARD, DEADLINE, ON_FAILURE, NAME, WAITING],
    has_key: true,
    run: Run::Later(|call| Box::pin(answer(call))),
    ..COUNTING
};

async fn answer(call: Call<'_>) -> Result<(), Why> {
    let service = &call.session.shared.service;
    let asked = Asked::under_limits(COMMAND.arguments, call.words)?;
    answers::place(service, asked.limited(service)?, HoldTerms::acquire(), call.replies).await
}
