//! Time series against a server that expects every byte, a real one without them, and a real one
//! with them where there is one.
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod connection;
mod expiry;
mod prefix;
mod queries;
mod real_server;
mod refusals;

use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Notify;

use super::{
    FoundSeries, MAX_KEY_BYTES, MAX_LABEL_BYTES, MAX_LABELS, Query, Recorded, Sample, Series,
    TimeSeries, TimeSeriesError, label,
};
use crate::fault::{ChargeState, Fault};
use crate::options::Options;

/// How long something that must happen may take.
const PATIENCE: Duration = Duration::from_secs(10);

const PING: &str = "*1\r\n$4\r\nPING\r\n";
const PROBE: &str = "*3\r\n$7\r\nCOMMAND\r\n$4\r\nINFO\r\n$6\r\nTS.ADD\r\n";
/// The reply of Redis Stack 7.4 about the command, shortened to its first three elements.
const KNOWN: &str = "*1\r\n*3\r\n$6\r\nts.add\r\n:-1\r\n*3\r\n+write\r\n+denyoom\r\n+module\r\n";

/// A step of the server in a test.
#[derive(Clone)]
enum Step {
    /// These bytes come next.
    Hear(String),
    Say(String),
    /// The connection is closed, and the next step is about the next one.
    Close,
    /// The client closes it, without another word.
    Gone,
    /// The test gets a notice that the server is here.
    Tell(Arc<Notify>),
}
use Step::{Close, Gone, Hear, Say, Tell};

fn hear(bytes: impl Into<String>) -> Step {
    Hear(bytes.into())
}

fn say(bytes: impl Into<String>) -> Step {
    Say(bytes.into())
}

/// The beginning of every connection.
fn greeting() -> Vec<Step> {
    vec![hear(PING), say("+PONG\r\n"), hear(PROBE), say(KNOWN)]
}

/// A server that hears and says what the test expects, and nothing else.
struct Scripted {
    port: u16,
    thread: JoinHandle<()>,
}

impl Scripted {
    fn start(steps: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = std::thread::spawn(move || serve(&listener, steps));
        Self { port, thread }
    }

    fn options(&self) -> Options {
        Options::tcp("127.0.0.1", self.port).deadline(PATIENCE)
    }

    async fn connect(&self) -> TimeSeries {
        TimeSeries::connect(self.options()).await.unwrap()
    }

    /// All steps were done, and nothing came after them. The client must be gone.
    async fn done(self) {
        // Not joined here: the client's end of the connection is closed by this runtime.
        let joined = tokio::task::spawn_blocking(|| self.thread.join()).await.unwrap();
        if let Err(panic) = joined {
            std::panic::resume_unwind(panic);
        }
    }
}

fn serve(listener: &TcpListener, steps: Vec<Step>) {
    let mut stream: Option<TcpStream> = None;
    for step in steps {
        let open = stream.get_or_insert_with(|| {
            let stream = listener.accept().unwrap().0;
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream
        });
        match step {
            Hear(expected) => {
                let mut heard = Vec::new();
                open.take(expected.len() as u64).read_to_end(&mut heard).unwrap();
                assert_eq!(String::from_utf8_lossy(&heard), expected);
            }
            Say(bytes) => match open.write_all(bytes.as_bytes()) {
                // A client that refuses an answer may hang up before its end.
                Err(error) if matches!(error.kind(), ConnectionReset | BrokenPipe) => {}
                written => written.unwrap(),
            },
            Close => stream = None,
            Tell(here) => here.notify_one(),
            Gone => stream.take().into_iter().for_each(gone),
        }
    }
    stream.into_iter().for_each(gone);
}

/// The client closes it, and says nothing before.
fn gone(mut stream: TcpStream) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        // It may be cut with answers unread.
        Err(error) if error.kind() != ConnectionReset => panic!("{error}"),
        _ => assert_eq!(String::from_utf8_lossy(&rest), "", "more than was expected"),
    }
}

fn hits(outcome: &str) -> Series {
    let labels = [("data", "hits"), ("outcome", outcome)];
    Series::new(format!("hits:{outcome}"), Duration::from_secs(60), labels).unwrap()
}

/// The bytes of a command whose words have no blanks. One test spells them out.
fn resp(command: &str) -> String {
    let words: Vec<&str> = command.split(' ').collect();
    let words_of = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), words_of.collect::<String>())
}

/// `TS.CREATE` of [`hits`].
fn create(outcome: &str) -> String {
    resp(&format!(
        "TS.CREATE hits:{outcome} RETENTION 60000 DUPLICATE_POLICY SUM \
         LABELS data hits outcome {outcome}"
    ))
}

/// `TS.ADD` to [`hits`].
fn add(outcome: &str, at_ms: u64, value: u64) -> String {
    resp(&format!(
        "TS.ADD hits:{outcome} {at_ms} {value} RETENTION 60000 ON_DUPLICATE SUM \
         LABELS data hits outcome {outcome}"
    ))
}

/// The query of `docs/timeseries.md`.
fn query(bucket_ms: u64) -> Query {
    Query {
        from_ms: None,
        to_ms: None,
        bucket: Duration::from_millis(bucket_ms),
        filter: vec![("data".to_owned(), "hits".to_owned())],
    }
}

/// Found series in short: `KEY NAME=VALUE ... AT:SUM ...`
fn short(found: &[FoundSeries]) -> Vec<String> {
    let connection = |one: &FoundSeries| {
        let mut connection = one.key.clone();
        for (name, value) in &one.labels {
            connection += &format!(" {name}={value}");
        }
        for bucket in &one.buckets {
            connection += &format!(" {}:{}", bucket.at_ms, bucket.sum);
        }
        connection
    };
    found.iter().map(connection).collect()
}

/// The failure of a query when this is the answer, and the connection closes then.
async fn answered(answer: &str) -> TimeSeriesError {
    let asked = resp("TS.MRANGE - + WITHLABELS AGGREGATION SUM 1000 FILTER data=hits");
    let (server, series) = scripted([hear(asked), say(answer), Close]).await;
    let error = series.range(&query(1_000)).await.unwrap_err();
    server.done().await;
    error
}

fn taken(taken: usize) -> Recorded {
    Recorded { taken, ..Recorded::default() }
}

/// A client of a server that does these steps after the greeting, and gets on with it.
async fn scripted(steps: impl IntoIterator<Item = Step>) -> (Scripted, TimeSeries) {
    let server = Scripted::start(greeting().into_iter().chain(steps).collect());
    let series = server.connect().await;
    (server, series)
}

#[tokio::test]
async fn every_byte_of_every_command() {
    // Both answers come after the last byte of the last command: they were sent without waiting.
    let (server, series) = scripted([
        hear(
            "*11\r\n$9\r\nTS.CREATE\r\n$11\r\nhits:\r\n é\0\r\n$9\r\nRETENTION\r\n$1\r\n2\r\n\
             $16\r\nDUPLICATE_POLICY\r\n$3\r\nSUM\r\n$6\r\nLABELS\r\n\
             $4\r\ndata\r\n$4\r\nhits\r\n$5\r\nlimit\r\n$12\r\n10/s and 1/m\r\n",
        ),
        hear(
            "*13\r\n$6\r\nTS.ADD\r\n$11\r\nhits:\r\n é\0\r\n$13\r\n1700000000000\r\n$1\r\n7\r\n\
             $9\r\nRETENTION\r\n$1\r\n2\r\n$12\r\nON_DUPLICATE\r\n$3\r\nSUM\r\n$6\r\nLABELS\r\n\
             $4\r\ndata\r\n$4\r\nhits\r\n$5\r\nlimit\r\n$12\r\n10/s and 1/m\r\n",
        ),
        say("+OK\r\n:1700000000000\r\n"),
        hear(
            "*10\r\n$9\r\nTS.MRANGE\r\n$1\r\n-\r\n$1\r\n+\r\n$10\r\nWITHLABELS\r\n\
             $11\r\nAGGREGATION\r\n$3\r\nSUM\r\n$4\r\n1000\r\n$6\r\nFILTER\r\n\
             $9\r\ndata=hits\r\n$18\r\nlimit=10/s and 1/m\r\n",
        ),
        say("*0\r\n"),
    ])
    .await;
    let labels = [("data", "hits"), ("limit", "10/s and 1/m")];
    // Rounded up to 2 ms.
    let of = Series::new("hits:\r\n é\0", Duration::from_micros(1_001), labels).unwrap();
    let sample = Sample { series: &of, at_ms: 1_700_000_000_000, value: 7 };
    assert_eq!(series.record(&[sample]).await, Ok(taken(1)));
    let mut query = query(1_000);
    query.filter.push(("limit".to_owned(), "10/s and 1/m".to_owned()));
    assert_eq!(series.range(&query).await, Ok(Vec::new()));
    drop(series);
    server.done().await;
}

#[tokio::test]
async fn series_are_made_once_and_may_be_there() {
    let (server, series) = scripted([
        hear(create("yes") + &create("no") + &add("yes", 1, 2) + &add("no", 1, 3)),
        hear(add("yes", 2, 4)),
        say("-ERR TSDB: key already exists\r\n-TSDB: key already exists\r\n:1\r\n:1\r\n:2\r\n"),
        hear(add("no", 3, 5)),
        say(":3\r\n"),
    ])
    .await;
    let [yes, no] = ["yes", "no"].map(hits);
    let samples = [
        Sample { series: &yes, at_ms: 1, value: 2 },
        Sample { series: &no, at_ms: 1, value: 3 },
        Sample { series: &yes, at_ms: 2, value: 4 },
    ];
    assert_eq!(series.record(&samples).await, Ok(taken(3)));
    assert_eq!(series.record(&[]).await, Ok(taken(0)));
    assert_eq!(series.record(&[Sample { series: &no, at_ms: 3, value: 5 }]).await, Ok(taken(1)));
    drop(series);
    server.done().await;
}

#[tokio::test]
async fn one_refused_sample_leaves_the_others() {
    let (server, series) = scripted([
        hear(create("yes") + &add("yes", 9, 1) + &add("yes", 1, 1) + &add("yes", 8, 1)),
        say("-OOM command not allowed when used memory > 'maxmemory'.\r\n:9\r\n\
             -ERR TSDB: Timestamp is older than retention\r\n:8\r\n"),
        // It was not made, so it is tried again.
        hear(create("yes") + &add("yes", 1, 1) + &add("yes", 2, 1)),
        say("+OK\r\n-ERR TSDB: Timestamp is older than retention\r\n\
             -NOPERM No permissions to access a key\r\n"),
    ])
    .await;
    let yes = hits("yes");
    let at = |at_ms| Sample { series: &yes, at_ms, value: 1 };
    let recorded = series.record(&[at(9), at(1), at(8)]).await.unwrap();
    let error = Some(Fault::OutOfMemory.into());
    assert_eq!(recorded, Recorded { taken: 2, refused: 1, error, ..Recorded::default() });
    let recorded = series.record(&[at(1), at(2)]).await.unwrap();
    let what = "Timestamp is older than retention".to_owned();
    let error = Some(TimeSeriesError::Refused { what });
    assert_eq!(recorded, Recorded { refused: 2, error, ..Recorded::default() });
    drop(series);
    server.done().await;
}

#[tokio::test]
async fn many_samples_are_sent_a_thousand_commands_at_a_time() {
    let adds = |from: u64, to: u64| (from..to).map(|at| add("yes", at, 1)).collect::<String>();
    let answers =
        |from: u64, to: u64| (from..to).map(|at| format!(":{at}\r\n")).collect::<String>();
    let (server, series) = scripted([
        hear(create("yes") + &adds(0, 999)),
        say("+OK\r\n".to_owned() + &answers(0, 999)),
        hear(adds(999, 1_999)),
        say(answers(999, 1_999)),
        hear(adds(1_999, 2_001)),
        // The connection ends in the middle.
        say(":1999\r\n"),
        Close,
    ])
    .await;
    let yes = hits("yes");
    let samples: Vec<_> =
        (0..2_001).map(|at_ms| Sample { series: &yes, at_ms, value: 1 }).collect();
    let recorded = series.record(&samples).await.unwrap();
    let error = Some(Fault::Closed { charge: ChargeState::Unknown }.into());
    assert_eq!(recorded, Recorded { taken: 1_999, unknown: 2, error, ..Recorded::default() });
    drop(series);
    server.done().await;
}

#[tokio::test]
async fn wrong_answers_to_samples_leave_them_unknown() {
    for answers in ["+OK\r\n:2\r\n", "+OK\r\n+OK\r\n", "+OK\r\n*0\r\n", "+OK\r\n$-1\r\n"] {
        let (server, series) =
            scripted([hear(create("yes") + &add("yes", 1, 1)), say(answers)]).await;
        let yes = hits("yes");
        let sample = Sample { series: &yes, at_ms: 1, value: 1 };
        let recorded = series.record(&[sample]).await.unwrap();
        assert_eq!((recorded.unknown, recorded.unsent, recorded.taken), (1, 0, 0), "{answers}");
        let error = recorded.error.unwrap();
        assert!(matches!(error, TimeSeriesError::Malformed { .. }), "{answers}: {error}");
        assert!(series.open.lock().await.is_none(), "it is not used again");
        drop(series);
        server.done().await;
    }
}

#[test]
fn series_and_queries_have_bounds() {
    let labels = |count: usize| vec![("a".to_owned(), "b".to_owned()); count];
    let new = |key: &str, labels: Vec<(String, String)>| Series::new(key, Duration::ZERO, labels);
    let one = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let long = "x".repeat(MAX_KEY_BYTES.max(MAX_LABEL_BYTES));
    let most = &long[..MAX_LABEL_BYTES];
    for (right, what) in [
        (new(&long[..MAX_KEY_BYTES], labels(MAX_LABELS)), "the most"),
        (new("k", labels(0)), "no labels"),
        (new("k", one(most, most)), "the longest label"),
        (new("k", one("a b", "10/s \"x\" !")), "a label with blanks and quotes"),
    ] {
        assert!(right.is_ok(), "{what}: {right:?}");
    }
    for (wrong, said) in [
        (new("", labels(0)), "1 to 512 bytes; this one has 0"),
        (new(&(long.clone() + "x"), labels(0)), "this one has 513"),
        (new("k", labels(MAX_LABELS + 1)), "at most 16 labels"),
        (new("k", one("", "x")), "1 to 128 bytes each; one has 0"),
        (new("k", one("x", "")), "one has 0"),
        (new("k", one("x", &long[..=MAX_LABEL_BYTES])), "one has 129"),
        (new("k", one("x", "a=b")), "no label has `=`"),
        (new("k", one("a(b", "x")), "no label has `=`, `(`"),
        (new("k", one("a!", "x")), "does not end with `!`"),
        (new("k", one("limit", "ignore")), "the word IGNORE"),
        (new("Labels", labels(0)), "the word LABELS"),
        (Series::new("k", Duration::MAX, labels(0)), "at most 2^63 - 1 milliseconds"),
    ] {
        let error = wrong.unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
    let far = Duration::from_millis(i64::MAX.unsigned_abs());
    assert!(Series::new("k", far, labels(0)).is_ok());
    for (wrong, said) in [
        (Query { filter: Vec::new(), ..query(1) }, "at least one label"),
        (Query { filter: one("x", "a,b"), ..query(1) }, "no label has"),
        (query(0), "at least 1 ms"),
        (Query { bucket: Duration::MAX, ..query(1) }, "2^63 - 1"),
    ] {
        let error = wrong.check().unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
    let less = Query { bucket: Duration::from_nanos(1), ..query(1) };
    assert_eq!(less.check(), Ok(1), "rounded up");
}

#[test]
fn every_name_is_a_label_that_a_series_takes() {
    let names = ["4 uniform, new callers", "", " \t", "labels", "IGNORE", "a=b(c)!", "a\r\nb"];
    let long = ["x", "ż", "日", "𝒳"].map(|char| char.repeat(200));
    for name in names.into_iter().chain(long.iter().map(String::as_str)) {
        Series::new("key", Duration::ZERO, [("case", label(name))]).unwrap();
    }
    assert_eq!(label("4 uniform, new callers"), "4 uniform_ new callers");
    assert_eq!(label(&long[2]).len(), 126, "not cut within a character");
}
