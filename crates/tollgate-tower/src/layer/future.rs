//! The future of one request: an immediate refusal, or the service's response with added headers.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::Response;
use tollgate::{Store, at_once};
use tollgate_policy::Answer;

use super::charge::Then;
use super::share::Timer;
use super::shared::Shared;
use super::to_its_end::ToItsEnd;
use crate::answer::Marks;

pub(super) type Boxed<RB, E> =
    Pin<Box<dyn Future<Output = Result<Response<RB>, E>> + Send + 'static>>;

pin_project_lite::pin_project! {
    /// The response future of a [`Tollgate`](super::Tollgate) service.
    pub struct ResponseFuture<F, S, RB, E> {
        #[pin]
        state: State<F, S, RB, E>,
    }
}

pin_project_lite::pin_project! {
    #[project = StateProjected]
    enum State<F, S, RB, E> {
        Running { #[pin] inner: F, admitted: Admitted<S> },
        Refused { response: Option<Box<Response<Bytes>>> },
        // The store does not answer immediately.
        Waiting { future: Boxed<RB, E> },
    }
}

impl<F, S, RB, E> ResponseFuture<F, S, RB, E> {
    pub(super) fn refused(response: Box<Response<Bytes>>) -> Self {
        Self { state: State::Refused { response: Some(response) } }
    }

    #[inline]
    pub(super) fn running(inner: F, admitted: Admitted<S>) -> Self {
        Self { state: State::Running { inner, admitted } }
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
        match self.project().state.project() {
            StateProjected::Running { inner, admitted } => {
                // Modified in place: a response is twice as large as the added headers.
                let mut polled = inner.poll(cx);
                if let Poll::Ready(result) = &mut polled {
                    admitted.finish_now(result);
                }
                polled
            }
            StateProjected::Refused { response } => match response.take() {
                Some(response) => Poll::Ready(Ok((*response).map(RB::from))),
                // Like any future, this one must not be polled after its end.
                None => Poll::Pending,
            },
            StateProjected::Waiting { future } => future.as_mut().poll(cx),
        }
    }
}

/// The work left for an admitted request once its response is ready. Usually this is to write the
/// headers of the decision. For a request that an equal layer has already decided, it is nothing.
/// Everything else is boxed, since this is moved with the future.
pub(super) struct Admitted<S> {
    pub(super) marks: Marks,
    more: Option<Box<More<S>>>,
}

struct More<S> {
    shared: Arc<Shared<S>>,
    /// The answer to refund or to charge extra for, if charges depend on the response.
    answer: Option<Answer<'static>>,
    timer: Option<Timer>,
}

impl<S> Default for Admitted<S> {
    #[inline]
    fn default() -> Self {
        Self { marks: Marks::default(), more: None }
    }
}

impl<S: Store + 'static> Admitted<S> {
    /// Adds the work besides writing headers.
    #[inline]
    pub(super) fn later(
        &mut self,
        shared: &Arc<Shared<S>>,
        answer: Option<Answer<'static>>,
        timer: Option<Timer>,
    ) {
        if answer.is_some() || timer.is_some() {
            self.more = Some(More::new(shared, answer, timer));
        }
    }

    /// Charges by the response, and writes the headers of the decision.
    pub(super) async fn finish<RB, E>(mut self, result: &mut Result<Response<RB>, E>) {
        match self.more.take() {
            None => self.write(result),
            Some(more) => {
                let began = more.began();
                let (more, instead) = match more.shared.charging.judge(result) {
                    Then::Nothing => (more, None),
                    then => {
                        let charging = async move {
                            let instead = more.charge(then).await;
                            (more, instead)
                        };
                        ToItsEnd::new(charging).await
                    }
                };
                self.finish_with(*more, instead, result, began);
            }
        }
    }

    /// As `finish`, for a store that answers immediately.
    #[inline]
    fn finish_now<RB, E>(&mut self, result: &mut Result<Response<RB>, E>) {
        match self.more.take() {
            None => self.write(result),
            Some(more) => self.finish_more(*more, result),
        }
    }

    #[inline(never)]
    fn finish_more<RB, E>(&mut self, more: More<S>, result: &mut Result<Response<RB>, E>) {
        let began = more.began();
        let then = more.shared.charging.judge(result);
        let instead = at_once(more.charge(then)).flatten();
        self.finish_with(more, instead, result, began);
    }

    /// Writes the headers of the decision, or `instead` those of an extra charge.
    fn finish_with<RB, E>(
        &mut self,
        more: More<S>,
        instead: Option<Marks>,
        result: &mut Result<Response<RB>, E>,
        began: Option<Instant>,
    ) {
        if let Some(instead) = instead {
            self.marks = instead;
        }
        self.write(result);
        if let (Some(mut timer), Some(began)) = (more.timer, began) {
            timer.goes_on(began);
            more.shared.times.add(&timer);
        }
    }

    #[inline]
    fn write<RB, E>(&mut self, result: &mut Result<Response<RB>, E>) {
        if let Ok(response) = result {
            self.marks.write(response.headers_mut());
        }
    }
}

impl<S: Store + 'static> More<S> {
    #[inline(never)]
    fn new(
        shared: &Arc<Shared<S>>,
        answer: Option<Answer<'static>>,
        mut timer: Option<Timer>,
    ) -> Box<Self> {
        if let Some(timer) = &mut timer {
            timer.decided();
        }
        Box::new(Self { shared: Arc::clone(shared), answer, timer })
    }

    fn began(&self) -> Option<Instant> {
        self.timer.map(|_| Instant::now())
    }

    /// Charges by the response. The headers of an extra charge replace those of the first decision.
    async fn charge(&self, then: Then) -> Option<Marks> {
        let (answer, Shared { charging, gate, .. }) = (self.answer.as_ref()?, &*self.shared);
        let decision = charging.carry_out(then, gate, answer).await?;
        let mut marks = Marks::default();
        self.shared.mark(&mut marks, answer, Some(&decision));
        Some(marks)
    }
}
