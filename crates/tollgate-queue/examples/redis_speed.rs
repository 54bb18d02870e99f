//! How many jobs a second go through a queue on Redis, beside the bare commands of a stream. It
//! starts a separate redis-server: `cargo run --profile dist -p tollgate-queue --example
//! redis_speed`.
//!
//! The bars: offer + take + done through a stream at least 0.7 of XADD + XREADGROUP + XACK + XDEL,
//! and a worker that takes 64 at once at least 5 times one that takes 1.
//!
//! All sides of the first table go over one connection by the same loader: the same fields, as many
//! requests written before an answer is read, as many jobs for each take and acknowledgement. They
//! take turns, and each run of a side begins with an empty server.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tollgate_queue::{ConsumerSettings, Job, Layout, ProducerSettings, Queue, RedisQueues, Worker};
use tollgate_redis::Options;
use tollgate_testbed::resp::{Reply, request};
use tollgate_testbed::{RedisServer, redis_program};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Jobs of a run.
const JOBS: usize = 16_384;
const RUNS: usize = 7;

/// How many requests are written before their answers are read.
const DEPTH: usize = 32;

/// How many are offered in one call, where many are.
const MANY: usize = 64;

/// Jobs of a worker's run that takes one at a time; one that takes more has eight times as many.
const WORKED: usize = 4_096;

const FIELDS: [(&str, &str); 2] = [("to", "ann@example.com"), ("template", "welcome")];

fn main() -> Outcome<()> {
    if redis_program().is_none() {
        println!("redis-server is not installed: apt-get install redis-server");
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let server = RedisServer::start();
    let options =
        || Options::from_url(&server.url()).map(|it| it.deadline(Duration::from_secs(10)));
    let connect = |form| runtime.block_on(RedisQueues::connect_with(options()?, form));
    let (stream, list) = (connect(Layout::Stream)?, connect(Layout::List)?);
    println!(
        "redis-server {}; {JOBS} jobs of the fields {FIELDS:?}, {DEPTH} requests sent at a time, \
         medians of {RUNS} runs in turns.\nus: for one job, in all three parts; cpu: of the \
         server's processor.\n",
        server.info("server").get("redis_version").map_or("?", String::as_str),
    );
    println!(
        "| taken at once | side | jobs/s | of bare | offer us | take us | done us | cpu us | of bare |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for batch in [1, 64] {
        let queue = |queues, form, many, is_held| Side::Queue { queues, form, many, is_held };
        let sides = [
            Side::BareStream,
            Side::BoundedStream,
            Side::BareList,
            queue(&stream, "stream", 1, false),
            queue(&stream, "stream", MANY, false),
            queue(&stream, "stream", MANY, true),
            queue(&list, "list", 1, false),
            queue(&list, "list", MANY, false),
        ];
        pipelined(&server, &sides, batch)?;
    }
    println!(
        "\nWho works, over the client, each by itself: a loop of take and done, and a `Worker` \
         whose function does nothing.\n"
    );
    println!("| jobs lie in | who | taken at once | jobs/s | of who takes 1 |");
    println!("| --- | --- | --- | --- | --- |");
    for (form, queues) in [("a stream", stream), ("a list", list)] {
        runtime.block_on(workers(form, &queues))?;
    }
    Ok(())
}

/// The sides that move jobs, and how.
enum Side<'a> {
    /// XADD, XREADGROUP, XACK and XDEL: no bound, and nothing comes back by itself.
    BareStream,
    /// The same, but the job is added by a script that looks at the length before.
    BoundedStream,
    /// RPUSH and LPOP: no bound, and who dies takes its jobs along.
    BareList,
    Queue {
        queues: &'a RedisQueues,
        form: &'static str,
        /// How many are offered in one call.
        many: usize,
        /// Whether the very first job stays in hand all the time, so that no others can be cut off
        /// from the begin of a stream.
        is_held: bool,
    },
}

/// XLEN and XADD as one script, and nothing else.
const BOUNDED: &str = "if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[1]) then return false end \
                       return redis.call('XADD', KEYS[1], '*', unpack(ARGV, 2))";

impl Side<'_> {
    fn name(&self) -> String {
        match self {
            Self::BareStream => "XADD, XREADGROUP, XACK, XDEL".to_owned(),
            Self::BoundedStream => "the same, bounded by a script".to_owned(),
            Self::BareList => "RPUSH, LPOP".to_owned(),
            Self::Queue { form, many, is_held, .. } => {
                let offered =
                    if *many == 1 { String::new() } else { format!(", {many} offered at once") };
                let tag = if *is_held { ", the first job in hand" } else { "" };
                format!("queue in a {form}{offered}{tag}")
            }
        }
    }

    /// The requests that add all jobs, and those that have to go before.
    fn adds(&self, line: &mut Line) -> Outcome<Vec<Vec<u8>>> {
        let fields = FIELDS.map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
        let fields = fields.as_flattened();
        let add = |before: &[&[u8]]| request(&[before, fields].concat());
        Ok(match self {
            Self::BareStream | Self::BoundedStream => {
                line.ask(&[b"XGROUP", b"CREATE", b"bare", b"workers", b"0", b"MKSTREAM"])?;
                let loaded = line.ask(&[b"SCRIPT", b"LOAD", BOUNDED.as_bytes()])?;
                let sha = loaded.text().unwrap_or_default();
                let one = match self {
                    Self::BareStream => add(&[b"XADD", b"bare", b"*"]),
                    _ => add(&[b"EVALSHA", sha.as_bytes(), b"1", b"bare", b"1000000"]),
                };
                vec![one; JOBS]
            }
            // One word, as is in the list of a queue.
            Self::BareList => {
                vec![request(&[b"RPUSH", b"bare", &fields.join(&b":"[..])]); JOBS]
            }
            Self::Queue { queues, many, is_held, .. } => {
                let jobs = vec![Job::from_fields(FIELDS); *many];
                let offer = queues.offer_command("q", &ProducerSettings::new(1_000_000), &jobs);
                let take = queues.take_command("q", &ConsumerSettings::new(), "w", 1);
                let done = queues.ack_command("q", &[]);
                for (text, _) in [&offer, &take, &done] {
                    line.ask(&[b"SCRIPT", b"LOAD", text.as_bytes()])?;
                }
                if *is_held {
                    let one =
                        queues.offer_command("q", &ProducerSettings::new(1_000_000), &[Job::new()]);
                    line.pipelined(&[words(&one.1), words(&take.1)])?;
                }
                vec![words(&offer.1); JOBS / many]
            }
        })
    }

    fn take(&self, batch: usize) -> Vec<u8> {
        let count = batch.to_string();
        let count = count.as_bytes();
        match self {
            Self::BareStream | Self::BoundedStream => request(&[
                b"XREADGROUP",
                b"GROUP",
                b"workers",
                b"w",
                b"COUNT",
                count,
                b"STREAMS",
                b"bare",
                b">",
            ]),
            Self::BareList => request(&[b"LPOP", b"bare", count]),
            Self::Queue { queues, .. } => {
                words(&queues.take_command("q", &ConsumerSettings::new(), "w", batch).1)
            }
        }
    }

    /// The ids of the jobs that were taken.
    fn ids(&self, taken: &Reply) -> Vec<Vec<u8>> {
        let items = taken.items();
        let id = |reply: &Reply| reply.bytes().map(<[u8]>::to_vec);
        match self {
            Self::BareStream | Self::BoundedStream => {
                let entries = items.first().and_then(|stream| stream.items().get(1));
                let entries = entries.map_or(&[][..], Reply::items);
                entries.iter().filter_map(|entry| entry.items().first().and_then(id)).collect()
            }
            Self::BareList => items.iter().filter_map(id).collect(),
            Self::Queue { .. } => {
                let packed = items.get(3).and_then(Reply::bytes).unwrap_or_default();
                let ids = RedisQueues::parse_take_reply(packed).unwrap_or_default();
                ids.iter().map(|id| id.to_string().into_bytes()).collect()
            }
        }
    }

    /// The requests that acknowledge.
    fn done(&self, ids: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let ids: Vec<&[u8]> = ids.iter().map(Vec::as_slice).collect();
        let of = |before: &[&[u8]]| request(&[before, &ids].concat());
        match self {
            Self::BareStream | Self::BoundedStream => {
                vec![of(&[b"XACK", b"bare", b"workers"]), of(&[b"XDEL", b"bare"])]
            }
            Self::BareList => Vec::new(),
            Self::Queue { queues, .. } => {
                let (_, said) = queues.ack_command("q", &[]);
                let said: Vec<&[u8]> = said.iter().map(Vec::as_slice).collect();
                vec![of(&said)]
            }
        }
    }
}

fn words(words: &[Vec<u8>]) -> Vec<u8> {
    request(&words.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// The time of one run: seconds of the server's processor, and of the clock in each part.
struct Run {
    cpu: f64,
    parts: [f64; 3],
}

impl Run {
    fn wall(&self) -> f64 {
        self.parts.iter().sum()
    }
}

fn pipelined(server: &RedisServer, sides: &[Side<'_>], batch: usize) -> Outcome<()> {
    let mut all: Vec<Vec<Run>> = sides.iter().map(|_| Vec::new()).collect();
    // The first round warms up, and does not count.
    for turn in 0..=RUNS {
        for (side, runs) in sides.iter().zip(&mut all) {
            let run = run(server, side, batch)?;
            if turn > 0 {
                runs.push(run);
            }
        }
    }
    let us = |runs: &[Run], of: &dyn Fn(&Run) -> f64| {
        median(runs.iter().map(|run| of(run) * 1e6 / JOBS as f64).collect())
    };
    // Of the bare run of the same turn, for the machine is not equally fast all the time.
    let bare = all.first().map_or(&[][..], Vec::as_slice);
    let ratio = |runs: &[Run], of: &dyn Fn(&Run) -> f64| {
        median(bare.iter().zip(runs).map(|(bare, run)| of(bare) / of(run)).collect())
    };
    for (side, runs) in sides.iter().zip(&all) {
        let (wall, cpu) = (us(runs, &Run::wall), us(runs, &|run| run.cpu));
        println!(
            "| {batch} | {} | {:.0} | {:.2} | {:.1} | {:.1} | {:.1} | {cpu:.1} | {:.2} |",
            side.name(),
            1e6 / wall,
            ratio(runs, &Run::wall),
            us(runs, &|run| run.parts[0]),
            us(runs, &|run| run.parts[1]),
            us(runs, &|run| run.parts[2]),
            ratio(runs, &|run| run.cpu),
        );
    }
    Ok(())
}

fn run(server: &RedisServer, side: &Side<'_>, batch: usize) -> Outcome<Run> {
    let mut line = Line::open(server)?;
    line.ask(&[b"FLUSHALL"])?;
    let adds = side.adds(&mut line)?;
    let take = side.take(batch);
    let mut parts = [Duration::ZERO; 3];
    let mut part = |line: &mut Line, place: usize, requests: &[Vec<u8>]| {
        let begin = Instant::now();
        let replies = line.pipelined(requests)?;
        if let Some(part) = parts.get_mut(place) {
            *part += begin.elapsed();
        }
        Outcome::Ok(replies)
    };
    let cpu = server.cpu_seconds();
    part(&mut line, 0, &adds)?;
    let mut left = JOBS;
    while left > 0 {
        // As many takes as are sent at a time, then what acknowledges them: for that, their answers
        // have to be there.
        let takes = vec![take.clone(); DEPTH.min(left.div_ceil(batch))];
        let taken = part(&mut line, 1, &takes)?;
        let mut done = Vec::new();
        for taken in &taken {
            let ids = side.ids(taken);
            left = left.checked_sub(ids.len()).ok_or("more jobs than there are")?;
            if ids.len() != batch {
                return Err(format!("{} taken, and not {batch}: {taken:?}", ids.len()).into());
            }
            done.extend(side.done(&ids));
        }
        part(&mut line, 2, &done)?;
    }
    Ok(Run { cpu: server.cpu_seconds() - cpu, parts: parts.map(|part| part.as_secs_f64()) })
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// One connection on which many requests are sent before their answers are read.
struct Line {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Line {
    fn open(server: &RedisServer) -> Outcome<Self> {
        let stream = TcpStream::connect(server.address())?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, unread: Vec::new() })
    }

    fn ask(&mut self, words: &[&[u8]]) -> Outcome<Reply> {
        let replies = self.pipelined(&[request(words)])?;
        replies.into_iter().next().ok_or_else(|| "no answer".into())
    }

    fn pipelined(&mut self, requests: &[Vec<u8>]) -> Outcome<Vec<Reply>> {
        let mut replies = Vec::with_capacity(requests.len());
        for requests in requests.chunks(DEPTH) {
            self.stream.write_all(&requests.concat())?;
            let mut read = 0;
            for _ in requests {
                let (reply, end) = loop {
                    match Reply::read(self.unread.get(read..).unwrap_or_default()) {
                        Ok(Some(reply)) => break reply,
                        Ok(None) => self.fill()?,
                        Err(_) => return Err("what the server said is not RESP".into()),
                    }
                };
                if let Reply::Error(error) = reply {
                    return Err(error.into());
                }
                replies.push(reply);
                read += end;
            }
            self.unread.drain(..read);
        }
        Ok(replies)
    }

    fn fill(&mut self) -> Outcome<()> {
        let mut chunk = [0; 64 * 1024];
        let length = self.stream.read(&mut chunk)?;
        if length == 0 {
            return Err("the server ended the connection".into());
        }
        self.unread.extend(chunk.get(..length).unwrap_or_default());
        Ok(())
    }
}

/// Workers that take one at a time, and 64: a loop that takes jobs and reports all of them as done,
/// and a [`Worker`], which reports each as soon as it is done.
async fn workers(form: &str, queues: &RedisQueues) -> Outcome<()> {
    let kinds = [(1, None), (64, None), (1, Some(1)), (64, Some(1)), (64, Some(64))];
    let mut all = kinds.map(|_| Vec::new());
    for turn in 0..=RUNS {
        for ((batch, at_once), figures) in kinds.into_iter().zip(&mut all) {
            let jobs = if batch == 1 { WORKED } else { 8 * WORKED };
            let name = format!("{form}:{batch}:{at_once:?}").replace([' ', '(', ')'], ".");
            let queue = Queue::new(queues.clone(), name)?;
            let producer = queue.producer(ProducerSettings::new(1_000_000))?;
            for _ in 0..jobs / MANY {
                producer.offer_all(&vec![Job::from_fields(FIELDS); MANY]).await?;
            }
            let consumer = queue.consumer(ConsumerSettings::new())?;
            let begin = Instant::now();
            let mut done = 0;
            if let Some(at_once) = at_once {
                let worker = Worker::new(consumer, "w").batch(batch).concurrency(at_once);
                let worker = worker.max_jobs(jobs as u64);
                done = worker.run(|_| async { Ok(()) }, std::future::pending()).await?.done;
            } else {
                while done < jobs as u64 {
                    let taken = consumer.take("w", batch).await?.jobs;
                    let ids: Vec<_> = taken.iter().map(|job| job.id).collect();
                    done += consumer.ack(&ids).await?;
                }
            }
            if done != jobs as u64 {
                return Err(format!("{done} done of {jobs}").into());
            }
            if turn > 0 {
                figures.push(jobs as f64 / begin.elapsed().as_secs_f64());
            }
        }
    }
    let figures = all.map(median);
    for ((batch, at_once), figure) in kinds.into_iter().zip(figures) {
        let (who, of) = match at_once {
            None => ("a loop".to_owned(), figures[0]),
            Some(at_once) => (format!("a worker of {at_once} at once"), figures[2]),
        };
        println!("| {form} | {who} | {batch} | {figure:.0} | {:.1} |", figure / of);
    }
    Ok(())
}
