//! The words of the command line, as clap reads them; their help is the documentation here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Measure Tollgate beside other programs
///
/// Figures need an optimised build: `cargo run --profile dist -p tollgate-bench`.
#[derive(Debug, Parser)]
#[command(name = "tollgate-bench", max_term_width = 100)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
#[command(
    after_help = "Example: cargo run --profile dist -p tollgate-bench -- memory --keys 1,10000"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) bench: Bench,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Compare the memory store with the crate governor
    ///
    /// Both run GCRA with 16-byte string keys, admit 90 % of the calls, read the clock, and return
    /// what remains. Runs are interleaved in one process; each figure is the median.
    #[command(
        after_help = "Example: cargo run --profile dist -p tollgate-bench -- memory --keys 10000 --threads 1"
    )]
    Memory(BenchMemory),
    /// Compare the SQLite store with the minimum that SQLite can do for a decision
    ///
    /// Checks of `gcra` in a new file alternate with a bare `BEGIN IMMEDIATE; UPDATE; COMMIT` under
    /// the same pragmas. Each figure is the median of five.
    #[command(
        after_help = "Example: cargo run --profile dist -p tollgate-bench -- sqlite --checks 5000"
    )]
    Sqlite(BenchSqlite),
    /// Compare the scripts with others on one Redis, and the client with a bare one
    ///
    /// It measures what a check costs the server, in microseconds of its processor. It compares the
    /// scripts with a minimal handwritten GCRA script, with two published patterns, and with each
    /// other. Each figure is the median of alternating runs. Without --store, it starts its own
    /// redis-server and stops it again. Counts have their own prefix and are removed at the end.
    ///
    /// Exits with 0 even if a figure misses its target: a busy machine is not an error.
    #[command(
        after_help = "Example: cargo run --profile dist -p tollgate-bench -- redis --store redis://127.0.0.1:6379"
    )]
    Redis(BenchRedis),
    /// Measure the service beside a peer, beside bare scripts on Redis, and behind nginx
    ///
    /// wrk sends requests over 50 connections; every side gets the same limit and the same
    /// subjects. The peer is throttlecrab-server, named by TOLLGATE_PEER_THROTTLECRAB. It reports
    /// sides that are not installed, and leaves them out. Each figure is the median of alternating
    /// runs; each ratio is the median of the ratios within a turn. It repeats a run in which a
    /// hypervisor gave more than 1 % of the processors to others, at most as many times for each
    /// side as runs count.
    #[command(
        after_help = "Example: cargo run --profile dist -p tollgate-bench -- server --runs 31"
    )]
    Server(BenchService),
    /// Measure the Redis protocol of the service beside Redis, redis-cell and throttlecrab
    ///
    /// redis-benchmark sends throttle commands over 50 connections, one by one and pipelined by
    /// sixteen, to services of one and of two threads. Every side gets the same limit and the same
    /// subjects. The peers are `SET` of a redis-server, redis-cell in one (TOLLGATE_PEER_REDIS_CELL
    /// names the module), and throttlecrab-server (TOLLGATE_PEER_THROTTLECRAB). It reports peers
    /// that are not there, and leaves them out. Figures and ratios are as for `server`; each ratio
    /// is the service's over that row. The time of the processors is from /proc.
    #[command(after_help = "Example: cargo run --profile dist -p tollgate-bench -- resp --runs 9")]
    Resp(BenchServer),
    /// Measure Envoy's rate limit service beside limitador, beside a bare one, and behind Envoy
    ///
    /// h2load keeps 50 calls on their way, over one connection and over 50, to services of one and
    /// of two threads. Each call has one descriptor, of one subject, and is admitted. The peer is
    /// limitador-server with counters in memory (TOLLGATE_PEER_LIMITADOR names it); the bare one is
    /// tonic's, which reads each call and says OK. With TOLLGATE_PEER_ENVOY, wrk asks Envoy for a
    /// page over one connection: Envoy alone, with its local rate limit, and with the service. It
    /// reports peers that are not there, and leaves them out. Figures and ratios are as for `resp`.
    #[command(after_help = "Example: cargo run --profile dist -p tollgate-bench -- grpc --runs 9")]
    Grpc(BenchTurns),
    /// Show whose turn it is when 50 tasks wait under 20/s, beside governor and leaky-bucket
    ///
    /// Of each way to wait: the turns of the task with the fewest and of the one with the most, the
    /// longest wait, all turns, and how often the limiter was asked. All sides count in memory.
    #[command(after_help = "Example: cargo run -p tollgate-bench -- waiting --seconds 20")]
    Waiting(BenchWaiting),
    /// Measure offers to queues on Redis beside a bare script that looks at the length and adds
    ///
    /// The bare script compares XLEN (LLEN) with a bound, then adds or refuses: no settings, no
    /// time, nothing counted. Offers are refused by a full queue, or accepted. They go one in each
    /// call, one at a time and 32 at a time; and by many tasks on a connection, where they share
    /// calls.
    /// Each ratio is the median of the ratios within a turn. It starts its own redis-server and
    /// stops it again.
    #[command(
        after_help = "Example: cargo run --profile dist -p tollgate-bench -- queue --runs 15"
    )]
    Queue(BenchQueue),
    /// Measure leases and the deny cache on one Redis
    ///
    /// Four processes of 64 tasks each ask about one hot key at 100000/s, with and without a lease,
    /// and about 100,000 keys that are equally busy. At a given pace, they ask about 1,000 subjects
    /// that are denied 19 times out of 20. Sides alternate, and each figure is the median. It
    /// starts its own redis-server and stops it again.
    #[command(after_help = "Example: cargo run --profile dist -p tollgate-bench -- lease --runs 9")]
    Lease(BenchLease),
    /// Reserve and commit beside a check, and slots beside many holders, in memory and on a Redis
    ///
    /// It starts its own redis-server and stops it again.
    #[command(after_help = "Example: cargo run --profile dist -p tollgate-bench -- holds --runs 9")]
    Holds(BenchHolds),
    /// Ask as one process of `lease`
    #[command(hide = true)]
    LeaseNode(LeaseNode),
    /// Serve the bare service that `grpc` measures
    #[command(hide = true)]
    BareGrpc {
        /// Where, at 127.0.0.1
        port: u16,
        /// Threads that serve
        #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
        threads: u16,
    },
    /// Measure the bytes of one side in a separate process
    #[command(hide = true)]
    MemoryBytes {
        /// `tollgate` or `governor`
        side: String,
        /// How many keys
        #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
        keys: u32,
    },
}

#[derive(Debug, Args)]
pub(crate) struct BenchQueue {
    /// Offers of each kind per run; a quarter of them one at a time
    #[arg(long, default_value_t = 20_000,
          value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    pub(crate) offers: u32,

    /// How many tasks share one connection
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) tasks: u32,

    /// Turns; the medians count
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) runs: u32,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchWaiting {
    /// How long the tasks of each side wait for turns
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchHolds {
    /// Runs of each kind; the median counts
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) runs: u32,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchLease {
    /// Only rows whose names have this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,

    /// How long a run takes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,

    /// Runs of each kind; the median counts
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) runs: u32,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// One process of `lease`. It prints what it did as one JSON object.
#[derive(Clone, Debug, Args)]
pub(crate) struct LeaseNode {
    /// The Redis
    #[arg(long)]
    pub(crate) url: String,

    /// The limits of every subject
    #[arg(long)]
    pub(crate) limits: String,

    /// How many subjects
    #[arg(long)]
    pub(crate) subjects: u32,

    /// How many tasks
    #[arg(long)]
    pub(crate) tasks: u32,

    /// Checks a second; 0 for as many as there can be
    #[arg(long)]
    pub(crate) rate: u32,

    /// How long
    #[arg(long)]
    pub(crate) seconds: u32,

    /// Denials to remember
    #[arg(long)]
    pub(crate) deny_cache: usize,

    /// Count in the memory of this process: the yardstick for the others
    #[arg(long)]
    pub(crate) in_memory: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchMemory {
    /// How many keys, one row each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10_000, 1_000_000],
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) keys: Vec<u32>,

    /// How many threads, one row each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2],
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) threads: Vec<u32>,

    /// Calls per run
    #[arg(long, default_value_t = 2_000_000,
          value_parser = clap::value_parser!(u32).range(1_000..=20_000_000))]
    pub(crate) calls: u32,

    /// Runs per row; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) runs: u32,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchSqlite {
    /// Operations of each kind per round
    #[arg(long, default_value_t = 5_000,
          value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub(crate) checks: u32,

    /// The directory of the two new files [default: a temporary one]
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchService {
    /// Only this comparison
    #[arg(long, value_enum)]
    pub(crate) only: Option<Comparison>,

    #[command(flatten)]
    pub(crate) server: BenchServer,
}

/// The comparisons of `server`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Comparison {
    /// With a peer, both in memory
    Peer,
    /// With open consoles, and without any
    Consoles,
    /// On Redis, with a bare script
    Redis,
    /// Behind nginx, with its own limit
    Nginx,
}

#[derive(Debug, Args)]
pub(crate) struct BenchServer {
    /// How many subjects
    #[arg(long, default_value_t = 100_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) subjects: u32,

    #[command(flatten)]
    pub(crate) turns: BenchTurns,
}

#[derive(Debug, Args)]
pub(crate) struct BenchTurns {
    /// How long a run takes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,

    /// Runs of each kind; the median counts
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) runs: u32,

    /// The program that serves [default: the `tollgate` beside this program]
    #[arg(long, value_name = "PATH", env = "TOLLGATE_PROGRAM")]
    pub(crate) program: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchRedis {
    /// The server, with nothing else to do: `redis://HOST:PORT` or `unix:///PATH` [default: one
    /// that is started and stopped; TOLLGATE_REDIS_SERVER names the program]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// Checks of each kind per run; the client asks five times as many
    #[arg(long, default_value_t = 20_000,
          value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    pub(crate) checks: u32,

    /// Runs of each kind; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) runs: u32,

    /// How many checks are sent before an answer is read
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) depth: u32,

    /// Events of the long log
    #[arg(long, default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    pub(crate) entries: u32,

    /// How many tasks share one connection
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub(crate) tasks: u32,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
