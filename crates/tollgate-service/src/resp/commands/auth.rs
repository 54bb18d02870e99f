//! `AUTH`: the user and the password.

use crate::resp::arguments::{argument, optional};
use crate::resp::auth::DEFAULT_USER;
use crate::resp::command::{AfterMulti, Call, Command, OPEN, Run};
use crate::resp::why::Why;

pub(super) const COMMAND: Command = Command {
    name: "auth",
    words: (2, 3),
    summary: "Says the user and the password.",
    arguments: &[optional("username", "string"), argument("password", "string")],
    after_multi: AfterMulti::Ends,
    run: Run::Later(|call| Box::pin(answer(call))),
    ..OPEN
};

async fn answer(call: Call<'_>) -> Result<(), Why> {
    let session = call.session;
    let (user, password) = match call.words.get(1..) {
        Some([_]) if session.shared.users.anybody().is_some() => {
            return Err(
                "AUTH <password> called without any password configured for the default user. Are \
                 you sure your configuration is correct?"
                    .into(),
            );
        }
        Some([password]) => (DEFAULT_USER.as_bytes(), *password),
        Some([user, password]) => (*user, *password),
        _ => return Err("syntax error".into()),
    };
    session.login(user, password).await?;
    call.replies.status("OK");
    Ok(())
}
