//! The tree of a file: values and keys with their positions.

use tollgate::ParseError;

use crate::problem::Span;

/// A value and its position.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Node {
    /// Where it is.
    pub at: Span,
    /// Where its text is: for an alias of YAML, at its anchor.
    pub written: Span,
    /// The value.
    pub value: Value,
}

/// A value of a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Whole(i128),
    /// True or false.
    Bool(bool),
    /// A list.
    List(Vec<Node>),
    /// Keys and their values, in the order of the file.
    Table(Vec<(Key, Node)>),
    /// A type that no key of a policy takes, as a phrase: a fraction, a date, a null.
    Other(&'static str),
}

/// A key of a table and its position.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Key {
    /// The key. One that is not text is written as one; a fraction, a list and others in brackets.
    pub text: String,
    /// Where it is.
    pub at: Span,
}

impl Key {
    /// A key at a position.
    #[must_use]
    pub fn new(text: impl Into<String>, at: Span) -> Self {
        Self { text: text.into(), at }
    }
}

impl Node {
    /// A value at a position.
    #[must_use]
    pub fn new(at: Span, value: Value) -> Self {
        Self { at, written: at, value }
    }

    /// The type as a phrase, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Text(_) => "a text",
            Value::Whole(_) => "a whole number",
            Value::Bool(_) => "true or false",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
            Value::Other(kind) => kind,
        }
    }

    /// Whether the file gives it no value, as a key of YAML with nothing behind it.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        matches!(self.value, Value::Other(NOTHING))
    }
}

/// The phrase for no value.
pub const NOTHING: &str = "nothing";

/// The kind of a number with a point.
pub const FRACTION: &str = "a fraction";

/// The position of an error about the text of `node`: the exact word if the file has the text
/// unchanged, the whole value if it is written with escapes.
pub(crate) fn place_in(source: &str, node: &Node, text: &str, error: &ParseError) -> Span {
    let Span { start, end } = node.at;
    let inner = error.span();
    let Some(written) = source.get(start..end) else { return node.at };
    let Some(offset) = written.find(text).filter(|offset| *offset <= 3) else { return node.at };
    let (from, to) = (start + offset + inner.start, start + offset + inner.end);
    if inner.end <= text.len() && source.is_char_boundary(from) && source.is_char_boundary(to) {
        return Span::new(from, to.max(from));
    }
    node.at
}
