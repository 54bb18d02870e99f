//! Reads the commands of one connection and writes the answers, within the bounds of all
//! connections.
//!
//! A turn decides the received commands, up to a number, and writes all answers together.

use core::future::poll_fn;
use core::pin::Pin;
use core::sync::atomic::AtomicI64;
use core::task::Poll;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use tokio::io::ReadBuf;
use tokio::sync::watch;

use super::auth::Users;
use super::codec::{Bounds, Broken, Found, Words, read};
use super::commands::TABLE;
use super::dispatch::Step;
use super::fast_path::Batch;
use super::reply::{Replies, Version};
use super::session::{Next, Session, Shared};
use crate::http::{MAX_DRAINED_BYTES, MIN_TAKEN_BYTES};
use crate::listen::{
    Budget, Connection, Farewell, Pace, Phase, Protocol, Registry, Share, Transport,
    something_comes,
};
use crate::metrics::Metrics;
use crate::service::Service;

/// The most commands of one turn: other connections are served before the next.
const TURN_COMMANDS: usize = 64;

/// A turn ends after this many bytes of answers.
const TURN_BYTES: usize = 16 * 1_024;

/// The size of one read, in bytes. A longer command, or longer answers, take a share of the budget
/// of all connections.
const USUAL_BYTES: usize = 16 * 1_024;

const NO_ROOM: &str = "ERR too much is on its way from and to other connections: ask again";

/// Speaks the Redis protocol over connections.
#[derive(Clone)]
pub(crate) struct Resp(Arc<Shared>);

impl Resp {
    pub(crate) fn new(
        service: Arc<Service>,
        metrics: Metrics,
        users: Users,
        connections: Arc<Registry>,
    ) -> Self {
        let counts = metrics.front(TABLE.counted());
        let (started, last_id) = (Instant::now(), AtomicI64::new(0));
        Self(Arc::new(Shared { service, metrics, counts, users, started, connections, last_id }))
    }
}

impl Protocol for Resp {
    async fn serve<T>(self, connection: Connection<T>)
    where
        T: Transport,
    {
        let Connection { mut stream, peer, pace, budget, mut ending } = connection;
        poll_fn(|cx| {
            pace.is_served_by(cx.waker());
            Poll::Ready(())
        })
        .await;
        let (mut session, mut version) = (Session::new(self.0, peer.address()), Version::default());
        // A connection without a command on its way holds no buffers.
        loop {
            tokio::select! {
                biased;
                () = something_comes(&mut stream) => {}
                _ = ending.wait_for(|ending| *ending) => return,
            }
            pace.works();
            let replies = Replies { version, ..Replies::default() };
            let buffers = Buffers { input: Input::new(&budget), replies };
            let begun = Stream { stream: &mut stream, pace: &pace };
            // Boxed, since an idle connection would otherwise occupy the size of this future.
            match Box::pin(converse(begun, buffers, &mut session, ending.clone())).await {
                Ok(Some(last)) => version = last,
                Ok(None) => return part(&mut stream, &pace).await,
                // An error of the connection concerns only the client.
                Err(_) => return pace.on_the_way.failed(),
            }
        }
    }
}

/// Waits until the last answers were received or not, where that matters.
async fn part<T: Transport>(stream: &mut T, pace: &Pace) {
    let mut farewell = None;
    poll_fn(|cx| Farewell::part(&mut farewell, cx, stream, (true, pace))).await;
}

/// A stream, and the pace that it records its phases in.
struct Stream<'s, T> {
    stream: &'s mut T,
    pace: &'s Pace,
}

/// The received bytes without a decision, and the answers that are not written yet.
struct Buffers {
    input: Input,
    replies: Replies,
}

/// Answers commands until the connection ends (`None`), or is to rest: then the version of the
/// protocol goes on.
async fn converse<T: Transport>(
    mut stream: Stream<'_, T>,
    buffers: Buffers,
    session: &mut Session,
    mut ending: watch::Receiver<bool>,
) -> io::Result<Option<Version>> {
    let Buffers { mut input, mut replies } = buffers;
    loop {
        let read = tokio::select! {
            biased;
            read = stream.read(&mut input) => read?,
            _ = ending.wait_for(|ending| *ending) => return Ok(None),
        };
        let came = match read {
            Read::Rest => return Ok(Some(replies.version)),
            Read::Bytes(came) => came,
            Read::NoRoom => {
                replies.error(NO_ROOM);
                return stream.say_goodbye(&mut replies).await;
            }
        };
        let mut is_new = stream.pace.phase() != Phase::Head;
        loop {
            let before = input.start;
            let turn = turn(session, stream.pace, &mut input, &mut replies).await;
            is_new |= input.start > before;
            if turn == Turn::Http {
                return Ok(None);
            }
            // Held until the answers are written.
            let share = share_of(&input.budget, replies.bytes.len());
            if share.is_none() {
                replies = Replies { version: replies.version, ..Replies::default() };
                replies.error(NO_ROOM);
            }
            if share.is_none() || turn == Turn::Last {
                return stream.say_goodbye(&mut replies).await;
            }
            stream.write(&mut replies).await?;
            if turn == Turn::Waits {
                break;
            }
            tokio::task::yield_now().await;
        }
        // Commands that the client sent before its end, or before ours, are answered.
        if came == 0 || *ending.borrow() {
            return Ok(None);
        }
        input.compact();
        // The time of a command begins with its first byte, whatever follows that slowly.
        if input.is_empty() {
            stream.pace.set_phase(Phase::Idle);
        } else if is_new {
            stream.pace.set_phase(Phase::Head);
        }
    }
}

/// The share that this many bytes take of the budget: none where they are few. `None` when it has
/// no room for them.
fn share_of(budget: &Arc<Budget>, bytes: usize) -> Option<Option<Share>> {
    if bytes <= USUAL_BYTES { Some(None) } else { budget.take(bytes).map(Some) }
}

/// How a turn ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// The next command is not there as a whole.
    Waits,
    /// There may be more.
    More,
    /// The answers are the last ones of the connection.
    Last,
    /// The client speaks HTTP, and gets no answer.
    Http,
}

/// Answers the commands that were received, up to the bounds of a turn.
async fn turn(
    session: &mut Session,
    pace: &Pace,
    input: &mut Input,
    replies: &mut Replies,
) -> Turn {
    let Input { bytes, start, end, .. } = input;
    let (mut batch, mut words) = (Batch::default(), Words::new());
    let mut left = TURN_COMMANDS;
    let turn = loop {
        left -= 1;
        let rest = bytes.get(*start..*end).unwrap_or_default();
        match read(rest, session.bounds(), &mut words) {
            Ok(Found::Chunk) => break Turn::Waits,
            Ok(Found::Command(size)) => {
                *start += size;
                pace.set_phase(Phase::Work);
            }
            Err(Broken::Http) => break Turn::Http,
            Err(broken) => {
                replies.error(broken);
                break Turn::Last;
            }
        }
        if !words.is_empty() && !batch.answer(session, &words, replies) {
            // Before anything waits: a connection that ends then loses no count.
            batch.end(&session.shared);
            // Boxed, since most turns do without, and would have to make room for it.
            match session.step(&words, replies) {
                Step::Answered => {}
                Step::Run => {
                    if Box::pin(session.answer(&words, replies)).await == Next::Close {
                        break Turn::Last;
                    }
                }
                Step::Execute(commands) => {
                    for command in &commands {
                        let words: Words<'_> = command.iter().map(|word| &**word).collect();
                        Box::pin(session.answer(&words, replies)).await;
                    }
                }
            }
        }
        if left == 0 || replies.bytes.len() >= TURN_BYTES {
            break Turn::More;
        }
    };
    batch.end(&session.shared);
    turn
}

/// The received bytes: those from `start` to `end` were not decided.
struct Input {
    /// All of the room, also what nothing was read into.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    budget: Arc<Budget>,
    /// The part of the budget that a command of unusual length takes.
    share: Option<Share>,
}

impl Input {
    fn new(budget: &Arc<Budget>) -> Self {
        let bytes = vec![0; USUAL_BYTES];
        Self { bytes, start: 0, end: 0, budget: Arc::clone(budget), share: None }
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Moves what was not decided to the front.
    fn compact(&mut self) {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.share.is_some() && self.end < USUAL_BYTES {
            self.bytes.truncate(USUAL_BYTES);
            self.bytes.shrink_to_fit();
            self.share = None;
        }
    }

    /// Makes room for more of a command; false when the budget has none.
    fn has_room(&mut self) -> bool {
        if self.end < self.bytes.len() {
            return true;
        }
        // A longer command than this is refused before, so that there is always room.
        let most = Bounds::USUAL.bytes;
        self.share = self.budget.take(most);
        if self.share.is_some() {
            self.bytes.reserve_exact(most.saturating_sub(self.bytes.len()));
            self.bytes.resize(most, 0);
        }
        self.end < self.bytes.len()
    }
}

/// The bytes that were read.
enum Read {
    /// This many bytes; 0 at the end.
    Bytes(usize),
    /// Nothing for a while: the buffers are to go.
    Rest,
    /// The budget has no room for the rest of a command.
    NoRoom,
}

impl<T: Transport> Stream<'_, T> {
    /// Waits for bytes, and reads what is there.
    async fn read(&mut self, input: &mut Input) -> io::Result<Read> {
        if !input.has_room() {
            return Ok(Read::NoRoom);
        }
        let Input { bytes, end, .. } = input;
        let read = poll_fn(|cx| {
            let mut buffer = ReadBuf::new(bytes.get_mut(*end..).unwrap_or_default());
            match Pin::new(&mut *self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) => Poll::Ready(Ok(Read::Bytes(buffer.filled().len()))),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending if *end == 0 && self.pace.is_to_rest() => Poll::Ready(Ok(Read::Rest)),
                Poll::Pending => Poll::Pending,
            }
        });
        let read = read.await?;
        if let Read::Bytes(came) = read {
            if came > 0 {
                self.pace.on_the_way.came();
            }
            *end += came;
        }
        Ok(read)
    }

    /// Writes all answers.
    async fn write(&mut self, replies: &mut Replies) -> io::Result<()> {
        if replies.bytes.is_empty() {
            return Ok(());
        }
        replies.undelivered.drain(..).for_each(|it| self.pace.on_the_way.add(it));
        self.pace.set_phase(Phase::Write);
        // As for HTTP: input of other connections is decided before this is written.
        tokio::task::yield_now().await;
        let (mut at, mut taken) = (0, 0);
        while let Some(rest) = replies.bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let stream = &mut *self.stream;
            let written = poll_fn(|cx| Pin::new(&mut *stream).poll_write(cx, rest)).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            (at, taken) = (at + written, taken + written);
            // A client that reads a byte now and then does not prolong its time.
            if taken >= MIN_TAKEN_BYTES {
                taken = 0;
                self.pace.set_phase(Phase::Write);
            }
        }
        poll_fn(|cx| Pin::new(&mut *self.stream).poll_flush(cx)).await?;
        self.pace.on_the_way.written();
        replies.bytes.clear();
        replies.bytes.shrink_to(USUAL_BYTES);
        Ok(())
    }

    /// Writes the last answers, and closes. Bytes that were not read would reset the connection,
    /// and the client may lose the answer, so some are read and discarded.
    async fn say_goodbye(&mut self, replies: &mut Replies) -> io::Result<Option<Version>> {
        self.write(replies).await?;
        poll_fn(|cx| Pin::new(&mut *self.stream).poll_shutdown(cx)).await?;
        if T::HAS_CLOSING_MESSAGE {
            // A reset says nothing from here on.
            self.pace.on_the_way.ended();
        }
        self.pace.set_phase(Phase::Head);
        let (mut scratch, mut discarded) = ([0; 4_096], 0);
        while discarded < MAX_DRAINED_BYTES {
            let came = poll_fn(|cx| {
                let mut buffer = ReadBuf::new(&mut scratch);
                let read = Pin::new(&mut *self.stream).poll_read(cx, &mut buffer);
                read.map_ok(|()| buffer.filled().len())
            })
            .await?;
            if came == 0 {
                break;
            }
            discarded += came;
        }
        Ok(None)
    }
}
