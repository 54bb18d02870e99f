//! `TOLLGATE.RELEASE`: gives back what a hold keeps.

use tollgate::wire::Released;

use crate::resp::arguments::{ASKED_ON, ASKED_POLICY, HOLD, MORE, SHARD};
use crate::resp::command::{COUNTING, Call, Command, MANY, Run};
use crate::resp::held::HeldCommand;
use crate::resp::why::{Why, refused};

pub(super) const COMMAND: Command = Command {
    name: "tollgate.release",
    words: (2, MANY),
    summary: "Gives back the units of a hold.",
    arguments: &[HOLD, ASKED_ON, ASKED_POLICY, MORE, SHARD],
    run: Run::Later(|call| Box::pin(answer(call))),
    ..COUNTING
};

async fn answer(call: Call<'_>) -> Result<(), Why> {
    let service = &call.session.shared.service;
    let which = HeldCommand::read(&call, (0, 0), service)?;
    service.release(&which.held).await.map_err(refused)?;
    call.replies.fields(&Released::new());
    Ok(())
}
