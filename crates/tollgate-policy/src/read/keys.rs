//! Reads a tree: takes keys one by one, and collects every problem instead of stopping at the
//! first.

use std::collections::HashMap;
use std::rc::Rc;

use tollgate::ParseError;

use crate::field::{Field, advice};
use crate::list::ValueList;
use crate::problem::{Problem, Span};
use crate::source::{Key, Node, Value, place_in};
use crate::tiers::Tiers;

/// The text of a file by its name in the policies, or what is wrong with it.
pub(crate) type Files<'l> = dyn FnMut(&str) -> Result<Rc<String>, Unlisted> + 'l;

/// Why a file cannot be loaded.
#[derive(Clone, Debug)]
pub(crate) struct Unlisted {
    pub(crate) what: String,
    pub(crate) remedy: &'static str,
}

/// The state of a reader: the text, and the collected problems.
pub(super) struct Reader<'s> {
    pub(super) source: &'s str,
    /// The texts of the files that this one names.
    pub(super) files: &'s mut Files<'s>,
    /// The lists that were read, by file and field: many conditions may name one.
    pub(super) lists: HashMap<(String, Field), Result<ValueList, Unlisted>>,
    /// The tiers that were read, in the same way.
    pub(super) tiers: HashMap<(String, Field), Result<Tiers, Unlisted>>,
    pub(super) problems: Vec<Problem>,
}

impl<'s> Reader<'s> {
    pub(super) fn new(source: &'s str, files: &'s mut Files<'s>) -> Self {
        let (lists, tiers) = (HashMap::new(), HashMap::new());
        Self { source, files, lists, tiers, problems: Vec::new() }
    }

    pub(super) fn error(&mut self, at: Span, what: impl Into<String>, remedy: impl Into<String>) {
        self.problems.push(Problem::error(Some(at), what, remedy));
    }

    pub(super) fn warning(&mut self, at: Span, what: impl Into<String>, remedy: impl Into<String>) {
        self.problems.push(Problem::warning(Some(at), what, remedy));
    }

    /// Reports the error of a text within the file.
    pub(super) fn refused(&mut self, node: &Node, text: &str, error: &ParseError) {
        let at = place_in(self.source, node, text, error);
        // Some remedies have several lines, for a terminal: here each is one message.
        self.error(at, error.what(), error.remedy());
    }

    /// Reports the error of the text of a key.
    pub(super) fn refused_key(&mut self, key: &Key, error: &ParseError) {
        self.error(key.at, error.what(), error.remedy());
    }

    /// Reports a value of a wrong type.
    pub(super) fn wrong(&mut self, node: &Node, key: &str, right: &str) {
        let kind = node.kind();
        self.error(node.at, format!("`{key}` is {kind}"), format!("it is {right}"));
    }

    /// The pairs of a table under known keys; unknown and repeated keys are problems.
    pub(super) fn keys<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        known: &[&str],
    ) -> Option<Keys<'n>> {
        let Value::Table(pairs) = &node.value else {
            let right = format!("it is a table with the keys {}", list(known));
            self.error(node.at, format!("{what} is {}", node.kind()), right);
            return None;
        };
        let mut found: HashMap<&str, (&Key, &Node)> = HashMap::new();
        for (key, value) in pairs {
            if !known.contains(&key.text.as_str()) {
                let right = format!("the keys here are {}", list(known));
                let remedy = advice(&key.text, known.iter().copied(), &right);
                self.error(key.at, format!("unknown key `{}`", shown(&key.text)), remedy);
            } else if found.contains_key(key.text.as_str()) {
                let at = key.at;
                self.error(at, format!("`{}` is given twice", key.text), "give it once");
            } else {
                found.insert(&key.text, (key, value));
            }
        }
        Some(Keys { at: node.at, found })
    }

    /// A required key.
    pub(super) fn required<'n>(
        &mut self,
        keys: &Keys<'n>,
        at: Span,
        name: &str,
        remedy: &str,
    ) -> Option<&'n Node> {
        let node = keys.get(name);
        if node.is_none() {
            self.error(at, format!("`{name}` is missing"), remedy);
        }
        node
    }

    pub(super) fn text<'n>(&mut self, node: &'n Node, key: &str, right: &str) -> Option<&'n str> {
        if let Value::Text(text) = &node.value {
            return Some(text);
        }
        self.wrong(node, key, right);
        None
    }

    /// The path of a file in the key `file`; reports an empty one.
    pub(super) fn file<'n>(&mut self, keys: &Keys<'n>, example: &str) -> Option<(&'n str, Span)> {
        let remedy = format!("name the file, e.g. `{{ file = \"{example}\" }}`");
        let file = self.required(keys, keys.at, "file", &remedy)?;
        let right = format!("the path of a file in quotes, e.g. `\"{example}\"`");
        let path = self.text(file, "file", &right)?;
        if path.is_empty() {
            self.error(file.at, "an empty path is not a file", remedy);
            return None;
        }
        Some((path, file.at))
    }

    /// Reads one value or a list of them; an empty list is a problem.
    pub(super) fn one_or_more<'n>(&mut self, node: &'n Node, key: &str) -> &'n [Node] {
        match &node.value {
            Value::List(list) => {
                if list.is_empty() {
                    self.empty(node, key);
                }
                list
            }
            _ => std::slice::from_ref(node),
        }
    }

    /// Reports an empty list.
    pub(super) fn empty(&mut self, node: &Node, key: &str) {
        let remedy = "write at least one value in it, or leave the key out";
        self.error(node.at, format!("the list of `{key}` is empty"), remedy);
    }

    /// Reads a whole number within these bounds.
    pub(super) fn whole(&mut self, node: &Node, key: &str, least: u64, most: u64) -> Option<u64> {
        let Value::Whole(number) = node.value else {
            self.wrong(node, key, &format!("a whole number from {least} to {most}"));
            return None;
        };
        let number = u64::try_from(number).ok().filter(|n| (least..=most).contains(n));
        if number.is_none() {
            let remedy = format!("it is a whole number from {least} to {most}");
            self.error(node.at, format!("this number is out of range for `{key}`"), remedy);
        }
        number
    }
}

/// The pairs of a table.
pub(super) struct Keys<'n> {
    pub(super) at: Span,
    found: HashMap<&'n str, (&'n Key, &'n Node)>,
}

impl<'n> Keys<'n> {
    pub(super) fn get(&self, name: &str) -> Option<&'n Node> {
        self.found.get(name).map(|(_, node)| *node)
    }

    /// The position of the key, or else of the table.
    pub(super) fn at(&self, name: &str) -> Span {
        self.found.get(name).map_or(self.at, |(key, _)| key.at)
    }
}

/// `a, b and c`.
pub(crate) fn list(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A word from the file, shortened for a message.
pub(super) fn shown(word: &str) -> String {
    let mut short: String = word.chars().take(40).flat_map(char::escape_debug).collect();
    if word.chars().count() > 40 {
        short.push_str("...");
    }
    short
}
