//! Bans: `ban 1m after 10 denials in 1m up to 1h`.

use core::iter::Peekable;
use core::ops::Range;

use super::reader::{LEASE, Reader, Token};
use crate::error::ParseError;
use crate::limit::{BanLength, Element, Limit, Quota};
use crate::strategy::Strategy;
use crate::time::Period;

pub(super) const BAN: &str = "ban";

const FORM: &str = "write `ban 1m after 10 denials in 1m`, or with bans that grow, \
                    `ban 1m after 10 denials in 1m up to 1h`";

impl<'a> Reader<'a> {
    /// Parses a ban after its first word.
    pub(super) fn ban(
        &self,
        name: Option<String>,
        first: Token<'a>,
        tokens: &mut Peekable<impl Iterator<Item = Token<'a>>>,
        strategy: Option<Strategy>,
    ) -> Result<Limit, ParseError> {
        if let Some(strategy) = strategy {
            return self.fail(
                first.span(),
                format!("`{strategy}` counts a rate, and a ban is not one"),
                "leave out the strategy that is given beside the limit, and write `via` behind each \
                 rate",
            );
        }
        let mut span = first.span();
        let (length, _) = self.time_of_ban(tokens, &mut span)?;
        self.words_of_ban(&["after"], tokens, &mut span)?;
        let Some(count) = tokens.next() else {
            return self.fail(span, "the ban ends too early", FORM);
        };
        span.end = count.span().end;
        if count.text == "0" {
            return self.fail(
                count.span(),
                "a ban after no denial would never end",
                "give at least 1",
            );
        }
        let units = self.number(count.text, count.span(), "a number of denials")?;
        match tokens.next() {
            Some(word) if matches!(word.text, "denials" | "denial") => span.end = word.span().end,
            other => return self.no_ban(other, span),
        }
        self.words_of_ban(&["in"], tokens, &mut span)?;
        let (within, within_at) = self.time_of_ban(tokens, &mut span)?;
        let mut longest = (length, span.clone());
        match tokens.next() {
            None => {}
            Some(word) if word.text == "up" => {
                self.words_of_ban(&["to"], tokens, &mut span)?;
                longest = self.time_of_ban(tokens, &mut span)?;
                if let Some(more) = tokens.next() {
                    return self.no_part(more);
                }
            }
            Some(more) => return self.no_part(more),
        }
        let ban = Some(BanLength { first: length, longest: longest.0 });
        let quota = Quota { ban, ..Quota::new(units, within) };
        Limit::build(name, quota, Strategy::Ban).map_err(|(_, refusal)| {
            let at = match refusal.element {
                Element::Ban => longest.1,
                Element::Period => within_at,
                _ => span,
            };
            ParseError::at(self.text, at, refusal.what, refusal.remedy)
        })
    }

    /// The next words, which have to be these.
    fn words_of_ban(
        &self,
        words: &[&str],
        tokens: &mut Peekable<impl Iterator<Item = Token<'a>>>,
        span: &mut Range<usize>,
    ) -> Result<(), ParseError> {
        for wanted in words {
            match tokens.next() {
                Some(word) if word.text == *wanted => span.end = word.span().end,
                other => return self.no_ban(other, span.clone()),
            }
        }
        Ok(())
    }

    /// The next word as a duration.
    fn time_of_ban(
        &self,
        tokens: &mut Peekable<impl Iterator<Item = Token<'a>>>,
        span: &mut Range<usize>,
    ) -> Result<(Period, Range<usize>), ParseError> {
        let Some(word) = tokens.next() else {
            return self.fail(span.clone(), "the ban ends too early", FORM);
        };
        span.end = word.span().end;
        let us = self.duration(word.text, word.span(), false)?;
        match Period::from_micros(us) {
            Some(period) => Ok((period, word.span())),
            None => self.fail(word.span(), "this is not a time of a ban", "bans last 1us to 366d"),
        }
    }

    fn no_ban<T>(&self, word: Option<Token<'a>>, span: Range<usize>) -> Result<T, ParseError> {
        match word {
            Some(word) => self.fail(word.span(), "this is not a ban", FORM),
            None => self.fail(span, "the ban ends too early", FORM),
        }
    }

    fn no_part<T>(&self, word: Token<'a>) -> Result<T, ParseError> {
        if word.text == LEASE {
            return self.fail(
                word.span(),
                "a set with a ban cannot be leased: a node would count only its own denials",
                "leave out the lease, or the ban",
            );
        }
        self.fail(word.span(), format!("a ban takes no `{}`", word.text.escape_default()), FORM)
    }
}
