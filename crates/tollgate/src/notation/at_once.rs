//! Limits of slots: `20 at once hold 30s`.

use core::iter::Peekable;

use super::reader::{LEASE, Reader, Token};
use crate::error::ParseError;
use crate::limit::{Element, Limit, Quota};
use crate::strategy::Strategy;
use crate::time::Period;

const AT_ONCE: &str = "write `20 at once`, or with the longest time that a slot is held without \
                       being renewed, `20 at once hold 30s`";

/// How long a hold on a slot lasts by default.
const DEFAULT_HOLD: Period = match Period::from_micros(30_000_000) {
    Some(hold) => hold,
    None => unreachable!(),
};

impl<'a> Reader<'a> {
    /// Parses a limit of slots: `20 at once`, `20 at once hold 30s`.
    pub(super) fn at_once(
        &self,
        name: Option<String>,
        units: Token<'a>,
        tokens: &mut Peekable<impl Iterator<Item = Token<'a>>>,
        strategy: Option<Strategy>,
    ) -> Result<Limit, ParseError> {
        let mut span = units.span();
        let number = self.number(units.text, span.clone(), "a limit")?;
        for wanted in ["at", "once"] {
            match tokens.next() {
                Some(word) if word.text == wanted => span.end = word.span().end,
                Some(other) => return self.fail(other.span(), "this is not a limit", AT_ONCE),
                None => return self.fail(span, "the limit ends too early", AT_ONCE),
            }
        }
        if let Some(strategy) = strategy.filter(|it| *it != Strategy::Concurrency) {
            return self.fail(
                span,
                format!("`{strategy}` counts a rate, and this is not one"),
                "leave out the strategy that is given beside the limit",
            );
        }
        let mut hold = None;
        while let Some(word) = tokens.next() {
            let (word, joined) =
                word.cut('=').map_or((word, None), |(word, value)| (word, Some(value)));
            let value = joined.filter(|value| !value.text.is_empty());
            let value = value.or_else(|| joined.is_none().then(|| tokens.next()).flatten());
            match (word.text, value) {
                ("hold", _) if hold.is_some() => {
                    return self.fail(word.span(), "`hold` is given twice", "once is enough");
                }
                ("hold", Some(value)) => {
                    let us = self.duration(value.text, value.span(), false)?;
                    let Some(period) = Period::from_micros(us) else {
                        let remedy = "a hold lasts 1ms to 366d";
                        return self.fail(value.span(), "this is not a time of a hold", remedy);
                    };
                    hold = Some((period, value.span()));
                }
                ("hold", None) => {
                    let remedy = "it takes a duration, as in `hold 30s`";
                    return self.fail(word.span(), "`hold` needs a value", remedy);
                }
                ("via", Some(value)) if value.text == Strategy::Concurrency.name() => {}
                (
                    "of" | "in" | "from" | "via" | "burst" | "precision" | "rounding" | "refill"
                    | "anchor" | "debt",
                    _,
                ) => {
                    return self.fail(
                        word.span(),
                        format!("a limit of slots takes no `{}`", word.text),
                        AT_ONCE,
                    );
                }
                (LEASE, _) => {
                    return self.fail(
                        word.span(),
                        "slots cannot be leased: a lease charges ahead, and a slot is given back",
                        "leave out the `lease`",
                    );
                }
                _ => return self.unknown_word(word),
            }
        }
        let (period, at) = hold.unwrap_or((DEFAULT_HOLD, span.clone()));
        Limit::build(name, Quota::new(number, period), Strategy::Concurrency).map_err(
            |(_, refusal)| {
                let at = match refusal.element {
                    Element::Period => at,
                    _ => span,
                };
                ParseError::at(self.text, at, refusal.what, refusal.remedy)
            },
        )
    }
}
