//! The driver over the Redis protocol: commands, and scripts by EVALSHA.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Builder;
use tollgate_proof::judge::Ask;
use tollgate_redis::event_loop::Stream;
use tollgate_redis::{BareConnections, Options};

use super::network::{PATIENCE, Protocol};
use super::place::Raw;
use super::reading::{Answer, Reading};
use super::target::Target;
use super::words::{Written, filled};

/// The longest reply.
const LONGEST: usize = 1 << 20;

/// How deep arrays may lie in one another.
const DEPTH: usize = 8;

/// The options of a URL that concern a connection. The others are about stores.
const QUERY: [&str; 3] = ["cert", "db", "key"];

/// A server of the Redis protocol.
#[derive(Clone, Debug)]
pub(super) struct Server {
    connections: Arc<BareConnections>,
    /// Its name in reports, without a password.
    pub(super) name: String,
}

impl Server {
    /// The server at `HOST:PORT`, or at the URL of a store.
    pub(super) fn new(text: &str, may_load: Option<&str>) -> Result<Self> {
        let (options, name) = match text.contains("://") {
            true => of_url(text)?,
            false => {
                let target = Target::parse(text, None)?;
                (Options::from_url(&format!("redis://{target}"))?, text.to_owned())
            }
        };
        if let Some((host, port)) = options.endpoint() {
            Target::new(host, port).may_load(may_load)?;
        }
        let connections = BareConnections::new(options.connect_timeout(PATIENCE))?;
        Ok(Self { connections: Arc::new(connections), name })
    }

    async fn connect(&self) -> Result<Connection> {
        let stream = self.connections.open().await?;
        Ok(Connection { stream, bytes: Vec::with_capacity(4096) })
    }

    /// The digest of a script that the server has from now on.
    pub(super) fn load(&self, script: String) -> Result<String> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let words = ["SCRIPT".to_owned(), "LOAD".to_owned(), script];
        runtime.block_on(async { self.connect().await?.command(&words).await })
    }
}

/// The options of a URL, and its text without the password.
fn of_url(text: &str) -> Result<(Options, String)> {
    let options = Options::from_url(text)?;
    let query = text.split_once('?').map_or("", |(_, query)| query);
    let keys = query.split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    if let Some(key) = keys.filter(|key| !key.is_empty()).find(|key| !QUERY.contains(key)) {
        bail!("`{key}` in the URL is for stores, and means nothing to a judge: leave it out");
    }
    let name = options.to_string();
    Ok((options, name))
}

/// A server, and the command to ask it with.
#[derive(Debug)]
pub(super) struct Resp {
    pub(super) server: Server,
    /// The words of a question.
    pub(super) words: Vec<String>,
}

/// A connection with the bytes that came.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    bytes: Vec<u8>,
}

impl Protocol for Resp {
    type Connection = Connection;

    async fn connect(&self) -> Result<Connection> {
        self.server.connect().await
    }

    async fn ask(
        &self,
        connection: &mut Connection,
        ask: &Ask,
        reading: &Reading,
    ) -> Result<Answer> {
        self.send(connection, ask).await?;
        let reply = connection.reply().await?;
        if let Reply::Error(text) = reply {
            // Redis carries out nothing of a command that it refuses; a script that fails later
            // may have written. Its error begins like this then.
            if text.starts_with("ERR Error running script") {
                bail!("{text}");
            }
            return Ok(Answer::REFUSED);
        }
        Ok(reading.read(&Raw { value: reply.value(), ..Raw::default() }))
    }

    async fn send(&self, connection: &mut Connection, ask: &Ask) -> Result<()> {
        let words: Vec<String> =
            self.words.iter().map(|word| filled(word, ask, Written::AsItIs)).collect();
        connection.write(&words).await
    }
}

impl Connection {
    async fn write(&mut self, words: &[String]) -> Result<()> {
        self.stream.write_all(&command(words)).await?;
        Ok(self.stream.flush().await?)
    }

    /// Sends a command beside the questions, and reads its reply.
    async fn command(&mut self, words: &[String]) -> Result<String> {
        self.write(words).await?;
        match self.reply().await? {
            Reply::Text(text) => Ok(text),
            Reply::Error(text) => bail!("{text}"),
            other => bail!("`{}` is no text", other.value()),
        }
    }

    async fn reply(&mut self) -> Result<Reply> {
        loop {
            let mut at = 0;
            if let Some(reply) = parse(&self.bytes, &mut at, 0)? {
                self.bytes.drain(..at);
                return Ok(reply);
            }
            if self.bytes.len() > LONGEST {
                bail!("a reply is longer than {LONGEST} bytes");
            }
            if self.stream.read_buf(&mut self.bytes).await? == 0 {
                bail!("the connection was closed");
            }
        }
    }
}

/// A command as bytes.
fn command(words: &[String]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// A reply of RESP2.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Null,
    Int(i64),
    Text(String),
    Error(String),
    Array(Vec<Self>),
}

impl Reply {
    fn value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Int(number) => Value::from(number),
            Self::Text(text) | Self::Error(text) => Value::from(text),
            Self::Array(items) => Value::Array(items.into_iter().map(Self::value).collect()),
        }
    }
}

/// Reads a reply from `at` on, which then is its end. None while there is more to come.
fn parse(bytes: &[u8], at: &mut usize, depth: usize) -> Result<Option<Reply>> {
    let rest = bytes.get(*at..).unwrap_or(&[]);
    let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
    let Some((kind, line)) = rest.get(..end).and_then(<[u8]>::split_first) else {
        bail!("a line of a reply is empty");
    };
    let text = String::from_utf8_lossy(line).into_owned();
    let number = || text.parse::<i64>().with_context(|| format!("`{text}` is no number"));
    *at += end + 2;
    Ok(Some(match kind {
        b'+' => Reply::Text(text),
        b'-' => Reply::Error(text),
        b':' => Reply::Int(number()?),
        b'$' => {
            let Ok(length) = usize::try_from(number()?) else { return Ok(Some(Reply::Null)) };
            let Some(bulk) = bytes.get(*at..*at + length.min(LONGEST) + 2) else {
                return Ok(None);
            };
            *at += length + 2;
            Reply::Text(String::from_utf8_lossy(bulk.get(..length).unwrap_or(bulk)).into_owned())
        }
        b'*' if depth < DEPTH => {
            let Ok(length) = usize::try_from(number()?) else { return Ok(Some(Reply::Null)) };
            let mut items = Vec::new();
            for _ in 0..length {
                match parse(bytes, at, depth + 1)? {
                    Some(item) => items.push(item),
                    None => return Ok(None),
                }
            }
            Reply::Array(items)
        }
        _ => bail!("`{}` begins no reply of the Redis protocol", kind.escape_ascii()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_when_they_are_whole() {
        let bytes = b"*3\r\n:1\r\n$2\r\nab\r\n*1\r\n$-1\r\n+rest";
        for end in 0..bytes.len() - 5 {
            assert_eq!(parse(&bytes[..end], &mut 0, 0).unwrap(), None, "{end}");
        }
        let mut at = 0;
        let reply = parse(bytes, &mut at, 0).unwrap().unwrap();
        assert_eq!(reply.value(), serde_json::json!([1, "ab", [null]]));
        assert_eq!(&bytes[at..], b"+rest");
        assert!(parse(b"HTTP/1.1\r\n", &mut 0, 0).is_err());
    }

    #[test]
    fn commands_are_arrays_of_words() {
        let words = ["A".to_owned(), "é".to_owned()];
        assert_eq!(command(&words), b"*2\r\n$1\r\nA\r\n$2\r\n\xc3\xa9\r\n");
    }
}
