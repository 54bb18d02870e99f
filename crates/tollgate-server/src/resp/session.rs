//! One client's state, and the answers to its commands.

use std::net::IpAddr;
use std::sync::Arc;

use super::ask;
use super::codec::{Bounds, Words};
use super::commands::{self, What};
use super::connection::Shared;
use super::reply::{Replies, Version};
use super::throttle::{self, LastLimit};

/// The answer to whoever must say the password first.
const NO_AUTH: &str = "NOAUTH Authentication required.";

/// The state of a client.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) peer: IpAddr,
    pub(super) id: i64,
    pub(super) name: Vec<u8>,
    /// Whether the client said the password, or needs none.
    pub(super) may_ask: bool,
    pub(super) last: LastLimit,
}

/// Whether a connection goes on after an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    More,
    Close,
}

impl Session {
    pub(super) fn new(shared: Arc<Shared>, peer: IpAddr) -> Self {
        let (id, may_ask) = (shared.next_id(), !shared.password.is_needed());
        let last = LastLimit::default();
        Self { shared, peer, id, name: Vec::new(), may_ask, last }
    }

    /// What the next command may be at most.
    pub(super) fn bounds(&self) -> &'static Bounds {
        if self.may_ask { &Bounds::USUAL } else { &Bounds::STRANGER }
    }

    /// Answers a command of at least one word.
    pub(super) async fn answer(&mut self, words: &Words<'_>, replies: &mut Replies) -> Next {
        let begin = replies.bytes.len();
        let (place, next) = match commands::find(words) {
            Err(unknown) => {
                replies.error(unknown);
                (None, Next::More)
            }
            Ok((place, command)) if !self.may_ask && !command.is_open() => {
                replies.error(NO_AUTH);
                (Some(place), Next::More)
            }
            Ok((place, command)) => (Some(place), self.run(command.what, words, replies).await),
        };
        let is_error = replies.bytes.get(begin) == Some(&b'-');
        self.shared.api.metrics.commands().add(place, is_error, 1);
        next
    }

    async fn run(&mut self, what: What, words: &Words<'_>, replies: &mut Replies) -> Next {
        let word = |place: usize| words.get(place).copied().unwrap_or_default();
        match what {
            What::Throttle(dialect) => {
                let service = &self.shared.api.service;
                throttle::answer(dialect, words, service, &mut self.last, replies).await;
            }
            What::Ask(asked) => {
                ask::answer(asked, words, &self.shared.api.service, replies).await;
            }
            What::Ping if words.len() == 1 => replies.status("PONG"),
            What::Ping | What::Echo => replies.text(word(1)),
            What::Hello => self.hello(words, replies),
            What::Auth => self.auth(words, replies),
            What::Quit => {
                replies.status("OK");
                return Next::Close;
            }
            What::Reset => {
                self.name.clear();
                self.may_ask = !self.shared.password.is_needed();
                replies.version = Version::Two;
                replies.status("RESET");
            }
            What::Select => Self::select(word(1), replies),
            What::Info => self.info(words, replies),
            // A container has subcommands, of which one was found.
            What::Container | What::Help => Self::help(word(0), replies),
            What::ClientGetName if self.name.is_empty() => replies.null(),
            What::ClientGetName => replies.text(&self.name),
            What::ClientId => replies.integer(self.id),
            What::ClientSetInfo => Self::set_info(word(2), word(3), replies),
            What::ClientSetName => self.set_name(word(2), replies),
            What::Command => Self::all_commands(replies),
            What::CommandCount => Self::count(replies),
            What::CommandDocs => Self::docs(words, replies),
            What::CommandInfo => Self::command_info(words, replies),
            What::CommandList => Self::command_list(replies),
            What::ConfigGet => Self::config(words, replies),
        }
        Next::More
    }
}
