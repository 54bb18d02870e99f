//! The question of a command: its subjects with their limits or its policy, and its options.

use core::time::Duration;
use std::borrow::Cow;

use tollgate::{Cost, LimitSet, ParseError, Subject};
use tollgate_policy::{MAX_DEADLINE, MIN_DEADLINE, OnFailure, Terms};

use super::arguments::{AND, Argument, ID, RESPONDING};
use super::codec::Words;
use super::key;
use super::options::{Options, number};
use super::why::{self, Why, refused};
use crate::service::{
    By, Description, MAX_TEXT_BYTES, Parts, Question, Service, kind_of_peek, profile_of,
};

/// Every policy that matches, in place of a name.
const ALL_POLICIES: &str = "*";

/// The words of a command that asks.
#[derive(Debug)]
pub(super) struct Asked<'w> {
    /// The limits that decide: subjects with limits, or a policy with fields.
    what: Vec<&'w str>,
    pub(super) options: Options<'w>,
}

impl<'w> Asked<'w> {
    /// Reads a command whose limits are in the call.
    ///
    /// # Errors
    /// A word that is not text, or options that the command does not have.
    pub(super) fn under_limits(
        arguments: &'static [Argument],
        words: &Words<'w>,
    ) -> Result<Self, Why> {
        Self::read(arguments, words, false)
    }

    /// Reads a command that policies decide.
    ///
    /// # Errors
    /// The same.
    pub(super) fn by_policies(
        arguments: &'static [Argument],
        words: &Words<'w>,
    ) -> Result<Self, Why> {
        Self::read(arguments, words, true)
    }

    fn read(
        arguments: &'static [Argument],
        words: &Words<'w>,
        by_policies: bool,
    ) -> Result<Self, Why> {
        let mut what = texts(words.get(1..).unwrap_or_default())?;
        let options = what.split_off(begin_of_options(arguments, &what, by_policies));
        Ok(Self { what, options: Options::read(arguments, &options)? })
    }

    /// The subjects with their limits.
    ///
    /// # Errors
    /// The problem with them.
    pub(super) fn parts(&self, service: &Service) -> Result<Parts, Why> {
        parts(&self.what, service)
    }

    /// The question under the limits in the call.
    ///
    /// # Errors
    /// The problem with it.
    pub(super) fn limited(&self, service: &Service) -> Result<Question<'w>, Why> {
        let parts = self.parts(service)?;
        let shard = self.options.get("SHARD").map(Cow::Borrowed);
        let terms = terms(&self.options, service)?;
        self.question(By::Limits { parts, shard, terms }, service)
    }

    /// The question by policies.
    ///
    /// # Errors
    /// The problem with it.
    pub(super) fn decided(&self, service: &Service) -> Result<Question<'w>, Why> {
        self.question(by_policies_of(&self.what, service)?, service)
    }

    fn question(&self, by: By<'w>, service: &Service) -> Result<Question<'w>, Why> {
        let options = &self.options;
        let cost = options.get("COST").map(cost_of).transpose()?;
        let kind = options.get("KIND").map(|name| kind_of_peek(&name.to_ascii_lowercase()));
        let kind = kind.transpose().map_err(refused)?.flatten();
        let waiting = options.lower("WAITING").map(|said| service.patience(&said));
        let patience = waiting.transpose().map_err(refused)?.unwrap_or_default();
        let receipt = options.has("RECEIPT");
        let idempotency_key = options.get(ID).map(Cow::Borrowed);
        let response = options.lower(RESPONDING).map(|name| profile_of(&name));
        let response = response.transpose().map_err(refused)?;
        Ok(Question { by, cost, idempotency_key, receipt, response, kind, patience })
    }
}

/// A cost: a number of requests, or `UNIT=AMOUNT` joined by commas.
///
/// # Errors
/// The word is something else.
fn cost_of(word: &str) -> Result<Cost, Why> {
    by_unit(word, str::parse)
}

/// Used units: the same, of which an amount may be 0.
///
/// # Errors
/// The word is something else.
pub(super) fn used_of(word: &str) -> Result<Cost, Why> {
    by_unit(word, Cost::parse_used)
}

fn by_unit(word: &str, read: fn(&str) -> Result<Cost, ParseError>) -> Result<Cost, Why> {
    if !word.contains('=') {
        return Ok(Cost::from(number(word)?));
    }
    read(word).map_err(|error| format!("{}: {}", error.what(), error.remedy()).into())
}

/// The words as texts of bounded length.
///
/// # Errors
/// An unknown word.
pub(super) fn texts<'w>(words: &[&'w [u8]]) -> Result<Vec<&'w str>, Why> {
    let text = |word: &&'w [u8]| match core::str::from_utf8(word) {
        Ok(text) if text.len() <= MAX_TEXT_BYTES => Ok(text),
        Ok(text) => {
            Err(format!("a word has at most {MAX_TEXT_BYTES} bytes, not {}", text.len()).into())
        }
        Err(_) => Err("a word is not UTF-8".into()),
    };
    words.iter().map(text).collect()
}

/// The place of the first option among the words after the name of a command.
pub(super) fn begin_of_options(
    arguments: &'static [Argument],
    words: &[&str],
    by_policies: bool,
) -> usize {
    let mut place = 1;
    while let Some(word) = words.get(place) {
        // The word after the name of a field, or after `AND`, may be any word: a value or a
        // subject.
        match Options::find(arguments, word).and_then(|option| option.token) {
            Some(AND) => place += 2,
            Some(_) => return place,
            None => place += 1 + usize::from(by_policies),
        }
    }
    words.len()
}

/// The subjects with their limits.
pub(super) fn parts(words: &[&str], service: &Service) -> Result<Parts, Why> {
    let (mut parts, mut rest) = (Parts::new(), words);
    loop {
        let (subject, after) = rest.split_first().ok_or("syntax error")?;
        let is_end = |word: &&str| word.eq_ignore_ascii_case(AND);
        let end = after.iter().position(is_end).unwrap_or(after.len());
        let (limits, after) = after.split_at(end);
        parts.push(part(subject, limits, service)?);
        match after {
            [] => return Ok(parts),
            [_, after @ ..] => rest = after,
        }
    }
}

fn part(subject: &str, limits: &[&str], service: &Service) -> Result<(Subject, LimitSet), Why> {
    if limits.is_empty() {
        return Err(format!("`{subject}` has no limit: write one after it, e.g. 10/s").into());
    }
    if limits.iter().any(|limit| limit.trim().is_empty()) {
        return Err("an empty text is not a limit".into());
    }
    let text = limits.join(", ");
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!("the limits have at most {MAX_TEXT_BYTES} bytes together").into());
    }
    Ok((key::subject(subject.as_bytes())?, why::limits(service, &text)?))
}

/// The answer when the store cannot answer, and the deadline.
fn terms(options: &Options<'_>, service: &Service) -> Result<Terms, Why> {
    let on_failure = match options.get("ONFAILURE") {
        None => OnFailure::Deny,
        Some(rule) => service.failure_rule(&rule.to_ascii_lowercase())?,
    };
    let deadline = match options.number("DEADLINE")? {
        None => service.gate.current().deadline(),
        Some(millis) => {
            let deadline = Duration::from_millis(millis);
            if !(MIN_DEADLINE..=MAX_DEADLINE).contains(&deadline) {
                let [least, most] = [MIN_DEADLINE, MAX_DEADLINE].map(|it| it.as_millis());
                let why = format!("a deadline is {least} to {most} milliseconds, not {millis}");
                return Err(why.into());
            }
            deadline
        }
    };
    Ok(Terms::new(on_failure).deadline(deadline))
}

/// The policy of this name, or all, with the fields of a request.
///
/// # Errors
/// A field without its value, or an invalid field.
pub(super) fn by_policies_of<'w>(words: &[&'w str], service: &Service) -> Result<By<'w>, Why> {
    let Some((policy, fields)) = words.split_first() else { return Err("syntax error".into()) };
    let mut described = Description::default();
    for pair in fields.chunks(2) {
        let [name, value] = pair else {
            return Err(format!("`{}` has no value", pair.concat()).into());
        };
        described.add(name, Cow::Borrowed(value))?;
    }
    let fields = described.read(&service.reading)?;
    let policy = (*policy != ALL_POLICIES).then_some(Cow::Borrowed(*policy));
    Ok(By::Policies { policy, fields })
}
