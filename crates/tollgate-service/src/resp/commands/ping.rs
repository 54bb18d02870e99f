//! `PING` and `ECHO`: is anybody there?

use crate::resp::arguments::{argument, optional};
use crate::resp::command::{Command, FAST, Run};

pub(super) const PING: Command = Command {
    name: "ping",
    words: (1, 2),
    summary: "Answers PONG, or the message.",
    arguments: &[optional("message", "string")],
    run: Run::Now(|call| match call.words.len() {
        1 => call.replies.status("PONG"),
        _ => call.replies.text(call.word(1)),
    }),
    ..FAST
};

pub(super) const ECHO: Command = Command {
    name: "echo",
    words: (2, 2),
    summary: "Answers the message.",
    arguments: &[argument("message", "string")],
    run: Run::Now(|call| call.replies.text(call.word(1))),
    ..FAST
};
