//! One client's state, and the answers to its commands.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use opentelemetry::context::FutureExt as _;

use super::auth::Known;
use super::codec::{Bounds, Words};
use super::commands::{self, Command, What};
use super::connection::Shared;
use super::reply::{Replies, Version};
use super::throttle::{self, LastLimit};
use super::{ask, correct, settle};
use crate::traces::Traces;

/// The answer to whoever must say the password first.
const NO_AUTH: &str = "NOAUTH Authentication required.";

/// The state of a client.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) peer: IpAddr,
    pub(super) id: i64,
    pub(super) name: Vec<u8>,
    /// Who the client is; `None` until it says its password.
    pub(super) user: Option<Known>,
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
        let (id, user) = (shared.next_id(), shared.users.anybody());
        let last = LastLimit::default();
        Self { shared, peer, id, name: Vec::new(), user, last }
    }

    /// What the next command may be at most.
    pub(super) fn bounds(&self) -> &'static Bounds {
        if self.user.is_some() { &Bounds::USUAL } else { &Bounds::STRANGER }
    }

    /// Answers a command of at least one word.
    pub(super) async fn answer(&mut self, words: &Words<'_>, replies: &mut Replies) -> Next {
        let begin = replies.bytes.len();
        let mut span = None;
        let (place, next) = match commands::find(words) {
            Err(unknown) => {
                replies.error(unknown);
                (None, Next::More)
            }
            Ok((place, command)) => match self.refusal(command) {
                Some(why) => {
                    replies.error(why);
                    (Some(place), Next::More)
                }
                None => {
                    let traces = self.shared.api.metrics.traces();
                    let traces = traces.filter(|_| command.counts());
                    span = traces.map(|traces| traces.begin_command(command.name));
                    let run = self.run(command, words, replies);
                    let next = match &span {
                        None => run.await,
                        Some(span) => run.with_context(span.clone()).await,
                    };
                    (Some(place), next)
                }
            },
        };
        let is_error = replies.bytes.get(begin) == Some(&b'-');
        self.shared.api.metrics.commands().add(place, is_error, 1);
        if let Some(span) = span {
            Traces::end_command(&span, is_error);
        }
        next
    }

    /// Why the client may not send this command.
    fn refusal(&self, command: &Command) -> Option<Cow<'static, str>> {
        match &self.user {
            _ if command.is_open() => None,
            None => Some(NO_AUTH.into()),
            Some(user) if user.role >= command.role() => None,
            Some(Known { name, .. }) => Some(Cow::Owned(format!(
                "NOPERM User {name} has no permissions to run the '{}' command",
                command.name
            ))),
        }
    }

    async fn run(&mut self, command: &Command, words: &Words<'_>, replies: &mut Replies) -> Next {
        let word = |place: usize| words.get(place).copied().unwrap_or_default();
        let api = &self.shared.api;
        let user = self.user.as_ref().map_or("", |user| &user.name);
        let mut answered = Ok(());
        match command.what {
            What::Throttle(dialect) => {
                throttle::answer(dialect, words, &api.service, &mut self.last, replies).await;
            }
            What::Ask(asked) => {
                answered = ask::answer((asked, command), words, &api.service, replies).await;
            }
            What::Settle(settle) => {
                let by = (settle, command);
                answered = settle::answer(by, words, &api.service, replies).await;
            }
            What::Refund => answered = correct::refund(words, &api.service, replies).await,
            What::ResetCount => {
                let by = (command, user, self.peer);
                answered = correct::reset(by, words, api, replies).await;
            }
            What::AclWhoAmI => replies.text(user),
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
                self.user = self.shared.users.anybody();
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
        if let Err(why) = answered {
            replies.error(why);
        }
        Next::More
    }
}
