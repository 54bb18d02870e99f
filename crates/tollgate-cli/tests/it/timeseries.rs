//! A server that knows the commands that write time series, and keeps what it is sent.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::serving::LONG;

/// The kind of server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Being {
    There,
    /// A Redis without the commands.
    Plain,
    /// One that takes samples, and closes the connection instead of replying.
    Mute,
    /// Nobody that would answer: every connection is closed.
    Gone,
}

/// The server; its connections end with the test.
pub(crate) struct TimeSeriesServer {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
    commands: Receiver<Vec<String>>,
}

struct State {
    being: Being,
    open: Vec<TcpStream>,
}

impl TimeSeriesServer {
    pub(crate) fn start(being: Being) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}?deadline=10s", listener.local_addr().unwrap());
        let (sender, commands) = channel();
        let state = Arc::new(Mutex::new(State { being, open: Vec::new() }));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut state = shared.lock().unwrap();
                if state.being == Being::Gone {
                    continue;
                }
                state.open.push(stream.try_clone().unwrap());
                let (being, sender) = (state.being, sender.clone());
                thread::spawn(move || serve(&stream, being, &sender));
            }
        });
        Self { url, state, commands }
    }

    /// From now on it is something else, and earlier connections are closed.
    pub(crate) fn turn(&self, being: Being) {
        let mut state = self.state.lock().unwrap();
        state.being = being;
        for stream in state.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// The next command about series; there will be one.
    pub(crate) fn next(&self) -> Vec<String> {
        self.commands.recv_timeout(LONG).unwrap()
    }

    /// Everything that came and was not looked at yet.
    pub(crate) fn all(&self) -> Vec<Vec<String>> {
        self.commands.try_iter().collect()
    }
}

/// Answers until the connection ends.
fn serve(stream: &TcpStream, being: Being, sender: &Sender<Vec<String>>) {
    let mut reader = BufReader::new(stream);
    while let Some(command) = command(&mut reader) {
        let answer = match command[0].as_str() {
            "PING" => "+PONG\r\n".to_owned(),
            "COMMAND" if being != Being::Plain => "*1\r\n*2\r\n$6\r\nts.add\r\n:-1\r\n".to_owned(),
            "COMMAND" => "*1\r\n*-1\r\n".to_owned(),
            "TS.CREATE" => "+OK\r\n".to_owned(),
            "TS.ADD" => format!(":{}\r\n", command[2]),
            "PEXPIRE" => ":1\r\n".to_owned(),
            other => panic!("{other}"),
        };
        let is_cut = being == Being::Mute && command[0] == "TS.ADD";
        if command[0].starts_with("TS.") || command[0] == "PEXPIRE" {
            // The watchers are gone at the end of a test.
            let _ = sender.send(command);
        }
        if is_cut || (&mut &*stream).write_all(answer.as_bytes()).is_err() {
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    }
}

/// The words of the next command; none at the end.
fn command(reader: &mut BufReader<&TcpStream>) -> Option<Vec<String>> {
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return None;
    }
    let words: usize = line.trim_end().strip_prefix('*').unwrap().parse().unwrap();
    let mut command = Vec::new();
    for _ in 0..words {
        line.clear();
        reader.read_line(&mut line).unwrap();
        let bytes: usize = line.trim_end().strip_prefix('$').unwrap().parse().unwrap();
        let mut word = vec![0; bytes + 2];
        reader.read_exact(&mut word).unwrap();
        word.truncate(bytes);
        command.push(String::from_utf8(word).unwrap());
    }
    Some(command)
}
