//! `TOLLGATE.CANCEL`: ends a hold without charging anything.

use tollgate::wire::Committed;

use crate::resp::arguments::{ASKED_ON, ASKED_POLICY, HOLD, MORE, SHARD};
use crate::resp::command::{COUNTING, Call, Command, MANY, Run};
use crate::resp::held::HeldCommand;
use crate::resp::why::{Why, refused};

pub(super) const COMMAND: Command = Command {
    name: "tollgate.cancel",
    words: (2, MANY),
    summary: "Ends an unused hold, like TOLLGATE.COMMIT with 0.",
    arguments: &[HOLD, ASKED_ON, ASKED_POLICY, MORE, SHARD],
    run: Run::Later(|call| Box::pin(answer(call))),
    ..COUNTING
};

async fn answer(call: Call<'_>) -> Result<(), Why> {
    let service = &call.session.shared.service;
    let which = HeldCommand::read(&call, (0, 0), service)?;
    let settled = service.commit(&which.held, 0).await.map_err(refused)?;
    call.replies.fields(&Committed::new(&which.held.hold, &settled));
    Ok(())
}
