//! A call to a model through something that limits it, as a client makes it.

use std::io::{self, BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use super::model::Usage;
use crate::serving::LONG;

pub(super) const PATH: &str = "/v1/chat/completions";
pub(super) const MAX_TOKENS: u64 = 60;

/// A question for the model. `call` is its name, and no two calls have the same.
pub(super) fn question(call: &str) -> Value {
    let content = "word ".repeat(1 + call.len());
    json!({ "user": call, "max_tokens": MAX_TOKENS, "messages": [{ "content": content }] })
}

/// The end of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The whole answer came.
    Whole(Usage),
    /// This many pieces came, until the client hung up, or something between was killed.
    Part(u64),
    Denied,
    /// Nobody answered: it may have been admitted.
    Broken,
}

/// The pieces of an answer that have come so far.
#[derive(Default)]
pub(super) struct Pieces {
    text: String,
    pub(super) number: u64,
    pub(super) usage: Option<Usage>,
}

impl Pieces {
    pub(super) fn read(&mut self, bytes: &[u8]) {
        self.text.push_str(&String::from_utf8_lossy(bytes));
        while let Some(end) = self.text.find('\n') {
            let line: String = self.text.drain(..=end).collect();
            self.number += u64::from(line.contains("delta"));
            let Some(said) = line.strip_prefix("data: {") else { continue };
            let said: Value = serde_json::from_str(&format!("{{{said}")).unwrap();
            let of = |name: &str| said["usage"][name].as_u64();
            let both = of("prompt_tokens").zip(of("completion_tokens"));
            self.usage = both.map(|(prompt, answer)| Usage { prompt, answer });
        }
    }

    fn end(&self) -> End {
        self.usage.map_or(End::Part(self.number), End::Whole)
    }
}

/// Calls through this address, and hangs up after so many pieces.
pub(super) fn call(to: SocketAddr, question: &Value, hangs_up_after: Option<u64>) -> End {
    let mut pieces = Pieces::default();
    match status(to, question, |bytes| {
        pieces.read(bytes);
        hangs_up_after.is_none_or(|most| pieces.number < most)
    }) {
        Ok(200) => pieces.end(),
        Ok(429) => End::Denied,
        Ok(_) | Err(_) if pieces.number > 0 => pieces.end(),
        Ok(_) | Err(_) => End::Broken,
    }
}

/// Sends the question for the tenant `acme`; passes the body on while `goes_on`.
pub(super) fn status(
    to: SocketAddr,
    question: &Value,
    mut goes_on: impl FnMut(&[u8]) -> bool,
) -> io::Result<u16> {
    let body = question.to_string();
    let length = body.len();
    let mut stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(LONG))?;
    write!(
        stream,
        "POST {PATH} HTTP/1.1\r\nhost: a\r\nx-tenant: acme\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    let mut reader = BufReader::new(stream);
    let (mut status, mut is_chunked) = (None, false);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if status.is_none() {
            status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        }
        is_chunked |= line.to_ascii_lowercase().starts_with("transfer-encoding: chunked");
        if line == "\r\n" {
            break;
        }
    }
    let status = status.ok_or(io::ErrorKind::InvalidData)?;
    if is_chunked {
        while let Some(piece) = chunk(&mut reader)? {
            if !goes_on(&piece) {
                return Ok(status);
            }
        }
        return Ok(status);
    }
    loop {
        let read = reader.fill_buf()?;
        let length = read.len();
        if length == 0 || !goes_on(read) {
            return Ok(status);
        }
        reader.consume(length);
    }
}

/// The next piece of a body in chunks; `None` at its end.
fn chunk(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let length =
        usize::from_str_radix(line.trim(), 16).map_err(|_| io::ErrorKind::UnexpectedEof)?;
    let mut piece = vec![0; length + 2];
    reader.read_exact(&mut piece)?;
    piece.truncate(length);
    Ok(Some(piece).filter(|piece| !piece.is_empty()))
}

/// The whole of a body in chunks.
pub(super) fn unchunked(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(piece) = chunk(reader)? {
        all.extend(piece);
    }
    Ok(all)
}
