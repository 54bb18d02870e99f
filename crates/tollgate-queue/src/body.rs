//! The content of a job.

use core::fmt;
use std::sync::Arc;

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::Error;

/// The longest [`Job::dedup_id`], and the longest name of a field, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 256;

/// The largest job in bytes: the names and values of its fields together, or its bytes.
pub const MAX_JOB_BYTES: usize = 64 * 1024;

/// The most fields of a job.
pub const MAX_FIELDS: usize = 64;

/// The content of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    Fields(Arc<[(String, String)]>),
    Bytes(Arc<[u8]>),
}

impl Default for Body {
    fn default() -> Self {
        Self::Fields(Arc::default())
    }
}

impl Body {
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Fields(_) => None,
        }
    }

    pub(crate) fn fields(&self) -> &[(String, String)] {
        match self {
            Self::Fields(fields) => fields,
            Self::Bytes(_) => &[],
        }
    }

    /// Checks that the content is valid.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let bytes = match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Fields(fields) => {
                if fields.len() > MAX_FIELDS {
                    let what = format!("a job of {} fields: at most {MAX_FIELDS}", fields.len());
                    return Err(Error::invalid(what));
                }
                for (place, (field, _)) in fields.iter().enumerate() {
                    check_name("the name of a field", field)?;
                    if fields.iter().take(place).any(|(other, _)| other == field) {
                        return Err(Error::invalid(format!("a job with two fields `{field}`")));
                    }
                }
                fields.iter().map(|(name, value)| name.len() + value.len()).sum()
            }
        };
        if bytes > MAX_JOB_BYTES {
            let what = format!(
                "a job of {bytes} bytes: at most {MAX_JOB_BYTES}; store large data elsewhere, and \
                 its place in the job"
            );
            return Err(Error::invalid(what));
        }
        Ok(())
    }

    /// The fields of a JSON object.
    pub(crate) fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        let mut from = serde_json::Deserializer::from_slice(json);
        let fields = from.deserialize_map(ReadFields)?;
        from.end()?;
        Ok(Self::Fields(fields.into()))
    }
}

/// Checks the name of a field, or a deduplication id.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), Error> {
    if name.starts_with('@') {
        return Err(Error::invalid(format!("{what} begins with @, which is reserved")));
    }
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        let length = name.len();
        let what = format!("{what} of {length} bytes: 1 to {MAX_NAME_BYTES} are possible");
        return Err(Error::invalid(what));
    }
    Ok(())
}

/// Fields as a JSON object, in their order.
pub(crate) struct Fields<'f>(pub(crate) &'f [(String, String)]);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Deserializes an object as written: it keeps the order and repeated names.
struct ReadFields;

impl<'de> Visitor<'de> for ReadFields {
    type Value = Vec<(String, String)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object of fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
            let raw = value.get();
            let value = match raw.as_bytes().first() {
                Some(b'"') => serde_json::from_str(raw).map_err(A::Error::custom)?,
                Some(b'n' | b'[' | b'{') => {
                    let what = "is null, a list or an object: a field is a text or a number";
                    return Err(A::Error::custom(format!("the field `{name}` {what}")));
                }
                _ => raw.to_owned(),
            };
            fields.push((name, value));
        }
        Ok(fields)
    }
}
