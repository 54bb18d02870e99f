//! `QUIT`, `RESET` and `SELECT`: the connection itself.

use crate::resp::arguments::argument;
use crate::resp::codec::whole_number;
use crate::resp::command::{AfterMulti, Command, FAST, MANY, OPEN, Run};
use crate::resp::reply::Version;
use crate::resp::session::Next;

pub(super) const QUIT: Command = Command {
    name: "quit",
    words: (1, MANY),
    summary: "Closes the connection.",
    after_multi: AfterMulti::IsAnswered,
    run: Run::Now(|call| {
        call.replies.status("OK");
        call.session.next = Next::Close;
    }),
    ..OPEN
};

pub(super) const RESET: Command = Command {
    name: "reset",
    words: (1, 1),
    summary: "Makes the connection as it was when it was opened.",
    after_multi: AfterMulti::IsAnswered,
    run: Run::Now(|call| {
        let session = call.session;
        session.name.clear();
        session.transaction = None;
        session.user = session.shared.users.anybody();
        call.replies.version = Version::Two;
        call.replies.status("RESET");
    }),
    ..OPEN
};

pub(super) const SELECT: Command = Command {
    name: "select",
    words: (2, 2),
    summary: "Takes 0, since there is one database.",
    arguments: &[argument("index", "integer")],
    run: Run::Now(|call| match whole_number(call.word(1)) {
        Some(0) => call.replies.status("OK"),
        Some(_) => call.replies.error("ERR DB index is out of range"),
        None => call.replies.error("ERR value is not an integer or out of range"),
    }),
    ..FAST
};
