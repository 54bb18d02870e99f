//! `TOLLGATE.RENEW`: makes a hold end later.

use crate::resp::arguments::{ASKED_ON, ASKED_POLICY, HOLD, MORE, SHARD, TTL};
use crate::resp::command::{COUNTING, Call, Command, MANY, Run};
use crate::resp::held::HeldCommand;
use crate::resp::why::{Why, refused};
use crate::wire::renewed;

pub(super) const COMMAND: Command = Command {
    name: "tollgate.renew",
    words: (2, MANY),
    summary: "Renews a hold, which then ends later.",
    arguments: &[HOLD, ASKED_ON, ASKED_POLICY, MORE, SHARD, TTL],
    run: Run::Later(|call| Box::pin(answer(call))),
    ..COUNTING
};

async fn answer(call: Call<'_>) -> Result<(), Why> {
    let service = &call.session.shared.service;
    let mut which = HeldCommand::read(&call, (0, 2), service)?;
    let ttl = which.options.ttl("TTL")?;
    let is_named = which.held.hold.id.is_of_any_kind();
    let holding = service.renew(&mut which.held.hold, ttl).await.map_err(refused)?;
    call.replies.fields(&renewed(holding, is_named));
    Ok(())
}
