//! `TOLLGATE.REFUND`: gives back the charge of a receipt.

use tollgate::wire::Refunded;

use crate::resp::arguments::{argument, optional};
use crate::resp::command::{COUNTING, Call, Command, Run};
use crate::resp::question::{texts, used_of};
use crate::resp::why::{Why, refused};

pub(super) const COMMAND: Command = Command {
    name: "tollgate.refund",
    words: (2, 3),
    summary: "Gives back the charge of a receipt, or some units of it.",
    arguments: &[argument("receipt", "string"), optional("units", "string")],
    run: Run::Later(|call| Box::pin(answer(call))),
    ..COUNTING
};

async fn answer(call: Call<'_>) -> Result<(), Why> {
    let service = &call.session.shared.service;
    let units = texts(call.words_from(2))?.first().map(|word| used_of(word));
    // Bytes that are not text are not a receipt either, which the service reports.
    let receipt = core::str::from_utf8(call.word(1)).unwrap_or_default();
    let refund = service.refund(receipt, units.transpose()?).await.map_err(refused)?;
    call.replies.fields(&Refunded::from(refund));
    Ok(())
}
