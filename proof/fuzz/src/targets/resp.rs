//! The bytes that a client of the Redis protocol may send, over a socket to a real service. The
//! crate resp-rs defines the commands and the replies.

use std::time::Duration;

use bytes::Bytes;
use resp_rs::{resp2, resp3};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tollgate::{ManualClock, MemoryStore};
use tollgate_policy::{Format, Gate, Policies};
use tollgate_service::{Address, AnyStore, Options, Server};

const FILE: &str = "version = 1\n[[policies]]\nname = \"login\"\non_failure = \"deny\"\n\
                    limits = [{ subject = \"ip\", limit = \"2/h\" }]";

/// No time passes: the same commands have the same answers.
const NOW_US: u64 = 1_000_000_000_000;

/// The time after which a test hangs, on any machine.
const LONG: Duration = Duration::from_secs(60);

/// The most words of a command, and the longest one here: far below the service's bound.
const MAX_WORDS: usize = 64;
const MAX_WORD_BYTES: usize = 1_024;

/// Sends these bytes to two services, in one part and in two. Each command is answered, all replies
/// are whole, and the parts make no difference.
pub(crate) fn commands(data: &[u8]) {
    let middle = data.first().map_or(0, |byte| usize::from(*byte)) % (data.len() + 1);
    let whole = replies_to(&[data]);
    let (first, second) = data.split_at(middle);
    let parts = replies_to(&[first, second]);
    assert_eq!(whole.len(), parts.len(), "{whole:?} and {parts:?}");
    let kinds = |replies: &[resp3::Frame]| replies.iter().map(kind).collect::<Vec<_>>();
    assert_eq!(kinds(&whole), kinds(&parts), "{whole:?} and {parts:?}");
    let asked = commands_of(data);
    assert!(whole.len() >= asked, "{asked} commands, and {whole:?}");
}

/// How many commands are at the start of these bytes, up to the one that closes the connection.
fn commands_of(data: &[u8]) -> usize {
    let (mut rest, mut count) = (Bytes::copy_from_slice(data), 0);
    while let Ok((resp2::Frame::Array(Some(words)), after)) = resp2::parse_frame(rest.clone()) {
        let fits = |word: &resp2::Frame| {
            let bytes = match word {
                resp2::Frame::BulkString(Some(bytes)) => bytes,
                _ => return false,
            };
            bytes.len() <= MAX_WORD_BYTES
        };
        if words.is_empty() || words.len() > MAX_WORDS || !words.iter().all(fits) {
            break;
        }
        count += 1;
        rest = after;
        if matches!(&words[0], resp2::Frame::BulkString(Some(name)) if is_quit(name)) {
            break;
        }
    }
    count
}

fn is_quit(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"QUIT")
}

/// The replies of a new service to a client's bytes in these parts.
fn replies_to(parts: &[&[u8]]) -> Vec<resp3::Frame> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let said = runtime.block_on(async {
        let store = MemoryStore::builder().clock(ManualClock::at_micros(NOW_US)).build();
        let policies = Policies::parse(FILE, Format::Toml).unwrap();
        let gate = Gate::new(policies, AnyStore::Memory(store)).unwrap();
        let here: Address = "127.0.0.1:0".parse().unwrap();
        let mut options = Options::new(vec![here.clone()]);
        options.resp = vec![here];
        let server = Server::start(gate, options).await.unwrap();
        let Address::Tcp(found) = &server.resp()[0] else { panic!("it is not TCP") };
        let mut stream = TcpStream::connect(found[0]).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (mut reader, mut writer) = stream.split();
        let talk = async {
            let send = async {
                for part in parts {
                    // A service that has closed reads no more.
                    let _ = writer.write_all(part).await;
                    tokio::task::yield_now().await;
                }
                let _ = writer.shutdown().await;
            };
            let mut said = Vec::new();
            let (_, read) = tokio::join!(send, reader.read_to_end(&mut said));
            // A reset is an end, too.
            let _ = read;
            said
        };
        let said = tokio::time::timeout(LONG, talk).await.expect("it hangs");
        server.end().await;
        said
    });
    let (mut replies, mut rest) = (Vec::new(), Bytes::from(said));
    while !rest.is_empty() {
        let (reply, after) = resp3::parse_frame(rest.clone())
            .unwrap_or_else(|why| panic!("{why}: {}", rest.escape_ascii()));
        replies.push(reply);
        rest = after;
    }
    replies
}

/// The form of a reply, without the parts that differ between services, such as the process.
fn kind(reply: &resp3::Frame) -> String {
    match reply {
        resp3::Frame::BulkString(Some(text)) if text.starts_with(b"# ") => "INFO".to_owned(),
        resp3::Frame::Array(Some(all)) if all.len() > 20 => format!("{} replies", all.len()),
        // Each service signs receipts with a different key.
        other => other.as_array().map_or_else(|| format!("{other:?}"), |_| "a list".to_owned()),
    }
}
