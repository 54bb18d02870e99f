//! A file as a tree of values with their positions: the same for TOML and YAML.

use crate::problem::{Problem, Span};

mod node;
mod toml;
#[cfg(feature = "yaml")]
mod yaml;
#[cfg(not(feature = "yaml"))]
#[path = "no_yaml.rs"]
mod yaml;

pub(crate) use node::place_in;
pub use node::{FRACTION, Key, NOTHING, Node, Value};

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
