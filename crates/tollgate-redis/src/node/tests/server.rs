//! A redis-server of a test's own, and a server that answers what the test says.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tollgate_testbed::RedisServer;

use crate::node::Connector;
use crate::node::deadline::Deadline;
use crate::options::Options;

/// How long something that must happen may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until something holds.
pub(super) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await; // tidy: sleep-ok polls a condition
    }
}

/// A redis-server of a test's own, asked by connections that are tested.
pub(super) struct Server {
    pub(super) port: u16,
    redis: RedisServer,
}

impl Server {
    pub(super) fn start(arguments: &[&str]) -> Self {
        let redis = RedisServer::with(arguments);
        Self { port: redis.port(), redis }
    }

    pub(super) fn options(&self) -> Options {
        // A test's machine is busy; a test about deadlines sets its own.
        Options::tcp("127.0.0.1", self.port).deadline(Duration::from_secs(5))
    }

    /// Sends a command as the user `default`, on a new connection.
    pub(super) async fn tell(&self, words: &[&str]) -> Value {
        tell(self.options(), words).await
    }

    /// The number that a key holds; zero when there is none.
    pub(super) async fn count(&self, key: &str) -> u64 {
        match self.tell(&["GET", key]).await {
            Value::BulkString(digits) => String::from_utf8(digits).unwrap().parse().unwrap(),
            _ => 0,
        }
    }
}

impl Deref for Server {
    type Target = RedisServer;

    fn deref(&self) -> &RedisServer {
        &self.redis
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut RedisServer {
        &mut self.redis
    }
}

/// Sends a command on a new connection.
pub(super) async fn tell(options: Options, words: &[&str]) -> Value {
    let wire = Connector::new(options).unwrap().open(0, |_| {}).await.unwrap();
    let mut command = redis::Cmd::new();
    command.arg(words);
    wire.exchange(&command, Deadline::within(PATIENCE)).await.unwrap()
}

/// The fake server's reaction to a command.
pub(super) enum Act {
    Say(Vec<u8>),
    Nothing,
    SayAndClose(Vec<u8>),
}

/// A server that answers PING, and to everything else what the test says.
pub(super) struct Fake {
    pub(super) port: u16,
    pub(super) connections: Arc<AtomicUsize>,
    pub(super) open: Arc<AtomicUsize>,
    /// The last word of every command but PING, of all connections.
    heard: Arc<Mutex<Vec<String>>>,
    /// No answer to PING while it is set.
    pub(super) deaf: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Fake {
    /// `act` gets the number of the connection, counted from 0, and the words of the command.
    pub(super) async fn start(
        act: impl Fn(usize, &[String]) -> Act + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let [connections, open] = [0, 0].map(|zero| Arc::new(AtomicUsize::new(zero)));
        let (counted, living, act) = (Arc::clone(&connections), Arc::clone(&open), Arc::new(act));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ears = Arc::clone(&heard);
        let deaf = Arc::new(AtomicBool::new(false));
        let plugged = Arc::clone(&deaf);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = counted.fetch_add(1, Ordering::SeqCst);
                living.fetch_add(1, Ordering::SeqCst);
                let (act, living) = (Arc::clone(&act), Arc::clone(&living));
                let (ears, plugged) = (Arc::clone(&ears), Arc::clone(&plugged));
                tokio::spawn(async move {
                    let hear = |words: &[String]| {
                        if words[0] == "PING" {
                            let deaf = plugged.load(Ordering::SeqCst);
                            return if deaf {
                                Act::Nothing
                            } else {
                                Act::Say(b"+PONG\r\n".to_vec())
                            };
                        }
                        ears.lock().unwrap().push(words.last().unwrap().clone());
                        act(number, words)
                    };
                    let _ = serve(stream, hear).await;
                    living.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { port, connections, open, heard, deaf, task }
    }

    pub(super) fn options(&self) -> Options {
        Options::tcp("127.0.0.1", self.port)
    }

    /// The last words of all commands but PING, as they arrived.
    pub(super) fn words(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    /// How often a question with this nonce has arrived.
    pub(super) fn heard(&self, nonce: &str) -> usize {
        self.heard.lock().unwrap().iter().filter(|word| *word == nonce).count()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, act: impl Fn(&[String]) -> Act) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let Some(words) = command(&mut stream).await? else { return Ok(()) };
        match act(&words) {
            Act::Say(bytes) => stream.write_all(&bytes).await?,
            Act::Nothing => {}
            Act::SayAndClose(bytes) => return stream.write_all(&bytes).await,
        }
    }
}

/// One command as clients send it.
async fn command(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Vec<String>>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let count: usize = line.trim_end().trim_start_matches('*').parse().unwrap();
    let mut words = Vec::new();
    for _ in 0..count {
        line.clear();
        stream.read_line(&mut line).await?;
        let length: usize = line.trim_end().trim_start_matches('$').parse().unwrap();
        let mut word = vec![0; length + 2];
        stream.read_exact(&mut word).await?;
        word.truncate(length);
        words.push(String::from_utf8(word).unwrap());
    }
    Ok(Some(words))
}
