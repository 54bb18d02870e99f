//! The arguments of `help` and `man`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Help {
    /// A page, such as `notation`, or a command, such as `queue push` [default: a list of all]
    #[arg(value_name = "PAGE|COMMAND")]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write the pages of all commands into this folder; without one, print the page of `tollgate`
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}
