//! The way of one request: refused at once, or through the service and back with headers.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::Response;
use tollgate::{Decision, Store};
use tollgate_policy::Answer;

use super::Shared;
use super::charge::Then;
use super::share::Timer;

type Boxed<RB, E> = Pin<Box<dyn Future<Output = Result<Response<RB>, E>> + Send + 'static>>;

pin_project_lite::pin_project! {
    /// The response of a service behind limits.
    pub struct ResponseFuture<F, S, RB, E> {
        #[pin]
        state: State<F, S, RB, E>,
    }
}

pin_project_lite::pin_project! {
    #[project = StateProjected]
    enum State<F, S, RB, E> {
        // Decided already, by this layer's twin.
        Passed { #[pin] inner: F },
        Refused { response: Option<Response<Bytes>> },
        Running { #[pin] inner: F, admitted: Option<Admitted<S>> },
        // A store that has to be waited for.
        Waiting { future: Boxed<RB, E> },
    }
}

impl<F, S, RB, E> ResponseFuture<F, S, RB, E> {
    pub(super) fn passed(inner: F) -> Self {
        Self { state: State::Passed { inner } }
    }

    pub(super) fn refused(response: Response<Bytes>) -> Self {
        Self { state: State::Refused { response: Some(response) } }
    }

    #[inline]
    pub(super) fn running(inner: F, admitted: Admitted<S>) -> Self {
        Self { state: State::Running { inner, admitted: Some(admitted) } }
    }

    pub(super) fn waiting(future: Boxed<RB, E>) -> Self {
        Self { state: State::Waiting { future } }
    }
}

impl<F, S, RB, E> fmt::Debug for ResponseFuture<F, S, RB, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}

impl<F, S, RB, E> Future for ResponseFuture<F, S, RB, E>
where
    F: Future<Output = Result<Response<RB>, E>>,
    S: Store + 'static,
    RB: From<Bytes>,
{
    type Output = Result<Response<RB>, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match self.project().state.project() {
            StateProjected::Passed { inner } => ready!(inner.poll(cx)),
            StateProjected::Refused { response } => match response.take() {
                Some(response) => Ok(response.map(RB::from)),
                // As every future, this one must not be polled after its end.
                None => return Poll::Pending,
            },
            StateProjected::Running { inner, admitted } => {
                let result = ready!(inner.poll(cx));
                match admitted.take() {
                    Some(admitted) => admitted.finish_now(result),
                    None => return Poll::Pending,
                }
            }
            StateProjected::Waiting { future } => ready!(future.as_mut().poll(cx)),
        })
    }
}

/// A request that was admitted: what is left to do when its response is there.
pub(super) struct Admitted<S> {
    shared: Arc<Shared<S>>,
    answer: Answer,
    timer: Option<Timer>,
}

impl<S: Store + 'static> Admitted<S> {
    #[inline]
    pub(super) fn new(shared: Arc<Shared<S>>, answer: Answer, timer: Option<Timer>) -> Self {
        Self { shared, answer, timer }
    }

    /// Charges by the response and writes what was decided into it.
    pub(super) async fn finish<RB, E>(
        self,
        result: Result<Response<RB>, E>,
    ) -> Result<Response<RB>, E> {
        let began = self.timer.map(|_| Instant::now());
        let extra = match self.shared.charging.judge(&result) {
            Then::Nothing => None,
            then => self.shared.charging.carry_out(then, &self.shared.gate, &self.answer).await,
        };
        self.written(result, extra, began)
    }

    /// The same with a store that need not be waited for.
    #[inline]
    fn finish_now<RB, E>(self, result: Result<Response<RB>, E>) -> Result<Response<RB>, E> {
        let began = self.timer.map(|_| Instant::now());
        let extra = match self.shared.charging.judge(&result) {
            Then::Nothing => None,
            then => at_once(self.shared.charging.carry_out(then, &self.shared.gate, &self.answer))
                .flatten(),
        };
        self.written(result, extra, began)
    }

    #[inline]
    fn written<RB, E>(
        mut self,
        mut result: Result<Response<RB>, E>,
        extra: Option<Decision<'static>>,
        began: Option<Instant>,
    ) -> Result<Response<RB>, E> {
        if let Ok(response) = &mut result {
            let decision = extra.as_ref().or(self.answer.decision());
            self.shared.mark(response.headers_mut(), &self.answer, decision);
        }
        if let (Some(timer), Some(began)) = (&mut self.timer, began) {
            timer.goes_on(began);
            self.shared.times.add(timer);
        }
        result
    }
}

/// What a future gives that is ready at once.
#[inline]
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = core::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
