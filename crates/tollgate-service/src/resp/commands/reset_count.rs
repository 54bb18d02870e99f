//! `TOLLGATE.RESET`: an administrator deletes a count.

use tollgate::{LimitSet, Subject};

use crate::resp::arguments::{LIMITS, SHARD, SUBJECT};
use crate::resp::command::{COUNTING, Call, Command, MANY, Run};
use crate::resp::question::Asked;
use crate::resp::session::Session;
use crate::resp::why::{Why, refused};
use crate::service::{Refusal, ask};

pub(super) const COMMAND: Command = Command {
    name: "tollgate.reset",
    words: (3, MANY),
    summary: "Deletes a count, and answers whether there was one.",
    arguments: &[SUBJECT, LIMITS, SHARD],
    flags: &["write", "admin"],
    has_key: true,
    run: Run::Later(|call| Box::pin(answer(call))),
    ..COUNTING
};

/// Each act of an administrator is logged, also when it fails.
async fn answer(call: Call<'_>) -> Result<(), Why> {
    let Session { shared, user, peer, .. } = &*call.session;
    let (service, user) = (&shared.service, user.as_ref().map_or("", |user| &user.name));
    let asked = Asked::under_limits(COMMAND.arguments, call.words)?;
    let parts = asked.parts(service)?;
    let written = |(subject, _): &(Subject, LimitSet)| shared.metrics.written(subject);
    let subjects: Vec<_> = parts.iter().filter_map(written).collect();
    let subjects = (!subjects.is_empty()).then(|| subjects.join(" "));
    let question = ask(&parts, asked.options.get("SHARD")).map_err(refused)?;
    match service.gate.admin().reset(question).await {
        Ok(was_there) => {
            tracing::info!(
                target: "tollgate", act = "reset", user, %peer, subjects,
                "admin request over RESP"
            );
            call.replies.integer(i64::from(was_there));
            Ok(())
        }
        Err(error) => {
            tracing::warn!(
                target: "tollgate", act = "reset", user, %peer, subjects,
                "an administrator was refused over RESP"
            );
            Err(refused(Refusal::from(error)))
        }
    }
}
