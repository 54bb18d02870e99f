//! Serialization of limits and decisions with serde: the feature `serde`.
//!
//! A [`Limit`] and a [`LimitSet`] are strings in the notation (`docs/notation.md`), with their
//! names. The string does not contain a set's policy. A [`Decision`] and a [`Report`] can be
//! serialized but not deserialized: a deserialized decision would have no store behind it.
//!
//! ```
//! use tollgate::{Limit, Limiter};
//! let limit: Limit = serde_json::from_str("\"login: 1/h via fixed_window\"")?;
//! // In full, so that nothing depends on a default.
//! assert_eq!(serde_json::to_string(&limit)?, "\"login: 1/h anchor epoch via fixed_window\"");
//! let limiter = Limiter::memory("1/h via gcra".parse()?);
//! let decision = serde_json::to_value(limiter.check("ann").now()?)?;
//! assert_eq!((&decision["allowed"], &decision["remaining"]), (&true.into(), &0.into()));
//! assert_eq!(decision["reset_after_us"], 3_600_000_000_u64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, SerializeStruct as _, Serializer};

use crate::decision::{Decision, Report};
use crate::error::ParseError;
use crate::limit::{Limit, LimitSet};

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.full_text())
    }
}

impl Serialize for LimitSet {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.full_text())
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Notation(PhantomData))
    }
}

impl<'de> Deserialize<'de> for LimitSet {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Notation(PhantomData))
    }
}

/// Deserializes a value from the notation.
struct Notation<T>(PhantomData<T>);

impl<T: FromStr<Err = ParseError>> Visitor<'_> for Notation<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("limits in the notation, as \"10/s via gcra\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// Microseconds, or `null` for never.
fn us(wait: Option<core::time::Duration>) -> Option<u64> {
    wait.map(|wait| u64::try_from(wait.as_micros()).unwrap_or(u64::MAX))
}

impl Serialize for Decision<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let limits: Vec<Report<'_>> = self.reports().collect();
        let retry = if self.is_allowed() { Some(0) } else { us(self.retry_after()) };
        let mut decision = to.serialize_struct("Decision", 9)?;
        decision.serialize_field("allowed", &self.is_allowed())?;
        decision.serialize_field("granted", &self.granted())?;
        decision.serialize_field("remaining", &self.remaining())?;
        decision.serialize_field("retry_after_us", &retry)?;
        decision.serialize_field("reset_after_us", &us(Some(self.reset_after())))?;
        decision.serialize_field("at_us", &self.at().as_micros())?;
        decision.serialize_field("shared", &self.is_shared())?;
        match self.is_isolated() {
            true => decision.skip_field("isolated")?,
            false => decision.serialize_field("isolated", &false)?,
        }
        decision.serialize_field("limits", &limits)?;
        decision.end()
    }
}

impl Serialize for Report<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut report = to.serialize_struct("Report", 6)?;
        report.serialize_field("subject", self.subject())?;
        report.serialize_field("limit", self.limit())?;
        report.serialize_field("admits", &self.admits())?;
        report.serialize_field("remaining", &self.remaining())?;
        report.serialize_field("retry_after_us", &us(self.retry_after()))?;
        report.serialize_field("reset_after_us", &us(Some(self.reset_after())))?;
        report.end()
    }
}
