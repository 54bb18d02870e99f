//! The way of one request: refused at once, or through the service and back with headers.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::Response;
use tollgate::Store;
use tollgate_policy::Answer;

use super::Shared;
use super::charge::Then;
use super::share::Timer;
use crate::answer::Marks;

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
        Refused { response: Option<Box<Response<Bytes>>> },
        Running { #[pin] inner: F, admitted: Option<Admitted<S>> },
        // A store that has to be waited for.
        Waiting { future: Boxed<RB, E> },
    }
}

impl<F, S, RB, E> ResponseFuture<F, S, RB, E> {
    pub(super) fn passed(inner: F) -> Self {
        Self { state: State::Passed { inner } }
    }

    pub(super) fn refused(response: Box<Response<Bytes>>) -> Self {
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
                Some(response) => Ok((*response).map(RB::from)),
                // As every future, this one must not be polled after its end.
                None => return Poll::Pending,
            },
            StateProjected::Running { inner, admitted } => {
                let mut result = ready!(inner.poll(cx));
                let Some(admitted) = admitted.take() else { return Poll::Pending };
                admitted.finish_now(&mut result);
                result
            }
            StateProjected::Waiting { future } => ready!(future.as_mut().poll(cx)),
        })
    }
}

/// A request that was admitted: what is left to do when its response is there. For most it is to
/// write what was decided; what else there is lies apart, since this is moved with the future.
pub(super) struct Admitted<S> {
    marks: Marks,
    more: Option<Box<More<S>>>,
}

struct More<S> {
    shared: Arc<Shared<S>>,
    /// What to give back, or what to charge more, where responses are charged by.
    answer: Option<Answer>,
    timer: Option<Timer>,
}

impl<S: Store + 'static> Admitted<S> {
    #[inline]
    pub(super) fn new(
        shared: &Arc<Shared<S>>,
        marks: Marks,
        answer: Option<Answer>,
        mut timer: Option<Timer>,
    ) -> Self {
        if let Some(timer) = &mut timer {
            timer.decided();
        }
        let more = (answer.is_some() || timer.is_some())
            .then(|| Box::new(More { shared: Arc::clone(shared), answer, timer }));
        Self { marks, more }
    }

    /// Charges by the response and writes what was decided into it.
    pub(super) async fn finish<RB, E>(self, result: &mut Result<Response<RB>, E>) {
        match self.more {
            None => write(self.marks, result),
            Some(more) => {
                let began = more.began();
                let then = more.shared.charging.judge(result);
                let instead = more.charge(then).await;
                more.write(instead.unwrap_or(self.marks), result, began);
            }
        }
    }

    /// The same with a store that need not be waited for.
    #[inline]
    fn finish_now<RB, E>(self, result: &mut Result<Response<RB>, E>) {
        match self.more {
            None => write(self.marks, result),
            Some(more) => {
                let began = more.began();
                let then = more.shared.charging.judge(result);
                let instead = at_once(more.charge(then)).flatten();
                more.write(instead.unwrap_or(self.marks), result, began);
            }
        }
    }
}

impl<S: Store + 'static> More<S> {
    fn began(&self) -> Option<Instant> {
        self.timer.map(|_| Instant::now())
    }

    /// Charges by the response; what that says is written in place of the first decision.
    async fn charge(&self, then: Then) -> Option<Marks> {
        let (answer, Shared { charging, gate, .. }) = (self.answer.as_ref()?, &*self.shared);
        let decision = charging.carry_out(then, gate, answer).await?;
        Some(self.shared.marks(answer.view(), Some(&decision)))
    }

    fn write<RB, E>(
        self,
        marks: Marks,
        result: &mut Result<Response<RB>, E>,
        began: Option<Instant>,
    ) {
        write(marks, result);
        if let (Some(mut timer), Some(began)) = (self.timer, began) {
            timer.goes_on(began);
            self.shared.times.add(&timer);
        }
    }
}

#[inline]
fn write<RB, E>(marks: Marks, result: &mut Result<Response<RB>, E>) {
    if let Ok(response) = result {
        marks.write(response.headers_mut());
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
