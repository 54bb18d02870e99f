//! Reads files into rules, and says what is wrong with them.
//!
//! Where the reference has words for a mistake, a message begins with them: people search for them.

mod descriptor;
mod fields;
mod scalar;

use std::borrow::Cow;

use tollgate::Share;
use tollgate_policy::tree::{Node, Span, Value, parse};
use tollgate_policy::{Format, Problem, Problems};

use crate::config::{Config, Counting, Level, Meaning, OnFailure, SameDomain};
use fields::{Fields, LOCAL, ROOT};
use scalar::Reader;

impl Config {
    /// Reads all files, whatever is wrong with those before; each has a name for messages and a
    /// text.
    ///
    /// # Errors
    /// All problems of all files, each with its line and what would be right.
    pub fn read<'f>(
        files: impl IntoIterator<Item = (&'f str, &'f str)>,
    ) -> Result<Self, Vec<Problems>> {
        Self::read_with(SameDomain::Refused, files)
    }

    /// The same, with a choice about a domain of several files.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn read_with<'f>(
        same_domain: SameDomain,
        files: impl IntoIterator<Item = (&'f str, &'f str)>,
    ) -> Result<Self, Vec<Problems>> {
        let inputs = files.into_iter().map(|(name, text)| Input::new(name, text));
        Self::read_all(same_domain, inputs)
    }

    pub(crate) fn read_all<'f>(
        same_domain: SameDomain,
        inputs: impl IntoIterator<Item = Input<'f>>,
    ) -> Result<Self, Vec<Problems>> {
        let (mut config, mut broken) = (Self::default(), Vec::new());
        for Input { name, text, root } in inputs {
            let mut reader = Reader::new(&text);
            match root.or_else(|| reader.parsed()) {
                Some(root) => reader.file(&root, &mut config, same_domain),
                None => reader.problems = reader.problems.drain(..).map(loading).collect(),
            }
            let problems = Problems::new(&name, &text, reader.problems);
            if problems.has_errors() {
                broken.push(problems);
            } else if !problems.is_empty() {
                config.warnings.push(problems);
            }
        }
        if broken.is_empty() { Ok(config) } else { Err(broken) }
    }
}

/// A file, or a resource of a control plane.
pub(crate) struct Input<'f> {
    /// Its name for messages.
    pub(crate) name: Cow<'f, str>,
    pub(crate) text: Cow<'f, str>,
    /// Its tree, unless the text is to be parsed.
    pub(crate) root: Option<Node>,
}

impl<'f> Input<'f> {
    fn new(name: &'f str, text: &'f str) -> Self {
        Self { name: name.into(), text: text.into(), root: None }
    }
}

impl Reader<'_> {
    fn parsed(&mut self) -> Option<Node> {
        parse(self.text, Format::Yaml, &mut self.problems)
    }

    fn file(&mut self, root: &Node, config: &mut Config, same_domain: SameDomain) {
        let fields = match &root.value {
            Value::Table(_) => self.fields(root, "a file", ROOT),
            Value::Other(_) => Some(Fields::default()),
            _ => {
                let what = format!("error loading config file: the file is {}", root.kind());
                return self.error(root.at, what, "a file has the keys `domain` and `descriptors`");
            }
        };
        let Some(fields) = fields else { return };
        let name = fields.get("domain").map(|node| (node.at, self.text_of("domain", node)));
        let (at, name) = name.unwrap_or((root.at, String::new()));
        if name.is_empty() {
            let remedy = "say which requests the rules are for, e.g. `domain: shop`";
            self.error(at, "config file cannot have empty domain", remedy);
        }
        // What a domain of an earlier file has stays, so that its mistakes are found too.
        let earlier = config.domains.remove(&*name);
        if earlier.is_some() && same_domain == SameDomain::Refused {
            let what = format!("duplicate domain '{name}' in config file");
            let remedy = "put all rules of a domain into one file, or set `--envoy-merge-domains`";
            self.error(at, what, remedy);
        }
        let mut domain = earlier.unwrap_or_default();
        if fields.get("meaning").is_some() {
            let meaning = self.word(&fields, "meaning", &MEANINGS);
            self.one_of_all(&fields, "meaning", &mut domain.meaning, meaning);
        }
        if fields.get("on_failure").is_some() {
            let on_failure = self.on_failure(&fields);
            self.one_of_all(&fields, "on_failure", &mut domain.on_failure, on_failure);
        }
        if let Some(list) = fields.get("descriptors") {
            let way = descriptor::Way::new(&name);
            self.descriptors(list, &way, &mut domain.level, &mut config.rules);
        }
        if let Some(OnFailure::Local(share)) = domain.on_failure {
            self.shares(share, fields.get("on_failure").unwrap_or(root), &domain.level);
        }
        config.domains.insert(name.into(), domain);
    }

    /// A setting of a whole domain: later files may repeat it, and not change it.
    fn one_of_all<T: Copy + PartialEq>(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        setting: &mut Option<T>,
        given: T,
    ) {
        let is_other = setting.is_some_and(|earlier| earlier != given);
        if let Some(at) = fields.at(key).filter(|_| is_other) {
            let what = format!("`{key}` is not that of an earlier file of this domain");
            self.error(at, what, "give it in one of the files, or the same in each");
        } else {
            *setting = Some(given);
        }
    }

    /// One of its words, or a share of each limit.
    fn on_failure(&mut self, fields: &Fields<'_>) -> OnFailure {
        let right = "write the share of this node, e.g. `on_failure: {local: 25 %}`";
        let Some(node) = fields.get("on_failure") else { return OnFailure::default() };
        match &node.value {
            Value::Table(_) => {
                let Some(fields) = self.fields(node, "an on_failure", LOCAL) else {
                    return OnFailure::default();
                };
                let Some(share) = fields.get("local") else {
                    self.error(node.at, "`local` is missing", right);
                    return OnFailure::default();
                };
                match self.text_of("local", share).parse() {
                    Ok(share) => OnFailure::Local(share),
                    Err(error) => {
                        let error: tollgate::ParseError = error;
                        self.error(share.at, error.what(), error.remedy());
                        OnFailure::default()
                    }
                }
            }
            Value::Text(word) if word == "local" => {
                self.error(node.at, "`local` needs a share", right);
                OnFailure::default()
            }
            _ => self.word(fields, "on_failure", &ON_FAILURES),
        }
    }

    /// Whether this share of every limit can be counted.
    fn shares(&mut self, share: Share, node: &Node, level: &Level) {
        let mut rules = Vec::new();
        level.list(&mut rules);
        for rule in rules {
            let Counting::Limits(limits) = rule.counting() else { continue };
            if let Err(error) = limits.share(share) {
                let what = format!("{}: {}", rule.path(), error.what());
                self.error(node.at, what, error.remedy());
            }
        }
    }

    /// One of some words; the first is the default.
    fn word<T: Copy>(&mut self, fields: &Fields<'_>, key: &str, words: &[(&str, T)]) -> T {
        let (_, default) = words[0];
        let Some(node) = fields.get(key) else { return default };
        let text = self.text_of(key, node);
        let found = words.iter().find(|(word, _)| *word == text);
        found.map_or_else(
            || {
                let all: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
                let what = format!("`{text}` is not a `{key}`");
                self.error(node.at, what, &format!("write {}", all.join(" or ")));
                default
            },
            |(_, value)| *value,
        )
    }
}

const MEANINGS: [(&str, Meaning); 2] = [("envoy", Meaning::Envoy), ("tollgate", Meaning::Tollgate)];

const ON_FAILURES: [(&str, OnFailure); 3] =
    [("error", OnFailure::Error), ("allow", OnFailure::Allow), ("deny", OnFailure::Deny)];

/// A mistake in the YAML itself, with the words of the reference before it.
fn loading(problem: Problem) -> Problem {
    let at = problem.span().map(Span::from);
    let what = format!("error loading config file: {}", problem.what());
    Problem::error(at, what, problem.remedy())
}
