//! Questions as JSON.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use http::HeaderMap;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use tollgate_policy::{Field, Fields};
use tollgate_tower::identity::{ClientAddress, Missing, PathReading, host_name};

use super::problem::Problem;
use super::whose::Whose;

/// The most questions in one batch.
pub(crate) const MAX_BATCH: usize = 256;

/// The longest subject, limit or value of a field, in bytes.
pub(crate) const MAX_TEXT_BYTES: usize = 1_024;

/// The most fields of a request that is described.
const MAX_FIELDS: usize = 64;

/// One question, or several.
#[derive(Debug)]
pub(crate) enum Body<'a> {
    One(Box<Question<'a>>),
    Many(Vec<&'a serde_json::value::RawValue>),
}

/// What is asked.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question<'a> {
    #[serde(borrow, default, deserialize_with = "said")]
    pub(crate) policy: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "said")]
    pub(crate) fields: Option<Described<'a>>,
    #[serde(borrow, default, deserialize_with = "said")]
    pub(crate) subject: Option<Whose<'a>>,
    #[serde(borrow, default, deserialize_with = "said")]
    pub(crate) written_subject: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "said")]
    pub(crate) limit: Option<Limits<'a>>,
    /// Each is an [`On`].
    #[serde(borrow, default, deserialize_with = "said")]
    pub(crate) on: Option<Vec<&'a serde_json::value::RawValue>>,
    #[serde(borrow, default, deserialize_with = "said")]
    pub(crate) shard: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "said")]
    pub(crate) on_failure: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "said")]
    pub(crate) deadline: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "said")]
    pub(crate) idempotency_key: Option<Text<'a>>,
    #[serde(default, deserialize_with = "said")]
    pub(crate) cost: Option<u64>,
    #[serde(default, deserialize_with = "said")]
    pub(crate) receipt: Option<bool>,
}

/// What stands there is meant: `null` is not the same as nothing, and is refused. A template that
/// was filled with nothing must not ask for something else.
pub(crate) fn said<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A subject under limits of its own.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct On<'a> {
    #[serde(borrow, default, deserialize_with = "said")]
    pub(crate) subject: Option<Whose<'a>>,
    #[serde(borrow, default, deserialize_with = "said")]
    pub(crate) written_subject: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) limit: Limits<'a>,
}

/// A text of a bounded length.
#[derive(Debug)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

/// One text, or a list of them, joined as the notation joins limits.
#[derive(Debug)]
pub(crate) struct Limits<'a>(pub(crate) Cow<'a, str>);

/// A request in the words of a policy file, as it was told.
#[derive(Debug, Default)]
pub(crate) struct Described<'a> {
    fields: Vec<(Field, Cow<'a, str>)>,
    /// The whole address of the client.
    address: Option<IpAddr>,
}

/// The same with its path read: what policies look at.
#[derive(Debug, Default)]
pub(crate) struct Told<'a>(Described<'a>);

impl Fields for Told<'_> {
    #[inline]
    fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
        let found = self.0.fields.iter().find(|(known, _)| known == field)?;
        Some(Cow::Borrowed(&found.1))
    }

    fn address(&self) -> Option<IpAddr> {
        self.0.address
    }
}

impl<'a> Described<'a> {
    /// Adds a field, in the form in which every front gives it, so that the count is the same; but
    /// for the path, which [`Described::read`] brings into it.
    pub(crate) fn add(&mut self, name: &str, value: Cow<'a, str>) -> Result<(), String> {
        let field = Field::parse(name).map_err(|e| format!("{}: {}", e.what(), e.remedy()))?;
        if self.fields.iter().any(|(known, _)| *known == field) {
            return Err(format!("`{field}` is told twice: which of them is it?"));
        }
        if self.fields.len() >= MAX_FIELDS {
            return Err(format!("a request has at most {MAX_FIELDS} fields here"));
        }
        let value = match &field {
            // As everywhere, an empty value is none.
            Field::Ip if value.is_empty() => value,
            Field::Ip => {
                let ip: IpAddr = value.parse().map_err(|_| {
                    "`ip` is no address: write it without a port, as `192.0.2.7`".to_owned()
                })?;
                let client = ClientAddress::peer().client(ip, &HeaderMap::new());
                self.address = Some(client.address());
                Cow::Owned(client.value().as_str().to_owned())
            }
            Field::Path if value.contains(['?', '#']) => {
                return Err(
                    "`path` is more than a path: leave out what follows `?` and `#`".to_owned()
                );
            }
            Field::Host => Cow::Owned(host_name(&value).to_ascii_lowercase()),
            _ => value,
        };
        self.fields.push((field, value));
        Ok(())
    }

    /// The request with its path as `paths` reads it, or what it does not read.
    pub(crate) fn read(mut self, paths: PathReading) -> Result<Told<'a>, String> {
        if let Some((_, path)) = self.fields.iter_mut().find(|(field, _)| *field == Field::Path) {
            let form = paths.read(path).map_err(|why| Missing::of_path(why).to_string())?;
            if let Cow::Owned(form) = form {
                *path = Cow::Owned(form);
            }
        }
        Ok(Told(self))
    }
}

/// Reads a body: one question, or `{"checks": [...]}`.
pub(crate) fn read(body: &[u8]) -> Result<Body<'_>, Problem> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Batch<'a> {
        #[serde(borrow)]
        checks: Vec<&'a serde_json::value::RawValue>,
    }
    if is_list(body) {
        return Err(no_object());
    }
    let one = match serde_json::from_slice::<Question<'_>>(body) {
        Ok(question) => return Ok(Body::One(Box::new(question))),
        Err(error) => error,
    };
    // A batch is told by its only key: what is neither is explained as a question.
    match serde_json::from_slice::<Batch<'_>>(body) {
        Ok(Batch { checks }) if checks.is_empty() => {
            Err(Problem::bad("an empty list asks nothing").at("checks"))
        }
        Ok(Batch { checks }) if checks.len() > MAX_BATCH => {
            let detail = format!("a batch has at most {MAX_BATCH} items, not {}", checks.len());
            Err(Problem::bad(detail).at("checks"))
        }
        Ok(Batch { checks }) => Ok(Body::Many(checks)),
        Err(_) => Err(explain::<Question<'_>>(body, &one)),
    }
}

/// Reads one thing.
pub(crate) fn read_one<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    if is_list(body) {
        return Err(no_object());
    }
    serde_json::from_slice(body).map_err(|error| explain::<T>(body, &error))
}

/// A list is taken for an object whose keys are left out, and what stands where would then matter.
fn is_list(json: &[u8]) -> bool {
    json.trim_ascii_start().starts_with(b"[")
}

fn no_object() -> Problem {
    Problem::bad(
        "this is a list, and should be an object, as {\"subject\": \"a\", \"limit\": \"1/s\"}",
    )
}

/// What is wrong with a body, with the place: read a second time, by the slower way that knows it.
#[cold]
fn explain<'a, T: Deserialize<'a>>(body: &'a [u8], error: &serde_json::Error) -> Problem {
    if core::str::from_utf8(body).is_err() {
        return Problem::bad("the body is not UTF-8: JSON is");
    }
    if body.iter().all(u8::is_ascii_whitespace) {
        return Problem::bad(
            "the body is empty: ask in JSON, as {\"subject\": \"user:42\", \"limit\": \"10/s\"}",
        );
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(found) => {
            let path = found.path().to_string();
            let detail = found.into_inner().to_string();
            if path == "." { Problem::bad(detail) } else { Problem::bad(detail).at(path) }
        }
        // What stands after the end is not seen there.
        Ok(_) => Problem::bad(error.to_string()),
    }
}

/// Refuses a text that is too long.
pub(crate) fn bounded<E: de::Error>(text: &str) -> Result<(), E> {
    bounded_len(text.len())
}

/// The same for several that are one in the end.
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
                bounded(text)?;
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
                bounded(text)?;
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Whole)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Limits<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct One;
        impl<'de> Visitor<'de> for One {
            type Value = Limits<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a limit as a text, or a list of them")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Limits<'de>, E> {
                bounded(text)?;
                Ok(Limits(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Limits<'de>, E> {
                bounded(text)?;
                Ok(Limits(Cow::Owned(text.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Limits<'de>, A::Error> {
                let mut joined = String::new();
                while let Some(Text(text)) = list.next_element()? {
                    if text.trim().is_empty() {
                        return Err(de::Error::custom("an empty text is no limit"));
                    }
                    if !joined.is_empty() {
                        joined.push_str(", ");
                    }
                    joined.push_str(&text);
                    bounded(&joined)?;
                }
                Ok(Limits(Cow::Owned(joined)))
            }
        }
        deserializer.deserialize_any(One)
    }
}

/// The value of a field: a text, or a whole number, which becomes one.
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

impl<'de: 'a, 'a> Deserialize<'de> for Described<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Described<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the fields of a request, as {\"ip\": \"192.0.2.7\"}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Described<'de>, A::Error> {
                let mut described = Described { fields: Vec::with_capacity(4), address: None };
                while let Some(Text(name)) = map.next_key()? {
                    let Value(value) = map.next_value()?;
                    described.add(&name, value).map_err(de::Error::custom)?;
                }
                Ok(described)
            }
        }
        deserializer.deserialize_map(All)
    }
}
