//! The replies of a Redis: a store that asks another server than it thinks, or a broken one.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tollgate::operation::{Post, ReadNotices, Withdraw};
use tollgate::{Ask, Decision, Error, LimitSet, Limiter, Notice, Store as _};
use tollgate_redis::{Options, RedisStore};

/// Nothing waits for it: after its last reply the server hangs up.
const DEADLINE: Duration = Duration::from_secs(20);

const COST: u64 = 3;

const SETS: [&str; 2] = ["x: 10/s via gcra", "x: 7/m via gcra, y: 5/10s via sliding_log"];

/// The separator of replies.
const BETWEEN: &[u8] = b"---";

/// Replies to each possible question: answered or refused, and an answer has its properties.
///
/// The first byte picks the question and its limits, the rest are replies: `<nonce>` in one is the
/// number of the question, `<packed>` the same in eight bytes, `<sha>` the name of its script.
pub(crate) fn replies(data: &[u8]) {
    let Some((pick, replies)) = data.split_first() else { return };
    let (question, set) = (pick % 16, usize::from(pick / 16) % SETS.len());
    let limits: LimitSet = SETS[set].parse().expect("a limit of ours");
    RIG.with_borrow(|rig| {
        rig.runtime.block_on(async {
            // A refund is of something that was charged.
            let charged = (question == REFUND).then(|| charged(&limits));
            let replies = charged.into_iter().chain(split(replies));
            let server = tokio::spawn(serve(Arc::clone(&rig.listener), replies.collect()));
            let options = Options::unix(&rig.socket).deadline(DEADLINE).breaker_timeout(DEADLINE);
            let store = RedisStore::builder(options).connect().await.expect("it greets");
            ask(&Limiter::new(limits, store), question).await;
            server.abort();
        });
    });
}

const REFUND: u8 = 4;

async fn ask(limiter: &Limiter<RedisStore>, question: u8) {
    let store = limiter.store();
    match question {
        0 => holds(limiter.check(Ask::new("ann").cost(COST)).await, false),
        1 => holds(limiter.check(Ask::new("ann").cost(COST).partial()).await, true),
        2 => holds(limiter.check(Ask::new("ann").cost(COST).peek()).await, false),
        3 => holds(limiter.check(Ask::new("ann").cost(COST).request("id")).await, false),
        REFUND => {
            let decision = limiter.check(Ask::new("ann").cost(COST)).await.expect("it is right");
            let receipt = decision.receipt().expect("it was charged");
            if let Some(refund) = is_told(limiter.refund(&receipt).await) {
                assert_eq!(refund.given.len(), limiter.limits().limits().len());
                assert!(refund.given.iter().all(|given| *given <= COST), "{refund:?}");
                assert!(refund.left.amounts().first() <= COST, "{refund:?}");
            }
        }
        5 => {
            let changes = is_told(limiter.admin().adjust("ann", -2).await);
            assert!(changes.is_none_or(|changes| changes.len() == limiter.limits().limits().len()));
        }
        6 => drop(is_told(limiter.admin().reset("ann").await)),
        7 => {
            if let Some(Some(found)) = is_told(limiter.admin().inspect("ann").await) {
                assert!(!format!("{found:?}").is_empty());
            }
        }
        8 => {
            let read = store.perform(&ReadNotices::new(None)).await;
            if let Some(Some(notices)) = is_told(read.map_err(Error::from)) {
                assert!(notices.all.is_sorted_by(|a, b| a.name <= b.name));
            }
        }
        9 => drop(is_told(store.perform(&Withdraw::new("it")).await.map_err(Error::from))),
        10 => {
            let notice = Notice::new("it", "is so", Duration::from_secs(9)).expect("a notice");
            is_told(store.perform(&Post::new(&notice)).await.map_err(Error::from));
        }
        11 => drop(is_told(store.prepare(&[limiter.limits()]).await.map_err(Error::from))),
        12 => drop(is_told(store.count_keys().await.map_err(Error::from))),
        // Several together, and again when their script may be there.
        _ => {
            for _ in 0..2 {
                let both = async || limiter.check(Ask::new("ann").cost(COST)).await;
                let (first, second) = tokio::join!(both(), both());
                holds(first, false);
                holds(second, false);
            }
        }
    }
}

/// A missing answer is an error, and nobody waited for a server that has hung up.
fn is_told<T>(answer: Result<T, Error>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(error) => {
            let text = error.to_string();
            assert!(!text.is_empty() && !text.contains("no answer from Redis within"), "{text}");
            None
        }
    }
}

/// The properties of a decision, whoever decides.
fn holds(answer: Result<Decision<'_>, Error>, may_be_less: bool) {
    let Some(decision) = is_told(answer) else { return };
    let granted = decision.granted();
    assert!(granted == 0 || granted == COST || may_be_less && granted < COST, "{decision:?}");
    assert_eq!(decision.retry_after().is_some(), !decision.is_allowed(), "{decision:?}");
    for report in decision.reports() {
        assert!(report.remaining() <= report.limit().capacity(), "{decision:?}");
    }
    assert!(!decision.to_string().is_empty());
    if let Some(receipt) = decision.receipt() {
        assert_eq!(receipt.to_string().parse(), Ok(receipt));
    }
}

/// A right answer to a check.
fn charged(limits: &LimitSet) -> Vec<u8> {
    let count = limits.limits().len();
    let mut reply = format!("*{}\r\n:<nonce>\r\n:{COST}\r\n:1000000\r\n", 3 + 3 * count);
    for _ in 0..count {
        reply += ":2\r\n:0\r\n:300000\r\n";
    }
    reply.into_bytes()
}

fn split(mut data: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let mut all = Vec::new();
    while let Some(at) = data.windows(BETWEEN.len()).position(|window| window == BETWEEN) {
        all.push(data[..at].to_vec());
        data = &data[at + BETWEEN.len()..];
    }
    all.push(data.to_vec());
    all.into_iter()
}

thread_local! {
    static RIG: RefCell<Rig> = RefCell::new(Rig::new());
}

/// Where the server of one thread listens.
struct Rig {
    runtime: Runtime,
    listener: Arc<UnixListener>,
    socket: PathBuf,
    _folder: TempDir,
}

impl Rig {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let folder = tempfile::tempdir().expect("a folder for a socket");
        let socket = folder.path().join("s");
        let guard = runtime.enter();
        let listener = UnixListener::bind(&socket).expect("a socket");
        drop(guard);
        Self { runtime, listener: listener.into(), socket, _folder: folder }
    }
}

/// A server that greets, answers this many questions, and hangs up on all that come after.
async fn serve(listener: Arc<UnixListener>, replies: VecDeque<Vec<u8>>) {
    let replies = Arc::new(Mutex::new(replies));
    while let Ok((stream, _)) = listener.accept().await {
        // The caller sees the outcome.
        tokio::spawn(converse(stream, Arc::clone(&replies)));
    }
}

async fn converse(stream: UnixStream, replies: Arc<Mutex<VecDeque<Vec<u8>>>>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(words) = command(&mut stream).await? {
        let (reply, is_last) = {
            let mut replies = replies.lock().unwrap_or_else(PoisonError::into_inner);
            let is_greeting = words[0] == b"PING" && !replies.is_empty();
            let reply = if is_greeting { Some(b"+PONG\r\n".to_vec()) } else { replies.pop_front() };
            (reply, replies.is_empty())
        };
        let Some(reply) = reply else { break };
        let reply = filled(&reply, &words);
        stream.write_all(&reply).await?;
        // A client with half of a reply, or news that nobody asked for, waits for more and asks
        // nothing.
        let is_answer = match redis::parse_redis_value(&reply) {
            Ok(redis::Value::Push { .. }) | Err(_) => false,
            Ok(_) => true,
        };
        if is_last || !is_answer {
            break;
        }
    }
    Ok(())
}

/// One command as clients send it.
async fn command(stream: &mut BufReader<UnixStream>) -> io::Result<Option<Vec<Vec<u8>>>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let number = |line: &str, sign| line.trim_end().trim_start_matches(sign).parse::<usize>();
    let count = number(&line, '*').map_err(io::Error::other)?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        line.clear();
        stream.read_line(&mut line).await?;
        let length = number(&line, '$').map_err(io::Error::other)?;
        let mut word = vec![0; length + 2];
        stream.read_exact(&mut word).await?;
        word.truncate(length);
        words.push(word);
    }
    Ok(Some(words))
}

/// A reply with the parts that only the question has.
fn filled(reply: &[u8], words: &[Vec<u8>]) -> Vec<u8> {
    let sha = words.get(1).map_or(&[][..], Vec::as_slice);
    let keys = words.get(2).and_then(|word| std::str::from_utf8(word).ok()?.parse::<usize>().ok());
    let args = keys.and_then(|keys| words.get(3 + keys..)).unwrap_or_default();
    // A check has its cost before it, and no cost is so long.
    let nonce = args.iter().find(|word| word.len() > 9).map_or(&[][..], Vec::as_slice);
    let packed = std::str::from_utf8(nonce).ok().and_then(|nonce| nonce.parse::<u64>().ok());
    let packed = packed.unwrap_or_default().to_be_bytes();
    let reply = replaced(reply, b"<sha>", sha);
    let reply = replaced(&reply, b"<nonce>", nonce);
    replaced(&reply, b"<packed>", &packed)
}

fn replaced(mut text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut made = Vec::new();
    while let Some(at) = text.windows(from.len()).position(|window| window == from) {
        made.extend([&text[..at], to].concat());
        text = &text[at + from.len()..];
    }
    made.extend(text);
    made
}
