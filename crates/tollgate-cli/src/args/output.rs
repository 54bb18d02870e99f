//! The options of every command: colours, and how much is printed on stderr.

use clap::{Args, ColorChoice};

use crate::show::Verbosity;

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Colours: on a terminal unless NO_COLOR is set, or with CLICOLOR_FORCE; always; or never
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true)]
    #[arg(display_order = 900, hide_default_value = true)]
    pub(crate) color: ColorChoice,

    /// Print errors alone on stderr: no notes, no waits, no progress
    #[arg(long, short, global = true, display_order = 901, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Also print the steps on stderr: waits, jobs that are done, the time that the command took
    #[arg(long, short, global = true, display_order = 902)]
    pub(crate) verbose: bool,
}

impl OutputArgs {
    pub(crate) fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Usual,
        }
    }
}
