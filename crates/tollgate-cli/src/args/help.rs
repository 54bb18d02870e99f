//! The arguments of `help` and `man`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Help {
    /// A command, such as `queue push`, or a page, such as `notation` [default: a list of all]
    #[arg(value_name = "COMMAND|PAGE")]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write the pages of all commands into this folder; without one, print the page of `tollgate`
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}
