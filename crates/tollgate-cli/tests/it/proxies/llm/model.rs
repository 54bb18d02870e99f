//! A fake model: it writes an answer piece by piece, and remembers what it wrote for whom.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_proof::Random;

/// The tokens of one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Usage {
    pub(super) prompt: u64,
    pub(super) answer: u64,
}

impl Usage {
    pub(super) fn tokens(self) -> u64 {
        self.prompt + self.answer
    }

    /// At the prices of the example.
    pub(super) fn microdollars(self) -> u64 {
        self.prompt * 3 + self.answer * 15
    }
}

#[derive(Clone)]
pub(super) struct Model {
    pub(super) address: SocketAddr,
    written: Arc<Mutex<HashMap<String, Usage>>>,
}

impl Model {
    /// Opens it; it ends with the test program.
    pub(super) fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let model = Self { address: listener.local_addr().unwrap(), written: Arc::default() };
        let opened = model.clone();
        thread::spawn(move || {
            for (number, stream) in (1_u64..).zip(listener.incoming()) {
                let (Ok(stream), model) = (stream, model.clone()) else { continue };
                // A caller that has gone ends the answer.
                thread::spawn(move || drop(model.answer(&stream, Random::new(number))));
            }
        });
        opened
    }

    /// The tokens that it wrote for this call; `None` if it was never asked.
    pub(super) fn written(&self, call: &str) -> Option<Usage> {
        self.written.lock().unwrap().get(call).copied()
    }

    /// How many calls it got.
    pub(super) fn calls(&self) -> usize {
        self.written.lock().unwrap().len()
    }

    fn answer(&self, stream: &TcpStream, mut dice: Random) -> io::Result<()> {
        let question = question(stream)?;
        let mut out = stream;
        let call = question["user"].as_str().unwrap_or_default().to_owned();
        let content = question["messages"][0]["content"].as_str().unwrap_or_default();
        // Fewer than whoever counts four bytes a token expects.
        let mut usage = Usage { prompt: content.len() as u64 / 5 + 1, answer: 0 };
        let note = |usage| self.written.lock().unwrap().insert(call.clone(), usage);
        note(usage);
        let most = question["max_tokens"].as_u64().unwrap();
        let pieces = 1 + dice.below(most);
        if question["stream"] == false {
            usage.answer = pieces;
            note(usage);
            let (tokens, money) = (usage.tokens(), usage.microdollars());
            let head = format!("x-tokens: {tokens}\r\nx-microdollars: {money}");
            return write!(out, "HTTP/1.1 200 OK\r\n{head}\r\ncontent-length: 3\r\n\r\nyes");
        }
        out.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
        )?;
        for _ in 0..pieces {
            // Before the piece: what a caller has read was counted.
            usage.answer += 1;
            note(usage);
            writeln!(out, "data: {}\n", json!({ "choices": [{ "delta": { "content": "w" } }] }))?;
            thread::sleep(Duration::from_millis(1)); // tidy: sleep-ok a model writes slowly
        }
        let said = json!({ "prompt_tokens": usage.prompt, "completion_tokens": usage.answer });
        writeln!(out, "data: {}\n\ndata: [DONE]\n", json!({ "choices": [], "usage": said }))
    }
}

/// The body of a request.
fn question(stream: &TcpStream) -> io::Result<Value> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    let mut is_chunked = false;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        is_chunked |= line.starts_with("transfer-encoding:");
        if line == "\r\n" {
            break;
        }
    }
    let body = if is_chunked {
        super::call::unchunked(&mut reader)?
    } else {
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        body
    };
    Ok(serde_json::from_slice(&body)?)
}
