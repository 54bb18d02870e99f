//! The service: one decision for a request, then the service behind it or a refusal.

use core::fmt;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Extensions, HeaderMap, Request, Response};
use smallvec::SmallVec;
use tollgate::{Decision, Store};
use tollgate_policy::{AnswerView, Cost, Field, Looked, Outcome, Policies, Stamp};
use tower_service::Service;

use super::Shared;
use super::cards;
use super::front::RequestFields;
use super::future::{Admitted, ResponseFuture};
use super::mistakes::Mistake;
use super::share::Timer;
use crate::answer::{Marks, Wire};
use crate::identity::Why;

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

/// On a request: who has decided it.
#[derive(Clone)]
struct Decided(SmallVec<[Stamp; 1]>);

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
        let shared = &self.shared;
        let timer = shared.times.start();
        if shared.is_decided(&request) {
            return ResponseFuture::passed(self.inner.call(request));
        }
        let looked;
        // A block, since `drop` would move the fields before it drops them.
        {
            let closely = timer.is_some();
            let route = shared.front.route_for_identities(request.extensions());
            let (front, mistakes) = (&shared.front, &shared.mistakes);
            let fields = RequestFields::new(&request, front, mistakes, closely, route.as_deref());
            looked = shared.gate.look(&fields);
            if let Some((field, why)) = fields.fault(&looked) {
                return ResponseFuture::refused(shared.malformed(&request, looked, &field, why));
            }
        }
        let stamp = looked.stamp();
        let (verdict, answer) = if shared.charging.is_none() {
            match shared.gate.judge(&looked, |answer| shared.verdict(&request, answer)) {
                Some(verdict) => (verdict, None),
                None => return self.wait(looked, request, timer),
            }
        } else {
            // The answer says what to give back, or what to charge more.
            match shared.gate.ask_now(looked) {
                Ok(answer) => (shared.verdict(&request, answer.view()), Some(answer)),
                Err(looked) => return self.wait(looked, request, timer),
            }
        };
        match verdict {
            Ok(marks) => {
                note(stamp, &mut request);
                let admitted = Admitted::new(shared, marks, answer, timer);
                ResponseFuture::running(self.inner.call(request), admitted)
            }
            Err(refusal) => ResponseFuture::refused(refusal),
        }
    }
}

impl<I, S> Tollgate<I, S> {
    /// The way of a request whose store has to be waited for. Apart, so that its room is not made
    /// for those who need not wait.
    #[inline(never)]
    fn wait<B, RB>(
        &mut self,
        looked: Looked,
        mut request: Request<B>,
        timer: Option<Timer>,
    ) -> ResponseFuture<I::Future, S, RB, I::Error>
    where
        I: Service<Request<B>, Response = Response<RB>> + Clone + Send + 'static,
        I::Future: Send + 'static,
        I::Error: Send + 'static,
        S: Store + 'static,
        B: Send + 'static,
        RB: From<Bytes> + Send + 'static,
    {
        // The clone takes the place of the service that was found ready.
        let clone = self.inner.clone();
        let mut inner = core::mem::replace(&mut self.inner, clone);
        let shared = Arc::clone(&self.shared);
        ResponseFuture::waiting(Box::pin(async move {
            let stamp = looked.stamp();
            let answer = shared.gate.ask(looked).await;
            match shared.verdict(&request, answer.view()) {
                Err(refusal) => Ok(refusal.map(RB::from)),
                Ok(marks) => {
                    note(stamp, &mut request);
                    let answer = (!shared.charging.is_none()).then_some(answer);
                    let admitted = Admitted::new(&shared, marks, answer, timer);
                    let mut result = inner.call(request).await;
                    admitted.finish(&mut result).await;
                    result
                }
            }
        }))
    }
}

/// Notes on a request who has decided it.
#[inline]
fn note<B>(stamp: Stamp, request: &mut Request<B>) {
    let extensions = request.extensions_mut();
    match extensions.get_mut::<Decided>() {
        Some(Decided(known)) => known.push(stamp),
        None => {
            extensions.insert(Decided(SmallVec::from_buf([stamp])));
        }
    }
}

/// Forgets who has decided a request.
pub(super) fn forget(extensions: &mut Extensions) {
    extensions.remove::<Decided>();
}

impl<S: Store + 'static> Shared<S> {
    /// The fields that policies look at and this front does not tell.
    pub(super) fn not_told(&self, policies: &Policies) -> Vec<Field> {
        policies.fields().iter().filter(|field| !self.front.tells(field)).cloned().collect()
    }

    /// True when the same policies over the same store have decided this request.
    #[inline]
    fn is_decided<B>(&self, request: &Request<B>) -> bool {
        let Some(Decided(known)) = request.extensions().get() else { return false };
        let own = self.gate.stamp();
        let decided = known.iter().any(|stamp| stamp.is_alike(own));
        if decided {
            self.mistakes.report(Mistake::LayeredTwice);
        }
        decided
    }

    /// The refusal of a request that has a field which cannot be taken for what it should be.
    #[cold]
    fn malformed<B>(
        &self,
        request: &Request<B>,
        looked: Looked,
        field: &Field,
        why: Why,
    ) -> Box<Response<Bytes>> {
        let answer = self.gate.refuse(looked, field.clone());
        let missing = self.front.missing(field, why);
        let mut refusal = self.answers.missing(self.wire(request), &missing);
        self.show_revision(refusal.headers_mut(), answer.view());
        Box::new(refusal)
    }

    /// What to write into the response; or the refusal.
    #[inline]
    fn verdict<B>(
        &self,
        request: &Request<B>,
        answer: AnswerView<'_>,
    ) -> Result<Marks, Box<Response<Bytes>>> {
        if answer.revision().number > self.newest.load(Ordering::Relaxed) {
            self.take_revision(answer);
        }
        if answer.is_allowed() {
            return Ok(self.marks(answer, answer.decision()));
        }
        Err(self.refusal(request, answer))
    }

    /// Policies that are seen for the first time: what nobody tells them.
    #[cold]
    fn take_revision(&self, answer: AnswerView<'_>) {
        let number = answer.revision().number;
        if self.newest.fetch_max(number, Ordering::Relaxed) < number {
            let fields = self.not_told(answer.policies());
            if !fields.is_empty() {
                self.mistakes.report_anew(&Mistake::NotTold(fields));
            }
        }
    }

    #[cold]
    fn refusal<B>(&self, request: &Request<B>, answer: AnswerView<'_>) -> Box<Response<Bytes>> {
        let wire = self.wire(request);
        let policy = answer.policy().map(|policy| policy.name.as_str());
        let mut refusal = match (answer.outcome(), answer.decision(), answer.missing()) {
            (Outcome::Denied | Outcome::Never, Some(decision), _) => {
                let refused = self.answers.refused(wire, &cards::of(answer), decision);
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
                let (front, mistakes) = (&self.front, &self.mistakes);
                let route = front.route_for_identities(request.extensions());
                let fields = RequestFields::new(request, front, mistakes, false, route.as_deref());
                let why = fields.why_missing(field);
                self.answers.missing(wire, &self.front.missing(field, why))
            }
            _ => self.unavailable(wire, policy.as_slice()),
        };
        self.show_revision(refusal.headers_mut(), answer);
        Box::new(refusal)
    }

    /// How a refusal is said.
    fn wire<B>(&self, request: &Request<B>) -> Wire {
        if self.for_proxies { Wire::Http } else { Wire::of(request.headers()) }
    }

    fn unavailable(&self, wire: Wire, policies: &[&str]) -> Response<Bytes> {
        self.answers.unavailable(wire, policies, self.retry_when_unavailable)
    }

    /// What is to be written into the headers of a response: what the decision says.
    #[inline]
    pub(super) fn marks(&self, answer: AnswerView<'_>, decision: Option<&Decision<'_>>) -> Marks {
        let mut marks = Marks::default();
        if let Some(decision) = decision {
            self.answers.fill(&mut marks, &cards::of(answer), decision);
        }
        if self.show_revision {
            marks.add(REVISION, revision(answer));
        }
        marks
    }

    fn show_revision(&self, headers: &mut HeaderMap, answer: AnswerView<'_>) {
        if self.show_revision
            && let Some(value) = revision(answer)
        {
            headers.insert(REVISION, value);
        }
    }
}

fn revision(answer: AnswerView<'_>) -> Option<HeaderValue> {
    HeaderValue::try_from(answer.revision().to_string()).ok()
}
