//! `queue`: the cost of an offer for a Redis, beside a script that looks at the length and adds.

use std::sync::Arc;

use anyhow::{Result, bail};
use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};
use tollgate_queue::{
    Job, Layout, MAX_BOUND, OfferOutcome, Producer, ProducerSettings, Queue, RedisQueues,
};
use tollgate_redis::{Keys, Options, Script};
use tollgate_testbed::RedisServer;

use crate::args::BenchQueue;
use crate::on_redis::{Answers, PATIENCE, Questions, Server, connect_bare, failed};
use crate::redis_server;
use crate::show;
use crate::sqlite::median;

/// The most that an offer may cost, as a multiple of the bare script: refused, and accepted.
const REFUSED_AT_MOST: f64 = 1.5;
const ACCEPTED_AT_MOST: f64 = 2.0;

/// How many calls are sent before an answer is read, where each task waits for its own no longer.
const DEPTHS: [usize; 2] = [1, 32];

/// The job: one field.
const FIELD: (&str, &str) = ("to", "ann@example.com");

#[derive(Debug, Serialize)]
struct QueueJson {
    server: String,
    runs: u32,
    offers: u32,
    tasks: u32,
    rows: Vec<RowJson>,
}

/// Medians of one kind of offer beside the bare script of the same turn.
#[derive(Debug, Serialize)]
struct RowJson {
    layout: &'static str,
    outcome: &'static str,
    sent: String,
    /// Microseconds of the server's processor for an offer.
    us: f64,
    bare_us: f64,
    ratio: f64,
    /// The same within the script, as INFO commandstats has it; none where offers share calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    script_ratio: Option<f64>,
    at_most: f64,
}

pub(crate) fn queue(args: &BenchQueue) -> Result<u8> {
    show::warn_of_debug();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let redis = redis_server::start(&[])?;
    let mut server = Server::connect(&redis.url(), Keys::for_run("bench"))?;
    let mut rows = Vec::new();
    for form in [Form::Stream, Form::List] {
        for accepted in [false, true] {
            let of = Kind { form, accepted };
            for depth in DEPTHS {
                rows.push(of.one_by_one(args, &runtime, &redis, &mut server, depth)?);
            }
            rows.push(runtime.block_on(of.shared(args, &redis, &mut server))?);
        }
    }
    let BenchQueue { runs, offers, tasks, .. } = *args;
    let figures = QueueJson { server: server.name()?, runs, offers, tasks, rows };
    show::figures(args.json, &figures, in_words)?;
    Ok(0)
}

#[derive(Clone, Copy)]
enum Form {
    Stream,
    List,
}

/// The offers of one row.
#[derive(Clone, Copy)]
struct Kind {
    form: Form,
    accepted: bool,
}

impl Kind {
    fn names(self) -> (&'static str, &'static str) {
        let form = match self.form {
            Form::Stream => "stream",
            Form::List => "list",
        };
        (form, if self.accepted { "accepted" } else { "refused" })
    }

    fn layout(self) -> Layout {
        match self.form {
            Form::Stream => Layout::Stream,
            Form::List => Layout::List,
        }
    }

    /// A queue that has room for all, or one that is full with one.
    fn settings(self) -> ProducerSettings {
        ProducerSettings::new(if self.accepted { MAX_BOUND } else { 1 })
    }

    /// The bare script, its key and its arguments.
    fn bare(self) -> (Script, String, Vec<String>) {
        let bound = self.settings().bound().to_string();
        let (name, value) = (FIELD.0.to_owned(), FIELD.1.to_owned());
        let (text, args) = match self.form {
            Form::Stream => (include_str!("bounded_stream.lua"), vec![bound, name, value]),
            Form::List => (include_str!("bounded_list.lua"), vec![bound, value]),
        };
        (Script::new(text.to_owned()), "bare".to_owned(), args)
    }

    async fn queues(self, redis: &RedisServer) -> Result<RedisQueues> {
        let options = Options::from_url(&redis.url())?.deadline(PATIENCE);
        Ok(RedisQueues::connect_with(options, self.layout()).await?)
    }

    fn row(self, sent: String, bare: &[f64], ours: &[f64]) -> RowJson {
        let (layout, outcome) = self.names();
        let at_most = if self.accepted { ACCEPTED_AT_MOST } else { REFUSED_AT_MOST };
        let (us, bare_us) = (median(ours.to_vec()), median(bare.to_vec()));
        let ratio = ratio(bare, ours);
        RowJson { layout, outcome, sent, us, bare_us, ratio, script_ratio: None, at_most }
    }

    /// Calls of one offer each, this many sent before an answer is read.
    fn one_by_one(
        self,
        args: &BenchQueue,
        runtime: &Runtime,
        redis: &RedisServer,
        server: &mut Server,
        depth: usize,
    ) -> Result<RowJson> {
        redis_server::empty(redis)?;
        let queues = runtime.block_on(self.queues(redis))?;
        let (text, words) = queues.offer_command("q", &self.settings(), &[job()]);
        let words: Vec<String> =
            words.into_iter().map(String::from_utf8).collect::<Result<_, _>>()?;
        // EVALSHA, the script's name, how many keys, the keys, and the arguments.
        let [_, _, count, words @ ..] = &words[..] else { bail!("no offer: {words:?}") };
        let (keys, words) = words.split_at(count.parse::<usize>()?.min(words.len()));
        let (bare, key, bare_words) = self.bare();
        // One that fills the queue comes before; a script is slower by far when each call waits.
        let offers = args.offers as usize / if depth == 1 { 4 } else { 1 };
        let mut probes = Vec::new();
        for (name, script, keys, args, answers) in [
            ("bare", bare, vec![key], bare_words, Answers::Check),
            ("ours", Script::new(text), keys.to_vec(), words.to_vec(), Answers::Offer),
        ] {
            probes.push(server.probe(
                name,
                &Questions {
                    script: &script,
                    keys: &vec![keys; depth],
                    args: &args,
                    admits: self.accepted,
                    answers,
                    depth,
                    checks: offers,
                },
            )?);
        }
        for turn in 0..=args.runs {
            for probe in &mut probes {
                server.run(probe)?;
                if turn == 0 {
                    // It warms up, and does not count.
                    probe.times_us.clear();
                    probe.scripts_us.clear();
                }
            }
        }
        let [bare, ours] = &probes[..] else { bail!("two are measured") };
        let sent =
            if depth == 1 { "one at a time".to_owned() } else { format!("{depth} at a time") };
        let script_ratio = Some(ratio(&bare.scripts_us, &ours.scripts_us));
        Ok(RowJson { script_ratio, ..self.row(sent, &bare.times_us, &ours.times_us) })
    }

    /// Many tasks of one program, each of which waits for its own answer, on one connection: offers
    /// share calls as the client has it, and those of the bare script cannot.
    async fn shared(
        self,
        args: &BenchQueue,
        redis: &RedisServer,
        server: &mut Server,
    ) -> Result<RowJson> {
        redis_server::empty(redis)?;
        let queue = Queue::new(self.queues(redis).await?, "q")?;
        let producer = queue.producer(self.settings())?;
        producer.offer(&job()).await?;
        let (script, key, words) = self.bare();
        server.ask(redis::cmd("SCRIPT").arg("LOAD").arg(script.text()))?;
        let connection = connect_bare(&redis.url()).await?;
        let mut command = redis::cmd("EVALSHA");
        command.arg(script.sha()).arg(1).arg(&key).arg(&words[..]);
        let command = Arc::new(command);
        connection.clone().send_packed_command(&command).await.map_err(failed)?;
        let each = args.offers / args.tasks;
        let (mut bare, mut ours) = (Vec::new(), Vec::new());
        for turn in 0..=args.runs {
            let before = server.cpu()?;
            try_join_all((0..args.tasks).map(|_| self.ask(connection.clone(), &command, each)))
                .await?;
            let between = server.cpu()?;
            try_join_all((0..args.tasks).map(|_| self.offer(&producer, each))).await?;
            let after = server.cpu()?;
            if turn > 0 {
                let offers = f64::from(each * args.tasks);
                bare.push((between - before) * 1e6 / offers);
                ours.push((after - between) * 1e6 / offers);
            }
        }
        Ok(self.row(format!("by {} tasks", args.tasks), &bare, &ours))
    }

    async fn ask(
        self,
        mut connection: MultiplexedConnection,
        command: &redis::Cmd,
        count: u32,
    ) -> Result<()> {
        for _ in 0..count {
            let answer = connection.send_packed_command(command).await.map_err(failed)?;
            if answer != redis::Value::Int(i64::from(self.accepted)) {
                bail!("the bare script answered {answer:?}");
            }
        }
        Ok(())
    }

    async fn offer(self, producer: &Producer<RedisQueues>, count: u32) -> Result<()> {
        let job = job();
        for _ in 0..count {
            let offered = producer.offer(&job).await?;
            if matches!(offered, OfferOutcome::Accepted { .. }) != self.accepted {
                bail!("an offer was answered {offered:?}");
            }
        }
        Ok(())
    }
}

fn job() -> Job {
    Job::new().field(FIELD.0, FIELD.1)
}

/// The median of the ratios of each turn: the machine is not equally fast all the time.
fn ratio(bare: &[f64], ours: &[f64]) -> f64 {
    median(bare.iter().zip(ours).map(|(bare, ours)| ours / bare).collect())
}

fn in_words(figures: &QueueJson) -> String {
    let header = ["queue", "offer", "sent", "us", "bare us", "ratio", "in scripts", "bar"];
    let mut table = show::table(header);
    for row in &figures.rows {
        let holds = row.ratio <= row.at_most;
        table.add_row([
            row.layout.to_owned(),
            row.outcome.to_owned(),
            row.sent.clone(),
            format!("{:.2}", row.us),
            format!("{:.2}", row.bare_us),
            format!("{:.2}", row.ratio),
            row.script_ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            format!("<= {}{}", row.at_most, if holds { "" } else { ": missed" }),
        ]);
    }
    let QueueJson { server, runs, offers, .. } = figures;
    format!(
        "{server}. us: microseconds of the server's processor for an offer, beside a bare script \
         that\nlooks at the length and adds; {offers} offers a run, medians of {runs} turns.\n\
         {table}\n"
    )
}
