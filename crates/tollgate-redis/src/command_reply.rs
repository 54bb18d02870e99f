//! A reply to a command that looks at a server.

use redis::Value;

/// A reply, in the types that the doctor and the map of a cluster use.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "RESP2 has no more kinds")]
pub enum CommandReply {
    /// Nil.
    Nil,
    /// A number.
    Int(i64),
    /// Text, or bytes read as text.
    Text(String),
    /// A list of replies.
    List(Vec<Self>),
    /// An error, with its code in front.
    Error(String),
}

impl CommandReply {
    /// The text, if it is one.
    pub(crate) fn text(self) -> Option<String> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The items of a list; none of anything else.
    pub(crate) fn items(&self) -> &[Self] {
        if let Self::List(items) = self { items } else { &[] }
    }

    pub(crate) fn texts(&self) -> Vec<&str> {
        let Self::List(items) = self else { return Vec::new() };
        items
            .iter()
            .filter_map(|item| if let Self::Text(text) = item { Some(text.as_str()) } else { None })
            .collect()
    }
}

impl From<Value> for CommandReply {
    fn from(value: Value) -> Self {
        match value {
            Value::Nil => Self::Nil,
            Value::Int(number) => Self::Int(number),
            Value::BulkString(bytes) => Self::Text(String::from_utf8_lossy(&bytes).into_owned()),
            Value::SimpleString(text) | Value::VerbatimString { text, .. } => Self::Text(text),
            Value::Okay => Self::Text("OK".to_owned()),
            Value::Array(items) | Value::Set(items) => {
                Self::List(items.into_iter().map(Self::from).collect())
            }
            Value::Map(pairs) => Self::List(
                pairs.into_iter().flat_map(|(name, value)| [name.into(), value.into()]).collect(),
            ),
            Value::ServerError(error) => {
                Self::Error(format!("{} {}", error.code(), error.details().unwrap_or_default()))
            }
            // Doubles, booleans and pushes: no command that is sent returns them.
            _ => Self::Nil,
        }
    }
}
