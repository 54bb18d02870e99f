//! The arguments of the command line, as clap parses them; their doc comments are the help texts.

mod admin;
mod advise;
mod config;
mod counts;
mod diff;
mod explain;
mod hash_key;
mod health;
mod help;
mod holds;
#[cfg(feature = "judge")]
mod judge;
mod lab;
mod output;
mod queue;
mod replay;
mod scripts;
mod serve;
mod strategy;

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use admin::{
    Admin, AdminAction, AdminCount, AdminService, CreditArgs, RulingArgs, RulingTarget, Top, TopBy,
};
pub(crate) use advise::{Advise, Outliers};
pub(crate) use config::{Config, ConfigCheck, ConfigImport, ImportFrom};
pub(crate) use counts::{StoreArgs, SubjectArgs};
pub(crate) use diff::Diff;
pub(crate) use explain::Explain;
pub(crate) use hash_key::HashKey;
pub(crate) use health::Health;
pub(crate) use help::{Help, Man};
pub(crate) use holds::{Commit, Reserve};
#[cfg(feature = "judge")]
pub(crate) use judge::{Judge, PromiseArg, TimeUnit};
pub(crate) use lab::{Lab, LabCommon, LabQueue, LabRace};
pub(crate) use output::OutputArgs;
pub(crate) use queue::{
    ConsumerArgs, ProducerArgs, Queue, QueueArgs, QueueChange, QueueCounts, QueueDead, QueueDone,
    QueueForm, QueueList, QueueLook, QueuePush, QueueRemove, QueueStats, QueueWork,
};
pub(crate) use replay::{FieldArgs, LogArgs, Replay};
pub(crate) use scripts::{Reply, ScriptFormat, Scripts};
pub(crate) use serve::{
    CallerLimitsArg, Family, HeadersArg, LogDenials, LogForm, OnOff, Parameters, Serve, Slashes,
    TlsFor, Unknown,
};

/// Exact rate limiting, from a shell.
///
/// Examples of limits: `10/s`, `120/m, 240/h`, `100/s burst 200 via token_bucket`, `1/10s via
/// uniform`. A quota alone means at most N in any D. A subject names whose requests are counted:
/// `user:42`, `ip:10.0.0.1,route:login`, or just `backup`.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, propagate_version = true)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
#[command(after_help = "Example: tollgate check user:42 --limit 10/s && ./send-mail

A newer version beside an older one on one store, and the way back: docs/upgrade.md")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the service, which answers programs and proxies over HTTP
    ///
    /// Without arguments, it counts in memory with a small demo policy, and prints calls to try. On
    /// Ctrl-C and SIGTERM, it finishes the requests that have begun, and exits with 0.
    #[command(
        after_help = "Example: tollgate serve --config policies.toml --store redis://127.0.0.1"
    )]
    #[command(after_long_help = "Examples:
  tollgate serve
  tollgate serve --config policies.toml --listen 0.0.0.0:8700 --trust 10.0.0.0/8
  tollgate serve -c policies.toml --store sqlite:///var/lib/tollgate/counts.db
  tollgate serve --listen unix:/run/tollgate.sock --admin off --log json

Secrets come from the environment, so that no process list shows them:
  TOLLGATE_ADMIN_TOKEN   the token of administrators, 16 bytes or more
  TOLLGATE_WORKER_TOKEN  the token of workers for --queue-workers, 16 bytes or more
  TOLLGATE_RESP_PASSWORD the password of clients of --resp, 16 bytes or more
  TOLLGATE_RESP_USERS    further users of --resp: NAME:ROLE:PASSWORD, separated by blanks
  TOLLGATE_RECEIPT_KEY   the key that signs receipts, 32 bytes or more, in place of the store's
  TOLLGATE_KEY_SECRET    the secret for hashes of API keys, 16 bytes or more
  TOLLGATE_WEBHOOK_SECRET the secret that signs for --webhook, 16 bytes or more")]
    Serve(Box<Serve>),
    /// Check the health of a running service, for probes that run a command
    ///
    /// Exits with 0 when it is healthy, 1 when it is not or does not answer, 2 on wrong usage.
    #[command(after_help = "Example: tollgate health --ready")]
    #[command(after_long_help = "Examples:
  tollgate health
  tollgate health 127.0.0.1:8701 --ready
  tollgate health unix:/run/tollgate/tollgate.sock --store --timeout 500ms")]
    Health(Health),
    /// Print the hash of an API key, as policies, bans and administrators may name it
    ///
    /// Reads one key for each line of the standard input, or takes one as an argument, which other
    /// users of the machine may see while the command runs. The hash is that of a service with the
    /// same TOLLGATE_KEY_SECRET, or of one without.
    #[command(after_help = "Example: tollgate hash-key < key.txt")]
    #[command(after_long_help = "Examples:
  tollgate hash-key < key.txt
  tollgate hash-key k-17
  tollgate admin ban api_key=\"$(tollgate hash-key < key.txt)\" --for 1h")]
    HashKey(HashKey),
    /// Show and correct the counts of a running service, over its admin listener
    ///
    /// If the service requires a token, set TOLLGATE_ADMIN_TOKEN in the environment.
    #[command(after_help = "Example: tollgate admin reset ip:192.0.2.7 --policy login")]
    Admin(Admin),
    /// Watch a running service: its admissions and denials, its store, its busiest subjects
    ///
    /// Shows the figures of the console again and again, until Ctrl-C. In a terminal they fit the
    /// window; the keys `d`, `D`, `a`, `A` and `n` sort the limits, and `q` ends it. They come from
    /// the admin listener. If the service requires a token, set TOLLGATE_ADMIN_TOKEN in the
    /// environment.
    #[command(after_help = "Example: tollgate top --every 5s")]
    Top(Top),
    /// Check a request, and charge it when every limit admits it
    ///
    /// Exits with 0 when admitted, 1 when denied for now, 3 when denied for ever (the cost is above
    /// a limit's capacity), 2 on an error. Several limits or subjects are charged together or not
    /// at all.
    #[command(after_help = "Example: tollgate check zoo --limit \"3/60s via sliding_log\"")]
    #[command(after_long_help = "Examples:
  tollgate check zoo --limit \"3/60s via sliding_log\"
  tollgate check user:42 --limit 10/s --limit 240/h --cost 2
  tollgate check --on resource:12=\"5/10s via sliding_log\" \\
                 --on consumer:1=\"3/10s via sliding_log\" --shard 12")]
    Check(Check),
    /// Run a command when its turn comes
    ///
    /// Waits until every limit admits, charges, and runs COMMAND. Waiting reserves nothing, and
    /// waiters have no order. With --at-once N, at most N such commands run at a time: a slot is
    /// taken, renewed while COMMAND runs, and given back. Those who wait for one form a line.
    /// COMMAND finds the number of its slot in TOLLGATE_FENCE: larger than that of every earlier
    /// one.
    ///
    /// An interrupted wait charges nothing, and neither does a COMMAND that cannot be started.
    ///
    /// Exits with COMMAND's code (128 + the signal that killed it), 124 when its turn did not come
    /// within --wait, 125 when its turn never comes or on an error of tollgate, 126 when COMMAND
    /// cannot be run, 127 when it is not found, 130 when interrupted while waiting.
    #[command(
        after_help = "Example: tollgate run backup --limit 1/10m --wait 1h -- rsync -a src dst"
    )]
    #[command(after_long_help = "Examples:
  tollgate run backup --limit 1/10m --wait 1h -- rsync -a src dst
  tollgate run encode --at-once 2 -- ffmpeg -i in.mov out.mp4
  tollgate run ci --at-once 1 --hold 10s --store redis://127.0.0.1 -- ./deploy")]
    Run(Run),
    /// Set units aside for a request whose cost is known only afterwards
    ///
    /// Prints the hold, as one word. `tollgate commit HOLD ACTUAL` charges what was used. Until
    /// then nobody else gets the units. A hold that nobody commits ends after --ttl.
    ///
    /// Exits as `check` does; a denial is explained on stderr.
    #[command(
        after_help = "Example: hold=$(tollgate reserve bob --limit 1000/m --cost 800 --ttl 60s)"
    )]
    #[command(after_long_help = "Examples:
  hold=$(tollgate reserve bob --limit 1000/m --cost 800 --ttl 60s)
  id=$(uuidgen)
  tollgate reserve bob --limit 1000/m --cost 800 --ttl 60s --id \"$id\"")]
    Reserve(Reserve),
    /// Charge what was used of a hold, and give the rest back
    ///
    /// To commit twice is as to commit once, for a minute. With 0, nothing was used.
    ///
    /// Exits with 0 when it was charged, now or before; 1 when the hold is not open any more, so
    /// that nothing was charged; 2 on an error.
    #[command(after_help = "Example: tollgate commit \"$hold\" 300")]
    #[command(after_long_help = "Examples:
  tollgate commit \"$hold\" 300
  tollgate commit bob 300 --limit 1000/m --id \"$id\"")]
    Commit(Commit),
    /// Check a request without charging it
    ///
    /// Exits as `check` does: 0 when it would be admitted, 1 when denied for now, 3 when denied for
    /// ever, 2 on an error.
    #[command(after_help = "Example: tollgate peek user:42 --limit 10/s --cost 5 --json")]
    #[command(after_long_help = "Examples:
  tollgate peek user:42 --limit 10/s --cost 5 --json
  tollgate peek bob --limit \"20 at once, 1000/m\" --cost 800 --kind reserve")]
    Peek(Peek),
    /// Charge a cost that became known afterwards, without a check
    ///
    /// For work that is done: it also charges beyond the limit, and the debt then denies until it
    /// has come back. A limit keeps at most its `debt`; the rest is cut.
    ///
    /// Exits with 0 when it was charged, 2 on an error.
    #[command(after_help = "Example: tollgate charge bob --limit 1000/m --cost 300")]
    Charge(Check),
    /// Reset the count of a subject
    ///
    /// The subject starts fresh under these limits. Other limits of the same subject stay.
    #[command(after_help = "Example: tollgate reset user:42 --limit 10/s")]
    Reset(CountArgs),
    /// Give units back to a subject, or take them
    ///
    /// This is an administrator's correction. It gives the oldest counted units back first, and at
    /// most as many as are counted. It takes units as an event of this moment, and at most as many
    /// as remain.
    #[command(after_help = "Example: tollgate adjust user:42 --limit 240/h --by +20")]
    Adjust(Adjust),
    /// Give units to a subject, once
    ///
    /// They stand behind the limits until their end: a check takes them where the limits have no
    /// more left. `inspect` shows what is left of them.
    #[command(after_help = "Example: tollgate credit bob --limit 1000/m --units 5000 --for 30d")]
    Credit(Credit),
    /// Show the stored count of a subject
    #[command(after_help = "Example: tollgate inspect user:42 --limit 240/h")]
    Inspect(CountArgs),
    /// Explain a limit: worst window, sustained rate, bytes, waits, faults
    #[command(after_help = "Example: tollgate explain \"100/s burst 200 via token_bucket\"")]
    #[command(after_long_help = "Examples:
  tollgate explain \"100/s burst 200 via token_bucket\"
  tollgate explain \"10/s, 120/m, 240/h\"
  tollgate explain 5/10s --strategy gcra --json")]
    Explain(Explain),
    /// Say which limit fits a log, and why
    ///
    /// Reads logs as `replay` does. Shows the demand of clients at their busiest, the limits that
    /// would deny few of them under each strategy, the cost of each, and one recommendation, which
    /// is replayed. Outliers, such as robots, are named and not averaged in.
    #[command(after_help = "Example: tollgate advise access.log.gz --policy policies.toml")]
    #[command(after_long_help = "Examples:
  tollgate advise access.log.gz
  tollgate advise access.log --by user --deny-clients 1% --policy policies.toml
  tollgate advise access.log --deny-requests 0.5% --per 10s,1h --strategy gcra
  tollgate advise access.log --by ip,path --csv clients.csv --report advice.html
  tollgate advise access.log --by all --cost bytes --json")]
    Advise(Box<Advise>),
    /// Show what a limit would have done to real traffic
    ///
    /// Reads the logs of web servers, proxies and load balancers, plain or packed: `tollgate help
    /// logs` has the formats. A line is an event when its client, its time and the `--by` field can
    /// be read, whatever follows. The replay sorts events by time first; each has a cost of 1
    /// without `--cost`.
    #[command(after_help = "Example: tollgate replay access.log.gz --limit 5/10s --strategy all")]
    #[command(after_long_help = "Examples:
  tollgate replay access.log.gz --limit 5/10s --strategy all --by ip
  tollgate replay access.log --limit 10/s --limit 240/h --by user --json
  tollgate replay access.log --limit 5/10s --strategy all --report denied.html
  tollgate replay access.log --policy policies.toml --csv decisions.csv
  tollgate replay log.2.gz log.1 log --limit \"100/m via gcra\"
  ssh web cat access.log | tollgate replay - --limit 5/s --spread 1")]
    Replay(Box<Replay>),
    /// Show who in a log would be decided otherwise under a new limit or policy file
    ///
    /// Decides every request of the log under OLD and under NEW, each with separate counts.
    ///
    /// Exits with 0 when nobody changes, 1 when somebody does, 2 on an error.
    #[command(after_help = "Example: tollgate diff old.toml new.toml --log access.log.gz")]
    #[command(after_long_help = "Examples:
  tollgate diff old.toml new.toml --log access.log.gz
  tollgate diff 5/10s \"10/10s via gcra\" --log access.log --by user
  tollgate diff old.toml new.toml --log access.log --field route=path \\
                --csv changed.csv
  git show main:policies.toml > old.toml
  tollgate diff old.toml policies.toml --log access.log")]
    Diff(Box<Diff>),
    /// Compare strategies on the same traffic by the units that get through
    ///
    /// Each command prints a table and its findings; `--report FILE` writes a page with pictures.
    #[command(subcommand, after_help = "Example: tollgate lab zoo 400 300 --report zoo.html")]
    Lab(Lab),
    /// Judge any limiter: ask it awkward questions, and find which promises it keeps
    ///
    /// Asks over HTTP, the Redis protocol, a script on a Redis, or the JSON lines of a program, and
    /// holds the answers to the limit. Exits with 0 when every promise was kept, 1 when one is
    /// broken, 2 on wrong usage or when the limiter cannot be asked. It floods the limiter with
    /// questions, so only this machine is asked unless another is named. For the drivers and the
    /// meaning of each verdict, see `tollgate help judge`.
    #[cfg(feature = "judge")]
    #[command(after_help = "Example: tollgate judge -l \"10/s via gcra\" --resp 127.0.0.1:6379 \\
           --ask \"CL.THROTTLE {subject} 9 10 1 {cost}\"")]
    #[command(after_long_help = "Examples:
  tollgate judge -l \"10/s via gcra\" --command \"python3 driver.py\"
  tollgate judge -l \"10/s\" --http \"http://127.0.0.1:8080/?user={subject}\"
  tollgate judge -l \"5/m via fixed_window\" --grpc 127.0.0.1:8081 \\
                 --ask \"shop user={subject} hits_addend={cost}\"
  tollgate judge -l \"5/10s via fixed_window\" --redis 127.0.0.1:6379 \\
                 --script limit.lua --ask \"1 {subject} 5 10\" --allowed item:0=1")]
    Judge(Box<Judge>),
    /// Use a bounded queue, whose workers set the pace
    ///
    /// Strategies limit by time; a queue does not. It accepts a job while fewer jobs wait than its
    /// bound, and its workers decide how fast jobs leave. Queues are in the file or on the Redis
    /// that `--store` names. For the guarantees, see `tollgate help queue`.
    #[command(subcommand, after_help = "Example: tollgate queue push mail to=ann --bound 10")]
    Queue(Queue),
    /// Print the Lua script for limits or for a queue, for any Redis client
    ///
    /// Several limits are one set on one subject, all or nothing in one call. The script contains
    /// its limits, reads the server's clock, and counts under the same keys as every other command.
    /// So tollgate and your own client can share a count.
    ///
    /// The output is long: `| sh` loads the script and asks once, and `--format call` prints the
    /// call alone. The explanations are comments.
    #[command(after_help = "Example: tollgate scripts \"10/s via gcra\" --answer boolean | sh

From a script of an article to a limit: tollgate help from-a-script")]
    #[command(after_long_help = "Examples:
  tollgate scripts \"10/s via gcra\" --answer boolean | sh
  tollgate scripts \"10/s via gcra\" --answer boolean --format call
  tollgate scripts \"10/s via gcra\" \"240/h via sliding_window\"
  tollgate scripts 10/s --format lua > limit.lua
  tollgate scripts --on resource:12=5/10s --on consumer:1=3/10s --shard 12 \\
                   --arguments \"s n n\" --answer words
  tollgate scripts \"[[1,10],[60,120],[3600,240,60]]\" --arguments \"json _ cost\"
  tollgate scripts --queue mail --bound 10
  redis-cli --eval limit.lua 'tg1:{user:42}:sliding_log/1s' , 1 0

From a script of an article to a limit: tollgate help from-a-script")]
    Scripts(Scripts),
    /// Check whether a Redis or Valkey server is fit to hold counts
    ///
    /// Checks its version, scripts, permissions, role, memory, disk, clock and latency, and says
    /// what to do about each. It touches no key.
    ///
    /// Of a cluster it checks every node, the slots, and the behaviour when a node fails. Of
    /// sentinels it checks whether they agree, and every server that they watch.
    ///
    /// Exits with 0 when it is fit, also with warnings; with 1 when something must be changed; with
    /// 2 when it cannot be reached or is not a Redis.
    #[command(after_help = "Example: tollgate doctor --store redis://127.0.0.1:6379")]
    #[command(after_long_help = "Examples:
  tollgate doctor --store redis://127.0.0.1:6379
  tollgate doctor --store rediss://tollgate:PASSWORD@redis.example.com --json
  tollgate doctor --store unix:///run/redis/redis-server.sock
  tollgate doctor --store redis+cluster://10.0.0.1:6379,10.0.0.2:6379
  tollgate doctor --store redis+sentinel://10.0.0.1,10.0.0.2,10.0.0.3/limits")]
    Doctor(Doctor),
    /// Check policy files, or print their schema
    #[command(subcommand, after_help = "Example: tollgate config check policies.toml")]
    Config(Config),
    /// Print the completions for a shell
    #[command(after_help = "Example: tollgate completions bash > ~/.bash_completion")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print manual pages
    #[command(after_help = "Example: tollgate man /usr/local/share/man/man1")]
    Man(Man),
    /// Show a page of the documentation, or the help of a command
    #[command(after_help = "Example: tollgate help notation")]
    Help(Help),
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) which: SubjectArgs,

    /// The cost: requests, or an amount of each unit, such as `requests=1,tokens=800`
    #[arg(long, short, value_name = "COST", default_value = "1", allow_hyphen_values = true)]
    pub(crate) cost: String,

    #[command(flatten)]
    pub(crate) place: StoreArgs,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Peek {
    #[command(flatten)]
    pub(crate) check: Check,

    /// The question to explain: `check`, `reserve`, which takes one slot of a limit `20 at once`,
    /// or `acquire`, which takes as many as it costs
    #[arg(long, value_name = "KIND", default_value = "check")]
    pub(crate) kind: String,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) which: SubjectArgs,

    /// The cost of the request, in units
    #[arg(long, short, value_name = "N", default_value = "1", allow_hyphen_values = true)]
    pub(crate) cost: String,

    /// At most N such commands at a time, each in a slot of SUBJECT; limits are charged, too
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) at_once: Option<String>,

    /// With --at-once: how long a slot stays taken when this program is killed or cut off from the
    /// store [default: 30s]
    #[arg(long, value_name = "DURATION", requires = "at_once", allow_hyphen_values = true)]
    pub(crate) hold: Option<String>,

    /// The longest time to wait, such as `90s`; `0` tries once [default: as long as needed]
    #[arg(long, short, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) wait: Option<String>,

    #[command(flatten)]
    pub(crate) place: StoreArgs,

    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) which: SubjectArgs,

    #[command(flatten)]
    pub(crate) place: StoreArgs,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Adjust {
    #[command(flatten)]
    pub(crate) which: SubjectArgs,

    /// How many units to give back, or `UNIT=N,...`; a negative number takes units
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) by: String,

    #[command(flatten)]
    pub(crate) place: StoreArgs,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Credit {
    #[command(flatten)]
    pub(crate) which: SubjectArgs,

    #[command(flatten)]
    pub(crate) credit: CreditArgs,

    #[command(flatten)]
    pub(crate) place: StoreArgs,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// The server: `redis://[USER:PASSWORD@]HOST:PORT`, `rediss://` for TLS, `unix:///PATH`,
    /// `redis+cluster://HOST,HOST`, `redis+sentinel://HOST,HOST,HOST/NAME`
    #[arg(long, value_name = "URL", env = "TOLLGATE_STORE", hide_env_values = true)]
    pub(crate) store: String,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids of holds and of others are any text: one may begin with a hyphen.
    #[test]
    fn an_id_may_begin_with_a_hyphen() {
        for line in [
            "admin release -c9x",
            "reserve user:42 --ttl 1m --limit 10/s --id -c9x",
            "commit user:42 1 --limit 10/s --id -c9x",
            "queue push jobs --once -c9x --client -c9x a=1",
            "queue work jobs --exec true --worker -c9x",
            "queue dead jobs --again -c9x",
            "queue dead jobs --forget -c9x",
        ] {
            let words = std::iter::once("tollgate").chain(line.split(' '));
            Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}
