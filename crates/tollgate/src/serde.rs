//! Serialization of limits with serde: the feature `serde`.
//!
//! A [`Limit`] and a [`LimitSet`] are strings in the notation (`docs/notation.md`), with their
//! names. The string does not contain a set's policy. A [`Decision`](crate::Decision) is serialized
//! by [`crate::wire`], and not deserialized: there would be no store behind it.
//!
//! ```
//! use tollgate::Limit;
//! let limit: Limit = serde_json::from_str("\"login: 1/h via fixed_window\"")?;
//! // In full, so that nothing depends on a default.
//! assert_eq!(serde_json::to_string(&limit)?, "\"login: 1/h anchor epoch via fixed_window\"");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::adjustment::Adjustment;
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

/// A number of requests, or a map of amounts by unit.
impl Serialize for Adjustment {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.plain() {
            Some(requests) => to.serialize_i64(requests),
            None => to.collect_map(self.iter().map(|(unit, by)| (unit.name(), by))),
        }
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
        f.write_str("limits in the notation, e.g. \"10/s via gcra\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}
