//! `TOLLGATE.CHECK`: counts under limits in the call.

use crate::resp::answers;
use crate::resp::arguments::{
    AGAIN, Argument, COST, DEADLINE, ID, LIMITS, MORE, ON_FAILURE, RECEIPT, RESPONSE, SHARD,
    SUBJECT, WAITING, after,
};
use crate::resp::command::{COUNTING, Call, Command, MANY, Run};
use crate::resp::question::Asked;
use crate::resp::why::Why;
use crate::service::Act;

pub(super) const COMMAND: Command = Command {
    name: "tollgate.check",
    words: (3, MANY),
    summary: "Counts a subject under limits, and answers all that HTTP does.",
    arguments: &[
        SUBJECT,
        LIMITS,
        MORE,
        COST,
        after(ID, "request", "string"),
        SHARD,
        DEADLINE,
        ON_FAILURE,
        RECEIPT,
        RESPONSE,
        Argument { arguments: &[AGAIN], ..WAITING },
    ],
    has_key: true,
    run: Run::Later(|call| Box::pin(answer(call))),
    ..COUNTING
};

async fn answer(call: Call<'_>) -> Result<(), Why> {
    let service = &call.session.shared.service;
    let asked = Asked::under_limits(COMMAND.arguments, call.words)?;
    answers::ask(service, asked.limited(service)?, Act::Check, call.replies).await
}
