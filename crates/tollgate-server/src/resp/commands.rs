//! The one table of commands. Their dispatch, `COMMAND`, `COMMAND DOCS` and the errors about
//! unknown commands and wrong numbers of words come from it.

use core::fmt;

use super::arguments::{
    ACQUIRE, Argument, CELL, CHARGE, CHECK, COMMIT, GCRA, HELLO, INFO_OF_A_CLIENT, PEEK, RENEW,
    REQUEST, RESERVE, RESET_COUNT, SETTLE, argument, optional, several,
};
use super::ask::Asked;
use super::auth::Role;
use super::codec::Words;
use super::settle::Settle;
use super::throttle::{CELL_ERROR, Dialect};
use crate::metrics::FrontFamily;

/// The version of this program in which all commands of the table appeared.
pub(super) const SINCE: &str = "0.1.0";

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
    pub(super) what: What,
}

/// What a command does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    Throttle(Dialect),
    Ask(Asked),
    Settle(Settle),
    Refund,
    ResetCount,
    Ping,
    Echo,
    Hello,
    Auth,
    Quit,
    Reset,
    Select,
    Info,
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
    /// A container without a meaning of its own.
    Container,
    /// The subcommands of a container.
    Help,
    AclWhoAmI,
    ClientGetName,
    ClientId,
    ClientSetInfo,
    ClientSetName,
    Command,
    CommandCount,
    CommandDocs,
    CommandInfo,
    CommandList,
    ConfigGet,
}

/// The group of the commands about counts.
const COUNTING: &str = "rate-limit";

const MANY: usize = super::codec::MAX_WORDS;

/// A command that counts; its key is the first word after it.
const COUNTS: &[&str] = &["write", "fast"];
/// A command that looks at a count.
const LOOKS: &[&str] = &["readonly", "fast"];
/// A command of administrators.
const ADMIN: &[&str] = &["write", "admin"];
const FAST: &[&str] = &["fast", "loading", "stale"];
/// A command that a client may send before its password.
const OPEN: &[&str] = &["fast", "loading", "stale", "no_auth"];
const ABOUT: &[&str] = &["loading", "stale"];

macro_rules! table {
    ($($name:literal, $words:expr, $flags:ident, $group:expr, $what:expr, $arguments:expr,
       $summary:literal;)*) => {
        &[$(Command {
            name: $name,
            words: $words,
            flags: $flags,
            group: $group,
            summary: $summary,
            arguments: $arguments,
            what: $what,
        },)*]
    };
}

/// All commands, those of many calls first.
pub(super) const ALL: &[Command] = table! {
    "cl.throttle", (5, 6), COUNTS, COUNTING, What::Throttle(Dialect::Cell), CELL,
        "Counts under a limit with these numbers, as redis-cell does.";
    "throttle", (5, 6), COUNTS, COUNTING, What::Throttle(Dialect::Crab), CELL,
        "Counts under a limit with these numbers, as throttlecrab does.";
    "gcra", (5, 7), COUNTS, COUNTING, What::Throttle(Dialect::Gcra), GCRA,
        "Counts under a limit with these numbers, as GCRA of Redis does.";
    "rl.throttle", (5, 6), COUNTS, COUNTING, What::Throttle(Dialect::Valkey), CELL,
        "Counts under a limit with these numbers, as RL.THROTTLE for Valkey does.";
    "tollgate.check", (3, MANY), COUNTS, COUNTING, What::Ask(Asked::Check), CHECK,
        "Counts a subject under limits, and answers all that HTTP does.";
    "tollgate.peek", (3, MANY), LOOKS, COUNTING, What::Ask(Asked::Peek), PEEK,
        "Answers what TOLLGATE.CHECK would, and counts nothing.";
    "tollgate.charge", (3, MANY), COUNTS, COUNTING, What::Ask(Asked::Charge), CHARGE,
        "Charges a cost that became known afterwards, without a check.";
    "tollgate.request", (2, MANY), COUNTS, COUNTING, What::Ask(Asked::Request), REQUEST,
        "Counts a request by the policy of this name, or by all that match (*).";
    "tollgate.reserve", (5, MANY), COUNTS, COUNTING, What::Ask(Asked::Reserve), RESERVE,
        "Sets units aside, as many as may be used, until they are committed.";
    "tollgate.commit", (3, MANY), COUNTS, COUNTING, What::Settle(Settle::Commit), COMMIT,
        "Ends a hold, and charges what was used.";
    "tollgate.cancel", (2, MANY), COUNTS, COUNTING, What::Settle(Settle::Cancel), SETTLE,
        "Ends a hold, of which nothing was used, as TOLLGATE.COMMIT with 0.";
    "tollgate.acquire", (3, MANY), COUNTS, COUNTING, What::Ask(Asked::Acquire), ACQUIRE,
        "Takes a slot of a limit that says how many at once.";
    "tollgate.renew", (2, MANY), COUNTS, COUNTING, What::Settle(Settle::Renew), RENEW,
        "Renews a hold, which then ends later.";
    "tollgate.release", (2, MANY), COUNTS, COUNTING, What::Settle(Settle::Release), SETTLE,
        "Gives back what a hold keeps.";
    "tollgate.refund", (2, 3), COUNTS, COUNTING, What::Refund,
        &[argument("receipt", "string"), optional("units", "integer")],
        "Gives back the charge of a receipt, or some units of it.";
    "tollgate.reset", (3, MANY), ADMIN, COUNTING, What::ResetCount, RESET_COUNT,
        "Deletes a count, and answers whether there was one.";
    "ping", (1, 2), FAST, "connection", What::Ping, &[optional("message", "string")],
        "Answers PONG, or the message.";
    "echo", (2, 2), FAST, "connection", What::Echo, &[argument("message", "string")],
        "Answers the message.";
    "hello", (1, 7), OPEN, "connection", What::Hello, HELLO,
        "Says the version of the protocol, the user, the password and the client's name.";
    "auth", (2, 3), OPEN, "connection", What::Auth,
        &[optional("username", "string"), argument("password", "string")],
        "Says the user and the password.";
    "quit", (1, MANY), OPEN, "connection", What::Quit, &[],
        "Closes the connection.";
    "reset", (1, 1), OPEN, "connection", What::Reset, &[],
        "Makes the connection as it was when it was opened.";
    "select", (2, 2), FAST, "connection", What::Select, &[argument("index", "integer")],
        "Takes 0, since there is one database.";
    "multi", (1, 1), FAST, "transactions", What::Multi, &[],
        "Begins a transaction: the commands that follow are queued.";
    "exec", (1, 1), FAST, "transactions", What::Exec, &[],
        "Runs the queued commands in order, as a pipeline.";
    "discard", (1, 1), FAST, "transactions", What::Discard, &[],
        "Ends a transaction, and runs none of its commands.";
    "watch", (2, MANY), FAST, "transactions", What::Watch, &[several("key", "key")],
        "Answers an error: no command reads a key for others to change.";
    "unwatch", (1, 1), FAST, "transactions", What::Unwatch, &[],
        "Answers OK, since nothing is watched.";
    "info", (1, MANY), ABOUT, "server", What::Info, &[several("section", "string")],
        "Says what the server is.";
    "acl", (2, MANY), ABOUT, "server", What::Container, &[],
        "Contains the command about the user.";
    "acl|help", (2, 2), ABOUT, "server", What::Help, &[],
        "Lists these subcommands.";
    "acl|whoami", (2, 2), ABOUT, "server", What::AclWhoAmI, &[],
        "Answers the user of the connection.";
    "client", (2, MANY), ABOUT, "connection", What::Container, &[],
        "Contains the commands about this connection.";
    "client|getname", (2, 2), ABOUT, "connection", What::ClientGetName, &[],
        "Answers the name of the connection.";
    "client|help", (2, 2), ABOUT, "connection", What::Help, &[],
        "Lists these subcommands.";
    "client|id", (2, 2), ABOUT, "connection", What::ClientId, &[],
        "Answers the number of the connection.";
    "client|setinfo", (4, 4), ABOUT, "connection", What::ClientSetInfo, INFO_OF_A_CLIENT,
        "Says the library of the client: LIB-NAME or LIB-VER.";
    "client|setname", (3, 3), ABOUT, "connection", What::ClientSetName,
        &[argument("connection-name", "string")],
        "Names the connection.";
    "command", (1, MANY), ABOUT, "server", What::Command, &[],
        "Answers all commands.";
    "command|count", (2, 2), ABOUT, "server", What::CommandCount, &[],
        "Answers the number of commands.";
    "command|docs", (2, MANY), ABOUT, "server", What::CommandDocs,
        &[several("command-name", "string")],
        "Documents all commands, or those that are named.";
    "command|help", (2, 2), ABOUT, "server", What::Help, &[],
        "Lists these subcommands.";
    "command|info", (2, MANY), ABOUT, "server", What::CommandInfo,
        &[several("command-name", "string")],
        "Answers these commands.";
    "command|list", (2, 2), ABOUT, "server", What::CommandList, &[],
        "Answers the names of all commands.";
    "config", (2, MANY), ABOUT, "server", What::Container, &[],
        "Contains the command about settings.";
    "config|get", (3, MANY), ABOUT, "server", What::ConfigGet, &[several("parameter", "string")],
        "Answers what redis-benchmark asks: `save` and `appendonly`.";
    "config|help", (2, 2), ABOUT, "server", What::Help, &[],
        "Lists these subcommands.";
};

/// Commands, by name and by result.
pub(super) fn counted() -> FrontFamily {
    FrontFamily {
        name: "tollgate_resp_commands",
        help: "Answered commands of the Redis protocol, by command and result.",
        labels: ["command", "result"],
        asked: ALL.iter().map(|command| command.name).collect(),
        ended: &["answer", "error"],
        is_always_there: false,
    }
}

impl Command {
    /// The number of words as Redis says it: negative for "at least".
    pub(super) fn arity(&self) -> i64 {
        let (least, most) = self.words;
        let least = i64::try_from(least).unwrap_or(i64::MAX);
        if self.words.0 == most { least } else { -least }
    }

    /// The place of the key; 0 without one.
    pub(super) fn key(&self) -> i64 {
        let has_key = match self.what {
            What::Throttle(_) => true,
            What::Ask(asked) => asked != Asked::Request,
            What::ResetCount => true,
            _ => false,
        };
        i64::from(has_key)
    }

    /// Whether a client may send it before its password.
    pub(super) fn is_open(&self) -> bool {
        self.flags.contains(&"no_auth")
    }

    /// Whether it waits for `EXEC` after `MULTI`. Those that end a transaction do not.
    pub(super) fn is_queued(&self) -> bool {
        !matches!(
            self.what,
            What::Multi
                | What::Exec
                | What::Discard
                | What::Watch
                | What::Hello
                | What::Auth
                | What::Reset
                | What::Quit
        )
    }

    /// Whether it is about counts. Others are not traced: clients send them by themselves.
    pub(super) fn counts(&self) -> bool {
        self.group == COUNTING
    }

    /// The role that a user needs for it.
    pub(super) fn role(&self) -> Role {
        if self.flags.contains(&"admin") { Role::Administer } else { Role::Ask }
    }

    /// Whether the second word says what it does.
    fn has_subcommands(&self) -> bool {
        matches!(self.what, What::Container | What::Command)
    }

    /// The container of a subcommand.
    fn container(&self) -> Option<&'static str> {
        self.name.split_once('|').map(|(container, _)| container)
    }

    /// The subcommands of a container.
    pub(super) fn subcommands(&self) -> impl Iterator<Item = &'static Self> {
        ALL.iter().filter(|command| command.container() == Some(self.name))
    }
}

/// The place of the command that does this, where only one does.
pub(super) fn place_of(what: What) -> Option<usize> {
    ALL.iter().position(|command| command.what == what)
}

/// All commands that are not subcommands.
pub(super) fn top() -> impl Iterator<Item = &'static Command> {
    ALL.iter().filter(|command| command.container().is_none())
}

/// The command of this name, with its place in the table.
fn by_name(name: &[u8]) -> Option<(usize, &'static Command)> {
    let is_it = |command: &Command| command.name.as_bytes().eq_ignore_ascii_case(name);
    ALL.iter().enumerate().find(|(_, command)| is_it(command) && command.container().is_none())
}

/// The command or the subcommand of this name, as `client|id`.
pub(super) fn named(name: &[u8]) -> Option<&'static Command> {
    ALL.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

/// Why there is no command for these words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Unknown<'w> {
    Command(&'w [&'w [u8]]),
    Subcommand {
        container: &'static str,
        word: &'w [u8],
    },
    /// The number of words is another.
    Words(&'static str),
}

/// The command that these words are, with its place in the table.
///
/// # Errors
/// There is no such command, or it takes fewer or more words.
pub(super) fn find<'w>(words: &'w Words<'_>) -> Result<(usize, &'static Command), Unknown<'w>> {
    let name = words.first().copied().unwrap_or_default();
    let (mut place, mut command) = by_name(name).ok_or(Unknown::Command(words))?;
    if let Some(word) = words.get(1)
        && command.has_subcommands()
    {
        let is_it = |found: &Command| {
            let name = found.name.strip_prefix(command.name).and_then(|it| it.strip_prefix('|'));
            name.is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(word))
        };
        let found = ALL.iter().enumerate().find(|(_, found)| is_it(found));
        let unknown = Unknown::Subcommand { container: command.name, word };
        (place, command) = found.ok_or(unknown)?;
    }
    let (least, most) = command.words;
    if !(least..=most).contains(&words.len()) {
        return Err(Unknown::Words(command.name));
    }
    Ok((place, command))
}

/// The most bytes of a client's words that stand in an error.
const SHOWN_BYTES: usize = 128;

impl fmt::Display for Unknown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(words) => {
                let name = words.first().copied().unwrap_or_default();
                write!(f, "ERR unknown command '{}', with args beginning with: ", shown(name))?;
                let mut left = SHOWN_BYTES;
                for argument in words.iter().skip(1) {
                    if left == 0 {
                        break;
                    }
                    let argument = argument.get(..left).unwrap_or(argument);
                    left -= argument.len().clamp(1, left);
                    write!(f, "'{}' ", shown(argument))?;
                }
                Ok(())
            }
            Self::Subcommand { container, word } => {
                let container = container.to_ascii_uppercase();
                write!(f, "ERR unknown subcommand '{}'. Try {container} HELP.", shown(word))
            }
            Self::Words("cl.throttle") => write!(
                f,
                "{CELL_ERROR}Usage: cl.throttle <key> <max_burst> <count per period> <period> \
                 [<quantity>]"
            ),
            Self::Words(name) => {
                write!(f, "ERR wrong number of arguments for '{name}' command")
            }
        }
    }
}

/// The beginning of what a client sent.
pub(super) fn shown(word: &[u8]) -> String {
    String::from_utf8_lossy(word.get(..SHOWN_BYTES).unwrap_or(word)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Result<&'static str, String> {
        let words: Words<'_> = line.split(' ').map(str::as_bytes).collect();
        find(&words)
            .map(|(place, command)| {
                assert_eq!(ALL[place].name, command.name);
                command.name
            })
            .map_err(|unknown| unknown.to_string())
    }

    #[test]
    fn containers_are_known_without_a_search() {
        for command in top() {
            let has_some = command.subcommands().next().is_some();
            assert_eq!(command.has_subcommands(), has_some, "{}", command.name);
        }
    }

    #[test]
    fn commands_are_found_whatever_their_case() {
        for (line, name) in [
            ("PING", "ping"),
            ("Cl.Throttle a 1 1 1", "cl.throttle"),
            ("client SETNAME a", "client|setname"),
            ("COMMAND", "command"),
            ("command Docs ping", "command|docs"),
        ] {
            assert_eq!(found(line).unwrap(), name);
        }
    }

    #[test]
    fn what_is_none_says_so_in_the_words_of_redis() {
        for (line, says) in [
            ("FOO a bc", "ERR unknown command 'FOO', with args beginning with: 'a' 'bc' "),
            ("client|id", "ERR unknown command 'client|id', with args beginning with: "),
            (
                "CLIENT MAINT_NOTIFICATIONS ON",
                "ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.",
            ),
            ("CLIENT", "ERR wrong number of arguments for 'client' command"),
            ("CLIENT SETNAME", "ERR wrong number of arguments for 'client|setname' command"),
            ("echo", "ERR wrong number of arguments for 'echo' command"),
            ("gcra a", "ERR wrong number of arguments for 'gcra' command"),
            (
                "cl.throttle a",
                "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> \
                 <period> [<quantity>]",
            ),
        ] {
            assert_eq!(found(line).unwrap_err(), says);
        }
        let long = format!("FOO {} {}", "a".repeat(127), "b".repeat(100));
        let said = found(&long).unwrap_err();
        assert!(said.ends_with(&format!("'{}' 'b' ", "a".repeat(127))), "{said}");
    }

    #[test]
    fn the_table_is_sound() {
        let mut names: Vec<_> = ALL.iter().map(|command| command.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        for command in ALL {
            assert!(command.words.0 <= command.words.1 && command.words.1 <= MANY);
            assert!(command.summary.ends_with('.') && command.name == command.name.to_lowercase());
            if let Some(container) = command.container() {
                assert!(named(container.as_bytes()).is_some(), "{container}");
            }
        }
    }
}
