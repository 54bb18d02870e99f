//! The service: one decision for a request, then the service behind it or a refusal.

use core::fmt;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Extensions, HeaderMap, Request, Response};
use smallvec::{SmallVec, smallvec};
use tollgate::{Decision, Store};
use tollgate_policy::{Answer, Cost, Field, Gate, Looked, Outcome, Policies};
use tower_service::Service;

use super::Shared;
use super::front::RequestFields;
use super::future::{Admitted, ResponseFuture};
use super::mistakes::Mistake;
use super::share::Timer;
use crate::answer::Wire;

const REVISION: HeaderName = HeaderName::from_static("tollgate-revision");

/// A service behind limits. Made by [`super::TollgateLayer`].
pub struct Tollgate<I, S> {
    inner: I,
    shared: Arc<Shared<S>>,
}

impl<I, S> Tollgate<I, S> {
    pub(super) fn new(inner: I, shared: Arc<Shared<S>>) -> Self {
        Self { inner, shared }
    }
}

impl<I: Clone, S> Clone for Tollgate<I, S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<I, S> fmt::Debug for Tollgate<I, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tollgate")
    }
}

/// On a request: the gates that have decided it.
struct Decided<S>(SmallVec<[Gate<S>; 1]>);

impl<S> Clone for Decided<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// What a request comes to.
pub(super) enum Verdict {
    Admitted(Answer),
    Refused(Response<Bytes>),
}

impl<I, S, B, RB> Service<Request<B>> for Tollgate<I, S>
where
    I: Service<Request<B>, Response = Response<RB>> + Clone + Send + 'static,
    I::Future: Send + 'static,
    I::Error: Send + 'static,
    S: Store + 'static,
    B: Send + 'static,
    RB: From<Bytes> + Send + 'static,
{
    type Response = Response<RB>;
    type Error = I::Error;
    type Future = ResponseFuture<I::Future, S, RB, I::Error>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), I::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let timer = self.shared.times.start();
        if self.shared.is_decided(&mut request) {
            return ResponseFuture::passed(self.inner.call(request));
        }
        let looked = match self.shared.look(&request, timer.is_some()) {
            Ok(looked) => looked,
            Err(refusal) => return ResponseFuture::refused(*refusal),
        };
        let looked = match self.shared.gate.ask_now(looked) {
            Ok(answer) => {
                return match self.shared.verdict(&request, answer) {
                    Verdict::Refused(refusal) => ResponseFuture::refused(refusal),
                    Verdict::Admitted(answer) => {
                        let timer = decided(timer);
                        let admitted = Admitted::new(Arc::clone(&self.shared), answer, timer);
                        ResponseFuture::running(self.inner.call(request), admitted)
                    }
                };
            }
            Err(looked) => looked,
        };
        // The clone takes the place of the service that was found ready.
        let clone = self.inner.clone();
        let mut inner = core::mem::replace(&mut self.inner, clone);
        let shared = Arc::clone(&self.shared);
        ResponseFuture::waiting(Box::pin(async move {
            let answer = shared.gate.ask(looked).await;
            match shared.verdict(&request, answer) {
                Verdict::Refused(refusal) => Ok(refusal.map(RB::from)),
                Verdict::Admitted(answer) => {
                    let timer = decided(timer);
                    let result = inner.call(request).await;
                    Admitted::new(shared, answer, timer).finish(result).await
                }
            }
        }))
    }
}

#[inline]
fn decided(mut timer: Option<Timer>) -> Option<Timer> {
    if let Some(timer) = &mut timer {
        timer.decided();
    }
    timer
}

/// Forgets who has decided a request.
pub(super) fn forget<S: Store + 'static>(extensions: &mut Extensions) {
    extensions.remove::<Decided<S>>();
}

impl<S: Store + 'static> Shared<S> {
    /// The fields that policies look at and this front does not tell.
    pub(super) fn not_told(&self, policies: &Policies) -> Vec<Field> {
        policies.fields().iter().filter(|field| !self.front.tells(field)).cloned().collect()
    }

    /// True when the same policies over the same store have decided this request; else it is
    /// noted that they do now.
    #[inline]
    fn is_decided<B>(&self, request: &mut Request<B>) -> bool {
        let extensions = request.extensions_mut();
        let Some(Decided(known)) = extensions.get_mut::<Decided<S>>() else {
            extensions.insert(Decided(smallvec![self.gate.clone()]));
            return false;
        };
        let same = |other: &Gate<S>| {
            let alike = || {
                other.store().identity() == self.gate.store().identity()
                    && other.policies().hash() == self.gate.policies().hash()
            };
            other.is(&self.gate) || alike()
        };
        if known.iter().any(same) {
            self.mistakes.report(Mistake::LayeredTwice);
            return true;
        }
        known.push(self.gate.clone());
        false
    }

    /// What there is to ask of the store, which holds nothing of the request; or why nothing is.
    #[inline]
    fn look<B>(&self, request: &Request<B>, closely: bool) -> Result<Looked, Box<Response<Bytes>>> {
        let fields = RequestFields::new(request, &self.front, &self.mistakes, closely);
        let looked = self.gate.look(&fields);
        // Malformed, unless only policies in shadow look at it: those change nothing.
        let faults = fields.faults();
        if let Some((field, why)) = faults.iter().find(|(field, _)| looked.enforces(field)) {
            let answer = self.gate.refuse(looked, field.clone());
            let missing = self.front.missing(field, *why);
            let mut refusal = self.answers.missing(self.wire(request), &missing);
            self.show_revision(refusal.headers_mut(), &answer);
            return Err(Box::new(refusal));
        }
        Ok(looked)
    }

    #[inline]
    fn verdict<B>(&self, request: &Request<B>, answer: Answer) -> Verdict {
        if answer.revision().number > self.newest.load(Ordering::Relaxed) {
            self.take_revision(&answer);
        }
        if answer.is_allowed() {
            return Verdict::Admitted(answer);
        }
        let mut refusal = self.refusal(request, &answer);
        self.show_revision(refusal.headers_mut(), &answer);
        Verdict::Refused(refusal)
    }

    /// Policies that are seen for the first time: their cards, and what nobody tells them.
    #[cold]
    fn take_revision(&self, answer: &Answer) {
        let number = answer.revision().number;
        if self.newest.fetch_max(number, Ordering::Relaxed) < number {
            self.cards.make(answer.policies(), number);
            let fields = self.not_told(answer.policies());
            if !fields.is_empty() {
                self.mistakes.report_anew(&Mistake::NotTold(fields));
            }
        }
    }

    fn refusal<B>(&self, request: &Request<B>, answer: &Answer) -> Response<Bytes> {
        let wire = self.wire(request);
        let policy = answer.policy().map(|policy| policy.name.as_str());
        match (answer.outcome(), answer.decision(), answer.missing()) {
            (Outcome::Denied | Outcome::Never, Some(decision), _) => {
                let cards = self.cards.of(answer);
                let refused = self.answers.refused(wire, &cards.of(answer.parts()), decision);
                refused.unwrap_or_else(|| self.unavailable(wire, &[]))
            }
            (Outcome::Never, None, _) => {
                let most = answer.policy().map(|policy| &policy.cost);
                let most = match most {
                    Some(Cost::From { max, .. }) => *max,
                    _ => tollgate::MAX_COST,
                };
                self.answers.too_costly(wire, policy.unwrap_or_default(), most)
            }
            (Outcome::Banned, ..) => self.answers.banned(wire, policy.unwrap_or_default()),
            (Outcome::Missing, _, Some(field)) => {
                let fields = RequestFields::new(request, &self.front, &self.mistakes, false);
                let why = fields.why_missing(field);
                self.answers.missing(wire, &self.front.missing(field, why))
            }
            _ => self.unavailable(wire, policy.as_slice()),
        }
    }

    /// How a refusal is said.
    fn wire<B>(&self, request: &Request<B>) -> Wire {
        if self.for_proxies { Wire::Http } else { Wire::of(request.headers()) }
    }

    fn unavailable(&self, wire: Wire, policies: &[&str]) -> Response<Bytes> {
        self.answers.unavailable(wire, policies, self.retry_when_unavailable)
    }

    /// Writes what was decided into the headers of a response.
    #[inline]
    pub(super) fn mark(
        &self,
        headers: &mut HeaderMap,
        answer: &Answer,
        decision: Option<&Decision<'static>>,
    ) {
        if let Some(decision) = decision {
            let cards = self.cards.of(answer);
            self.answers.mark(headers, &cards.of(answer.parts()), decision);
        }
        self.show_revision(headers, answer);
    }

    #[inline]
    fn show_revision(&self, headers: &mut HeaderMap, answer: &Answer) {
        if self.show_revision
            && let Ok(value) = HeaderValue::try_from(answer.revision().to_string())
        {
            headers.insert(REVISION, value);
        }
    }
}
