//! The error type of this crate: the file that could not be read or written, the place, and the
//! remedy.

use std::io;
use std::path::{Path, PathBuf};

/// Why a log could not be read or replayed to its end. A *line* that cannot be parsed is not an
/// error, and is only counted.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path does not exist.
    #[error("{}: no such file; check the path, or give - to read standard input", .path.display())]
    NotFound {
        /// The path as given.
        path: PathBuf,
    },
    /// The path is a directory.
    #[error("{}: is a directory; name one log file in it, or pipe several: \
             cat {0}/*.log | tollgate replay -", .path.display())]
    IsDirectory {
        /// The path as given.
        path: PathBuf,
    },
    /// The user may not read the path.
    #[error("{}: permission denied; make the file readable, or pipe it in: \
             sudo cat {0} | tollgate replay -", .path.display())]
    PermissionDenied {
        /// The path as given.
        path: PathBuf,
    },
    /// The data has a format that is not read, or is packed twice.
    #[error("{}: is {format}; unpack it on the way in: {command} {0} | tollgate replay -",
            .path.display())]
    Compressed {
        /// The path as given (`-` for standard input).
        path: PathBuf,
        /// The format that the first bytes indicate.
        format: &'static str,
        /// The command that unpacks it to standard output.
        command: String,
    },
    /// The packed data ends early: the download was incomplete, or the log is still being written.
    #[error("{}: the {program} data ends too early, after {unpacked_bytes} bytes of log; fetch the \
             file again, or replay what is there: {program} -dc {0} 2>/dev/null | tollgate replay -",
            .path.display())]
    Truncated {
        /// The path as given (`-` for standard input).
        path: PathBuf,
        /// The program that packs so.
        program: &'static str,
        /// How many bytes could be unpacked before the data ended.
        unpacked_bytes: u64,
    },
    /// The data is damaged after its beginning.
    #[error("{}: damaged {program} data after {unpacked_bytes} bytes of log ({source}); \
             fetch the file again; {program} -t {0} checks it", .path.display())]
    Damaged {
        /// The path as given (`-` for standard input).
        path: PathBuf,
        /// The program that packs so.
        program: &'static str,
        /// How many bytes could be unpacked before the damage.
        unpacked_bytes: u64,
        /// The error of the decoder.
        source: io::Error,
    },
    /// One file is named twice, so that each of its requests would count twice.
    #[error("{} and {} are one file: leave one out", .other.display(), .path.display())]
    Twice {
        /// The second path as given.
        path: PathBuf,
        /// The first one.
        other: PathBuf,
    },
    /// Standard input is one of several logs.
    #[error("standard input cannot be one of several logs: pipe all of them, or none")]
    InputAmongSeveral,
    /// No log is named.
    #[error("no log is named: name one, or give - to read standard input")]
    NoLog,
    /// Any other failure to read the log.
    #[error("{}: cannot read: {source}", .path.display())]
    Read {
        /// The path as given (`-` for standard input).
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The temporary file with sorted events could not be created, written or read.
    #[error("cannot {doing} a temporary file in {}: {source}; sorting this log needs 20 bytes of \
             disk per event (40 while merging); point TMPDIR at a folder with room",
            .dir.display())]
    Temporary {
        /// The operation: `create`, `write` or `read`.
        doing: &'static str,
        /// The folder of the temporary file.
        dir: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The log has more distinct clients than the table can store.
    #[error(
        "more than {max} distinct values of the --by field; choose a field with fewer, \
             or replay a part of the log"
    )]
    TooManyClients {
        /// The most distinct clients.
        max: u64,
    },
    /// A spread was requested, but the timestamps already have fractions of a second.
    #[error(
        "the stamps of this log are finer than whole seconds, so there is nothing to spread; \
             leave out --spread"
    )]
    NothingToSpread,
    /// No limit can be made from the traffic, or not as it was asked for.
    #[error("{why}")]
    Advice {
        /// Why, and the remedy.
        why: String,
    },
    /// Policies cannot be replayed over the log.
    #[error("{why}")]
    Policies {
        /// Why, and the remedy.
        why: String,
    },
    /// The limits of a replay count several units, of which a log has one.
    #[error(
        "the limits count {one} and {other}, and a log has one cost for each request: leave \
             one out, or write a policy with `cost = {{ {one} = ..., {other} = ... }}` and replay \
             it by --policy"
    )]
    Units {
        /// One unit.
        one: tollgate::Unit,
        /// Another one.
        other: tollgate::Unit,
    },
    /// The engine gave no decision for an event of a replay.
    #[error("an event got no decision: {0}")]
    Decide(#[from] tollgate::Error),
    /// The store of a replay cannot be used.
    #[error(transparent)]
    Store(#[from] tollgate::StoreError),
    /// The replay was asked to stop.
    #[error("the replay was stopped before its end")]
    Stopped,
}

tollgate::debug_as_display!(Error);

impl Error {
    /// Maps a failure to open or read `path` to the variant with the right remedy.
    pub(crate) fn reading(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            io::ErrorKind::IsADirectory => Self::IsDirectory { path },
            io::ErrorKind::PermissionDenied => Self::PermissionDenied { path },
            _ => Self::Read { path, source },
        }
    }
}
