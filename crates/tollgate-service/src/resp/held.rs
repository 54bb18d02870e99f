//! The hold that a command is about: as it was answered, or by the id that its caller gave it.

use std::borrow::Cow;

use tollgate::HoldName;
use tollgate_policy::{OnFailure, Terms};

use super::arguments::{ID, ON, POLICY};
use super::command::Call;
use super::command::Command;
use super::options::Options;
use super::question::{begin_of_options, by_policies_of, parts, texts};
use super::why::{self, Why, refused};
use crate::service::{By, HoldToSettle, Question, Service, hold_name};

/// A hold, and the rest of the command beside it.
#[derive(Debug)]
pub(super) struct HeldCommand<'w> {
    pub(super) held: HoldToSettle,
    /// The words between the hold and the options.
    own: Vec<&'w str>,
    pub(super) options: Options<'w>,
}

impl<'w> HeldCommand<'w> {
    /// Reads a command with this number of required words. Further words may follow where it takes
    /// the hold in its answered form.
    ///
    /// # Errors
    /// No hold of this service, or another number of words.
    pub(super) fn read(
        call: &Call<'w>,
        (own, more): (usize, usize),
        service: &Service,
    ) -> Result<Self, Why> {
        let command = call.command;
        let rest = texts(call.words_from(2))?;
        let first = call.word(1);
        let which = if first.eq_ignore_ascii_case(ID.as_bytes()) {
            named(command, &rest, service)?
        } else {
            // A hold is longer than other words. Bytes that are not text are not a hold either,
            // which the service reports.
            if !(own..=own + more).contains(&rest.len()) {
                return Err(why::number_of_words(command.name));
            }
            let hold = core::str::from_utf8(first).unwrap_or_default();
            let hold = service.signed(hold).map_err(refused)?;
            let (own, options) = rest.split_at(own);
            let options = Options::read(command.arguments, options)?;
            Self { held: hold.into(), own: own.to_vec(), options }
        };
        match which.own.len() == own {
            true => Ok(which),
            false => Err(why::number_of_words(command.name)),
        }
    }

    /// The command's own word.
    pub(super) fn word(&self) -> &'w str {
        self.own.first().copied().unwrap_or_default()
    }
}

/// The hold that a caller named, the words between its id and its question, and the options after
/// that: `ID id [units] ON subject limit [limit ...]`, or `POLICY` with its fields.
///
/// # Errors
/// No id, or no question by which something can be held.
fn named<'w>(
    command: &Command,
    words: &[&'w str],
    service: &Service,
) -> Result<HeldCommand<'w>, Why> {
    let arguments = command.arguments;
    let [id, rest @ ..] = words else { return Err(why::number_of_words(command.name)) };
    let name: HoldName = hold_name(id).map_err(refused)?;
    let is_begin = |word: &&str| [ON, POLICY].iter().any(|it| it.eq_ignore_ascii_case(word));
    let Some(begin) = rest.iter().position(is_begin) else {
        return Err("the hold is missing: beside its ID add ON and its subject with the \
                    limits, or POLICY and its name with the fields, as they were asked"
            .into());
    };
    let (own, question) = rest.split_at(begin);
    let Some((begin, question)) = question.split_first() else { return Err("syntax error".into()) };
    let by_policies = begin.eq_ignore_ascii_case(POLICY);
    let end = begin_of_options(arguments, question, by_policies);
    let (what, options) = question.split_at(end);
    let options = Options::read(arguments, options)?;
    let shard = options.get("SHARD").map(Cow::Borrowed);
    let by = if by_policies {
        if shard.is_some() {
            return Err("SHARD is for ON: a policy sets its shard".into());
        }
        by_policies_of(what, service)?
    } else {
        By::Limits { parts: parts(what, service)?, shard, terms: Terms::new(OnFailure::Deny) }
    };
    let held = service.named(Question::new(by), name).map_err(refused)?;
    Ok(HeldCommand { held, own: own.to_vec(), options })
}
