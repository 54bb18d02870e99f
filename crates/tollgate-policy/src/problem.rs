//! Problems of policies: the problem, its place, and the correction.

use core::fmt;
use core::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level as Shown, Renderer, Snippet};

/// The most problems of one file that are kept; more are only counted.
pub const MAX_PROBLEMS: usize = 200;

/// The most bytes of a line that are shown.
const SHOWN_BYTES: usize = 400;

/// The most characters of a message: the names in it can have any length.
const MAX_MESSAGE_CHARS: usize = 300;

/// The most characters of a remedy: some list all alternatives.
const MAX_REMEDY_CHARS: usize = 2_000;

/// A range of bytes in a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Span {
    /// The bytes from `start` to before `end`.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The same range, clipped to the text and to character boundaries.
    pub(crate) fn within(self, text: &str) -> Self {
        let floor = |mut at: usize| {
            at = at.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let start = floor(self.start);
        Self { start, end: floor(self.end).max(start) }
    }
}

impl From<Range<usize>> for Span {
    fn from(range: Range<usize>) -> Self {
        Self::new(range.start, range.end)
    }
}

/// The severity of a problem.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(clippy::exhaustive_enums)] // a policy is taken or not
pub enum Level {
    /// The policies are accepted.
    Warning,
    /// The policies are rejected.
    Error,
}

impl Level {
    /// `warning` or `error`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One problem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    level: Level,
    at: Option<Span>,
    what: String,
    remedy: String,
    /// True if it is a problem only on a cluster.
    of_cluster: bool,
}

impl Problem {
    /// A problem for which the file is rejected: its place, the problem, the correction.
    pub fn error(at: Option<Span>, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        let what = shortened(&clean(&what.into(), false), MAX_MESSAGE_CHARS);
        let remedy = shortened(&clean(&remedy.into(), true), MAX_REMEDY_CHARS);
        Self { level: Level::Error, at, what, remedy, of_cluster: false }
    }

    /// The same for a file that is accepted.
    pub fn warning(at: Option<Span>, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::error(at, what, remedy) }
    }

    /// Marks it as a problem only on a cluster.
    pub(crate) fn of_cluster(self) -> Self {
        Self { of_cluster: true, ..self }
    }

    /// Whether the policies are accepted in spite of it.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// The problem, in one line.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The correction.
    #[must_use]
    pub fn remedy(&self) -> &str {
        &self.remedy
    }

    /// The bytes of the file that it is about; `None` for policies that were built by a program.
    #[must_use]
    pub fn span(&self) -> Option<Range<usize>> {
        self.at.map(|at| at.start..at.end)
    }
}

/// Makes untrusted text safe for a terminal and a log. It escapes what would move the cursor,
/// change the direction of writing, or start a new line.
fn clean(text: &str, lines: bool) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        let hidden = matches!(
            c,
            '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        );
        if hidden || c.is_control() && !(lines && c == '\n') {
            clean.extend(c.escape_default());
        } else {
            clean.push(c);
        }
    }
    clean
}

/// Both ends of a text that is too long: the problem of a name follows it.
fn shortened(text: &str, most: usize) -> String {
    // Bytes are compared first: few texts need their characters counted.
    if text.len() <= most || text.chars().count() <= most {
        return text.to_owned();
    }
    let half = most / 2;
    let tail = text.char_indices().rev().nth(half - 1).map_or(0, |(at, _)| at);
    let head: String = text.chars().take(half).collect();
    format!("{head}...{}", text.get(tail..).unwrap_or_default())
}

/// The start of the line of this byte, and its number from 1. In YAML, a single carriage return
/// also ends a line.
fn line_at(text: &str, at: usize) -> (usize, usize) {
    let bytes = text.as_bytes();
    let ends = |(i, byte): &(usize, u8)| {
        *byte == b'\n' || *byte == b'\r' && bytes.get(i + 1) != Some(&b'\n')
    };
    let before = bytes.iter().copied().enumerate().take(at).filter(ends);
    let (mut start, mut line) = (0, 1);
    for (end, _) in before {
        (start, line) = (end + 1, line + 1);
    }
    // A byte order mark is invisible, and not part of the first line.
    let mark = if start == 0 && text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    ((start + mark).min(at.max(start)), line)
}

/// All problems of one file, in the order of its lines.
///
/// ```
/// let problems = tollgate_policy::Policies::parse("limits = 5", tollgate_policy::Format::Toml)
///     .unwrap_err();
/// assert!(problems.to_string().contains("unknown key `limits`"));
/// assert!(problems.to_string().contains("policies:1:1"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Problems {
    file: String,
    source: String,
    list: Vec<Problem>,
    /// The number of problems that were not kept.
    more: usize,
}

tollgate::debug_as_display!(Problems);

impl std::error::Error for Problems {}

impl Problems {
    /// The problems of the file of this name with this text.
    #[must_use]
    pub fn new(file: &str, source: &str, mut list: Vec<Problem>) -> Self {
        list.sort_by_key(|problem| (problem.at, problem.level == Level::Warning));
        list.dedup();
        // Errors are kept first: a file with many warnings must not lose the reasons for its
        // rejection.
        if list.len() > MAX_PROBLEMS {
            list.sort_by_key(|problem| problem.level == Level::Warning);
        }
        let more = list.len().saturating_sub(MAX_PROBLEMS);
        list.truncate(MAX_PROBLEMS);
        list.sort_by_key(|problem| (problem.at, problem.level == Level::Warning));
        Self { file: file.to_owned(), source: source.to_owned(), list, more }
    }

    /// The problems on every store, and those only on a cluster.
    pub(crate) fn by_store(self) -> (Self, Self) {
        let Self { file, source, list, more } = self;
        let (of_cluster, list) = list.into_iter().partition(|problem| problem.of_cluster);
        let clusters =
            Self { file: file.clone(), source: source.clone(), list: of_cluster, more: 0 };
        (Self { file, source, list, more }, clusters)
    }

    /// The problems, at most [`MAX_PROBLEMS`].
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter()
    }

    /// True when nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// True when the policies are rejected.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|problem| problem.level == Level::Error)
    }

    /// The number of problems beyond those that are kept.
    #[must_use]
    pub fn more(&self) -> usize {
        self.more
    }

    /// The name of the file.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The same problems, for a file of this name.
    #[must_use]
    pub fn named(self, file: &str) -> Self {
        Self { file: file.to_owned(), ..self }
    }

    /// The line and column of a problem, both from 1, the column in characters.
    #[must_use]
    pub fn place(&self, problem: &Problem) -> Option<(usize, usize)> {
        let at = problem.at?;
        let (start, line) = line_at(&self.source, at.start);
        let column = self.source.get(start..at.start)?.chars().count() + 1;
        Some((line, column))
    }

    /// All problems as text: the position, the line with carets, and the remedy. With colours if
    /// `styled`.
    #[must_use]
    pub fn render(&self, styled: bool) -> String {
        let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
        let renderer = renderer.decor_style(DecorStyle::Ascii);
        let mut text = String::new();
        for problem in &self.list {
            text.push_str(&self.one(problem, &renderer));
            text.push_str("\n\n");
        }
        if self.more > 0 {
            text.push_str(&format!("and {} more\n", self.more));
        }
        text.truncate(text.trim_end().len());
        text
    }

    fn one(&self, problem: &Problem, renderer: &Renderer) -> String {
        let level = match problem.level {
            Level::Warning => Shown::WARNING,
            Level::Error => Shown::ERROR,
        };
        let title = level.primary_title(problem.what.as_str());
        let remedy = Shown::HELP.message(problem.remedy.as_str());
        let name = clean(&self.file, false);
        let (Some(at), Some((line, column))) = (problem.at, self.place(problem)) else {
            let file = format!("{name}: {}", problem.what);
            let group = level_of(problem.level).primary_title(file).element(remedy);
            return renderer.render(&[group]);
        };
        let origin = annotate_snippets::Origin::path(name.as_str()).line(line).char_column(column);
        let (shown, from) = self.shown(at);
        if shown.trim().is_empty() {
            // There is no word to point at: the file is empty, or the problem is at its end.
            return renderer.render(&[title.element(origin).element(remedy)]);
        }
        let start = (at.start - from).min(shown.len());
        let end = at.end.saturating_sub(from).clamp(start, shown.len());
        let snippet = Snippet::source(shown)
            .line_start(line)
            .annotation(AnnotationKind::Primary.span(start..end));
        let whole = from == line_at(&self.source, at.start).0;
        let group = if whole {
            title.element(snippet.path(name.as_str()))
        } else {
            // The column counts from the start of the line, which is not shown.
            title.element(origin).element(snippet)
        };
        renderer.render(&[group.element(remedy)])
    }

    /// The line that a problem begins in, or a part of a very long one, and where the shown text
    /// begins.
    fn shown(&self, at: Span) -> (&str, usize) {
        let text = &self.source;
        let (start, _) = line_at(text, at.start);
        let end = text[at.start..].find(['\n', '\r']).map_or(text.len(), |end| at.start + end);
        let near = if end - start <= SHOWN_BYTES {
            Span::new(start, end)
        } else {
            let from = at.start.saturating_sub(SHOWN_BYTES / 2).max(start);
            Span::new(from, (at.start + SHOWN_BYTES / 2).min(end)).within(text)
        };
        (&text[near.start..near.end], near.start)
    }
}

fn level_of(level: Level) -> Shown<'static> {
    match level {
        Level::Warning => Shown::WARNING,
        Level::Error => Shown::ERROR,
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}
