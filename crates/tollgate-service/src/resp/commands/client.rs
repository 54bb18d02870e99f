//! `CLIENT`: a client's information about itself.

use super::help::{container, help};
use crate::resp::arguments::argument;
use crate::resp::command::{ABOUT, Call, Command, Run};
use crate::resp::session::{bad_name, is_plain};
use crate::resp::table::shown;

/// A subcommand without further words.
const OF_CLIENT: Command = Command { words: (2, 2), group: "connection", ..ABOUT };

pub(super) const CLIENT: Command =
    container("client", "connection", "Contains the commands about this connection.");

pub(super) const GET_NAME: Command = Command {
    name: "client|getname",
    summary: "Answers the name of the connection.",
    run: Run::Now(|call| match call.session.name.is_empty() {
        true => call.replies.null(),
        false => call.replies.text(&call.session.name),
    }),
    ..OF_CLIENT
};

pub(super) const HELP: Command = help("client|help", "connection");

pub(super) const ID: Command = Command {
    name: "client|id",
    summary: "Answers the number of the connection.",
    run: Run::Now(|call| call.replies.integer(call.session.id)),
    ..OF_CLIENT
};

pub(super) const SET_INFO: Command = Command {
    name: "client|setinfo",
    words: (4, 4),
    summary: "Says the library of the client: LIB-NAME or LIB-VER.",
    arguments: &[argument("attr", "string"), argument("value", "string")],
    run: Run::Now(set_info),
    ..OF_CLIENT
};

pub(super) const SET_NAME: Command = Command {
    name: "client|setname",
    words: (3, 3),
    summary: "Names the connection.",
    arguments: &[argument("connection-name", "string")],
    run: Run::Now(|call| match call.session.rename(call.word(2)) {
        Ok(()) => call.replies.status("OK"),
        Err(why) => call.replies.error(why),
    }),
    ..OF_CLIENT
};

/// Takes what a client says of its library. Nothing asks for it, so nothing is kept.
fn set_info(call: Call<'_>) {
    let (what, value) = (call.word(2), call.word(3));
    let known = [&b"lib-name"[..], b"lib-ver"];
    match known.into_iter().find(|known| known.eq_ignore_ascii_case(what)) {
        None => call.replies.error(format_args!("ERR Unrecognized option '{}'", shown(what))),
        Some(known) if !is_plain(value) => call.replies.error(bad_name(&shown(known))),
        Some(_) => call.replies.status("OK"),
    }
}
