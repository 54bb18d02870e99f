//! `TOLLGATE.CHARGE`: charges a cost that became known afterwards.

use crate::resp::answers;
use crate::resp::arguments::{COST, LIMITS, MORE, SHARD, SUBJECT};
use crate::resp::command::{COUNTING, Call, Command, MANY, Run};
use crate::resp::question::Asked;
use crate::resp::why::Why;

pub(super) const COMMAND: Command = Command {
    name: "tollgate.charge",
    words: (3, MANY),
    summary: "Charges a cost that became known afterwards, without a check.",
    arguments: &[SUBJECT, LIMITS, MORE, COST, SHARD],
    has_key: true,
    run: Run::Later(|call| Box::pin(answer(call))),
    ..COUNTING
};

async fn answer(call: Call<'_>) -> Result<(), Why> {
    let service = &call.session.shared.service;
    let asked = Asked::under_limits(COMMAND.arguments, call.words)?;
    answers::charge(service, asked.limited(service)?, call.replies).await
}
