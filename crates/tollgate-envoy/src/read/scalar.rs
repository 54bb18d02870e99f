//! Texts, numbers and yes or no, as YAML 1.1 and the reference read them.

use tollgate_policy::tree::{FRACTION, NOTHING, Node, Span, Value};
use tollgate_policy::{Problem, tree};

/// Reads one file.
pub(super) struct Reader<'t> {
    pub(super) text: &'t str,
    pub(super) problems: Vec<Problem>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, problems: Vec::new() }
    }

    pub(super) fn error(&mut self, at: Span, what: impl Into<String>, remedy: &str) {
        self.problems.push(Problem::error(Some(at), what, remedy));
    }

    pub(super) fn warn(&mut self, at: Span, what: impl Into<String>, remedy: &str) {
        self.problems.push(Problem::warning(Some(at), what, remedy));
    }

    /// A value as it is written.
    pub(super) fn written(&self, at: Span) -> &'t str {
        self.text.get(at.start..at.end).unwrap_or_default().trim()
    }

    /// Whether what is written without quotes is a number, a yes or no, or nothing.
    pub(super) fn is_not_text(&self, at: Span) -> bool {
        let written = self.written(at);
        let other = ["true", "false", "null", "~"].iter().any(|w| written.eq_ignore_ascii_case(w));
        other || written.parse::<f64>().is_ok() || written.starts_with(['[', '{'])
    }

    /// The text of a field. A number is a text too, as it is written; nothing is an empty one.
    pub(super) fn text_of(&mut self, key: &str, node: &Node) -> String {
        let written = self.written(node.written);
        match &node.value {
            Value::Text(text) => text.clone(),
            Value::Whole(number) if i64::try_from(*number).is_err() => self.in_quotes(key, node),
            Value::Whole(number) if written.is_empty() => number.to_string(),
            Value::Bool(is_so) if written.is_empty() => is_so.to_string(),
            Value::Other(NOTHING) => String::new(),
            Value::List(_) | Value::Table(_) => self.wrong(key, node, "a text"),
            Value::Other(FRACTION) => self.in_quotes(key, node),
            _ => written.to_owned(),
        }
    }

    /// The reference refuses numbers that are no `int`.
    fn in_quotes(&mut self, key: &str, node: &Node) -> String {
        let what = format!("error checking config: `{key}` is {}", node.kind());
        self.error(node.at, what, "write it in quotes, so that it is a text");
        String::new()
    }

    /// A yes or no. YAML 1.1 has more words for them than 1.2.
    pub(super) fn is_so(&mut self, key: &str, node: Option<&Node>) -> bool {
        let Some(node) = node else { return false };
        let written = self.written(node.written);
        match &node.value {
            Value::Bool(is_so) => *is_so,
            Value::Text(text) if text == written => match &*text.to_ascii_lowercase() {
                "y" | "yes" | "on" => true,
                "n" | "no" | "off" => false,
                _ => self.wrong(key, node, "true or false"),
            },
            _ => self.wrong(key, node, "true or false"),
        }
    }

    /// A number from 0 to 2^32 - 1.
    pub(super) fn number(&mut self, key: &str, node: &Node) -> u32 {
        match &node.value {
            Value::Whole(number) => u32::try_from(*number).unwrap_or_else(|_| {
                let what = format!("error loading config file: `{key}` is {number}");
                self.error(node.at, what, "write a number from 0 to 4294967295");
                0
            }),
            _ => self.wrong(key, node, "a whole number"),
        }
    }

    pub(super) fn wrong<T: Default>(&mut self, key: &str, node: &Node, wanted: &str) -> T {
        let what = format!("error loading config file: `{key}` is {}", node.kind());
        self.error(node.at, what, &format!("write {wanted}"));
        T::default()
    }

    /// Any value, to be passed on.
    pub(super) fn json(&mut self, node: &tree::Node) -> serde_json::Value {
        use serde_json::Value as Json;
        match &node.value {
            Value::Text(text) => Json::from(text.as_str()),
            Value::Whole(number) => i64::try_from(*number)
                .map_or_else(|_| self.wrong("metadata", node, "a smaller number"), Json::from),
            Value::Bool(is_so) => Json::from(*is_so),
            Value::List(list) => Json::Array(list.iter().map(|each| self.json(each)).collect()),
            Value::Table(pairs) => Json::Object(
                pairs.iter().map(|(key, value)| (key.text.clone(), self.json(value))).collect(),
            ),
            Value::Other(NOTHING) => Json::Null,
            _ => match self.written(node.written).parse::<f64>() {
                Ok(number) if number.is_finite() => Json::from(number),
                _ => {
                    let what = format!("error parsing metadata: here is {}", node.kind());
                    self.error(node.at, what, "write it in quotes");
                    Json::Null
                }
            },
        }
    }
}
