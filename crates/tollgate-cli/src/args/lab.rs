//! The arguments of `lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tollgate_experiments::experiment::Rate;

#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Run an experiment file: workloads, limits and strategies
    ///
    /// Time is simulated: an hour of traffic takes only as long as its decisions. The same file and
    /// seed give the same results to the last bit, in memory and on Redis. With `--live`, time is
    /// real.
    #[command(after_help = "Example: tollgate lab run examples/lab/greedy.toml --report out.html")]
    Run {
        /// The experiment, in TOML (`tollgate help lab`)
        #[arg(value_name = "FILE")]
        file: PathBuf,

        #[command(flatten)]
        common: LabCommon,
    },
    /// A web site of a zoo with too many callers: a gate for each, one window, or a queue?
    ///
    /// This is the example of an article on rate limiting with Redis: three strategies on the same
    /// traffic. Visitors ask now and then, a gang of callers comes at once, and one caller asks in
    /// a loop (`tollgate help page zoo`).
    #[command(after_help = "Example: tollgate lab zoo 400 300 --report zoo.html")]
    Zoo {
        /// How many calls the gang makes, and the one caller in a loop
        #[arg(value_name = "LOOPS", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        loops: u64,

        /// How many calls the resource can take in 10 s
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
    /// The queue accepts as many jobs a second as the workers do, and refuses the rest. Twice the
    /// workers accept twice as many. Each number of workers is a case.
    #[command(
        after_help = "Example: tollgate lab queue --bound 10 --workers 1,2 --report queue.html"
    )]
    // Nothing in it is random, so hide the option that has no effect.
    #[command(mut_arg("seed", |arg| arg.hide(true)))]
    Queue {
        #[command(flatten)]
        queue: LabQueue,

        #[command(flatten)]
        common: LabCommon,
    },
    /// The race of clients that read a counter and then add to it, beside one atomic check
    ///
    /// Simulated, or on a real Redis with `--store`. There each client has its own connection, and
    /// the number of clients that get through depends on chance.
    #[command(after_help = "Example: tollgate lab race --report race.html")]
    Race(LabRace),
}

/// The options of all experiments.
#[derive(Debug, Args)]
pub(crate) struct LabCommon {
    /// The seed of all random numbers [default: the file's, else 1]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Where to count: `memory://`, or a Redis as `redis://HOST:PORT`. On Redis the run has its own
    /// keys, and removes them at its end. In simulated time it compares every decision with the
    /// same in memory
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// Run in real time, by the store's clock: each attempt starts when it is due, even while
    /// others still wait. Each case takes as long as the experiment says. Latencies and the work of
    /// the server are measured too (`tollgate help lab`)
    #[arg(long)]
    pub(crate) live: bool,

    /// The duration of the protected operation; the report gives the share of it that a decision
    /// takes [default: the file's]
    #[arg(long, value_name = "DURATION", requires = "live")]
    pub(crate) operation: Option<String>,

    /// Run a large experiment too: more than 100,000,000 requests or 1,000,000,000 attempts in all
    /// cases together, or 2 GiB for waiting requests and for windows
    #[arg(long)]
    pub(crate) large: bool,

    /// Write a report with pictures: one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// Write each picture into this folder, as SVG and PNG
    #[arg(long, value_name = "DIR")]
    pub(crate) pictures: Option<PathBuf>,

    /// Write what got through into time series on this Redis, as if the experiment had ended now:
    /// Redis 8, Redis Stack, or Valkey with valkey-timeseries
    #[arg(long, value_name = "URL")]
    pub(crate) timeseries: Option<String>,

    /// How long these time series are kept; 0 keeps them as long as there is room
    #[arg(long, value_name = "DURATION", default_value = "24h", requires = "timeseries")]
    pub(crate) timeseries_retention: String,

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

    /// The rate at which jobs are offered, evenly, such as `10/s`
    #[arg(long, value_name = "RATE", default_value = "20/s")]
    pub(crate) offers: Rate,

    /// The time that a worker takes for a job
    #[arg(long, value_name = "DURATION", default_value = "100ms")]
    pub(crate) work: String,

    /// The numbers of workers: a case for each
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) workers: Vec<u32>,

    /// The simulated time of each case
    #[arg(long = "for", value_name = "DURATION", default_value = "60s")]
    pub(crate) duration: String,
}

#[derive(Debug, Args)]
pub(crate) struct LabRace {
    /// How many may pass in 10 s
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) limit: u64,

    /// How many clients ask concurrently
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub(crate) clients: u64,

    /// The seed of a simulated race [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "store")]
    pub(crate) seed: Option<u64>,

    /// A Redis to race on, also a cluster or the primary that sentinels name: real clients in real
    /// time
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// Write a report with a picture: one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
