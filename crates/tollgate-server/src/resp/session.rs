//! One client's state, and the answers to its commands.

use core::sync::atomic::{AtomicI64, Ordering};
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use opentelemetry::context::FutureExt as _;

use super::auth::{Known, Users};
use super::codec::{Bounds, Words};
use super::commands::{self, Command, What};
use super::reply::{Replies, Version};
use super::throttle::{self, LastLimit};
use super::transaction::Transaction;
use super::{ask, correct, settle};
use crate::listen::Registry;
use crate::metrics::{FrontCounts, Metrics};
use crate::service::Service;
use crate::traces::Traces;

/// The answer to whoever must say the password first.
const NO_AUTH: &str = "NOAUTH Authentication required.";

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) service: Arc<Service>,
    pub(super) metrics: Metrics,
    pub(super) counts: Arc<FrontCounts>,
    pub(super) users: Users,
    pub(super) started: Instant,
    /// The connections of clients, of every protocol.
    pub(super) connections: Arc<Registry>,
    last_id: AtomicI64,
}

impl Shared {
    pub(crate) fn new(
        service: Arc<Service>,
        metrics: Metrics,
        users: Users,
        connections: Arc<Registry>,
    ) -> Self {
        let counts = metrics.front(commands::counted());
        let (started, last_id) = (Instant::now(), AtomicI64::new(0));
        Self { service, metrics, counts, users, started, connections, last_id }
    }

    /// Counts as many answered commands at this place of the table; `None` for one that is not in
    /// it.
    pub(super) fn count(&self, place: Option<usize>, is_error: bool, commands: u64) {
        self.counts.add(place, usize::from(is_error), commands);
    }

    fn next_id(&self) -> i64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }
}

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
    /// What was queued since `MULTI`.
    pub(super) transaction: Option<Box<Transaction>>,
}

/// Whether a connection goes on after an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    More,
    Close,
}

/// What becomes of a command.
#[derive(Debug)]
pub(super) enum Step {
    /// It was answered.
    Answered,
    /// It is to be run.
    Run,
    /// These are to be run, each with an answer of its own.
    Execute(Vec<Vec<Box<[u8]>>>),
}

impl Session {
    pub(super) fn new(shared: Arc<Shared>, peer: IpAddr) -> Self {
        let (id, user) = (shared.next_id(), shared.users.anybody());
        let last = LastLimit::default();
        Self { shared, peer, id, name: Vec::new(), user, last, transaction: None }
    }

    /// What the next command may be at most.
    pub(super) fn bounds(&self) -> &'static Bounds {
        if self.user.is_some() { &Bounds::USUAL } else { &Bounds::STRANGER }
    }

    /// What becomes of a command: it is queued after `MULTI`, or it is to be run now.
    pub(super) fn step(&mut self, words: &Words<'_>, replies: &mut Replies) -> Step {
        let Some(transaction) = &mut self.transaction else { return Step::Run };
        let command = match commands::find(words) {
            Ok((_, command)) if Self::refusal(self.user.as_ref(), command).is_none() => command,
            _ => {
                transaction.spoil();
                return Step::Run;
            }
        };
        match command.what {
            What::Watch => transaction.spoil(),
            // Another user has another transaction.
            What::Hello | What::Auth => self.transaction = None,
            What::Exec => return self.execute(replies),
            _ if command.is_queued() => {
                match transaction.push(words) {
                    Ok(()) => replies.status("QUEUED"),
                    Err(why) => replies.error(why),
                }
                return Step::Answered;
            }
            _ => {}
        }
        Step::Run
    }

    /// Ends the transaction: its commands run one after the other, as a pipeline.
    fn execute(&mut self, replies: &mut Replies) -> Step {
        let commands = self.transaction.take().map(|all| all.into_commands());
        let commands = commands.unwrap_or_else(|| Ok(Vec::new()));
        let place = commands::place_of(What::Exec);
        self.shared.count(place, commands.is_err(), 1);
        match commands {
            Err(why) => {
                replies.error(why);
                Step::Answered
            }
            Ok(commands) => {
                replies.array(commands.len());
                Step::Execute(commands)
            }
        }
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
            Ok((place, command)) => match Self::refusal(self.user.as_ref(), command) {
                Some(why) => {
                    replies.error(why);
                    (Some(place), Next::More)
                }
                None => {
                    let traces = self.shared.metrics.traces();
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
        self.shared.count(place, is_error, 1);
        if let Some(span) = span {
            Traces::end_command(&span, is_error);
        }
        next
    }

    /// Why the client may not send this command.
    fn refusal(user: Option<&Known>, command: &Command) -> Option<Cow<'static, str>> {
        match user {
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
        let Shared { service, metrics, .. } = &*self.shared;
        let user = self.user.as_ref().map_or("", |user| &user.name);
        let mut answered = Ok(());
        match command.what {
            What::Throttle(dialect) => {
                throttle::answer(dialect, words, service, &mut self.last, replies).await;
            }
            What::Ask(asked) => {
                answered = ask::answer((asked, command), words, service, replies).await;
            }
            What::Settle(settle) => {
                let by = (settle, command);
                answered = settle::answer(by, words, service, replies).await;
            }
            What::Refund => answered = correct::refund(words, service, replies).await,
            What::ResetCount => {
                let by = (command, user, self.peer);
                answered = correct::reset(by, words, (service, metrics), replies).await;
            }
            What::AclWhoAmI => replies.text(user),
            What::Ping if words.len() == 1 => replies.status("PONG"),
            What::Ping | What::Echo => replies.text(word(1)),
            What::Hello => self.hello(words, replies).await,
            What::Auth => self.auth(words, replies).await,
            What::Quit => {
                replies.status("OK");
                return Next::Close;
            }
            What::Reset => {
                self.name.clear();
                self.transaction = None;
                self.user = self.shared.users.anybody();
                replies.version = Version::Two;
                replies.status("RESET");
            }
            What::Multi if self.transaction.is_some() => {
                replies.error("ERR MULTI calls can not be nested");
            }
            What::Multi => {
                self.transaction = Some(Box::default());
                replies.status("OK");
            }
            // With a transaction it is run before.
            What::Exec => replies.error("ERR EXEC without MULTI"),
            What::Discard if self.transaction.take().is_none() => {
                replies.error("ERR DISCARD without MULTI");
            }
            What::Discard | What::Unwatch => replies.status("OK"),
            What::Watch => replies.error(
                "ERR WATCH is not supported: no command reads a key for others to change, and each \
                 check is atomic by itself",
            ),
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
