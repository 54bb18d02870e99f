//! Both ends of a proxy: clients, pages, and a tap on its way to the service.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::net::TcpSocket;

/// Longer than anything takes: a message that is not there after this time never comes.
const PATIENCE: Duration = Duration::from_secs(30);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    /// Reads an answer from the beginning of a text: the answer, and the rest.
    fn split(text: &str) -> (Self, &str) {
        let (head, rest) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
        let status = head.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
        let status = status.unwrap_or_else(|| panic!("{text:?}")).parse().unwrap();
        let mut answer = Self { status, head: head.to_owned(), body: String::new() };
        let length = answer.header("content-length").map_or(0, |text| text.parse().unwrap());
        answer.body = rest[..length].to_owned();
        (answer, &rest[length..])
    }

    /// The value of a header that comes once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.head.lines().skip(1).filter_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        });
        let first = values.next();
        assert_eq!(values.next(), None, "{name} comes twice: {}", self.head);
        first
    }
}

/// A client: an address of this machine, as all of 127.0.0.0/8 are.
#[derive(Clone, Copy)]
pub(crate) struct Client(pub(crate) u8);

impl Client {
    pub(crate) fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(127, 0, 0, self.0)
    }

    fn connect(self, to: SocketAddr) -> TcpStream {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let stream = runtime.block_on(async {
            let socket = TcpSocket::new_v4()?;
            socket.bind((self.address(), 0).into())?;
            socket.connect(to).await?.into_std()
        });
        let stream = stream.unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The answers to requests that are sent one after the other over one connection. Each is a
    /// request line, `GET /`, with lines of headers, and a body after an empty line.
    pub(crate) fn ask_all(self, to: SocketAddr, requests: &[&str]) -> Vec<Answer> {
        let mut stream = self.connect(to);
        for (place, request) in requests.iter().enumerate() {
            let (head, body) = request.split_once("\n\n").unwrap_or((request, ""));
            let (line, headers) = head.split_once('\n').unwrap_or((head, ""));
            let mut text = format!("{line} HTTP/1.1\r\n");
            for header in headers.lines() {
                text.push_str(&format!("{header}\r\n"));
            }
            if !headers.lines().any(|header| header.starts_with("Host:")) {
                text.push_str("Host: pages.example\r\n");
            }
            if !body.is_empty() {
                text.push_str(&format!("Content-Length: {}\r\n", body.len()));
            }
            if place + 1 == requests.len() {
                text.push_str("Connection: close\r\n");
            }
            text.push_str(&format!("\r\n{body}"));
            stream.write_all(text.as_bytes()).unwrap();
        }
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let mut rest = text.as_str();
        let mut answers = Vec::new();
        while !rest.is_empty() {
            let (answer, after) = Answer::split(rest);
            answers.push(answer);
            rest = after;
        }
        assert_eq!(answers.len(), requests.len(), "{text}");
        answers
    }

    pub(crate) fn ask(self, to: SocketAddr, request: &str) -> Answer {
        self.ask_all(to, &[request]).remove(0)
    }
}

/// Reads what is there. A read with a time limit is interrupted when another thread starts a
/// child, and these tests start many.
pub(crate) fn read_some(stream: &mut TcpStream, some: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(some) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Reads up to the end of a head: the head, and the bytes after it.
fn read_head(stream: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut read = Vec::new();
    let mut some = [0; 4_096];
    loop {
        let length = read_some(stream, &mut some)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        read.extend_from_slice(&some[..length]);
        if let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let rest = read.split_off(end + 4);
            return Ok((String::from_utf8(read).unwrap(), rest));
        }
    }
}

/// The pages behind a proxy, which note who comes to them.
pub(crate) struct Pages {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Pages {
    pub(crate) fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::default();
        let pages = Self { address, seen: Arc::clone(&seen) };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&seen);
                thread::spawn(move || Self::show(stream, &seen));
            }
        });
        pages
    }

    /// The path says the status: `/status/403`. The body is the received bytes. A 302 leads to
    /// `/again`.
    fn show(mut stream: TcpStream, seen: &Mutex<Vec<String>>) -> io::Result<()> {
        let (head, mut body) = read_head(&mut stream)?;
        let lower = head.to_ascii_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |text| text.parse().unwrap());
        let missing = length.checked_sub(body.len()).unwrap();
        let mut rest = vec![0; missing];
        stream.read_exact(&mut rest)?;
        body.extend(rest);
        // Envoy says in a header where a redirect comes from.
        let line = head.lines().next().unwrap_or_default();
        let status = line.split("/status/").nth(1).and_then(|rest| rest.get(..3)).unwrap_or("200");
        let host = lower.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
        let more = match status {
            "302" => format!("Location: http://{host}/again\r\n"),
            _ => String::new(),
        };
        let text = format!("the page\n{head}{}", String::from_utf8(body).unwrap());
        seen.lock().unwrap().push(text.clone());
        write!(
            stream,
            "HTTP/1.1 {status} Said\r\nContent-Type: text/plain\r\nConnection: close\r\n{more}\
             Content-Length: {}\r\n\r\n{text}",
            text.len()
        )
    }

    /// How many requests came to them.
    pub(crate) fn visits(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

/// A tap between a proxy and the service: the number of connections, and the questions.
pub(crate) struct Tap {
    pub(crate) address: SocketAddr,
    /// The bytes that came over each connection.
    asked: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Tap {
    pub(crate) fn before(service: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let tap = Self { address, asked: Arc::default() };
        let asked = Arc::clone(&tap.asked);
        thread::spawn(move || {
            for (place, proxy) in listener.incoming().flatten().enumerate() {
                asked.lock().unwrap().push(Vec::new());
                // An unreachable service is not there: the proxy sees its connection closed.
                let Ok(service) = TcpStream::connect(service) else { continue };
                let back = (service.try_clone().unwrap(), proxy.try_clone().unwrap());
                let asked = Arc::clone(&asked);
                thread::spawn(move || pour(proxy, service, Some((&asked, place))));
                thread::spawn(move || pour(back.0, back.1, None));
            }
        });
        tap
    }

    /// The connections over which it asked. Checks of health have connections of their own.
    pub(crate) fn connections(&self) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|it| !it.is_empty() && !it.starts_with(b"GET /readyz ")).count()
    }

    /// Everything that the proxy has sent, in small letters.
    pub(crate) fn asked(&self) -> String {
        let asked = self.asked.lock().unwrap().concat();
        String::from_utf8_lossy(&asked).to_ascii_lowercase()
    }
}

/// Where a tap keeps what one of its connections carries.
type Copied<'a> = (&'a Mutex<Vec<Vec<u8>>>, usize);

fn pour(mut from: TcpStream, mut to: TcpStream, copy: Option<Copied<'_>>) -> io::Result<()> {
    let mut some = [0; 4_096];
    loop {
        let length = read_some(&mut from, &mut some)?;
        if length == 0 {
            return to.shutdown(Shutdown::Write);
        }
        if let Some((asked, place)) = copy {
            asked.lock().unwrap()[place].extend_from_slice(&some[..length]);
        }
        to.write_all(&some[..length])?;
    }
}
