//! The end of a connection: it waits to see whether its last answers arrive.

use core::future::Future as _;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use tokio::io::ReadBuf;
use tokio::time::{Instant, Sleep, sleep};

use super::on_the_way::OnTheWay;
use super::pace::{Pace, Phase};
use super::transport::Transport;

/// The first pause between two looks at a connection that is closed. Each further one is twice as
/// long.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// The end of a connection: whether its last answers arrive.
#[derive(Debug)]
pub(crate) struct Farewell {
    sleep: Pin<Box<Sleep>>,
    pause: Duration,
    /// Whether the client has closed its side.
    has_ended: bool,
}

impl Farewell {
    fn new(has_ended: bool) -> Self {
        Self { sleep: Box::pin(sleep(FIRST_PAUSE)), pause: FIRST_PAUSE, has_ended }
    }

    /// Waits until the last answers were received or not, where that matters.
    pub(crate) fn part<T: Transport>(
        farewell: &mut Option<Self>,
        cx: &mut Context<'_>,
        stream: &mut T,
        (has_ended, pace): (bool, &Pace),
    ) -> Poll<()> {
        let says_nothing = T::HAS_CLOSING_MESSAGE && !has_ended;
        if !pace.on_the_way.is_any() || says_nothing {
            return Poll::Ready(());
        }
        if farewell.is_none() {
            // The time of a client that keeps its side open is bounded.
            pace.set_phase(Phase::Head);
        }
        let farewell = farewell.get_or_insert_with(|| Self::new(has_ended));
        farewell.poll(cx, stream, &pace.on_the_way)
    }

    /// Ready when the answers arrived or did not. Input that the client still sends is discarded.
    fn poll<T: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut T,
        on_the_way: &OnTheWay,
    ) -> Poll<()> {
        loop {
            let mut scratch = [0; 1_024];
            let mut buffer = ReadBuf::new(&mut scratch);
            // After its end a stream is readable at all times.
            if !self.has_ended
                && let Poll::Ready(read) = Pin::new(&mut *stream).poll_read(cx, &mut buffer)
            {
                match read {
                    Ok(()) if buffer.filled().is_empty() => self.has_ended = true,
                    Ok(()) => continue,
                    Err(_) => {
                        on_the_way.failed();
                        return Poll::Ready(());
                    }
                }
            }
            if stream.error().is_some() {
                on_the_way.failed();
                return Poll::Ready(());
            }
            if self.pause > on_the_way.grace() {
                return Poll::Ready(());
            }
            ready!(self.sleep.as_mut().poll(cx));
            self.pause *= 2;
            self.sleep.as_mut().reset(Instant::now() + self.pause);
        }
    }
}
