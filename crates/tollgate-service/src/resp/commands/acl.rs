//! `ACL WHOAMI`: the user of the connection.

use super::help::{container, help};
use crate::resp::command::{ABOUT, Command, Run};

pub(super) const ACL: Command = container("acl", "server", "Contains the command about the user.");

pub(super) const HELP: Command = help("acl|help", "server");

pub(super) const WHO_AM_I: Command = Command {
    name: "acl|whoami",
    words: (2, 2),
    summary: "Answers the user of the connection.",
    run: Run::Now(|call| {
        let user = call.session.user.as_ref();
        call.replies.text(user.map_or("", |user| &user.name));
    }),
    ..ABOUT
};
