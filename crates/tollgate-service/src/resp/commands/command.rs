//! `COMMAND`: the commands themselves.

use super::help::help;
use crate::resp::arguments::{Argument, several};
use crate::resp::command::{ABOUT, Call, Command, MANY, Run, Table};
use crate::resp::reply::Replies;

/// The version of this program in which all commands of the table appeared.
const SINCE: &str = "0.1.0";

pub(super) const COMMAND: Command = Command {
    name: "command",
    words: (1, MANY),
    summary: "Answers all commands.",
    has_subcommands: true,
    run: Run::Now(all),
    ..ABOUT
};

pub(super) const COUNT: Command = Command {
    name: "command|count",
    words: (2, 2),
    summary: "Answers the number of commands.",
    run: Run::Now(|call| {
        call.replies.integer(i64::try_from(call.table.top().count()).unwrap_or(i64::MAX));
    }),
    ..ABOUT
};

pub(super) const DOCS: Command = Command {
    name: "command|docs",
    summary: "Documents all commands, or those that are named.",
    arguments: &[several("command-name", "string")],
    run: Run::Now(docs),
    ..ABOUT
};

pub(super) const HELP: Command = help("command|help", "server");

pub(super) const INFO: Command = Command {
    name: "command|info",
    summary: "Answers these commands.",
    arguments: &[several("command-name", "string")],
    run: Run::Now(info),
    ..ABOUT
};

pub(super) const LIST: Command = Command {
    name: "command|list",
    words: (2, 2),
    summary: "Answers the names of all commands.",
    run: Run::Now(|call| {
        call.replies.array(call.table.top().count());
        for command in call.table.top() {
            call.replies.text(command.name);
        }
    }),
    ..ABOUT
};

fn all(call: Call<'_>) {
    call.replies.array(call.table.top().count());
    for command in call.table.top() {
        describe(command, call.table, call.replies);
    }
}

fn info(call: Call<'_>) {
    let names = call.words_from(2);
    if names.is_empty() {
        return all(call);
    }
    call.replies.array(names.len());
    for name in names {
        match call.table.named(name) {
            Some(command) => describe(command, call.table, call.replies),
            None => call.replies.null(),
        }
    }
}

fn docs(call: Call<'_>) {
    let found: Vec<&Command> = match call.words_from(2) {
        [] => call.table.top().collect(),
        names => names.iter().filter_map(|name| call.table.named(name)).collect(),
    };
    call.replies.map(found.len());
    for command in found {
        document(command, call.table, call.replies);
    }
}

/// A command as `COMMAND` tells it.
fn describe(command: &Command, table: &Table, replies: &mut Replies) {
    let key = i64::from(command.has_key);
    replies.array(10);
    replies.text(command.name);
    replies.integer(command.arity());
    replies.set(command.flags.len());
    for flag in command.flags {
        replies.status(flag);
    }
    for number in [key, key, key] {
        replies.integer(number);
    }
    // The categories of access, the tips and the key specifications.
    replies.set(0);
    replies.array(0);
    replies.array(0);
    replies.array(table.subcommands(command.name).count());
    for command in table.subcommands(command.name) {
        describe(command, table, replies);
    }
}

/// A command as `COMMAND DOCS` tells it, with its name before.
fn document(command: &Command, table: &Table, replies: &mut Replies) {
    let subcommands = table.subcommands(command.name).count();
    replies.text(command.name);
    replies.map(3 + usize::from(!command.arguments.is_empty()) + usize::from(subcommands > 0));
    for (key, value) in [("summary", command.summary), ("since", SINCE), ("group", command.group)] {
        replies.text(key);
        replies.text(value);
    }
    if !command.arguments.is_empty() {
        arguments(command.arguments, replies);
    }
    if subcommands > 0 {
        replies.text("subcommands");
        replies.map(subcommands);
        for command in table.subcommands(command.name) {
            document(command, table, replies);
        }
    }
}

fn arguments(all: &[Argument], replies: &mut Replies) {
    replies.text("arguments");
    replies.array(all.len());
    for Argument { name, kind, token, flags, arguments: within } in all {
        let more = [token.is_some(), !flags.is_empty(), !within.is_empty()];
        replies.map(2 + more.into_iter().filter(|is_there| *is_there).count());
        for (key, value) in [("name", Some(*name)), ("type", Some(*kind)), ("token", *token)] {
            if let Some(value) = value {
                replies.text(key);
                replies.text(value);
            }
        }
        if !flags.is_empty() {
            replies.text("flags");
            replies.set(flags.len());
            for flag in *flags {
                replies.status(flag);
            }
        }
        if !within.is_empty() {
            arguments(within, replies);
        }
    }
}
