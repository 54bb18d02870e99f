//! Limits that keep their place in a set and count nothing: for a subject without this limit.

use core::iter::successors;

use super::{BanLength, Limit, LimitKind, MAX_UNITS, Quota};
use crate::error::ParseError;
use crate::strategy::Strategy;
use crate::time::Period;

impl Limit {
    /// The same limit where nothing is counted: it charges nothing and admits everything. Its
    /// identity stays, so the limits beside it keep their counts, and so does its own. Its unit has
    /// a sign before it (`of -requests`), so no cost has an amount of it. Slots are still taken, of
    /// 2^40; a ban runs no longer.
    ///
    /// ```
    /// use tollgate::Limit;
    /// let limit: Limit = "100/m via fixed_window".parse()?;
    /// let open = limit.uncounted()?;
    /// assert_eq!(open.identity(), limit.identity());
    /// assert!(open.is_uncounted() && open.unit().to_string() == "-requests");
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// None in practice: the limit itself was built.
    pub fn uncounted(&self) -> Result<Self, ParseError> {
        let mut quota = self.quota.clone();
        match self.kind() {
            LimitKind::Rate => quota.unit = quota.unit.uncounted(),
            LimitKind::Slots => {}
            LimitKind::Ban => {
                // One that runs is cut to the shortest.
                quota.ban = shortest();
            }
        }
        // Where charges without a check have taken more than the limit, it would still deny: the
        // most units that can be counted exactly make room for that. A bucket keeps its rate, so
        // nothing is rounded.
        let with = |most: u64| match self.strategy {
            Strategy::Uniform => quota.clone(),
            Strategy::Gcra | Strategy::TokenBucket => Quota { burst: Some(most), ..quota.clone() },
            _ => Quota { units: most, ..quota.clone() },
        };
        let build = |quota: Quota| Self::build(self.name.clone(), quota, self.strategy);
        let sizes = successors(Some(MAX_UNITS), |most| Some(most / 2));
        let mut larger = sizes.take_while(|most| *most > self.capacity());
        let open = larger.find_map(|most| build(with(most)).ok());
        open.map_or_else(|| build(quota.clone()), Ok)
            .map_err(|(text, refusal)| ParseError::whole(&text, refusal.what, refusal.remedy))
    }

    /// The full text for people: `unlimited` where it counts nothing ([`Limit::uncounted`]).
    #[must_use]
    pub fn shown(&self) -> &str {
        if self.is_uncounted() { "unlimited" } else { self.full_text() }
    }

    /// True when it counts nothing, as [`Limit::uncounted`] makes it.
    #[must_use]
    pub fn is_uncounted(&self) -> bool {
        match self.kind() {
            LimitKind::Rate => self.quota.unit.is_uncounted(),
            LimitKind::Slots => self.quota.units == MAX_UNITS,
            LimitKind::Ban => self.quota.ban == shortest(),
        }
    }
}

/// The shortest length of a ban.
fn shortest() -> Option<BanLength> {
    Period::from_micros(1).map(|least| BanLength { first: least, longest: least })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No text for people has the sign of a unit that is not counted.
    #[test]
    fn it_is_shown_as_unlimited() {
        let limit: Limit = "3/m of tokens via uniform".parse().unwrap();
        let open = limit.uncounted().unwrap();
        assert_eq!((open.shown(), limit.shown()), ("unlimited", limit.full_text()));
        assert_eq!(open.unit().beyond(9), "the cost is above 9 tokens");
        let limiter = crate::Limiter::memory(crate::LimitSet::from(open));
        let cost = crate::Cost::of_unit(*limit.unit(), 5);
        let said = limiter.check(crate::Ask::new("bob").cost(cost)).now().unwrap().to_string();
        assert!(said.ends_with("left (unlimited)"), "{said}");
    }

    #[test]
    fn its_text_is_itself_and_its_identity_that_of_the_limit() {
        for text in [
            "3/m via uniform",
            "3/m via fixed_window",
            "30/month of tokens in Europe/Berlin",
            "api: 3/m via sliding_log",
            "3/m precision 6s via sliding_window",
            "3/m burst 9 refill interval via token_bucket",
            "tokens: 1000/7s of tokens via gcra",
            "3 at once hold 1m",
            "ban 1h after 3 denials in 1m up to 1d",
        ] {
            let limit: Limit = text.parse().unwrap();
            let open = limit.uncounted().unwrap();
            assert_eq!(open.full_text().parse(), Ok(open.clone()), "{text}");
            assert_eq!((open.identity(), open.name()), (limit.identity(), limit.name()), "{text}");
            assert!(open.is_uncounted() && !limit.is_uncounted(), "{text}");
            assert_eq!(open.unit().name(), limit.unit().name(), "{text}");
            assert_eq!(open.uncounted(), Ok(open), "{text}");
        }
        assert!(
            "3/m of -slots".parse::<Limit>().is_err() && "3/m of --a".parse::<Limit>().is_err()
        );
    }
}
