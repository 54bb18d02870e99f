//! A TCP proxy between a client and a server that fails on demand, the same way for one seed.
//!
//! It knows where a request and a reply end, so that a fault lies exactly between two of them, or
//! in the middle of one. It stands beside a server and not in its place: what was forwarded is
//! done, whatever happens to the reply.
//!
//! Two things it cannot do: leave the first packet of a connection unanswered (the kernel accepts
//! for it), and send a reset of its own choosing (a cut is an orderly end).

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::resp::{Reply, frame};
use super::server::free_port;

/// How many replies of one connection may wait in the proxy; then it reads no more from the
/// server.
const QUEUE: usize = 1_024;

/// How long a connection to the server may take to be made: it is on this machine.
const CONNECT: Duration = Duration::from_secs(2);

/// How the connection is, until told otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Mode {
    /// Everything passes as it is.
    Pass,
    /// Each reply arrives later by a time between these two, in its order. Replies that are under
    /// way together are late together: it is a latency, not a throughput.
    Delay {
        /// The shortest delay.
        least: Duration,
        /// The longest.
        most: Duration,
    },
    /// Nothing moves either way. With the next mode everything arrives, late: a partition that
    /// heals, after which the server does what its clients have long given up.
    Stall,
    /// What is sent either way is lost, and nobody is told. A connection that lost something, or
    /// was made meanwhile, stays silent for good; others survive.
    BlackHole,
    /// Replies arrive byte by byte, with this pause after each.
    Dribble {
        /// The pause.
        pause: Duration,
    },
}

/// What happens to one request or its reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Trick {
    /// The connection is cut and the request never reaches the server.
    LoseRequest,
    /// The server does the request and answers; then the connection is cut before the reply.
    LoseReply,
    /// The first half of the reply arrives; then the connection is cut.
    HalfReply,
    /// The reply arrives twice.
    Duplicate,
    /// Before the reply come bytes that are no RESP.
    Garbage,
    /// The reply goes to another connection, whose reply comes here: of two requests with this
    /// trick, on two connections, each gets the other's reply. The first waits for the second.
    Swap,
}

/// What went through so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Seen {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Those that are open.
    pub open: usize,
    /// Requests that were forwarded.
    pub requests: u64,
    /// Replies that were delivered, whole.
    pub replies: u64,
    /// Requests that met a [`Trick`].
    pub tricks: u64,
}

/// A proxy before one server. Dropped, it cuts every connection.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    acceptor: Mutex<Option<JoinHandle<()>>>,
}

impl Proxy {
    /// A proxy in which everything passes.
    ///
    /// # Panics
    ///
    /// No port is free.
    #[must_use]
    pub fn start(upstream: SocketAddr) -> Self {
        Self::seeded(upstream, 0)
    }

    /// The same with a seed of what is left to chance: delays, garbage, and who meets
    /// [`Self::sometimes`]. One client alone meets the same each time; with several the order of
    /// their requests is the machine's.
    ///
    /// # Panics
    ///
    /// No port is free.
    #[must_use]
    pub fn seeded(upstream: SocketAddr, seed: u64) -> Self {
        let state = State {
            mode: Mode::Pass,
            armed: VecDeque::new(),
            sometimes: (0, Vec::new()),
            only: Vec::new(),
            random: seed,
            refusing: true,
            links: BTreeMap::new(),
            held: None,
            seen: Seen::default(),
        };
        let shared = Shared { upstream, state: Mutex::new(state), changed: Condvar::new() };
        let mut proxy = Self { port: 0, shared: Arc::new(shared), acceptor: Mutex::new(None) };
        // Somebody may take the port between our look and our bind.
        for _ in 0..100 {
            proxy.port = free_port();
            if proxy.listen().is_ok() {
                return proxy;
            }
        }
        panic!("no port is free for a proxy");
    }

    /// The address for clients, `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Changes how all connections are from now on.
    pub fn set(&self, mode: Mode) {
        self.shared.change(|state| state.mode = mode);
    }

    /// Plays this trick on the next `count` requests.
    pub fn next(&self, count: usize, trick: Trick) {
        self.shared.change(|state| state.armed.extend(std::iter::repeat_n(trick, count)));
    }

    /// Plays one of these tricks on each request with a chance of `per_mille` in 1000.
    pub fn sometimes(&self, per_mille: u32, tricks: &[Trick]) {
        self.shared.change(|state| state.sometimes = (per_mille, tricks.to_vec()));
    }

    /// Plays tricks on these commands only, in capital letters; on all when there are none. A
    /// client that connects anew says some things before it repeats its question: this leaves
    /// them alone.
    pub fn only(&self, commands: &[&str]) {
        let commands = commands.iter().map(|&name| name.to_owned()).collect();
        self.shared.change(|state| state.only = commands);
    }

    /// No mode and no tricks any more. Connections that were refused are accepted again.
    ///
    /// # Panics
    ///
    /// The port was taken by somebody else meanwhile.
    pub fn heal(&self) {
        self.shared.change(|state| {
            state.mode = Mode::Pass;
            state.armed.clear();
            state.sometimes = (0, Vec::new());
        });
        self.accept();
    }

    /// Refuses new connections, as a machine does on which nobody listens. Those that are open
    /// stay.
    pub fn refuse(&self) {
        self.shared.change(|state| state.refusing = true);
        // The acceptor looks up when somebody comes, and goes, and its listener with it.
        let _ = TcpStream::connect(self.address());
        if let Some(acceptor) = lock(&self.acceptor).take() {
            let _ = acceptor.join();
        }
    }

    /// Accepts connections again.
    ///
    /// # Panics
    ///
    /// The port was taken by somebody else meanwhile.
    pub fn accept(&self) {
        if lock(&self.shared.state).refusing {
            self.listen().expect("the port is still ours");
        }
    }

    /// Cuts all open connections.
    pub fn cut(&self) {
        self.shared.change(|state| {
            for link in state.links.values() {
                link.cut();
            }
        });
    }

    /// What went through so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        let state = lock(&self.shared.state);
        Seen { open: state.links.len(), ..state.seen }
    }

    fn listen(&self) -> io::Result<()> {
        let listener = TcpListener::bind(self.address())?;
        self.shared.change(|state| state.refusing = false);
        let shared = Arc::clone(&self.shared);
        *lock(&self.acceptor) = Some(thread::spawn(move || shared.accept_all(&listener)));
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.refuse();
        self.cut();
    }
}

/// What the threads of a proxy share.
#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    state: Mutex<State>,
    /// The mode has changed, or a connection was cut.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    mode: Mode,
    armed: VecDeque<Trick>,
    sometimes: (u32, Vec<Trick>),
    only: Vec<String>,
    random: u64,
    refusing: bool,
    links: BTreeMap<u64, Arc<Link>>,
    held: Option<Held>,
    seen: Seen,
}

/// A reply that waits to be exchanged, and where the other one is to be sent.
#[derive(Debug)]
struct Held {
    reply: Vec<u8>,
    /// The link that gave it.
    of: u64,
    to: Sender<Vec<u8>>,
}

/// A connection of a client, and ours to the server for it.
#[derive(Debug)]
struct Link {
    id: u64,
    client: TcpStream,
    server: TcpStream,
    /// What is to happen to the replies that the server owes, in their order.
    owed: Mutex<VecDeque<Option<Trick>>>,
    /// Something of it was lost in a black hole: nothing may pass any more.
    silent: AtomicBool,
    gone: AtomicBool,
}

/// A reply on its way to the client.
struct Parcel {
    arrived: Instant,
    bytes: Vec<u8>,
    trick: Option<Trick>,
}

/// The connection is over.
struct Over;

impl From<io::Error> for Over {
    fn from(_: io::Error) -> Self {
        Self
    }
}

impl State {
    /// What is to happen to a request.
    fn trick(&mut self, command: &str) -> Option<Trick> {
        if !self.only.is_empty() && !self.only.iter().any(|name| name == command) {
            return None;
        }
        let trick = self.armed.pop_front().or_else(|| {
            let (per_mille, count) = (u64::from(self.sometimes.0), self.sometimes.1.len());
            if count == 0 || self.draw() % 1_000 >= per_mille {
                return None;
            }
            let which = usize::try_from(self.draw() >> 32).ok()? % count;
            self.sometimes.1.get(which).copied()
        });
        self.seen.tricks += u64::from(trick.is_some());
        trick
    }

    /// The next random number: splitmix64. Not a crate: the same seed must fail the same way for
    /// years, and nobody guesses against it.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Bytes that no parser may take for RESP: no frame begins with a small letter.
    fn garbage(&mut self) -> Vec<u8> {
        let letters: Vec<u8> = (b'a'..=b'z').collect();
        let mut bytes: Vec<u8> =
            self.draw().to_le_bytes().iter().map(|byte| letters[usize::from(*byte) % 26]).collect();
        bytes.extend_from_slice(b"\r\n");
        bytes
    }
}

impl Link {
    fn cut(&self) {
        self.gone.store(true, Ordering::SeqCst);
        // It may have ended from the other side already.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }

    fn accept_all(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            if lock(&self.state).refusing {
                return;
            }
            // A server that is gone shows itself as a connection that ends at once.
            let opened = client.and_then(|client| self.open(client));
            drop(opened);
        }
    }

    /// Connects to the server, and starts three threads: one forwards requests, one reads replies,
    /// and one delivers them. Were the last two one, a delay would keep later replies unread, and
    /// each would wait for those before it.
    fn open(self: &Arc<Self>, client: TcpStream) -> io::Result<()> {
        let server = TcpStream::connect_timeout(&self.upstream, CONNECT)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let mut state = lock(&self.state);
        let id = state.seen.accepted;
        let link = Arc::new(Link {
            id,
            client,
            server,
            owed: Mutex::default(),
            silent: AtomicBool::new(state.mode == Mode::BlackHole),
            gone: AtomicBool::new(false),
        });
        state.seen.accepted += 1;
        state.links.insert(id, Arc::clone(&link));
        drop(state);

        let (parcels, delivered) = sync_channel(QUEUE);
        self.spawn(id, &link, Self::requests);
        self.spawn(id, &link, move |shared, link| shared.replies(link, &parcels));
        self.spawn(id, &link, move |shared, link| shared.deliver(link, &delivered));
        Ok(())
    }

    /// Starts one of a link's threads. The first that ends, ends the link.
    fn spawn<R>(self: &Arc<Self>, id: u64, link: &Arc<Link>, run: R)
    where
        R: FnOnce(&Self, &Link) -> Result<(), Over> + Send + 'static,
    {
        let (shared, link) = (Arc::clone(self), Arc::clone(link));
        thread::spawn(move || {
            // Over or not: it has ended.
            let _ = run(&shared, &link);
            link.cut();
            shared.change(|state| {
                state.links.remove(&id);
                // Who has gone is nobody's partner, from the moment on that it is not open.
                state.held.take_if(|held| held.of == id);
            });
        });
    }

    /// From the client to the server.
    fn requests(&self, link: &Link) -> Result<(), Over> {
        let mut unread = Vec::new();
        while read_more(&link.client, &mut unread)? {
            while let Some(request) = take_frame(&mut unread) {
                if !self.may_pass(link)? {
                    continue;
                }
                let trick = lock(&self.state).trick(&command_of(&request));
                if trick == Some(Trick::LoseRequest) {
                    return Err(Over);
                }
                lock(&link.owed).push_back(trick);
                lock(&self.state).seen.requests += 1;
                (&link.server).write_all(&request)?;
            }
        }
        Ok(())
    }

    /// From the server, into the queue.
    fn replies(&self, link: &Link, parcels: &SyncSender<Parcel>) -> Result<(), Over> {
        let mut unread = Vec::new();
        while read_more(&link.server, &mut unread)? {
            while let Some(bytes) = take_frame(&mut unread) {
                // A push of RESP3 answers nothing.
                let is_reply = bytes.first() != Some(&b'>');
                let trick = if is_reply { lock(&link.owed).pop_front().flatten() } else { None };
                let parcel = Parcel { arrived: Instant::now(), bytes, trick };
                parcels.send(parcel).map_err(|_| Over)?;
            }
        }
        Ok(())
    }

    /// From the queue to the client.
    fn deliver(&self, link: &Link, parcels: &Receiver<Parcel>) -> Result<(), Over> {
        for Parcel { arrived, bytes, trick } in parcels {
            let delay = self.delay();
            self.pause(link, arrived + delay)?;
            if !self.may_pass(link)? {
                continue;
            }
            match trick {
                None | Some(Trick::LoseRequest) => self.write(link, &bytes)?,
                Some(Trick::LoseReply) => return Err(Over),
                Some(Trick::HalfReply) => {
                    self.write(link, &bytes[..bytes.len() / 2])?;
                    return Err(Over);
                }
                Some(Trick::Duplicate) => self.write(link, &bytes.repeat(2))?,
                Some(Trick::Garbage) => {
                    let garbage = lock(&self.state).garbage();
                    self.write(link, &[garbage, bytes].concat())?;
                }
                Some(Trick::Swap) => {
                    let other = self.exchange(link, bytes)?;
                    self.write(link, &other)?;
                }
            }
            lock(&self.state).seen.replies += 1;
        }
        Ok(())
    }

    fn write(&self, link: &Link, bytes: &[u8]) -> Result<(), Over> {
        let mode = lock(&self.state).mode;
        let Mode::Dribble { pause } = mode else {
            return Ok((&link.client).write_all(bytes)?);
        };
        for byte in bytes {
            (&link.client).write_all(&[*byte])?;
            self.pause(link, Instant::now() + pause)?;
        }
        Ok(())
    }

    /// How long the next reply is late.
    fn delay(&self) -> Duration {
        let mut state = lock(&self.state);
        let Mode::Delay { least, most } = state.mode else { return Duration::ZERO };
        let spread = u64::try_from(most.saturating_sub(least).as_micros()).unwrap_or(u64::MAX - 1);
        least + Duration::from_micros(state.draw() % (spread + 1))
    }

    /// Gives a reply away and takes another link's: at once when one is held, else when one comes.
    fn exchange(&self, link: &Link, reply: Vec<u8>) -> Result<Vec<u8>, Over> {
        let mut state = lock(&self.state);
        // Looked at under the lock, so that nothing is held for who has left.
        if link.is_gone() {
            return Err(Over);
        }
        // Who held it may have gone since; then this one waits in its place.
        let reply = match state.held.take() {
            Some(held) => match held.to.send(reply) {
                Ok(()) => return Ok(held.reply),
                Err(returned) => returned.0,
            },
            None => reply,
        };
        let (to, from) = channel();
        state.held = Some(Held { reply, of: link.id, to });
        loop {
            if let Ok(other) = from.try_recv() {
                drop(state);
                self.changed.notify_all();
                return Ok(other);
            }
            if link.is_gone() {
                return Err(Over);
            }
            // Nobody tells of an exchange through the condition, so it is looked at again soon.
            let look_again = Duration::from_millis(1);
            state = unpoisoned(self.changed.wait_timeout(state, look_again)).0;
        }
    }

    /// Waits while everything stalls, and says whether what is to pass may: not through a black
    /// hole.
    fn may_pass(&self, link: &Link) -> Result<bool, Over> {
        let mut state = lock(&self.state);
        while state.mode == Mode::Stall && !link.is_gone() {
            state = unpoisoned(self.changed.wait(state));
        }
        if link.is_gone() {
            return Err(Over);
        }
        if state.mode == Mode::BlackHole {
            link.silent.store(true, Ordering::SeqCst);
        }
        Ok(!link.silent.load(Ordering::SeqCst))
    }

    /// Waits until then, or until the link is cut.
    fn pause(&self, link: &Link, until: Instant) -> Result<(), Over> {
        let mut state = lock(&self.state);
        loop {
            if link.is_gone() {
                return Err(Over);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            state = unpoisoned(self.changed.wait_timeout(state, left)).0;
        }
    }
}

/// Reads what is there; false at the end.
fn read_more(mut from: &TcpStream, unread: &mut Vec<u8>) -> io::Result<bool> {
    let mut chunk = [0; 16 * 1024];
    let length = from.read(&mut chunk)?;
    unread.extend(&chunk[..length]);
    Ok(length > 0)
}

/// The first whole frame. What is no RESP, such as an inline command, passes as it came.
fn take_frame(unread: &mut Vec<u8>) -> Option<Vec<u8>> {
    if unread.is_empty() {
        return None;
    }
    let end = frame(unread).unwrap_or(Some(unread.len()))?;
    Some(unread.drain(..end).collect())
}

/// The name of a command, in capital letters.
fn command_of(request: &[u8]) -> String {
    let read = Reply::read(request).ok().flatten();
    let name = read.and_then(|(words, _)| words.items().first().and_then(Reply::text));
    name.unwrap_or_default().to_ascii_uppercase()
}

/// A test that failed may have poisoned it; the others go on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    unpoisoned(mutex.lock())
}

fn unpoisoned<T>(result: Result<T, PoisonError<T>>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}
