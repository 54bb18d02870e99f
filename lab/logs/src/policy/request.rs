//! A request of a log as policies see it.

use std::borrow::Cow;
use std::fmt::Write as _;

use tollgate::Time;
use tollgate_policy::{Field, Fields};

/// The field with the client of `--by`, for limits without a file.
pub(super) const BY: &str = "field.--by";

/// The field with the cost of `--cost`, for limits without a file.
pub(super) const COST: &str = "field.--cost";

/// The fields of a request.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) fields: &'a [Field],
    /// The values of these fields; absent ones are empty.
    pub(super) values: Vec<Cow<'a, str>>,
    pub(super) by: Cow<'a, str>,
    /// The field with the cost, and its value; `None` where the request has none.
    pub(super) cost: Option<(&'a Field, Option<u32>)>,
    /// The time of the log, by which conditions on a time or a day hold.
    pub(super) now: Time,
}

impl Fields for Request<'_> {
    fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
        if let Some((cost_field, cost)) = &self.cost
            && *cost_field == field
        {
            return cost.map(|cost| Cow::Owned(cost.to_string()));
        }
        if let Some(place) = self.fields.iter().position(|it| it == field) {
            return self.values.get(place).map(|value| Cow::Borrowed(&**value));
        }
        matches!(field, Field::Custom(name) if BY.strip_prefix("field.") == Some(name))
            .then_some(Cow::Borrowed(&*self.by))
    }

    fn now(&self) -> Time {
        self.now
    }
}

/// A value as text. Bytes that are not UTF-8 become `%XX`, and then `%` does too, so that no two
/// values are equal.
pub(super) fn as_text(value: Cow<'_, [u8]>) -> Cow<'_, str> {
    match value {
        Cow::Borrowed(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(escaped(bytes)),
        },
        Cow::Owned(bytes) => Cow::Owned(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => escaped(error.as_bytes()),
        }),
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        match byte {
            b'%' | 0x80.. => {
                // Writing to a string cannot fail.
                let _ = write!(text, "%{byte:02X}");
            }
            byte => text.push(char::from(*byte)),
        }
    }
    text
}
