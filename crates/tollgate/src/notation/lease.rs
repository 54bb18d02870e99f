//! Leases: `lease 50 for 200ms`, `lease auto 0.25%`.

use core::iter::Peekable;
use core::ops::Range;

use super::reader::{LEASE, Reader, Token};
use crate::error::ParseError;
use crate::limit::{LeaseShare, LeaseSize};
use crate::time::Period;

/// A lease as it is written, with the places of its parts.
pub(super) struct WrittenLease {
    pub(super) word: Range<usize>,
    pub(super) size: (LeaseSize, Range<usize>),
    pub(super) ttl: Option<(Period, Range<usize>)>,
}

impl WrittenLease {
    pub(super) fn end(&self) -> usize {
        self.ttl.as_ref().map_or(self.size.1.end, |ttl| ttl.1.end)
    }
}

impl<'a> Reader<'a> {
    /// Parses a lease from its size on: `50 for 200ms`, `auto`, `auto 0.25% for 100ms`.
    pub(super) fn lease(
        &self,
        word: Token<'a>,
        takes: &str,
        size: Token<'a>,
        tokens: &mut Peekable<impl Iterator<Item = Token<'a>>>,
    ) -> Result<WrittenLease, ParseError> {
        let mut span = size.span();
        let starts_with_digit =
            |token: &Token<'_>| token.text.starts_with(|c: char| c.is_ascii_digit());
        let size = if size.text == "auto" {
            match tokens.next_if(starts_with_digit) {
                None => LeaseSize::AUTO,
                Some(share) => {
                    span.end = share.span().end;
                    let Some(share) = LeaseShare::parse(share.text) else {
                        return self.fail(
                            share.span(),
                            format!("`{}` is not a share", share.text.escape_default()),
                            "a share is 0.01% to 50%, as in `lease auto 0.25%`",
                        );
                    };
                    LeaseSize::Share(share)
                }
            }
        } else if starts_with_digit(&size) || size.text.starts_with('-') {
            match size.text {
                "0" => LeaseSize::Units(0),
                units => LeaseSize::Units(self.number(units, span.clone(), "a lease")?),
            }
        } else {
            return self.fail(
                span,
                format!("`{}` is nothing that `{LEASE}` takes", size.text.escape_default()),
                format!("it takes {takes}"),
            );
        };
        let mut ttl = None;
        if let Some(before) = tokens.next_if(|token| token.text == "for") {
            let Some(time) = tokens.next() else {
                return self.fail(before.span(), "`for` needs a time", "as in `for 200ms`");
            };
            let us = self.duration(time.text, time.span(), false)?;
            let Some(period) = Period::from_micros(us) else {
                return self.fail(time.span(), "this is not a time", "a lease lasts 1ms or longer");
            };
            ttl = Some((period, time.span()));
        }
        Ok(WrittenLease { word: word.span(), size: (size, span), ttl })
    }
}
