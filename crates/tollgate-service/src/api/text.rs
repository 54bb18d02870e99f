//! The texts of a question, of bounded length.

use core::time::Duration;
use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use tollgate::Period;

use super::problem::Problem;
use crate::service::MAX_TEXT_BYTES;

/// A text of bounded length.
#[derive(Debug)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl<'a> Text<'a> {
    pub(crate) fn of<E: de::Error>(text: Cow<'a, str>) -> Result<Self, E> {
        bounded(&text)?;
        Ok(Self(text))
    }
}

/// The value of a field: a string, or a whole number, which is converted into one.
pub(crate) struct Value<'a>(pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Value<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct One;
        impl<'de> Visitor<'de> for One {
            type Value = Value<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a whole number")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Value<'de>, E> {
                bounded(text)?;
                Ok(Value(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Value<'de>, E> {
                bounded(text)?;
                Ok(Value(Cow::Owned(text.to_owned())))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value<'de>, E> {
                Ok(Value(Cow::Owned(number.to_string())))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Value<'de>, E> {
                Ok(Value(Cow::Owned(number.to_string())))
            }
        }
        deserializer.deserialize_any(One)
    }
}

/// Parses a duration with the parser of the notation of limits.
pub(super) fn duration(text: &str) -> Result<Duration, Problem> {
    let period = text.parse::<Period>();
    let period = period.map_err(|_| Problem::bad("write a duration as in `90s`, `1h30m`"))?;
    Ok(period.as_duration())
}

/// Rejects a text that is too long.
pub(crate) fn bounded<E: de::Error>(text: &str) -> Result<(), E> {
    bounded_len(text.len())
}

/// The same check for several texts that are joined.
pub(crate) fn bounded_len<E: de::Error>(bytes: usize) -> Result<(), E> {
    if bytes <= MAX_TEXT_BYTES {
        return Ok(());
    }
    Err(E::custom(format!("a text has at most {MAX_TEXT_BYTES} bytes here, not {bytes}")))
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole;
        impl<'de> Visitor<'de> for Whole {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Text::of(Cow::Borrowed(text))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
                Text::of(Cow::Owned(text.to_owned()))
            }
        }
        deserializer.deserialize_str(Whole)
    }
}
