//! The options of a command, as its arguments list them: a word, alone or before a value.

use core::time::Duration;

use arrayvec::ArrayVec;

use super::arguments::{Argument, PURE_TOKEN};
use super::codec::whole_number;
use super::why::Why;

/// The most options of a command.
const MAX_OPTIONS: usize = 12;

/// The options that a client gave, by their words.
#[derive(Debug)]
pub(super) struct Options<'w>(ArrayVec<(&'static str, &'w str), MAX_OPTIONS>);

impl<'w> Options<'w> {
    /// The argument that begins with this word.
    pub(super) fn find(arguments: &'static [Argument], word: &str) -> Option<&'static Argument> {
        let is_it = |argument: &&Argument| {
            argument.token.is_some_and(|token| token.eq_ignore_ascii_case(word))
        };
        arguments.iter().find(is_it)
    }

    /// Reads words that are options and nothing else.
    ///
    /// # Errors
    /// An unknown option, an option twice, or one without its value.
    pub(super) fn read(arguments: &'static [Argument], words: &[&'w str]) -> Result<Self, Why> {
        let (mut options, mut rest) = (Self(ArrayVec::new()), words);
        let syntax = || Why::from("syntax error");
        while let [word, after @ ..] = rest {
            let argument = Self::find(arguments, word).ok_or_else(syntax)?;
            let token = argument.token.filter(|token| !options.has(token)).ok_or_else(syntax)?;
            let value;
            (value, rest) = match after {
                _ if argument.kind == PURE_TOKEN => ("", after),
                [value, after @ ..] => (*value, after),
                [] => return Err(syntax()),
            };
            options.0.try_push((token, value)).map_err(|_| syntax())?;
        }
        Ok(options)
    }

    pub(super) fn has(&self, token: &str) -> bool {
        self.get(token).is_some()
    }

    /// The value of an option.
    pub(super) fn get(&self, token: &str) -> Option<&'w str> {
        self.0.iter().find(|(given, _)| *given == token).map(|(_, value)| *value)
    }

    /// The value of an option that is a word, in lower case.
    pub(super) fn lower(&self, token: &str) -> Option<String> {
        self.get(token).map(str::to_ascii_lowercase)
    }

    /// The value of an option that is a whole number, and not negative.
    ///
    /// # Errors
    /// The value is something else.
    pub(super) fn number(&self, token: &str) -> Result<Option<u64>, Why> {
        self.get(token).map(number).transpose()
    }

    /// The time of a hold, in milliseconds.
    ///
    /// # Errors
    /// The value is not a whole number.
    pub(super) fn ttl(&self, token: &str) -> Result<Option<Duration>, Why> {
        let Some(value) = self.get(token) else { return Ok(None) };
        let Ok(ms) = number(value) else {
            let why = "is how long the hold lasts, a whole number of milliseconds";
            return Err(format!("{token} {why}, e.g. {token} 60000").into());
        };
        Ok(Some(Duration::from_millis(ms)))
    }
}

/// A whole number that is not negative.
///
/// # Errors
/// The word is something else.
pub(super) fn number(word: &str) -> Result<u64, Why> {
    let number = whole_number(word.as_bytes()).and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| "value is not an integer or out of range".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::commands::TABLE;

    #[test]
    fn no_command_has_more_options_than_there_is_room_for() {
        for command in TABLE.0 {
            let options = command.arguments.iter().filter(|argument| argument.token.is_some());
            assert!(options.count() <= MAX_OPTIONS, "{}", command.name);
        }
    }
}
