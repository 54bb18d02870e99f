//! A command: its entry in the table, and the function that answers it.

use core::future::Future;
use core::pin::Pin;

use super::arguments::Argument;
use super::auth::Role;
use super::codec::{MAX_WORDS, Words};
use super::reply::Replies;
use super::session::Session;
use super::throttle::Dialect;
use super::why::Why;

/// All commands, those of many calls first.
#[derive(Debug)]
pub(super) struct Table(pub(super) &'static [&'static Command]);

/// A command, or a subcommand as `client|id`.
#[derive(Debug)]
pub(super) struct Command {
    /// In lower case.
    pub(super) name: &'static str,
    /// The fewest and the most words, with the name.
    pub(super) words: (usize, usize),
    pub(super) flags: &'static [&'static str],
    pub(super) group: &'static str,
    pub(super) summary: &'static str,
    pub(super) arguments: &'static [Argument],
    /// Whether the first word after the name is a key, or the subject in its place.
    pub(super) has_key: bool,
    /// Whether the second word says what it does.
    pub(super) has_subcommands: bool,
    pub(super) after_multi: AfterMulti,
    pub(super) run: Run,
}

/// The treatment of a command after `MULTI`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AfterMulti {
    /// It waits for `EXEC`.
    Waits,
    /// It runs the commands that wait.
    Executes,
    /// It is answered immediately.
    IsAnswered,
    /// It is answered immediately, and nothing of the transaction runs.
    Spoils,
    /// It is answered immediately, without the transaction, which belongs to the former user.
    Ends,
}

/// The function that answers a command.
pub(super) enum Run {
    /// The limit whose numbers are in the call. The fast path knows these commands.
    Throttle(Dialect),
    /// A function that waits for nothing.
    Now(fn(Call<'_>)),
    /// A function that asks the service, or slows guesses.
    Later(for<'c> fn(Call<'c>) -> Answering<'c>),
}

/// An answer that is waited for.
pub(super) type Answering<'c> = Pin<Box<dyn Future<Output = Result<(), Why>> + Send + 'c>>;

impl core::fmt::Debug for Run {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Run")
    }
}

/// A call of a command: its words with the name, who calls, and where the answer goes.
pub(super) struct Call<'c> {
    pub(super) command: &'static Command,
    pub(super) words: &'c Words<'c>,
    pub(super) session: &'c mut Session,
    pub(super) replies: &'c mut Replies,
    /// The table, for commands about commands.
    pub(super) table: &'static Table,
}

impl<'c> Call<'c> {
    /// The word at this place; the name is at 0. Empty past the last word.
    pub(super) fn word(&self, place: usize) -> &'c [u8] {
        self.words.get(place).copied().unwrap_or_default()
    }

    /// The words from this place.
    pub(super) fn words_from(&self, place: usize) -> &'c [&'c [u8]] {
        self.words.get(place..).unwrap_or_default()
    }
}

/// The group of the commands about counts.
const COUNTING_GROUP: &str = "rate-limit";

/// The number of words of a command that takes any.
pub(super) const MANY: usize = MAX_WORDS;

/// A command that counts.
pub(super) const COUNTING: Command = Command {
    name: "",
    words: (2, MANY),
    flags: &["write", "fast"],
    group: COUNTING_GROUP,
    summary: "",
    arguments: &[],
    has_key: false,
    has_subcommands: false,
    after_multi: AfterMulti::Waits,
    run: Run::Now(|_| {}),
};

/// A short command that any client of Redis may send.
pub(super) const FAST: Command =
    Command { flags: &["fast", "loading", "stale"], group: "connection", ..COUNTING };

/// A command that a client may send before its password.
pub(super) const OPEN: Command =
    Command { flags: &["fast", "loading", "stale", "no_auth"], ..FAST };

/// A command about the server or the connection.
pub(super) const ABOUT: Command =
    Command { flags: &["loading", "stale"], group: "server", ..COUNTING };

impl Command {
    /// The number of words as Redis says it: negative for "at least".
    pub(super) fn arity(&self) -> i64 {
        let (least, most) = self.words;
        let is_exact = least == most;
        let least = i64::try_from(least).unwrap_or(i64::MAX);
        if is_exact { least } else { -least }
    }

    /// Whether a client may send it before its password.
    pub(super) fn is_open(&self) -> bool {
        self.flags.contains(&"no_auth")
    }

    /// Whether it is about counts. Others are not traced: clients send them by themselves.
    pub(super) fn counts(&self) -> bool {
        self.group == COUNTING_GROUP
    }

    /// The role that a user needs for it.
    pub(super) fn role(&self) -> Role {
        if self.flags.contains(&"admin") { Role::Administer } else { Role::Ask }
    }

    /// The container of a subcommand.
    pub(super) fn container(&self) -> Option<&'static str> {
        self.name.split_once('|').map(|(container, _)| container)
    }
}
