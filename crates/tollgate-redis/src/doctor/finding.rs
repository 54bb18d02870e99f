//! One result of an examination, and how bad it is.

/// The most nodes that a line names.
pub(super) const MAX_NAMED: usize = 3;

/// The severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(clippy::exhaustive_enums, reason = "fit, fit with a price, unfit: there is no fourth")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It works, with a disadvantage that the finding names.
    Warning,
    /// Limits would be wrong, or no check would work.
    Failure,
}

impl Level {
    /// `ok`, `warning`, `failure`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }
}

/// The result of one examination.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// A stable name for scripts: `eviction`.
    pub id: &'static str,
    /// The severity.
    pub level: Level,
    /// The finding, and its meaning.
    pub what: String,
    /// The remedy, or a better setting.
    pub remedy: Option<String>,
    /// The addresses of the nodes it is about; empty where it is about the whole, or one server.
    pub nodes: Vec<String>,
}

impl Finding {
    pub(super) fn new(id: &'static str, level: Level, what: impl Into<String>) -> Self {
        Self { id, level, what: what.into(), remedy: None, nodes: Vec::new() }
    }

    pub(super) fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    pub(super) fn ok(id: &'static str, what: impl Into<String>) -> Self {
        Self::new(id, Level::Ok, what)
    }

    pub(super) fn warning(id: &'static str, what: impl Into<String>) -> Self {
        Self::new(id, Level::Warning, what)
    }

    pub(super) fn failure(id: &'static str, what: impl Into<String>) -> Self {
        Self::new(id, Level::Failure, what)
    }

    /// The same, about this node.
    pub(super) fn about(mut self, node: impl Into<String>) -> Self {
        self.nodes.push(node.into());
        self
    }
}

/// The first of these names, and the number of the others.
pub(super) fn few(names: &[String], between: &str) -> Option<String> {
    let (named, others) = names.split_at(names.len().min(MAX_NAMED));
    match (named, others.len()) {
        ([], _) => None,
        (named, 0) => Some(named.join(between)),
        (named, others) => Some(format!("{} and {others} more", named.join(between))),
    }
}
