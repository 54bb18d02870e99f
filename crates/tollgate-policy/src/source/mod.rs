//! A file as a tree of values with their positions: the same for TOML and YAML.

use tollgate::ParseError;

use crate::problem::{Problem, Span};

mod toml;
#[cfg(feature = "yaml")]
mod yaml;
#[cfg(not(feature = "yaml"))]
#[path = "no_yaml.rs"]
mod yaml;

/// The largest file, in bytes: 4 MiB.
pub const MAX_FILE_BYTES: usize = 4 << 20;

/// The format of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Format {
    /// TOML 1.0.
    Toml,
    /// YAML 1.2, with the feature `yaml`. Without the feature, every such file is an error that
    /// explains this.
    Yaml,
}

impl Format {
    /// The format of a file by its name's extension: `.toml`, `.yaml`, `.yml`.
    #[must_use]
    pub fn from_path(path: &std::path::Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "toml" => Some(Self::Toml),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }
}

/// A value and its position.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Node {
    /// Where it is.
    pub at: Span,
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
    /// The key. One that is no text is written as one; a fraction, a list and others in brackets.
    pub text: String,
    /// Where it is.
    pub at: Span,
}

impl Node {
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
const NOTHING: &str = "nothing";

/// Parses a text into a tree. A syntax error ends it for YAML; TOML continues after one.
///
/// `None` when it is broken, with the reasons in `problems`.
pub fn parse(text: &str, format: Format, problems: &mut Vec<Problem>) -> Option<Node> {
    if text.len() > MAX_FILE_BYTES {
        problems.push(Problem::error(
            Some(Span::new(0, 0)),
            format!("the file has {} bytes", text.len()),
            format!("at most {MAX_FILE_BYTES} are read: split it, or match by fields instead"),
        ));
        return None;
    }
    match format {
        Format::Toml => toml::tree(text, problems),
        Format::Yaml => yaml::tree(text, problems),
    }
}

/// The same for a policy file: one that says nothing is a problem.
pub(crate) fn tree(text: &str, format: Format, problems: &mut Vec<Problem>) -> Option<Node> {
    let before = problems.len();
    let tree = parse(text, format, problems);
    let empty = match &tree {
        Some(Node { value: Value::Table(pairs), .. }) => pairs.is_empty(),
        Some(Node { value: Value::Other(_), .. }) | None => true,
        Some(_) => false,
    };
    if empty && problems.len() == before {
        problems.push(Problem::error(
            Some(Span::new(0, 0)),
            "the file says nothing",
            "a policy file begins with `version = 1` (YAML: `version: 1`) and has `policies`: see \
             examples/policies/",
        ));
        return None;
    }
    tree.filter(|_| !empty)
}

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
