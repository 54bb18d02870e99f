//! YAML as a tree: aliases are followed and keys merged within bounds, foreign tags are rejected.

use core::fmt;
use std::collections::HashSet;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Location, Spanned};

use super::node::{FRACTION, Key, NOTHING, Node, Value};
use crate::problem::{Problem, Span};

/// The most parser events that aliases may repeat: a file of one page can expand to billions.
const MAX_REPEATED: usize = 100_000;

/// The most values of a file: each policy has about twenty.
const MAX_NODES: usize = 1_000_000;

/// The deepest nesting: a policy needs twelve levels. The parser calls itself for each level, and
/// without optimisation 64 levels overflow the 2 MB stack of a thread.
const MAX_DEPTH: usize = 24;

pub(super) fn tree(text: &str, problems: &mut Vec<Problem>) -> Option<Node> {
    let text = first_document(text);
    // An empty document is a null, which is reported elsewhere.
    match serde_saphyr::from_str_with_options::<Spanned<Raw>>(text, options()) {
        Ok(raw) => Some(Tree { text, problems }.node(raw)),
        Err(error) => {
            let error = error.without_snippet();
            let at = error.location().map_or(Span::new(0, 0), |location| span(&location, text));
            let (what, remedy) = explain(&error.to_string());
            problems.push(Problem::error(Some(at), what, remedy));
            None
        }
    }
}

/// The text without a last `---` or `...` that only blank lines and comments follow: generators
/// write one at the end.
fn first_document(text: &str) -> &str {
    let mut end = text.len();
    for line in text.split_inclusive('\n').rev() {
        let start = end - line.len();
        match line.trim_end() {
            // At the start of a file it begins the only document.
            "---" | "..." if start > 0 => return text.get(..start).unwrap_or(text),
            blank if blank.is_empty() || blank.trim_start().starts_with('#') => end = start,
            _ => return text,
        }
    }
    text
}

/// The parser's message without its position, and advice if there is any.
fn explain(message: &str) -> (String, &'static str) {
    let first = message.lines().next().unwrap_or("this is not YAML");
    let what = first.rfind(" at line ").and_then(|at| first.get(..at)).unwrap_or(first);
    let what = what.trim_end_matches('.');
    let says = |words: &str| what.contains(words);
    if says("multiple YAML documents") {
        let remedy = "a file is one document here: take out what begins with `---` or `...`";
        return ("a second document begins here".to_owned(), remedy);
    }
    if says("recursive references") {
        let remedy = "write the value itself";
        return ("an alias stands within the very value that it names".to_owned(), remedy);
    }
    if says("budget breached") || says("alias replay") || says("alias expansion") {
        let remedy = "use fewer values, fewer aliases and less nesting";
        return (format!("the file asks for too much: {what}"), remedy);
    }
    let remedy = if says("alias") || says("anchor") {
        "a text that begins with `*` or `&` is written in quotes, e.g. `\"*.example.com\"`"
    } else if says("mapping values are not allowed") || says("mapping keys are not allowed") {
        "write a text with `: ` in it in quotes, and keys of one table at one column"
    } else if says("unexpected character") {
        "write a text that begins with a special character in quotes"
    } else if says("tab") {
        "indent with blanks"
    } else if says("tag") {
        "leave the tag out: write a text in quotes, a number or true and false without"
    } else {
        "write it as YAML 1.2"
    };
    (what.to_owned(), remedy)
}

fn options() -> serde_saphyr::Options {
    let budget = serde_saphyr::budget! {
        max_nodes: MAX_NODES,
        max_events: 4 * MAX_NODES,
        max_depth: MAX_DEPTH,
    };
    serde_saphyr::options! {
        budget: budget,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPEATED },
        // Reported by our own check, with both positions.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        // Ours knows the positions of both keys.
        merge_keys: MergeKeyPolicy::AsOrdinary,
        // `yes` and `no` are texts, as in YAML 1.2.
        strict_booleans: true,
        reject_unsupported_tags: true,
        // No key takes a fraction, and our own message is better.
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
    }
}

fn span(location: &Location, text: &str) -> Span {
    let span = location.span();
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let bytes = span.byte_offset().zip(span.byte_len());
    let at = match bytes {
        Some((start, len)) => Span::new(number(start), number(start).saturating_add(number(len))),
        None => line_and_column(text, number(location.line()), number(location.column())),
    };
    at.within(text)
}

/// The position of errors for which the parser gives no bytes.
fn line_and_column(text: &str, line: usize, column: usize) -> Span {
    let mut start = 0;
    for (number, full) in (1..).zip(text.split_inclusive('\n')) {
        if number == line {
            let before = full.char_indices().nth(column.saturating_sub(1));
            let start = start + before.map_or(full.len(), |(at, _)| at);
            return Span::new(start, start);
        }
        start += full.len();
    }
    Span::new(text.len(), text.len())
}

/// A value as YAML has it.
#[derive(Debug)]
enum Raw {
    Text(String),
    Whole(i128),
    Bool(bool),
    Other(&'static str),
    List(Vec<Spanned<Self>>),
    Table(Vec<(Spanned<Self>, Spanned<Self>)>),
}

/// Makes the tree of a text.
struct Tree<'t> {
    text: &'t str,
    problems: &'t mut Vec<Problem>,
}

impl Tree<'_> {
    fn node(&mut self, raw: Spanned<Raw>) -> Node {
        let at = span(&raw.referenced, self.text);
        let written = span(&raw.defined, self.text);
        let value = match raw.value {
            Raw::Text(string) => Value::Text(string),
            Raw::Whole(number) => Value::Whole(number),
            Raw::Bool(yes) => Value::Bool(yes),
            Raw::Other(kind) => {
                let text = self.text.get(written.start..written.end);
                Value::Other(number_kind(kind, text))
            }
            Raw::List(list) => Value::List(list.into_iter().map(|each| self.node(each)).collect()),
            Raw::Table(pairs) => {
                let pairs: Vec<_> = pairs
                    .into_iter()
                    .map(|(key, value)| (self.key(key), self.node(value)))
                    .collect();
                let has_merged = pairs.iter().any(|(key, _)| key.text == MERGE);
                Value::Table(if has_merged { self.merged(pairs) } else { pairs })
            }
        };
        Node { at, written, value }
    }

    fn key(&self, key: Spanned<Raw>) -> Key {
        let at = span(&key.referenced, self.text);
        let text = match key.value {
            Raw::Text(string) => string,
            Raw::Whole(number) => number.to_string(),
            Raw::Bool(yes) => yes.to_string(),
            // No key of ours contains brackets, so the key is unknown under this name.
            Raw::Other(kind) => format!("({kind})"),
            Raw::List(_) => "(a list)".to_owned(),
            Raw::Table(_) => "(a table)".to_owned(),
        };
        Key { text, at }
    }

    /// The keys of a table with those of the tables that `<<` names. Its own keys go before them,
    /// and an earlier table of a list before the later ones (<https://yaml.org/type/merge.html>).
    fn merged(&mut self, pairs: Vec<(Key, Node)>) -> Vec<(Key, Node)> {
        let own: HashSet<String> = pairs.iter().map(|(key, _)| key.text.clone()).collect();
        let mut before: HashSet<String> = HashSet::new();
        let mut added: HashSet<String> = HashSet::new();
        let mut merged: Vec<(Key, Node)> = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            let is_second = !before.insert(key.text.clone());
            if key.text != MERGE {
                merged.push((key, value));
                continue;
            }
            if is_second {
                let remedy = "give it once, with a list of tables";
                self.problems.push(Problem::error(Some(key.at), "`<<` is given twice", remedy));
            }
            for (name, value) in self.named_by(&key, value) {
                if before.contains(&name.text) {
                    let what = format!("`{MERGE}` has `{}` too, and comes after it", name.text);
                    let remedy = format!("put `{MERGE}` first: else some readers take its value");
                    self.problems.push(Problem::error(Some(key.at), what, remedy));
                } else if !own.contains(&name.text) && added.insert(name.text.clone()) {
                    merged.push((name, value));
                }
            }
        }
        merged
    }

    /// The pairs of the table, or of the list of tables, that a `<<` names.
    fn named_by(&mut self, key: &Key, value: Node) -> Vec<(Key, Node)> {
        let tables = match value.value {
            Value::List(tables) => tables,
            _ => vec![value],
        };
        let mut pairs = Vec::new();
        for table in tables {
            match table.value {
                Value::Table(more) => {
                    let mut seen = HashSet::new();
                    for (name, _) in &more {
                        if !seen.insert(&name.text) {
                            let what = format!("`{}` is given twice", name.text);
                            self.problems.push(Problem::error(Some(name.at), what, "give it once"));
                        }
                    }
                    pairs.extend(more);
                }
                _ => {
                    let what = format!("`{MERGE}` names {}", table.kind());
                    let remedy = "name a table, or a list of tables, e.g. `<<: *defaults`";
                    self.problems.push(Problem::error(Some(key.at), what, remedy));
                }
            }
        }
        pairs
    }
}

/// The key whose value is tables of further keys.
const MERGE: &str = "<<";

/// The parser reads integers that are too large, or begin with 0, as fractions.
fn number_kind(kind: &'static str, written: Option<&str>) -> &'static str {
    let digits = written.map_or("", |text| text.trim_start_matches(['+', '-']));
    if kind != FRACTION || digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        kind
    } else if digits.starts_with('0') {
        "a number that begins with 0"
    } else {
        "a number too large to be read"
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, yes: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(yes))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Raw, E> {
        Ok(Raw::Whole(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Raw, E> {
        Ok(Raw::Whole(number.into()))
    }

    fn visit_i128<E>(self, number: i128) -> Result<Raw, E> {
        Ok(Raw::Whole(number))
    }

    fn visit_u128<E>(self, number: u128) -> Result<Raw, E> {
        Ok(i128::try_from(number).map_or(Raw::Other("a number too large to be read"), Raw::Whole))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Raw, E> {
        Ok(Raw::Other(FRACTION))
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Raw, E> {
        Ok(Raw::Text(text))
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Raw, E> {
        Ok(Raw::Other("binary data"))
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Other(NOTHING))
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Other(NOTHING))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(each) = seq.next_element()? {
            list.push(each);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Raw::Table(pairs))
    }
}
