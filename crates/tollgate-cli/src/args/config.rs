//! The arguments of `config`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Read policy files and say what is wrong with them, and what they mean
    ///
    /// All problems of a file are told at once, each with its place and what would be right.
    ///
    /// Exits with 0 when the files are fine (warnings are no fault, unless they are to be denied),
    /// 1 when there are warnings and --deny-warnings is given, 2 on errors.
    #[command(after_help = "Example: tollgate config check examples/policies/api.toml")]
    Check(ConfigCheck),
    /// Print the JSON Schema of policy files, for editors
    #[command(after_help = "Example: tollgate config schema > policies.schema.json")]
    Schema,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigCheck {
    /// The files: `.toml`, `.yaml` or `.yml`
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Exit with 1 when there is a warning
    #[arg(long)]
    pub(crate) deny_warnings: bool,

    /// Warn also of what is right on one server and crosses slots on a cluster
    #[arg(long)]
    pub(crate) cluster: bool,

    /// Print one JSON list, an object for each file
    #[arg(long)]
    pub(crate) json: bool,
}
