//! `TOLLGATE.COMMIT`: ends a hold, and charges what was used.

use tollgate::wire::Committed;

use crate::resp::arguments::{ASKED_ON, ASKED_POLICY, HOLD, MORE, SHARD, argument};
use crate::resp::command::{COUNTING, Call, Command, MANY, Run};
use crate::resp::held::HeldCommand;
use crate::resp::question::used_of;
use crate::resp::why::{Why, refused};

pub(super) const COMMAND: Command = Command {
    name: "tollgate.commit",
    words: (3, MANY),
    summary: "Ends a hold, and charges the used units.",
    arguments: &[HOLD, argument("units", "string"), ASKED_ON, ASKED_POLICY, MORE, SHARD],
    run: Run::Later(|call| Box::pin(answer(call))),
    ..COUNTING
};

async fn answer(call: Call<'_>) -> Result<(), Why> {
    let service = &call.session.shared.service;
    let which = HeldCommand::read(&call, (1, 0), service)?;
    let units = used_of(which.word())?;
    let settled = service.commit(&which.held, units).await.map_err(refused)?;
    call.replies.fields(&Committed::new(&which.held.hold, &settled));
    Ok(())
}
