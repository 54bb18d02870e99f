//! `HELLO`: the version of the protocol, and who the client is.

use crate::resp::arguments::{Argument, LOGIN, after, argument};
use crate::resp::codec::whole_number;
use crate::resp::command::{AfterMulti, Call, Command, OPEN, Run};
use crate::resp::reply::Version;
use crate::resp::table::shown;
use crate::resp::why::Why;

/// The version of Redis whose commands for clients these are.
pub(super) const REDIS_VERSION: &str = "7.2.0";

pub(super) const COMMAND: Command = Command {
    name: "hello",
    words: (1, 7),
    summary: "Says the version of the protocol, the user, the password and the client's name.",
    arguments: &[Argument {
        name: "arguments",
        kind: "block",
        token: None,
        flags: &["optional"],
        arguments: &[
            argument("protover", "integer"),
            Argument {
                name: "auth",
                kind: "block",
                token: Some("AUTH"),
                flags: &["optional"],
                arguments: LOGIN,
            },
            after("SETNAME", "clientname", "string"),
        ],
    }],
    after_multi: AfterMulti::Ends,
    run: Run::Later(|call| Box::pin(answer(call))),
    ..OPEN
};

async fn answer(call: Call<'_>) -> Result<(), Why> {
    let mut rest = call.words_from(1);
    let Call { session, replies, .. } = call;
    let mut version = replies.version;
    if let [number, after @ ..] = rest {
        version = match whole_number(number) {
            Some(2) => Version::Two,
            Some(3) => Version::Three,
            Some(_) => return Err(Why::new("NOPROTO", "unsupported protocol version")),
            None => {
                return Err("Protocol version is not an integer or out of range".into());
            }
        };
        rest = after;
    }
    let (mut login, mut name) = (None, None);
    while let [option, after @ ..] = rest {
        if option.eq_ignore_ascii_case(b"AUTH")
            && let [user, password, after @ ..] = after
        {
            (login, rest) = (Some((*user, *password)), after);
        } else if option.eq_ignore_ascii_case(b"SETNAME")
            && let [said, after @ ..] = after
        {
            (name, rest) = (Some(*said), after);
        } else {
            let option = shown(option);
            return Err(format!("Syntax error in HELLO option '{option}'").into());
        }
    }
    if let Some((user, password)) = login {
        session.login(user, password).await?;
    }
    if session.user.is_none() {
        return Err(Why::new(
            "NOAUTH",
            "HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client \
             and select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        session.rename(name)?;
    }
    replies.version = version;
    replies.map(7);
    for (key, value) in [("server", "tollgate"), ("version", REDIS_VERSION)] {
        replies.text(key);
        replies.text(value);
    }
    for (key, value) in [("proto", version.number()), ("id", session.id)] {
        replies.text(key);
        replies.integer(value);
    }
    for (key, value) in [("mode", "standalone"), ("role", "master")] {
        replies.text(key);
        replies.text(value);
    }
    replies.text("modules");
    replies.array(0);
    Ok(())
}
