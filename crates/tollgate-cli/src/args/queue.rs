//! The arguments of `queue`.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::counts::StoreArgs;

/// Queues: a limit that does not depend on time, but on who works them off.
#[derive(Debug, Subcommand)]
pub(crate) enum Queue {
    /// Offer a job; a full queue refuses it
    ///
    /// Exits with 0 when it was accepted (or is known by its --once), 1 when it was refused, 2 on
    /// an error. With --lines it exits with 1 when at least one was refused.
    #[command(after_help = "Example: tollgate queue push mail to=ann --bound 10")]
    #[command(after_long_help = "Examples:
  tollgate queue push mail to=ann --bound 10
  tollgate queue push mail to=ann --wait 30s || echo 'too many wait'
  tollgate queue push mail to=ann --once order:4711
  tollgate queue push mail to=ann --client ann --bound 100 --per-client 2
  tollgate queue push scans --stdin < page.png
  printf '{\"to\": \"ann\"}\\n{\"to\": \"bob\"}\\n' | tollgate queue push mail --lines")]
    Push(Box<QueuePush>),
    /// Take jobs and run a command for each
    ///
    /// The command is run by `sh -c`, with the job as one line of JSON on its standard input, its
    /// fields as JOB_name in the environment, and TOLLGATE_JOB_ID and TOLLGATE_JOB_DELIVERY beside
    /// them. When it exits with 0, the job is acknowledged. Otherwise it is delivered again, later
    /// each time, until its deliveries are used up and it is a dead letter. Jobs are delivered at
    /// least once: a command may get the same job, with the same id, again.
    ///
    /// Works until Ctrl-C or SIGTERM. Then running commands finish, jobs without a command return
    /// to the queue, and it exits with 0. A second signal ends the commands too; their jobs are
    /// delivered again when their visibility timeout has passed.
    #[command(
        after_help = "Example: tollgate queue work mail --exec 'echo \"to $JOB_to\"' --max-jobs 1"
    )]
    #[command(after_long_help = "Examples:
  tollgate queue work mail --exec 'echo \"to $JOB_to\"' --max-jobs 1
  tollgate queue work mail --exec ./send-mail --concurrency 4 --rate 100/s
  tollgate queue work mail --exec 'jq -r .fields.to' --until-empty
  tollgate queue work mail --exec ./send-mail --visibility 5m --timeout 4m")]
    Work(Box<QueueWork>),
    /// Show waiting jobs and jobs in flight, without taking them
    ///
    /// Waiting jobs come first, in the order of their delivery. Jobs in flight follow, in the order
    /// of their redelivery.
    #[command(after_help = "Example: tollgate queue look mail --in-hand --first 5")]
    Look(QueueLook),
    /// Show the numbers of waiting jobs, of jobs in flight, and of all jobs so far
    #[command(after_help = "Example: tollgate queue stats mail --watch")]
    #[command(after_long_help = "Examples:
  tollgate queue stats mail
  tollgate queue stats mail --watch
  tollgate queue stats mail --watch 10s --json")]
    Stats(QueueStats),
    /// List all queues, each with the number of its waiting jobs
    #[command(after_help = "Example: tollgate queue list --store redis://127.0.0.1")]
    List(QueueList),
    /// Show the dead letters; offer them again, or delete
    #[command(after_help = "Example: tollgate queue dead mail --again all")]
    #[command(after_long_help = "Examples:
  tollgate queue dead mail
  tollgate queue dead mail --again 1700000000000-0
  tollgate queue dead mail --forget all")]
    Dead(QueueDead),
    /// Show the last jobs that were done, if the queue keeps them
    #[command(after_help = "Example: tollgate queue done mail --most 5")]
    Done(QueueDone),
    /// Pause a queue: workers get no job until `queue resume`
    ///
    /// Offers are accepted up to the bound, and jobs in flight are finished.
    #[command(after_help = "Example: tollgate queue pause mail")]
    Pause(QueueArgs),
    /// Resume a paused queue
    #[command(after_help = "Example: tollgate queue resume mail")]
    Resume(QueueArgs),
    /// Remove a queue with all of its jobs
    ///
    /// Exits with 1 and removes nothing while jobs wait or are in flight, unless --force is given.
    #[command(after_help = "Example: tollgate queue remove mail --force")]
    Remove(QueueRemove),
    /// Change the settings of a queue
    ///
    /// From then on, other settings are refused. Jobs in flight keep the time of their redelivery,
    /// and jobs that wait beyond a lower bound stay.
    #[command(after_help = "Example: tollgate queue change mail --bound 20")]
    Change(Box<QueueChange>),
}

/// Which queue, and where.
#[derive(Debug, Args)]
pub(crate) struct QueueArgs {
    /// The name of the queue: letters, digits and `._:-`
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) place: StoreArgs,

    /// How a Redis keeps the jobs; fixed when the queue is made
    #[arg(long, value_enum, value_name = "FORM", default_value_t = QueueForm::Stream)]
    pub(crate) form: QueueForm,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How a Redis keeps the jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum QueueForm {
    /// A stream with a consumer group, which XINFO and XPENDING show
    Stream,
    /// A list, which takes less of the server
    List,
}

impl From<QueueForm> for tollgate_queue::Layout {
    fn from(form: QueueForm) -> Self {
        match form {
            QueueForm::Stream => Self::Stream,
            QueueForm::List => Self::List,
        }
    }
}

/// The settings of producers. The first producer sets them, and the queue keeps them.
#[derive(Debug, Args)]
pub(crate) struct ProducerArgs {
    /// How many jobs may wait; needed once, for a new queue
    #[arg(long, value_name = "N")]
    pub(crate) bound: Option<u64>,

    /// The jobs that count against the bound: waiting jobs, or jobs in flight too [default:
    /// waiting]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) count: Option<QueueCounts>,

    /// How many jobs of one --client the bound counts at most
    #[arg(long, value_name = "N")]
    pub(crate) per_client: Option<u64>,

    /// How long the id of --once is remembered [default: 10m]
    #[arg(long, value_name = "DURATION")]
    pub(crate) remember: Option<String>,
}

/// The jobs that count against a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum QueueCounts {
    Waiting,
    All,
}

/// The settings of consumers. The first consumer sets them, and the queue keeps them.
#[derive(Debug, Args)]
pub(crate) struct ConsumerArgs {
    /// A limit that the deliveries of all workers together pass, such as `100/s`; repeat it, or
    /// join several by `,`
    #[arg(long, value_name = "LIMIT", allow_hyphen_values = true)]
    pub(crate) rate: Vec<String>,

    /// When the job of a worker that died is delivered again; a worker that lives keeps its job as
    /// long as it needs [default: 30s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) visibility: Option<String>,

    /// How often a job is delivered at most; then it is a dead letter [default: 5]
    #[arg(long, value_name = "N")]
    pub(crate) deliveries: Option<u32>,

    /// How many dead letters are kept [default: 1000]
    #[arg(long, value_name = "N")]
    pub(crate) keep_dead: Option<u32>,

    /// How many done jobs are kept [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) keep_done: Option<u32>,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").args(["fields", "stdin", "lines"])))]
pub(crate) struct QueuePush {
    #[command(flatten)]
    pub(crate) which: QueueArgs,

    /// The fields of the job
    #[arg(value_name = "FIELD=VALUE")]
    pub(crate) fields: Vec<String>,

    /// The job is the bytes of standard input
    #[arg(long)]
    pub(crate) stdin: bool,

    /// Each line of standard input is a job: a JSON object of its fields
    #[arg(long)]
    pub(crate) lines: bool,

    #[command(flatten)]
    pub(crate) producer: ProducerArgs,

    /// Accept it once: the same ID again adds no job, as long as the queue remembers it
    #[arg(long, value_name = "ID", conflicts_with = "lines", allow_hyphen_values = true)]
    pub(crate) once: Option<String>,

    /// The client of the job: at most --per-client jobs of one client are in the queue
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) client: Option<String>,

    /// Drop it if it was not delivered within this time
    #[arg(long, value_name = "DURATION")]
    pub(crate) deadline: Option<String>,

    /// The longest time to wait for room, such as `90s` [default: 0, a full queue refuses it
    /// immediately]
    #[arg(long, short, value_name = "DURATION")]
    pub(crate) wait: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct QueueWork {
    #[command(flatten)]
    pub(crate) which: QueueArgs,

    /// The program to run for each job
    #[arg(long, short, value_name = "COMMAND", required = true)]
    pub(crate) exec: String,

    /// Make the queue if there is none, and wait for its first job
    #[arg(long)]
    pub(crate) create: bool,

    /// End after this many deliveries
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_jobs: Option<u64>,

    /// End when no job waits and none can be delivered again
    #[arg(long)]
    pub(crate) until_empty: bool,

    /// How many commands run concurrently
    #[arg(long, short, value_name = "N", default_value_t = 1)]
    pub(crate) concurrency: usize,

    /// How many jobs one request takes: with more there are fewer requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) batch: usize,

    #[command(flatten)]
    pub(crate) consumer: ConsumerArgs,

    /// The delay after the first failure; it doubles with each further failure [default: 1s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) pause: Option<String>,

    /// The longest delay after a failure [default: 10m]
    #[arg(long, value_name = "DURATION")]
    pub(crate) max_pause: Option<String>,

    /// End a command that takes longer; its job counts as failed
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<String>,

    /// The name of this worker [default: the host and the number of the process]
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) worker: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct QueueLook {
    #[command(flatten)]
    pub(crate) which: QueueArgs,

    /// Only waiting jobs
    #[arg(long)]
    pub(crate) waiting: bool,

    /// Only jobs in flight
    #[arg(long, conflicts_with = "waiting")]
    pub(crate) in_hand: bool,

    /// How many of each to show
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) first: u16,
}

#[derive(Debug, Args)]
pub(crate) struct QueueStats {
    #[command(flatten)]
    pub(crate) which: QueueArgs,

    /// Repeat, with the number of jobs per second since the last line
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "1s")]
    pub(crate) watch: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct QueueList {
    #[command(flatten)]
    pub(crate) place: StoreArgs,

    /// Print a JSON list
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").args(["again", "forget"])))]
pub(crate) struct QueueDead {
    #[command(flatten)]
    pub(crate) which: QueueArgs,

    /// Offer this one again, or `all`; a refused one stays a dead letter
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) again: Option<String>,

    /// Delete this one, or `all`
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) forget: Option<String>,

    /// How many to show, the oldest first
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) most: u16,
}

#[derive(Debug, Args)]
pub(crate) struct QueueDone {
    #[command(flatten)]
    pub(crate) which: QueueArgs,

    /// How many to show, the oldest first
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) most: u16,
}

#[derive(Debug, Args)]
pub(crate) struct QueueRemove {
    #[command(flatten)]
    pub(crate) which: QueueArgs,

    /// Drop its jobs
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct QueueChange {
    #[command(flatten)]
    pub(crate) which: QueueArgs,

    #[command(flatten)]
    pub(crate) producer: ProducerArgs,

    #[command(flatten)]
    pub(crate) consumer: ConsumerArgs,

    /// Remove the rate
    #[arg(long, conflicts_with = "rate")]
    pub(crate) no_rate: bool,

    /// Remove the bound for each client
    #[arg(long, conflicts_with = "per_client")]
    pub(crate) no_per_client: bool,
}
