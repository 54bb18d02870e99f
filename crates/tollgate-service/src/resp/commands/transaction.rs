//! `MULTI` and the commands after it: they are queued, and run in order at `EXEC`.

use crate::resp::arguments::several;
use crate::resp::command::{AfterMulti, Command, FAST, MANY, Run};

/// A command of transactions.
const OF_TRANSACTIONS: Command =
    Command { words: (1, 1), group: "transactions", after_multi: AfterMulti::IsAnswered, ..FAST };

pub(super) const MULTI: Command = Command {
    name: "multi",
    summary: "Begins a transaction: the commands that follow are queued.",
    run: Run::Now(|call| {
        if call.session.transaction.is_some() {
            return call.replies.error("ERR MULTI calls can not be nested");
        }
        call.session.transaction = Some(Box::default());
        call.replies.status("OK");
    }),
    ..OF_TRANSACTIONS
};

pub(super) const EXEC: Command = Command {
    name: "exec",
    summary: "Runs the queued commands in order, as a pipeline.",
    after_multi: AfterMulti::Executes,
    // With a transaction it is run before.
    run: Run::Now(|call| call.replies.error("ERR EXEC without MULTI")),
    ..OF_TRANSACTIONS
};

pub(super) const DISCARD: Command = Command {
    name: "discard",
    summary: "Ends a transaction, and runs none of its commands.",
    run: Run::Now(|call| match call.session.transaction.take() {
        None => call.replies.error("ERR DISCARD without MULTI"),
        Some(_) => call.replies.status("OK"),
    }),
    ..OF_TRANSACTIONS
};

pub(super) const WATCH: Command = Command {
    name: "watch",
    words: (2, MANY),
    summary: "Answers an error: no command reads a key for others to change.",
    arguments: &[several("key", "key")],
    after_multi: AfterMulti::Spoils,
    run: Run::Now(|call| {
        call.replies.error(
            "ERR WATCH is not supported: no command reads a key for others to change, and each \
             check is atomic by itself",
        );
    }),
    ..OF_TRANSACTIONS
};

pub(super) const UNWATCH: Command = Command {
    name: "unwatch",
    summary: "Answers OK, since nothing is watched.",
    after_multi: AfterMulti::Waits,
    run: Run::Now(|call| call.replies.status("OK")),
    ..OF_TRANSACTIONS
};
