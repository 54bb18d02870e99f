//! A small client of the Redis protocol that shows replies as text.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::{Service, tcp};

/// The time after which a test hangs, on any machine.
const LONG: Duration = Duration::from_secs(30);

/// One connection.
pub(crate) struct Redis<T = TcpStream> {
    pub(crate) stream: BufReader<T>,
}

/// A command as clients write it.
pub(crate) fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// The command of these words.
pub(crate) fn line(line: &str) -> Vec<u8> {
    command(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

impl Service {
    /// A client of the Redis protocol.
    pub(crate) async fn redis(&self) -> Redis {
        let address = tcp(&self.server.resp()[0]);
        Redis::over(TcpStream::connect(address).await.unwrap())
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Redis<T> {
    pub(crate) fn over(stream: T) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// The reply to the words of a line.
    pub(crate) async fn ask(&mut self, text: &str) -> String {
        self.send(&line(text)).await;
        self.reply().await
    }

    /// The next reply: `OK`, `7`, `"text"`, `nil`, `[1, 2]`, `{"a": 1}`, `(ERR why)`.
    pub(crate) async fn reply(&mut self) -> String {
        timeout(LONG, self.read()).await.expect("it hangs")
    }

    /// The bytes until the service closes.
    pub(crate) async fn rest(&mut self) -> String {
        let mut said = Vec::new();
        // A reset is an end, too.
        let _ = timeout(LONG, self.stream.read_to_end(&mut said)).await.expect("it hangs");
        String::from_utf8(said).unwrap()
    }

    fn read(&mut self) -> Pin<Box<dyn Future<Output = String> + Send + '_>> {
        Box::pin(async {
            let mut line = String::new();
            self.stream.read_line(&mut line).await.unwrap();
            let line = line.strip_suffix("\r\n").expect("an end").to_owned();
            let (kind, text) = line.split_at(1);
            let length = || text.parse::<usize>().unwrap();
            match kind {
                "+" | ":" => text.to_owned(),
                "-" => format!("({text})"),
                "_" => "nil".to_owned(),
                "#" => line,
                "," => text.to_owned(),
                "$" if text == "-1" => "nil".to_owned(),
                "$" => {
                    let mut bytes = vec![0; length() + 2];
                    self.stream.read_exact(&mut bytes).await.unwrap();
                    bytes.truncate(length());
                    format!("{:?}", String::from_utf8(bytes).unwrap())
                }
                "*" | "~" => {
                    let mut all = Vec::new();
                    for _ in 0..length() {
                        all.push(self.read().await);
                    }
                    format!("[{}]", all.join(", "))
                }
                "%" => {
                    let mut all = Vec::new();
                    for _ in 0..length() {
                        let (key, value) = (self.read().await, self.read().await);
                        all.push(format!("{key}: {value}"));
                    }
                    format!("{{{}}}", all.join(", "))
                }
                _ => panic!("{line}"),
            }
        })
    }
}
