//! The limiter, as JavaScript calls it.

use napi_derive::napi;
use tollgate::engine::Mode;
use tollgate::operation::Check;
use tollgate::{Counted, LimitSet, MAX_COST, ManualClock, Question, Store as _, Subject};
use tollgate_binding::{Counts, Limiter, Operation};

use crate::bridge;
use crate::error::{self, Result};
use crate::handles::Handled as _;
use crate::numbers::{self, Written, whole};
use crate::reply::{BindingAnswer, Reply, reply};
use crate::request::{Request, read};

/// A new limiter over a store. `clock` is 0 for the store's own.
#[napi(catch_unwind)]
pub(crate) fn open(limits: u32, store: String, clock: u32) -> Result<u32> {
    let limits = LimitSet::find(limits)?.as_ref().clone();
    let clock = match clock {
        0 => None,
        number => Some(ManualClock::find(number)?.as_ref().clone()),
    };
    let made = Limiter::new("node", limits, &store, clock);
    made.map(Limiter::put).map_err(error::raised)
}

/// The kind of its store: `memory`, `sqlite` or `redis`.
#[napi(catch_unwind)]
pub(crate) fn kind(limiter: u32) -> Result<&'static str> {
    Ok(Limiter::find(limiter)?.kind())
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
        let Counts::Memory(memory) = &limiter.counts else { return Ok(None) };
        let Ok(subject) = Subject::literal(subject) else { return Ok(None) };
        if !(1..=MAX_COST).contains(&cost) {
            return Ok(None);
        }
        let counted = Counted::new(&subject, &limiter.limits);
        let parts = core::slice::from_ref(&counted);
        let Ok(question) = Question::of_check(parts, cost, Mode::Whole) else { return Ok(None) };
        Ok(memory.store().perform_now(&Check::new(&question)).transpose().ok().flatten())
    })
}

/// Checks one subject in memory. The numbers of the decision are in the shared array.
#[napi(catch_unwind)]
pub(crate) fn check_now(limiter: u32, subject: String, cost: f64) -> Result<()> {
    let check = Operation::check(subject, whole(cost));
    reply(answered(&*Limiter::find(limiter)?, &check)?);
    Ok(())
}

/// Asks a limiter in memory.
#[napi(catch_unwind)]
pub(crate) fn answer(limiter: u32, request: Request) -> Result<Reply> {
    let limiter = Limiter::find(limiter)?;
    Ok(reply(answered(&limiter, &read(request)?)?))
}

/// The answer of memory.
fn answered(limiter: &Limiter, operation: &Operation) -> Result<BindingAnswer> {
    match &limiter.counts {
        Counts::Memory(memory) => {
            tollgate_binding::answer(memory, operation).map_err(error::raised)
        }
        Counts::Remote(remote) => Err(error::argument(format!(
            "store: {} does not answer at once, only memory does: use `check`",
            remote.kind()
        ))),
    }
}

/// Asks a limiter. The answer comes to `place` of this thread, which is to have a turn.
#[napi(catch_unwind)]
pub(crate) fn start(limiter: u32, place: u32, request: Request) -> Result<()> {
    let limiter = Limiter::find(limiter)?;
    begin(&limiter, place, read(request)?)
}

/// The same for a check of one subject.
#[napi(catch_unwind)]
pub(crate) fn start_check(limiter: u32, place: u32, subject: String, cost: f64) -> Result<()> {
    let limiter = Limiter::find(limiter)?;
    begin(&limiter, place, Operation::check(subject, whole(cost)))
}

fn begin(limiter: &Limiter, place: u32, operation: Operation) -> Result<()> {
    let Counts::Remote(remote) = &limiter.counts else {
        return Err(error::other("memory answers by `answer`"));
    };
    let started = remote.start(operation, bridge::sender(place), &bridge::carrier()?);
    started.map_err(error::raised)
}
