//! The limiter: limits and where they are counted.

use core::pin::pin;
use core::task::{Context, Poll, Waker};

use napi_derive::napi;
use tollgate::engine::Mode;
use tollgate::{Counted, LimitSet, MAX_COST, ManualClock, MemoryStore, Store as _, Subject};
use tollgate_stores::StoreUrl;
use tollgate_tower::answer::HeaderTemplate;

use crate::bridge;
use crate::error::{self, Result};
use crate::handles::Handled as _;
use crate::numbers::{self, Written};
use crate::remote::Remote;
use crate::reply::{Answer, Reply};
use crate::request::{Kind, Request};

/// The name in headers where there is no policy, as of the layer of Rust.
const USUAL_NAME: &str = "client";

/// Limits and the store that counts them.
#[derive(Debug)]
pub(crate) struct Limiter {
    pub(crate) limits: LimitSet,
    pub(crate) name: String,
    pub(crate) template: HeaderTemplate,
    counts: Counts,
}

/// Where it counts.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a program has few limiters")]
enum Counts {
    Memory(MemoryStore),
    Remote(Remote),
}

impl Limiter {
    /// The number that tells the receipts of its store from those of others.
    pub(crate) fn identity(&self) -> u64 {
        match &self.counts {
            Counts::Memory(store) => store.identity(),
            Counts::Remote(remote) => remote.identity(),
        }
    }

    fn memory(&self) -> Result<&MemoryStore> {
        match &self.counts {
            Counts::Memory(store) => Ok(store),
            Counts::Remote(remote) => Err(error::argument(format!(
                "store: {} does not answer at once, only memory does: use `check`",
                remote.kind()
            ))),
        }
    }

    /// What memory answers, which never waits.
    fn answer(&self, kind: &Kind) -> Result<Answer> {
        let store = self.memory()?;
        ready(kind.perform(&self.limits, store))?.map_err(|it| error::raised(&it))
    }
}

/// What a future is that never waits.
///
/// # Errors
/// It waits.
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => Err(error::other("memory answers at once")),
    }
}

/// A new limiter over a store. `clock` is 0 for the store's own.
#[napi(catch_unwind)]
pub(crate) fn open(limits: u32, store: String, clock: u32) -> Result<u32> {
    let limits = LimitSet::find(limits)?.as_ref().clone();
    let name = limits.policy().unwrap_or(USUAL_NAME).to_owned();
    let template = HeaderTemplate::new(&name, &limits);
    let template = template.map_err(|it| error::argument(format!("policy: {it}")))?;
    let clock = match clock {
        0 => None,
        number => Some(ManualClock::find(number)?.as_ref().clone()),
    };
    let url = StoreUrl::parse(&store).map_err(|it| error::store(&it))?;
    let counts = match (url, clock) {
        (StoreUrl::Memory, None) => Counts::Memory(MemoryStore::new()),
        (StoreUrl::Memory, Some(clock)) => {
            Counts::Memory(MemoryStore::builder().clock(clock).build())
        }
        (url, clock) => Counts::Remote(Remote::new(limits.clone(), url, clock)),
    };
    Ok(Limiter { limits, name, template, counts }.put())
}

/// The kind of its store: `memory`, `sqlite` or `redis`.
#[napi(catch_unwind)]
pub(crate) fn kind(limiter: u32) -> Result<&'static str> {
    Ok(match &Limiter::find(limiter)?.counts {
        Counts::Memory(_) => "memory",
        Counts::Remote(remote) => remote.kind(),
    })
}

/// Closes its store.
#[napi(catch_unwind)]
pub(crate) fn close(limiter: u32) -> Result<()> {
    if let Counts::Remote(remote) = &Limiter::find(limiter)?.counts {
        remote.close();
    }
    Ok(())
}

/// Forgets a limiter that nobody has any more.
#[napi(catch_unwind)]
pub(crate) fn forget_limiter(limiter: u32) {
    Limiter::forget(limiter);
}

/// Checks the subject that JavaScript has written into the shared array, in memory. False where
/// that has to be asked by `check_now`.
#[napi(catch_unwind)]
pub(crate) fn check_written() -> Result<bool> {
    numbers::answer_written(|Written { limiter, cost, subject }| {
        let limiter = Limiter::find(limiter)?;
        let Counts::Memory(store) = &limiter.counts else { return Ok(None) };
        let Ok(subject) = Subject::literal(subject) else { return Ok(None) };
        if !(1..=MAX_COST).contains(&cost) {
            return Ok(None);
        }
        let counted = Counted::new(&subject, &limiter.limits);
        Ok(store.check_at_once(counted, cost, Mode::Whole))
    })
}

/// Checks one subject in memory. The numbers of the decision are in the shared array.
#[napi(catch_unwind)]
pub(crate) fn check_now(limiter: u32, subject: String, cost: f64) -> Result<()> {
    Limiter::find(limiter)?.answer(&Kind::check(subject, cost))?.into_reply();
    Ok(())
}

/// Asks a limiter in memory.
#[napi(catch_unwind)]
pub(crate) fn answer(limiter: u32, request: Request) -> Result<Reply> {
    let limiter = Limiter::find(limiter)?;
    let kind = Kind::read(request)?;
    Ok(limiter.answer(&kind)?.into_reply())
}

/// Asks a limiter. The answer comes to `place` of this thread, which is to have a turn.
#[napi(catch_unwind)]
pub(crate) fn start(limiter: u32, place: u32, request: Request) -> Result<()> {
    let limiter = Limiter::find(limiter)?;
    let kind = Kind::read(request)?;
    begin(&limiter, place, kind)
}

/// The same for a check of one subject.
#[napi(catch_unwind)]
pub(crate) fn start_check(limiter: u32, place: u32, subject: String, cost: f64) -> Result<()> {
    let limiter = Limiter::find(limiter)?;
    begin(&limiter, place, Kind::check(subject, cost))
}

fn begin(limiter: &Limiter, place: u32, kind: Kind) -> Result<()> {
    match &limiter.counts {
        Counts::Memory(_) => Err(error::other("memory answers by `answer`")),
        Counts::Remote(remote) => remote.start(kind, bridge::sender(place)),
    }
}
