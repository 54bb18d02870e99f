//! A call of a limiter that is not answered yet: awaited, or answered now by a store in memory.

use core::fmt;
use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::at_once::at_once;
use crate::error::{Error, StoreError};
use crate::hold::Hold;

/// A call of a limiter. It is sealed: these are all.
pub trait Call: Sealed + Sized + Send {
    /// The answer of the call.
    type Answer;

    /// The answer, if the store has it without waiting. On `None` nothing was asked. It is asked in
    /// place: a call that is moved, or an answer, takes longer than a check.
    #[doc(hidden)]
    #[inline]
    fn at_once(&mut self) -> Option<Result<Self::Answer, Error>> {
        None
    }

    /// The hold that the store may place without an answer.
    #[doc(hidden)]
    fn in_doubt(&mut self) -> Result<Option<Hold>, Error> {
        Ok(None)
    }

    /// Asks the store, and waits.
    #[doc(hidden)]
    fn wait(self) -> impl Future<Output = Result<Self::Answer, Error>> + Send;
}

/// A call of a limiter whose store is in memory.
pub trait InMemory: Call {
    /// The answer.
    #[doc(hidden)]
    #[inline]
    fn in_memory(mut self) -> Result<Self::Answer, Error> {
        match self.at_once() {
            Some(answer) => answer,
            None => poll_once(self.wait()),
        }
    }
}

pub(super) use sealed::Sealed;

mod sealed {
    /// A trait that nobody else implements.
    pub trait Sealed {}
}

/// A future in a box, which can be named and moved while it waits.
pub type Boxed<'l, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'l>>;

pin_project! {
    /// A call of a [`Limiter`](crate::Limiter) that is not answered yet. Await it, or call
    /// [`Pending::now`] where the store is in memory.
    ///
    /// Nothing is asked until then. Dropped while it waits, a check may have been charged, and a
    /// hold placed ([`Pending::in_doubt`]).
    ///
    /// `F` is the future that waits. A check waits in place, so that nothing is allocated for it;
    /// all other calls wait in a box, and can be moved meanwhile.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// use tollgate::Limiter;
    ///
    /// let limiter = Limiter::memory("10/s".parse()?);
    /// assert!(limiter.check("user:42").await?.is_allowed());
    /// assert!(limiter.check("user:42").now()?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "nothing is asked until it is awaited, or until `now` is called"]
    pub struct Pending<'l, C: Call, F = Boxed<'l, <C as Call>::Answer>> {
        #[pin]
        state: State<C, F>,
        wait: fn(C) -> F,
        // The hold that the store may have placed. Boxed, since only a hold has it.
        in_doubt: Option<Box<Hold>>,
        lives: PhantomData<&'l ()>,
    }
}

pin_project! {
    #[project = StateNow]
    #[project_replace = StateBefore]
    enum State<C, F> {
        Asked { call: C },
        Waiting { #[pin] future: F },
        Answered,
    }
}

impl<'l, C: Call + 'l> Pending<'l, C> {
    #[inline(always)]
    pub(super) fn boxed(call: C) -> Self {
        Self::new(call, |call| Box::pin(call.wait()))
    }
}

impl<C: Call, F> Pending<'_, C, F> {
    #[inline(always)]
    pub(super) const fn new(call: C, wait: fn(C) -> F) -> Self {
        Self { state: State::Asked { call }, wait, in_doubt: None, lives: PhantomData }
    }

    /// The answer, if the store has it without waiting. On `None` nothing was asked: ask again, and
    /// await that. It takes the call, so that nobody asks twice.
    #[inline(always)]
    pub fn at_once(mut self) -> Option<Result<C::Answer, Error>> {
        let State::Asked { call } = &mut self.state else { return None };
        call.at_once()
    }

    /// The hold that the store may have placed without an answer: while the call waits, and after
    /// it failed so that nobody knows. Release it when the store answers again, or nobody does
    /// before it ends.
    ///
    /// One with a name may be its caller's from an earlier answer.
    #[must_use]
    pub fn in_doubt(&self) -> Option<&Hold> {
        self.in_doubt.as_deref()
    }
}

impl<C: InMemory, F: Future<Output = Result<C::Answer, Error>>> Pending<'_, C, F> {
    /// The answer of a store in memory, which never waits.
    ///
    /// # Errors
    /// As the call when awaited.
    #[inline(always)]
    pub fn now(self) -> Result<C::Answer, Error> {
        match self.state {
            State::Asked { call } => call.in_memory(),
            State::Waiting { future } => poll_once(future),
            State::Answered => Err(not_now()),
        }
    }
}

impl<C: Call, F: Future<Output = Result<C::Answer, Error>>> Future for Pending<'_, C, F> {
    type Output = Result<C::Answer, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let StateNow::Asked { call } = this.state.as_mut().project() {
            if let Some(answer) = call.at_once() {
                this.state.set(State::Answered);
                return Poll::Ready(answer);
            }
            match call.in_doubt() {
                Ok(hold) => *this.in_doubt = hold.map(Box::new),
                Err(error) => {
                    this.state.set(State::Answered);
                    return Poll::Ready(Err(error));
                }
            }
            if let StateBefore::Asked { call } =
                this.state.as_mut().project_replace(State::Answered)
            {
                this.state.set(State::Waiting { future: (this.wait)(call) });
            }
        }
        let StateNow::Waiting { future } = this.state.as_mut().project() else {
            return Poll::Pending;
        };
        let Poll::Ready(answer) = future.poll(context) else { return Poll::Pending };
        this.state.set(State::Answered);
        if !answer.as_ref().is_err_and(is_in_doubt) {
            *this.in_doubt = None;
        }
        Poll::Ready(answer)
    }
}

impl<C: Call, F> fmt::Debug for Pending<'_, C, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Asked { .. } => "asked",
            State::Waiting { .. } => "waiting",
            State::Answered => "answered",
        };
        f.debug_struct("Pending").field("state", &state).finish_non_exhaustive()
    }
}

/// Whether a hold may have been placed nevertheless.
pub(super) fn is_in_doubt(error: &Error) -> bool {
    matches!(error, Error::Store(why) if why.is_ambiguous())
}

/// The output of a future that is ready at the first poll.
fn poll_once<T>(future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    at_once(future).unwrap_or_else(|| Err(not_now()))
}

#[cold]
fn not_now() -> Error {
    StoreError::ambiguous("the store did not answer at once, though it says that it does").into()
}

#[cfg(test)]
mod tests {
    use core::pin::pin;
    use core::task::Waker;
    use core::time::Duration;

    use super::*;
    use crate::{Ask, HoldKind, Limiter};

    fn poll<F: Future>(pending: Pin<&mut F>) -> Option<F::Output> {
        let mut context = Context::from_waker(Waker::noop());
        match pending.poll(&mut context) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    #[test]
    fn nothing_is_asked_until_it_is_polled_and_nothing_afterwards() {
        let limiter = Limiter::memory("5/h".parse().unwrap());
        drop(limiter.check("ann"));
        let mut pending = pin!(limiter.check("ann"));
        assert_eq!(format!("{pending:?}"), r#"Pending { state: "asked", .. }"#);
        assert_eq!(poll(pending.as_mut()).unwrap().unwrap().remaining(), 4);
        assert!(poll(pending).is_none());
        let mut boxed = limiter.hold(Ask::new("ann").reserve(Duration::from_secs(9)));
        assert!(poll(Pin::new(&mut boxed)).unwrap().is_ok());
        assert!(matches!(boxed.now(), Err(Error::Store(why)) if why.is_ambiguous()));
        assert_eq!(limiter.check(Ask::new("ann").peek()).now().unwrap().remaining(), 3);
    }

    #[test]
    fn awaited_and_now_are_the_same_for_every_call() {
        let limiter = Limiter::memory("9/h, 3 at once".parse().unwrap());
        let slot = || limiter.hold(Ask::new("ann").acquire());
        let one = slot().now().unwrap().hold.unwrap();
        let two = poll(pin!(slot())).unwrap().unwrap().hold.unwrap();
        let ask = || Ask::new("ann").cost(2).reserve(Duration::from_secs(9));
        let three = limiter.hold(ask()).now().unwrap().hold.unwrap();
        assert!(slot().now().unwrap().hold.is_none());
        assert!(limiter.release(&one).now().unwrap());
        assert!(poll(pin!(limiter.release(&two))).unwrap().unwrap());
        assert_eq!(limiter.commit(&three, 1).now().unwrap().actual, 1);
        assert_eq!(limiter.charge(Ask::new("ann")).now().unwrap()[0].remaining, 5);
        assert_eq!(limiter.admin().adjust("ann", 2).now().unwrap()[0], 2);
        assert!(limiter.admin().inspect("ann").now().unwrap().is_some());
        assert!(limiter.admin().reset("ann").now().unwrap());
        assert!(!poll(pin!(limiter.admin().reset("ann"))).unwrap().unwrap());
    }

    #[test]
    fn what_an_ask_says_in_vain_is_refused() {
        let limiter = Limiter::memory("9/h, 3 at once".parse().unwrap());
        let refused = |answer: Result<(), Error>, why: &str| {
            let error = answer.unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        let ask = || Ask::new("ann");
        let second = Duration::from_secs(1);
        let held = |ask| limiter.hold(ask).now().map(drop);
        refused(held(ask()), "add `reserve` or `acquire`");
        refused(held(ask().acquire().peek()), "a hold is not a peek");
        refused(held(ask().acquire().partial()), "whole or not at all");
        let checked = |ask| limiter.check(ask).now().map(drop);
        refused(checked(ask().acquire()), "acquire a slot and release it, since");
        let plain = Limiter::memory("9/h".parse().unwrap());
        refused(plain.check(ask().reserve(second)).now().map(drop), "only a peek has a kind");
        let charged = |ask| limiter.charge(ask).now().map(drop);
        refused(charged(ask().holding(HoldKind::Reserve, None)), "only a peek has a kind");
        refused(charged(ask().peek()), "a charge is not a peek");
        refused(charged(ask().within(second)), "ask without one");
        refused(limiter.admin().reset(ask().within(second)).now().map(drop), "ask without one");
        assert!(checked(ask().acquire().peek().within(second)).is_ok());
        assert_eq!(limiter.check(ask().peek()).now().unwrap().remaining(), 3);
    }
}
