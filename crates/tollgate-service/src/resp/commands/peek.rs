//! `TOLLGATE.PEEK`: looks at counts, and changes none.

use crate::resp::answers;
use crate::resp::arguments::{
    COST, DEADLINE, KIND, LIMITS, MORE, ON_FAILURE, RESPONSE, SHARD, SUBJECT,
};
use crate::resp::command::{COUNTING, Call, Command, MANY, Run};
use crate::resp::question::Asked;
use crate::resp::why::Why;
use crate::service::Act;

pub(super) const COMMAND: Command = Command {
    name: "tollgate.peek",
    words: (3, MANY),
    summary: "Gives the answer of TOLLGATE.CHECK, and counts nothing.",
    arguments: &[SUBJECT, LIMITS, MORE, COST, SHARD, DEADLINE, ON_FAILURE, KIND, RESPONSE],
    flags: &["readonly", "fast"],
    has_key: true,
    run: Run::Later(|call| Box::pin(answer(call))),
    ..COUNTING
};

async fn answer(call: Call<'_>) -> Result<(), Why> {
    let service = &call.session.shared.service;
    let asked = Asked::under_limits(COMMAND.arguments, call.words)?;
    answers::ask(service, asked.limited(service)?, Act::Peek, call.replies).await
}
