//! The arguments of `lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tollgate_lab::experiment::Rate;

#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Run an experiment file: workloads, limits and strategies
    ///
    /// Time is simulated: an hour of traffic takes as long as its decisions, and the same file and
    /// seed give the same results to the last bit, in memory and on Redis; or real, with `--live`.
    #[command(after_help = "Example: tollgate lab run examples/lab/greedy.toml --report out.html")]
    Run {
        /// The experiment, in TOML (`tollgate help page lab`)
        #[arg(value_name = "FILE")]
        file: PathBuf,

        #[command(flatten)]
        common: LabCommon,
    },
    /// A zoo's web site with more callers than it stands: a gate for each caller, or one window?
    ///
    /// The example of an article on rate limiting with Redis, in four tests: a sliding log on the
    /// whole site, a uniform gate for each caller, and both again, the gates with new callers.
    #[command(after_help = "Example: tollgate lab zoo 400 300 --report zoo.html")]
    Zoo {
        /// How many calls each test makes
        #[arg(value_name = "LOOPS", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        loops: u64,

        /// How many calls the resource stands in 10 s
        #[arg(value_name = "ALLOWED_PER_10S", value_parser = clap::value_parser!(u64).range(1..))]
        allowed: u64,

        #[command(flatten)]
        common: LabCommon,
    },
    /// The two sides of an hour: a limit used up just before its edge and again just after
    #[command(after_help = "Example: tollgate lab sides --report sides.html")]
    Sides {
        #[command(flatten)]
        common: LabCommon,
    },
    /// A bounded queue, whose workers set the pace: what it accepts, and how long jobs wait
    ///
    /// As many a second are accepted as the workers do, and the rest is refused, whatever is
    /// offered; twice the workers, twice as many. Each number of workers is a case.
    #[command(
        after_help = "Example: tollgate lab queue --bound 10 --workers 1,2 --report queue.html"
    )]
    // Queues run only in simulated time and in memory: hide the options that would be errors.
    #[command(mut_arg("store", |arg| arg.hide(true)), mut_arg("live", |arg| arg.hide(true)))]
    // Nothing in it is random, so hide the options that have no effect.
    #[command(mut_arg("operation", |arg| arg.hide(true)), mut_arg("seed", |arg| arg.hide(true)))]
    Queue {
        #[command(flatten)]
        queue: LabQueue,

        #[command(flatten)]
        common: LabCommon,
    },
    /// The race of many who look at a counter before they add to it, beside one atomic question
    ///
    /// Simulated, or on a real Redis with `--store`: then each client has a connection of its own,
    /// and how many get through is that moment's chance.
    #[command(after_help = "Example: tollgate lab race --store redis://127.0.0.1:6379")]
    Race(LabRace),
}

/// What all experiments have.
#[derive(Debug, Args)]
pub(crate) struct LabCommon {
    /// What is drawn by chance comes from here [default: the file's, else 1]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Where to count: `memory://`, or a Redis as `redis://HOST:PORT`, under keys of this run alone
    /// that are removed at its end. In simulated time every decision is compared with memory's
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// Let real time pass: every attempt is asked when it is due, whoever still waits, and by the
    /// store's clock. It takes as long as the experiment says, for each case; latencies and the
    /// server's work are measured beside (`tollgate help page lab`)
    #[arg(long)]
    pub(crate) live: bool,

    /// How long the operation takes that is protected: what share of it deciding is, is told
    /// [default: the file's]
    #[arg(long, value_name = "DURATION", requires = "live")]
    pub(crate) operation: Option<String>,

    /// Run it though it is large: more than 100,000,000 requests or 1,000,000,000 attempts in all
    /// cases together, or 2 GiB of requests that may wait and of what windows may hold
    #[arg(long)]
    pub(crate) large: bool,

    /// Write a report with pictures: one HTML file that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// Write each picture into this folder, as SVG and PNG
    #[arg(long, value_name = "DIR")]
    pub(crate) pictures: Option<PathBuf>,

    /// Write what got through into time series on this Redis, as if the experiment had ended now:
    /// Redis 8, Redis Stack, or Valkey with valkey-timeseries
    #[arg(long, value_name = "URL")]
    pub(crate) timeseries: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LabQueue {
    /// How many jobs may wait
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) bound: u64,

    /// How many are offered, evenly: so many in so long
    #[arg(long, value_name = "RATE", default_value = "20/s")]
    pub(crate) offers: Rate,

    /// How long a worker takes for a job
    #[arg(long, value_name = "DURATION", default_value = "100ms")]
    pub(crate) work: String,

    /// How many work: a case for each of these
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) workers: Vec<u32>,

    /// How long each case takes, of simulated time
    #[arg(long = "for", value_name = "DURATION", default_value = "60s")]
    pub(crate) duration: String,
}

#[derive(Debug, Args)]
pub(crate) struct LabRace {
    /// How many may pass in 10 s
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) limit: u64,

    /// How many ask at once
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub(crate) clients: u64,

    /// What is drawn by chance in a simulated race comes from here [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "store")]
    pub(crate) seed: Option<u64>,

    /// A Redis to race on: real clients in real time
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
