//! `TOLLGATE.RESERVE`: sets units aside, under limits in the call.

use crate::resp::answers;
use crate::resp::arguments::{
    AT_END, Argument, COST, DEADLINE, LIMITS, MORE, NAME, ON_FAILURE, SHARD, SUBJECT, TTL, WAITING,
};
use crate::resp::command::{COUNTING, Call, Command, MANY, Run};
use crate::resp::question::Asked;
use crate::resp::why::{Why, refused};
use crate::service::HoldTerms;

pub(super) const COMMAND: Command = Command {
    name: "tollgate.reserve",
    words: (5, MANY),
    summary: "Sets units aside, as many as may be used, until they are committed.",
    arguments: &[
        SUBJECT,
        LIMITS,
        MORE,
        Argument { flags: &[], ..TTL },
        COST,
        SHARD,
        DEADLINE,
        ON_FAILURE,
        AT_END,
        NAME,
        WAITING,
    ],
    has_key: true,
    run: Run::Later(|call| Box::pin(answer(call))),
    ..COUNTING
};

async fn answer(call: Call<'_>) -> Result<(), Why> {
    let service = &call.session.shared.service;
    let asked = Asked::under_limits(COMMAND.arguments, call.words)?;
    let missing = "TTL is missing, e.g. TTL 60000 for 60 s";
    let ttl = asked.options.ttl("TTL")?.ok_or(missing)?;
    let at_end = asked.options.lower("ATEND");
    let terms = HoldTerms::reserve(Some(ttl), at_end.as_deref()).map_err(refused)?;
    answers::place(service, asked.limited(service)?, terms, call.replies).await
}
