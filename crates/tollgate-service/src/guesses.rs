//! Slows down those who guess secrets, and nobody else: it is called once a secret was found wrong.

use core::time::Duration;
use std::net::IpAddr;

use http::HeaderMap;
use tokio::sync::Semaphore;
use tollgate::{Limiter, MemoryStore, ParseError, Subject};
use tollgate_tower::identity::ClientAddress;

/// The wrong secrets of one address that are answered immediately: ten, and one more each 6 s.
const FREE: &str = "10/1m via gcra";

/// How long each further wrong secret of that address waits for its answer.
const WAIT: Duration = Duration::from_secs(1);

/// The most wrong secrets that wait at a time. Further ones are answered without a wait: each would
/// occupy a connection, and 128 bits are not found by trying.
const MAX_WAITING: usize = 256;

/// The most bytes for the counts of wrong secrets.
const MAX_BYTES: usize = 1_024 * 1_024;

/// The wrong secrets of each address. A unix socket and a proxy are one address for all clients, so
/// only wrong ones may be slowed.
#[derive(Debug)]
pub(crate) struct Guesses {
    free: Limiter<MemoryStore>,
    waiting: Semaphore,
}

impl Guesses {
    /// # Errors
    /// None at present: the limit is a constant.
    pub(crate) fn new() -> Result<Self, ParseError> {
        let store = MemoryStore::builder().max_bytes(MAX_BYTES).build();
        Ok(Self { free: Limiter::new(FREE.parse()?, store), waiting: Semaphore::new(MAX_WAITING) })
    }

    /// Counts a wrong secret. Logs it while its address has some left, and waits otherwise.
    /// `message` is the beginning of the line in the log.
    pub(crate) async fn wrong(&self, peer: IpAddr, message: &str) {
        let client = ClientAddress::peer().client(peer, &HeaderMap::new());
        let client = client.value();
        let Ok(subject) = Subject::new("ip", client.as_str()) else { return };
        let counted = self.free.check(&subject).now();
        let (must_wait, is_last) = match &counted {
            Ok(decision) => (!decision.is_allowed(), decision.remaining() == 0),
            Err(_) => (true, false),
        };
        if !must_wait {
            let then = if is_last { "; from here on each wrong one waits" } else { "" };
            tracing::warn!(target: "tollgate", client = client.as_str(), "{message}{then}");
            return;
        }
        if let Ok(_place) = self.waiting.try_acquire() {
            tokio::time::sleep(WAIT).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use core::future::Future as _;
    use core::pin::pin;
    use core::task::{Context, Waker};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn wrong_secrets_wait_within_a_bound() {
        let guesses = Guesses::new().unwrap();
        let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let begin = tokio::time::Instant::now();
        for _ in 0..10 {
            guesses.wrong(one, "wrong").await;
        }
        assert_eq!(begin.elapsed(), Duration::ZERO);
        guesses.wrong(one, "wrong").await;
        assert_eq!(begin.elapsed(), WAIT);
        guesses.wrong(other, "wrong").await;
        assert_eq!(begin.elapsed(), WAIT, "another address has its own count");
        let mut cx = Context::from_waker(Waker::noop());
        let mut waiting: Vec<_> =
            (0..MAX_WAITING).map(|_| Box::pin(guesses.wrong(one, "wrong"))).collect();
        for wait in &mut waiting {
            assert!(wait.as_mut().poll(&mut cx).is_pending());
        }
        assert!(pin!(guesses.wrong(one, "wrong")).poll(&mut cx).is_ready(), "no place is left");
        drop(waiting);
        assert!(pin!(guesses.wrong(one, "wrong")).poll(&mut cx).is_pending());
    }
}
