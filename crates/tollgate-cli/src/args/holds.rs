//! The arguments of `reserve` and `commit`.

use clap::Args;

use super::counts::{StoreArgs, SubjectArgs};

#[derive(Debug, Args)]
pub(crate) struct Reserve {
    #[command(flatten)]
    pub(crate) which: SubjectArgs,

    /// The estimated cost: requests, or an amount of each unit, such as `requests=1,tokens=4000`
    #[arg(long, short, value_name = "N", default_value = "1", allow_hyphen_values = true)]
    pub(crate) cost: String,

    /// How long the hold lasts unless it is committed, such as `60s`
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) ttl: String,

    /// Charge the estimate when the hold ends without a commit; otherwise nothing is charged
    #[arg(long)]
    pub(crate) charge_at_end: bool,

    /// Your own id for the hold, 16 to 256 printable characters without blanks, and a new one for
    /// each hold. To reserve again under it is answered with the same hold
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) id: Option<String>,

    #[command(flatten)]
    pub(crate) place: StoreArgs,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(override_usage = "tollgate commit [OPTIONS] <HOLD> <ACTUAL>
       tollgate commit [OPTIONS] --id <ID> <SUBJECT> <ACTUAL> --limit <LIMIT>
       tollgate commit [OPTIONS] --id <ID> <ACTUAL> --on <SUBJECT=LIMIT>")]
#[command(mut_arg("subject", |arg| arg
    .index(1)
    .value_name("HOLD|SUBJECT")
    .help("The hold, as `reserve` printed it; with --id the subject, as `reserve` was given it")))]
pub(crate) struct Commit {
    #[command(flatten)]
    pub(crate) which: SubjectArgs,

    /// The units that were used; 0 for none
    // The last argument without a name: with --on it is the first, too.
    #[arg(index = 2, allow_hyphen_values = true)]
    pub(crate) actual: Option<String>,

    /// The id that the hold was reserved under, in place of the hold: with the same subject and
    /// limits
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) id: Option<String>,

    #[command(flatten)]
    pub(crate) place: StoreArgs,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
