//! Finds commands in their table, and says why a call is invalid.

use core::fmt;

use super::codec::Words;
use super::command::{Command, Table};
use super::throttle::CELL_ERROR;
use crate::metrics::FrontFamily;

impl Table {
    /// All commands that are not subcommands.
    pub(super) fn top(&self) -> impl Iterator<Item = &'static Command> {
        self.0.iter().copied().filter(|command| command.container().is_none())
    }

    /// The subcommands of a container.
    pub(super) fn subcommands(&self, name: &str) -> impl Iterator<Item = &'static Command> {
        self.0.iter().copied().filter(move |command| command.container() == Some(name))
    }

    /// The command or the subcommand of this name, such as `client|id`.
    pub(super) fn named(&self, name: &[u8]) -> Option<&'static Command> {
        let is_it = |command: &&Command| command.name.as_bytes().eq_ignore_ascii_case(name);
        self.0.iter().copied().find(is_it)
    }

    /// The command that these words are, with its place in the table.
    ///
    /// # Errors
    /// There is no such command, or it takes fewer or more words.
    pub(super) fn find<'w>(
        &self,
        words: &'w Words<'_>,
    ) -> Result<(usize, &'static Command), Unknown<'w>> {
        let name = words.first().copied().unwrap_or_default();
        let (mut place, mut command) = self.by_name(name).ok_or(Unknown::Command(words))?;
        if let Some(word) = words.get(1)
            && command.has_subcommands
        {
            let is_it = |found: &Command| {
                let name = found.name.strip_prefix(command.name);
                let name = name.and_then(|name| name.strip_prefix('|'));
                name.is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(word))
            };
            let found = self.0.iter().copied().enumerate().find(|(_, found)| is_it(found));
            let unknown = Unknown::Subcommand { container: command.name, word };
            (place, command) = found.ok_or(unknown)?;
        }
        let (least, most) = command.words;
        if !(least..=most).contains(&words.len()) {
            return Err(Unknown::Words(command.name));
        }
        Ok((place, command))
    }

    /// The command of this name, with its place in the table.
    fn by_name(&self, name: &[u8]) -> Option<(usize, &'static Command)> {
        let is_it = |command: &Command| command.name.as_bytes().eq_ignore_ascii_case(name);
        let mut all = self.0.iter().copied().enumerate();
        all.find(|(_, command)| is_it(command) && command.container().is_none())
    }

    /// Commands, by name and by result.
    pub(super) fn counted(&self) -> FrontFamily {
        FrontFamily {
            name: "tollgate_resp_commands",
            help: "Answered commands of the Redis protocol, by command and result.",
            labels: ["command", "result"],
            asked: self.0.iter().map(|command| command.name).collect(),
            ended: &["answer", "error"],
            is_always_there: false,
            // Pipelined commands share two readings of the clock, which time their decisions.
            timed: None,
        }
    }
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

/// The maximum number of bytes of a client's words in an error.
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

/// The beginning of a client's text.
pub(super) fn shown(word: &[u8]) -> String {
    String::from_utf8_lossy(word.get(..SHOWN_BYTES).unwrap_or(word)).into_owned()
}
