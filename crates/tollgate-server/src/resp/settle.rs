//! The commands about a hold that was placed: commit, cancel, renew and release.

use std::borrow::Cow;

use tollgate::{Hold, HoldName};
use tollgate_policy::{OnFailure, Terms};

use super::arguments::{ID, ON, POLICY};
use super::ask::{begin_of_options, by_policies_of, parts, texts, write_json};
use super::codec::Words;
use super::commands::Command;
use super::options::{Options, number};
use super::reply::Replies;
use super::why::{Why, refused};
use crate::json::{CommittedJson, ReleasedJson, RenewedJson};
use crate::service::{By, Question, Service, hold_name};

/// What is done with a hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Settle {
    Commit,
    /// A commit of nothing.
    Cancel,
    Renew,
    Release,
}

/// Answers a command.
pub(super) async fn answer(
    (settle, command): (Settle, &Command),
    words: &Words<'_>,
    service: &Service,
    replies: &mut Replies,
) -> Result<(), Why> {
    let rest = texts(words.get(2..).unwrap_or_default())?;
    let first = words.get(1).copied().unwrap_or_default();
    let (mut hold, own, options) = if first.eq_ignore_ascii_case(ID.as_bytes()) {
        named(command, &rest, service)?
    } else {
        // A hold is longer than other words. Bytes that are no text are no hold either, which the
        // service says.
        let (least, most) = match settle {
            Settle::Commit => (1, 1),
            Settle::Renew => (0, 2),
            Settle::Cancel | Settle::Release => (0, 0),
        };
        if !(least..=most).contains(&rest.len()) {
            return Err(number_of_words(command));
        }
        let hold = core::str::from_utf8(first).unwrap_or_default();
        let hold = service.signed(hold).map_err(refused)?;
        let (own, options) = rest.split_at(least);
        (hold, own, Options::read(command, options)?)
    };
    match (settle, own) {
        (Settle::Commit, [units]) => {
            let units = number(units)?;
            let settled = service.commit(&hold, units).await.map_err(refused)?;
            write_json(&CommittedJson::new(&hold, &settled), replies);
        }
        (Settle::Cancel, []) => {
            let settled = service.commit(&hold, 0).await.map_err(refused)?;
            write_json(&CommittedJson::new(&hold, &settled), replies);
        }
        (Settle::Renew, []) => {
            let ttl = options.ttl("TTL")?;
            let is_named = hold.id.is_of_any_kind();
            let holding = service.renew(&mut hold, ttl).await.map_err(refused)?;
            write_json(&RenewedJson::new(holding, is_named), replies);
        }
        (Settle::Release, []) => {
            service.release(&hold).await.map_err(refused)?;
            write_json(&ReleasedJson { released: true }, replies);
        }
        (Settle::Commit | Settle::Cancel | Settle::Renew | Settle::Release, _) => {
            return Err(number_of_words(command));
        }
    }
    Ok(())
}

/// The hold that a caller named, the words between its id and its question, and the options after
/// that: `ID id [units] ON subject limit [limit ...]`, or `POLICY` with its fields.
///
/// # Errors
/// No id, or no question by which something can be held.
fn named<'s, 'w>(
    command: &Command,
    words: &'s [&'w str],
    service: &Service,
) -> Result<(Hold, &'s [&'w str], Options<'w>), Why> {
    let [id, rest @ ..] = words else { return Err(number_of_words(command)) };
    let name: HoldName = hold_name(id).map_err(refused)?;
    let is_begin = |word: &&str| [ON, POLICY].iter().any(|it| it.eq_ignore_ascii_case(word));
    let Some(begin) = rest.iter().position(is_begin) else {
        return Err("which hold? Its ID is that of a question: add ON and its subject with the \
                    limits, or POLICY and its name with the fields, as they were asked"
            .into());
    };
    let (own, question) = rest.split_at(begin);
    let Some((begin, question)) = question.split_first() else { return Err("syntax error".into()) };
    let by_policies = begin.eq_ignore_ascii_case(POLICY);
    let end = begin_of_options(command, question, by_policies).min(question.len());
    let (what, options) = question.split_at(end);
    let options = Options::read(command, options)?;
    let shard = options.get("SHARD").map(Cow::Borrowed);
    let by = if by_policies {
        if shard.is_some() {
            return Err("SHARD is for ON: a policy says its own".into());
        }
        by_policies_of(what, service)?
    } else {
        By::Limits { parts: parts(what, service)?, shard, terms: Terms::new(OnFailure::Deny) }
    };
    let hold = service.named(Question::new(by), name).map_err(refused)?;
    Ok((hold, own, options))
}

fn number_of_words(command: &Command) -> Why {
    Why::from(format!("wrong number of arguments for '{}' command", command.name))
}
