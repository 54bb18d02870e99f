//! The reader of a file, and its errors.

use core::ops::Range;
use std::path::PathBuf;

/// An error in an experiment file, with its position.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {what}", line.map_or_else(String::new, |line| format!(":{line}")))]
#[non_exhaustive]
pub struct FileError {
    /// The file as it was named.
    pub file: String,
    /// The line, counted from 1, if the error belongs to one.
    pub line: Option<usize>,
    /// The problem, and a valid value.
    pub what: String,
}

tollgate::debug_as_display!(FileError);

/// Reads one file.
pub(super) struct FileReader<'t> {
    pub(super) file: String,
    pub(super) text: &'t str,
    pub(super) folder: Option<PathBuf>,
}

/// An error in one table, without its position.
pub(super) type ReadResult<T> = Result<T, String>;

impl FileReader<'_> {
    pub(super) fn at(&self, span: Range<usize>, what: impl Into<String>) -> FileError {
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = Some(before.matches('\n').count() + 1);
        FileError { file: self.file.clone(), line, what: what.into() }
    }

    pub(super) fn whole(&self, what: impl Into<String>) -> FileError {
        FileError { file: self.file.clone(), line: None, what: what.into() }
    }
}
