//! One client's state, and the state that all clients share.

use core::sync::atomic::{AtomicI64, Ordering};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use super::auth::{Identified, Users};
use super::codec::Bounds;
use super::throttle::LastLimit;
use super::transaction::Transaction;
use super::why::Why;
use crate::listen::Registry;
use crate::metrics::{FrontCounts, Metrics};
use crate::service::Service;

/// The state that all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) service: Arc<Service>,
    pub(super) metrics: Metrics,
    pub(super) counts: Arc<FrontCounts>,
    pub(super) users: Users,
    pub(super) started: Instant,
    /// The connections of clients, of every protocol.
    pub(super) connections: Arc<Registry>,
    pub(super) last_id: AtomicI64,
}

impl Shared {
    /// Counts as many answered commands at this place of the table; `None` for one that is not in
    /// it.
    pub(super) fn count(&self, place: Option<usize>, is_error: bool, commands: u64) {
        self.counts.add(place, usize::from(is_error), commands);
    }

    fn next_id(&self) -> i64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The state of a client.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) peer: IpAddr,
    pub(super) id: i64,
    pub(super) name: Vec<u8>,
    /// The client's identity; `None` until it sends its password.
    pub(super) user: Option<Identified>,
    pub(super) last: LastLimit,
    /// The commands queued since `MULTI`.
    pub(super) transaction: Option<Box<Transaction>>,
    /// Whether the connection goes on.
    pub(super) next: Next,
}

/// Whether a connection goes on after an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    More,
    Close,
}

impl Session {
    pub(super) fn new(shared: Arc<Shared>, peer: IpAddr) -> Self {
        let (id, user) = (shared.next_id(), shared.users.anybody());
        let last = LastLimit::default();
        Self { shared, peer, id, name: Vec::new(), user, last, transaction: None, next: Next::More }
    }

    /// The bounds of the next command.
    pub(super) fn bounds(&self) -> &'static Bounds {
        if self.user.is_some() { &Bounds::USUAL } else { &Bounds::STRANGER }
    }

    /// Says the password of a user.
    ///
    /// # Errors
    /// There is no such user, or the password is wrong.
    pub(super) async fn login(&mut self, user: &[u8], password: &[u8]) -> Result<(), Why> {
        let known = self.shared.users.login(user, password, self.peer).await;
        let wrong = Why::new("WRONGPASS", "invalid username-password pair or user is disabled.");
        self.user = Some(known.ok_or(wrong)?);
        Ok(())
    }

    /// Names the connection.
    ///
    /// # Errors
    /// The name cannot be in a line of words.
    pub(super) fn rename(&mut self, name: &[u8]) -> Result<(), Why> {
        if !is_plain(name) {
            return Err(bad_name("Client names"));
        }
        self.name = name.to_vec();
        Ok(())
    }
}

/// Whether a name can be in a line of words.
pub(super) fn is_plain(name: &[u8]) -> bool {
    name.iter().all(u8::is_ascii_graphic)
}

pub(super) fn bad_name(what: &str) -> Why {
    format!("{what} cannot contain spaces, newlines or special characters.").into()
}
