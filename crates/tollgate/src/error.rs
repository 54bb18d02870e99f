//! Errors: the problem, who is at fault, and the correction.

use core::fmt;
use core::ops::Range;

/// An invalid text: the problem, its place, and the correction.
///
/// Displays with a caret under the word:
///
/// ```
/// let error = "10/s via gcr".parse::<tollgate::LimitSet>().unwrap_err();
/// let lines: Vec<String> = error.to_string().lines().map(String::from).collect();
/// assert_eq!(lines[0], "unknown strategy `gcr`");
/// assert_eq!(lines[1], "  10/s via gcr");
/// assert!(lines[2].starts_with("           ^^^ did you mean `gcra`?"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ParseError {
    text: String,
    at: Range<usize>,
    what: String,
    remedy: String,
}

/// The longest text that an error displays, in characters.
const SHOWN_CHARS: usize = 200;

impl ParseError {
    /// An error about the bytes `at` of `text`.
    #[must_use]
    pub fn at(
        text: &str,
        at: Range<usize>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { text: text.to_owned(), at, what: what.into(), remedy: remedy.into() }
    }

    /// An error about the whole of `text`.
    #[must_use]
    pub fn whole(text: &str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::at(text, 0..text.len(), what, remedy)
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

    /// The bytes of the text that the error is about.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.at.clone()
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, at, what, remedy } = self;
        if text.is_empty() || text.chars().count() > SHOWN_CHARS {
            return write!(f, "{what}: {remedy}");
        }
        // One column per character, so that the caret is under its word.
        let shown: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let column = |byte: usize| text.char_indices().take_while(|(i, _)| *i < byte).count();
        let start = column(at.start);
        let carets = column(at.end).saturating_sub(start).max(1);
        write!(f, "{what}\n  {shown}\n  {:start$}{:^<carets$} {remedy}", "", "")
    }
}

crate::debug_as_display!(ParseError);

impl std::error::Error for ParseError {}

/// Makes an error's `Debug` the same as its `Display`: `main` prints a returned error with `Debug`.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_as_display {
    ($($error:ty),+) => {$(
        impl ::core::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)
            }
        }
    )+};
}

/// Why a check has no decision. A denial is a [`crate::Decision`], not an error.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller's fault: an invalid limit or subject.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The caller's fault: an invalid ask, with a message that describes a valid one.
    #[error("{0}")]
    Ask(String),
    /// A hold to settle is not open: it has ended by itself, was reset, or never was.
    #[error("{0}")]
    NotOpen(String),
    /// The name of a hold is in the way: an open hold of this name was asked for otherwise, or
    /// answered too often, or it was released before. Nothing was held or charged.
    #[error("{0}")]
    Conflict(String),
    /// A count has the most open holds that it can have: 100,000, and 1,000 that charge at their
    /// end. Nothing was held or charged.
    #[error("{0}")]
    TooManyHolds(String),
    /// The store could not answer.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError { reason: Reason::Name, what, .. } => Self::Conflict(what),
            StoreError { reason: Reason::Ask, what, .. } => Self::Ask(what),
            StoreError { reason: Reason::TooManyHolds, what, .. } => Self::TooManyHolds(what),
            error => Self::Store(error),
        }
    }
}

crate::debug_as_display!(Error);

impl Error {
    /// True when a retry may succeed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Store(e) if e.is_transient())
    }
}

/// A failure of a store: the fault, the next step, and whether a retry may succeed.
pub struct StoreError {
    what: String,
    transient: bool,
    ambiguous: bool,
    is_alone: bool,
    reason: Reason,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The reason why there is no answer.
enum Reason {
    Store,
    Ask,
    Name,
    TooManyHolds,
}

impl StoreError {
    /// A failure that a retry does not fix.
    #[must_use]
    pub fn permanent(what: impl Into<String>) -> Self {
        Self::new(what, false, false)
    }

    fn new(what: impl Into<String>, transient: bool, ambiguous: bool) -> Self {
        Self {
            what: what.into(),
            transient,
            ambiguous,
            is_alone: false,
            reason: Reason::Store,
            source: None,
        }
    }

    /// An ask that this store cannot answer: the caller's fault. A limiter returns it as
    /// [`Error::Ask`].
    #[must_use]
    pub fn misuse(what: impl Into<String>) -> Self {
        Self { reason: Reason::Ask, is_alone: true, ..Self::permanent(what) }
    }

    /// A name for a hold that is in the way of this ask. A limiter returns it as
    /// [`Error::Conflict`].
    #[must_use]
    pub fn conflict(what: impl Into<String>) -> Self {
        Self { reason: Reason::Name, is_alone: true, ..Self::permanent(what) }
    }

    /// One more hold on a count that is full. A limiter returns it as [`Error::TooManyHolds`].
    #[must_use]
    pub fn too_many(what: impl Into<String>) -> Self {
        Self { reason: Reason::TooManyHolds, is_alone: true, ..Self::permanent(what) }
    }

    /// Marks the failure as limited to this question; the store still answers others. An example is
    /// a damaged state of one subject.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }

    /// A failure that may pass: busy, unreachable, timed out.
    #[must_use]
    pub fn transient(what: impl Into<String>) -> Self {
        Self::new(what, true, false)
    }

    /// A failure that may pass and leaves the outcome unknown: the answer was late or lost, and the
    /// store may have charged. A store in this process is never in doubt; one behind a network can
    /// be.
    #[must_use]
    pub fn ambiguous(what: impl Into<String>) -> Self {
        Self::new(what, true, true)
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// True when a retry may succeed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.transient
    }

    /// True when the failure is limited to this question, and the store as a whole is not affected.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// True when the check may have been charged nevertheless, so that a retry could charge it
    /// twice. A retry with a request id is safe: the store recognizes the repeated check. False
    /// means that nothing was charged.
    ///
    /// ```
    /// use tollgate::StoreError;
    /// let late = StoreError::ambiguous("no answer within 50 ms");
    /// assert!(late.is_ambiguous() && late.is_transient());
    /// assert!(!StoreError::transient("busy").is_ambiguous());
    /// ```
    #[must_use]
    pub fn is_ambiguous(&self) -> bool {
        self.ambiguous
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

crate::debug_as_display!(StoreError);

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}
