//! The arguments of `config`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Check policy files for mistakes, and show what they mean
    ///
    /// Reports all problems of a file in one run, each with its place and a correction.
    ///
    /// A folder, and a YAML file with `domain` and without `version`, has the rules of
    /// envoyproxy/ratelimit, as `serve --envoy-config` reads them.
    ///
    /// Exits with 0 when the files are valid, also with warnings; with 1 when there are warnings
    /// and --deny-warnings is given; with 2 on errors.
    #[command(
        after_help = "Examples:\n  tollgate config check examples/policies/api.toml\n  tollgate \
                            config check --envoy examples/envoy/limits.yaml"
    )]
    Check(ConfigCheck),
    /// Print the JSON Schema of policy files, for editors
    #[command(after_help = "Example: tollgate config schema > policies.schema.json")]
    Schema,
    /// Print policies made from the limits of another program
    ///
    /// Settings without an equal in policies are reported on stderr. Exits with 2 for a file that
    /// is broken.
    #[command(after_help = "Example: tollgate config import envoy limits.yaml > policies.toml")]
    Import(ConfigImport),
}

#[derive(Debug, Args)]
pub(crate) struct ConfigImport {
    /// The program whose files they are
    #[arg(value_enum)]
    pub(crate) from: ImportFrom,

    /// The files; those of envoyproxy/ratelimit have a domain each
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// Another program with limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ImportFrom {
    /// envoyproxy/ratelimit, and `serve --envoy-config`
    Envoy,
    /// limitador: one file
    Limitador,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigCheck {
    /// The files: `.toml`, `.yaml` or `.yml`; or folders of Envoy's rules
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// All of them are rules of envoyproxy/ratelimit
    #[arg(long)]
    pub(crate) envoy: bool,

    /// Merge the rules of files with the same domain, as `serve --envoy-merge-domains` does
    #[arg(long)]
    pub(crate) merge_domains: bool,

    /// Exit with 1 when there is a warning
    #[arg(long)]
    pub(crate) deny_warnings: bool,

    /// Warn also of settings that do not suit this store: on `redis+cluster://HOST,HOST` a check
    /// over several slots. The store is not asked
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// Print one JSON list, an object for each file
    #[arg(long)]
    pub(crate) json: bool,
}
