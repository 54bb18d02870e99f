//! The threads that carry requests and replies, and do to them what the mode and the tricks say.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::link::Link;
use super::mode::{Mode, Trick};
use super::state::{HeldReply, State, lock, unpoisoned};
use crate::resp::{Reply, frame};

/// How many replies of one connection may wait in the proxy; then it reads no more from the
/// server.
const QUEUE: usize = 1_024;

/// How long a connection to the server may take to be made: it is on this machine.
const CONNECT: Duration = Duration::from_secs(2);

/// The state that the threads of a proxy share.
#[derive(Debug)]
pub(super) struct Shared {
    upstream: SocketAddr,
    pub(super) state: Mutex<State>,
    /// The mode has changed, or a connection was cut.
    changed: Condvar,
}

/// A reply on its way to the client.
struct Parcel {
    arrived: Instant,
    bytes: Vec<u8>,
    trick: Option<Trick>,
}

/// The connection is over.
struct Finished;

impl From<io::Error> for Finished {
    fn from(_: io::Error) -> Self {
        Self
    }
}

impl Shared {
    pub(super) fn new(upstream: SocketAddr, state: State) -> Self {
        Self { upstream, state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }

    pub(super) fn accept_all(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            if lock(&self.state).refusing {
                return;
            }
            // A server that is gone shows as a connection that ends immediately.
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
        R: FnOnce(&Self, &Link) -> Result<(), Finished> + Send + 'static,
    {
        let (shared, link) = (Arc::clone(self), Arc::clone(link));
        thread::spawn(move || {
            // Over or not: it has ended.
            let _ = run(&shared, &link);
            link.cut();
            shared.change(|state| {
                state.links.remove(&id);
                // A connection that has gone is nobody's partner, from the moment on that it is not
                // open.
                state.held.take_if(|held| held.of == id);
            });
        });
    }

    /// From the client to the server.
    fn requests(&self, link: &Link) -> Result<(), Finished> {
        let mut unread = Vec::new();
        while read_more(&link.client, &mut unread)? {
            while let Some(request) = take_frame(&mut unread) {
                if !self.may_pass(link)? {
                    continue;
                }
                let trick = lock(&self.state).trick(&command_of(&request));
                if trick == Some(Trick::LoseRequest) {
                    return Err(Finished);
                }
                lock(&link.owed).push_back(trick);
                lock(&self.state).seen.requests += 1;
                (&link.server).write_all(&request)?;
            }
        }
        Ok(())
    }

    /// From the server, into the queue.
    fn replies(&self, link: &Link, parcels: &SyncSender<Parcel>) -> Result<(), Finished> {
        let mut unread = Vec::new();
        while read_more(&link.server, &mut unread)? {
            while let Some(bytes) = take_frame(&mut unread) {
                // A push of RESP3 answers nothing.
                let is_reply = bytes.first() != Some(&b'>');
                let trick = if is_reply { lock(&link.owed).pop_front().flatten() } else { None };
                let parcel = Parcel { arrived: Instant::now(), bytes, trick };
                parcels.send(parcel).map_err(|_| Finished)?;
            }
        }
        Ok(())
    }

    /// From the queue to the client.
    fn deliver(&self, link: &Link, parcels: &Receiver<Parcel>) -> Result<(), Finished> {
        for Parcel { arrived, bytes, trick } in parcels {
            let delay = self.delay();
            self.pause(link, arrived + delay)?;
            if !self.may_pass(link)? {
                continue;
            }
            match trick {
                None | Some(Trick::LoseRequest) => self.write(link, &bytes)?,
                Some(Trick::LoseReply) => return Err(Finished),
                Some(Trick::HalfReply) => {
                    self.write(link, &bytes[..bytes.len() / 2])?;
                    return Err(Finished);
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

    fn write(&self, link: &Link, bytes: &[u8]) -> Result<(), Finished> {
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
        least + Duration::from_micros(state.random.draw() % (spread + 1))
    }

    /// Gives a reply away and takes another link's: immediately when one is held, else when one
    /// comes.
    fn exchange(&self, link: &Link, reply: Vec<u8>) -> Result<Vec<u8>, Finished> {
        let mut state = lock(&self.state);
        // Looked at under the lock, so that nothing is held for who has left.
        if link.is_gone() {
            return Err(Finished);
        }
        // Its holder may have gone since; then this one waits in its place.
        let reply = match state.held.take() {
            Some(held) => match held.to.send(reply) {
                Ok(()) => return Ok(held.reply),
                Err(returned) => returned.0,
            },
            None => reply,
        };
        let (to, from) = channel();
        state.held = Some(HeldReply { reply, of: link.id, to });
        loop {
            if let Ok(other) = from.try_recv() {
                drop(state);
                self.changed.notify_all();
                return Ok(other);
            }
            if link.is_gone() {
                return Err(Finished);
            }
            // Nobody tells of an exchange through the condition, so it is looked at again soon.
            let look_again = Duration::from_millis(1);
            state = unpoisoned(self.changed.wait_timeout(state, look_again)).0;
        }
    }

    /// Waits while everything stalls, and says whether what is to pass may: not through a black
    /// hole.
    fn may_pass(&self, link: &Link) -> Result<bool, Finished> {
        let mut state = lock(&self.state);
        while state.mode == Mode::Stall && !link.is_gone() {
            state = unpoisoned(self.changed.wait(state));
        }
        if link.is_gone() {
            return Err(Finished);
        }
        if state.mode == Mode::BlackHole {
            link.silent.store(true, Ordering::SeqCst);
        }
        Ok(!link.silent.load(Ordering::SeqCst))
    }

    /// Waits until then, or until the link is cut.
    fn pause(&self, link: &Link, until: Instant) -> Result<(), Finished> {
        let mut state = lock(&self.state);
        loop {
            if link.is_gone() {
                return Err(Finished);
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

/// The first whole frame. Bytes that are not RESP, such as an inline command, pass as they came.
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
