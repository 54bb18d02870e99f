//! The JSON format of a question's subject. It has two notations, and both take values literally,
//! so user input needs no escapes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use tollgate::{ParseError, Subject};

use super::problem::Problem;
use super::text::{Text, Value, bounded, bounded_len};

/// `subject`: taken literally.
#[derive(Debug)]
pub(crate) enum SubjectJson<'a> {
    /// `user:42`: everything after the first colon is the value.
    One(Cow<'a, str>),
    /// `{"user": "42", "route": "login"}`: the dimensions with their values.
    Dimensions(Vec<(Cow<'a, str>, Cow<'a, str>)>),
}

impl SubjectJson<'_> {
    fn subject(&self) -> Result<Subject, ParseError> {
        match self {
            Self::One(text) => Subject::literal(text),
            Self::Dimensions(all) => Subject::from_dimensions(
                all.iter().map(|(name, value)| (&**name, value.as_bytes())),
            ),
        }
    }
}

/// The subject in `subject` or `written_subject`, if any. `written_subject` has commas and escapes,
/// as in answers and logs.
pub(crate) fn subject_of(
    subject: Option<SubjectJson<'_>>,
    written: Option<Text<'_>>,
) -> Result<Option<Subject>, Problem> {
    let (read, place) = match (subject, written) {
        (None, None) => return Ok(None),
        (Some(subject), None) => (subject.subject(), "subject"),
        (None, Some(Text(text))) => (Subject::parse(&text), "written_subject"),
        (Some(_), Some(_)) => {
            return Err(Problem::bad("set either `subject` or `written_subject`, not both")
                .at("written_subject"));
        }
    };
    read.map(Some).map_err(|error| Problem::bad(error.to_string()).at(place))
}

impl<'de: 'a, 'a> Deserialize<'de> for SubjectJson<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = SubjectJson<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or an object of texts, e.g. {\"user\": \"42\"}")
            }

            fn visit_borrowed_str<E: de::Error>(
                self,
                text: &'de str,
            ) -> Result<SubjectJson<'de>, E> {
                bounded(text)?;
                Ok(SubjectJson::One(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<SubjectJson<'de>, E> {
                bounded(text)?;
                Ok(SubjectJson::One(Cow::Owned(text.to_owned())))
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<SubjectJson<'de>, A::Error> {
                let mut all = Vec::new();
                let mut bytes = 0;
                while let Some(Text(name)) = map.next_key()? {
                    let Value(value) = map.next_value()?;
                    bytes += name.len() + value.len();
                    bounded_len(bytes)?;
                    all.push((name, value));
                }
                Ok(SubjectJson::Dimensions(all))
            }
        }
        deserializer.deserialize_any(Either)
    }
}
