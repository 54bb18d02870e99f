//! Chooses the treatment of a command, and has it answered.

use std::borrow::Cow;

use opentelemetry::context::FutureExt as _;

use super::auth::Identified;
use super::codec::Words;
use super::command::{AfterMulti, Call, Command, Run};
use super::commands::TABLE;
use super::reply::Replies;
use super::session::{Next, Session};
use super::throttle;
use crate::traces::Traces;

/// The answer to a client that must send the password first.
const NO_AUTH: &str = "NOAUTH Authentication required.";

/// The treatment of a command.
#[derive(Debug)]
pub(super) enum Step {
    /// It was answered.
    Answered,
    /// It is to be run.
    Run,
    /// These commands are to run, each with its answer.
    Execute(Vec<Vec<Box<[u8]>>>),
}

impl Session {
    /// The treatment of a command: it is queued after `MULTI`, or it runs now.
    pub(super) fn step(&mut self, words: &Words<'_>, replies: &mut Replies) -> Step {
        let Some(transaction) = &mut self.transaction else { return Step::Run };
        let (place, command) = match TABLE.find(words) {
            Ok((place, command)) if Self::refusal(self.user.as_ref(), command).is_none() => {
                (place, command)
            }
            _ => {
                transaction.spoil();
                return Step::Run;
            }
        };
        match command.after_multi {
            AfterMulti::Waits => {
                match transaction.push(words) {
                    Ok(()) => replies.status("QUEUED"),
                    Err(why) => replies.error(why),
                }
                return Step::Answered;
            }
            AfterMulti::Executes => return self.execute(place, replies),
            AfterMulti::IsAnswered => {}
            AfterMulti::Spoils => transaction.spoil(),
            AfterMulti::Ends => self.transaction = None,
        }
        Step::Run
    }

    /// Ends the transaction: its commands run one after the other, as a pipeline.
    fn execute(&mut self, place: usize, replies: &mut Replies) -> Step {
        let commands = self.transaction.take().map(|all| all.into_commands());
        let commands = commands.unwrap_or_else(|| Ok(Vec::new()));
        self.shared.count(Some(place), commands.is_err(), 1);
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
        let (place, next) = match TABLE.find(words) {
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
    fn refusal(user: Option<&Identified>, command: &Command) -> Option<Cow<'static, str>> {
        match user {
            _ if command.is_open() => None,
            None => Some(NO_AUTH.into()),
            Some(user) if user.role >= command.role() => None,
            Some(Identified { name, .. }) => Some(Cow::Owned(format!(
                "NOPERM User {name} has no permissions to run the '{}' command",
                command.name
            ))),
        }
    }

    async fn run(
        &mut self,
        command: &'static Command,
        words: &Words<'_>,
        replies: &mut Replies,
    ) -> Next {
        let answered = match command.run {
            Run::Throttle(dialect) => {
                let service = &self.shared.service;
                throttle::answer(dialect, words, service, &mut self.last, replies).await;
                Ok(())
            }
            Run::Now(answer) => {
                answer(Call { command, words, session: self, replies, table: &TABLE });
                Ok(())
            }
            Run::Later(answer) => {
                answer(Call { command, words, session: self, replies, table: &TABLE }).await
            }
        };
        if let Err(why) = answered {
            replies.error(why);
        }
        self.next
    }
}
