//! How much a command prints on stderr besides errors.

use std::sync::OnceLock;

/// How much is printed on stderr. Standard output is the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Verbosity {
    /// Errors alone.
    Quiet,
    /// Notes too, and the progress of long work on a terminal.
    Usual,
    /// The steps of the work too.
    Verbose,
}

/// The options of this run, which has one command.
static VERBOSITY: OnceLock<Verbosity> = OnceLock::new();

/// Sets the verbosity for the rest of the run; the first call counts.
pub(crate) fn set_verbosity(verbosity: Verbosity) {
    let _ = VERBOSITY.set(verbosity);
}

pub(crate) fn verbosity() -> Verbosity {
    VERBOSITY.get().copied().unwrap_or(Verbosity::Usual)
}

/// Whether errors alone are printed.
pub(crate) fn is_quiet() -> bool {
    verbosity() == Verbosity::Quiet
}

/// Whether the steps of the work are printed.
pub(crate) fn is_verbose() -> bool {
    verbosity() == Verbosity::Verbose
}
