//! The service: one decision for a request, then the service behind it or a refusal.

use core::fmt;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Extensions, HeaderMap, Request, Response};
use tollgate::{Decision, Store, SubjectPrefix};
use tollgate_policy::{
    Answer, Authority, Cost, DecisionMark, Field, Outcome, Policies, Prepared, subject_of,
};
use tower_service::Service;

use super::Shared;
use super::front::RequestFields;
use super::future::{Admitted, ResponseFuture};
use super::mark;
use super::misconfigurations::Misconfiguration;
use super::refused::{Refused, RequestHead};
use super::share::Timer;
use super::templates;
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
        // Filled where it lies, and moved once, with the future.
        let mut admitted = Admitted::default();
        match self.shared.decide(&mut request, &mut admitted) {
            Next::Pass => ResponseFuture::running(self.inner.call(request), admitted),
            Next::Refuse(refusal) => ResponseFuture::refused(refusal),
            Next::Wait(prepared, timer) => self.wait(*prepared, request, timer),
        }
    }
}

/// Apart, since few requests have one.
type Refusal = Box<Response<Bytes>>;

/// What becomes of a request.
enum Next {
    /// It goes on to the service behind.
    Pass,
    Refuse(Refusal),
    /// The store has to be waited for.
    Wait(Box<Prepared>, Option<Timer>),
}

impl<I, S> Tollgate<I, S> {
    /// The way of a request whose store has to be waited for. Apart, so that its room is not made
    /// for those who need not wait.
    #[inline(never)]
    fn wait<B, RB>(
        &mut self,
        prepared: Prepared,
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
            let mark = prepared.mark();
            let answer = shared.gate.ask(prepared).await;
            let mut admitted = Admitted::default();
            if let Some(refusal) = shared.verdict(&request, &answer, &mut admitted.marks) {
                return Ok(refusal.map(RB::from));
            }
            mark::put(request.extensions_mut(), mark);
            let answer = (!shared.charging.is_none()).then_some(answer);
            admitted.later(&shared, answer, timer);
            let mut result = inner.call(request).await;
            admitted.finish(&mut result).await;
            result
        }))
    }
}

impl<S: Store + 'static> Shared<S> {
    /// Decides a request, and notes it there. What is left to do when its response is there is put
    /// into `admitted`.
    #[inline]
    fn decide<B>(self: &Arc<Self>, request: &mut Request<B>, admitted: &mut Admitted<S>) -> Next {
        let timer = self.times.start();
        let is_marked = mark::is_on(request.extensions());
        if is_marked && self.has_decided(request.extensions()) {
            return Next::Pass;
        }
        // What another layer has decided is noted already, which few requests meet. Where responses
        // are charged by, the answer is needed later.
        let at_once = !is_marked && self.charging.is_none();
        let (closely, marks) = (timer.is_some(), &mut admitted.marks);
        let by_ipv4 = if at_once && !closely {
            let subject = |field: &Field, prefix: &SubjectPrefix| {
                self.front.subject_of_ipv4(request.extensions(), field, prefix)
            };
            self.gate.check_at_once(subject, |answer| self.verdict(request, answer, marks))
        } else {
            None
        };
        let judged = match by_ipv4 {
            Some(judged) => Err(judged),
            None => self.judge(request, closely, at_once, marks),
        };
        match judged {
            Err((mark, None)) => {
                mark::put(request.extensions_mut(), mark);
                admitted.later(self, None, timer);
                Next::Pass
            }
            Err((_, Some(refusal))) => Next::Refuse(refusal),
            Ok(prepared) => self.ask(prepared, request, admitted, timer),
        }
    }

    /// What there is to ask for a request; or how it was judged, by any of its fields, where that
    /// is known already.
    #[inline(never)]
    fn judge<B>(
        &self,
        request: &Request<B>,
        closely: bool,
        at_once: bool,
        marks: &mut Marks,
    ) -> Result<Prepared, (DecisionMark, Option<Refusal>)> {
        self.front.with_fields(request, &self.misconfigurations, closely, |fields| {
            let subject = |field: &Field, prefix: &SubjectPrefix| subject_of(fields, field, prefix);
            let verdict = |answer: &Answer<'_>| self.verdict(request, answer, marks);
            match at_once.then(|| self.gate.check_at_once(subject, verdict)).flatten() {
                Some(judged) => Err(judged),
                None => self.prepare(request, fields),
            }
        })
    }

    /// What there is to ask for a request, by any policies; or the refusal of one that has a field
    /// which cannot be taken for what it should be.
    fn prepare<B>(
        &self,
        request: &Request<B>,
        fields: &RequestFields<'_>,
    ) -> Result<Prepared, (DecisionMark, Option<Refusal>)> {
        let prepared = self.gate.prepare(fields);
        match fields.fault(&prepared) {
            Some((field, why)) => {
                let mark = prepared.mark();
                Err((mark, Some(self.malformed(request, prepared, &field, why))))
            }
            None => Ok(prepared),
        }
    }

    /// Asks any store.
    #[inline(never)]
    fn ask<B>(
        self: &Arc<Self>,
        prepared: Prepared,
        request: &mut Request<B>,
        admitted: &mut Admitted<S>,
        timer: Option<Timer>,
    ) -> Next {
        let mark = prepared.mark();
        let Some(answer) = self.gate.ask_now(&prepared) else {
            return Next::Wait(Box::new(prepared), timer);
        };
        let refusal = self.verdict(request, &answer, &mut admitted.marks);
        // Where responses are charged by, the answer says what to refund, or what to charge more.
        let answer = (!self.charging.is_none()).then(|| answer.into_owned());
        if let Some(refusal) = refusal {
            return Next::Refuse(refusal);
        }
        mark::put(request.extensions_mut(), mark);
        admitted.later(self, answer, timer);
        Next::Pass
    }

    /// The fields that policies look at and this front does not tell.
    pub(super) fn not_supplied(&self, policies: &Policies) -> Vec<Field> {
        policies.fields().iter().filter(|field| !self.front.supplies(field)).cloned().collect()
    }

    /// True when the same policies over the same store have decided this request, as it says.
    #[cold]
    fn has_decided(&self, extensions: &Extensions) -> bool {
        let decided = mark::is_alike(extensions, self.gate.mark());
        if decided {
            self.misconfigurations.report(Misconfiguration::LayeredTwice);
        }
        decided
    }

    /// The refusal of a request that has a field which cannot be taken for what it should be.
    #[cold]
    fn malformed<B>(
        &self,
        request: &Request<B>,
        prepared: Prepared,
        field: &Field,
        why: Why,
    ) -> Refusal {
        let answer = self.gate.refuse(prepared, field.clone());
        let missing = self.front.missing(field, why);
        let wire = self.wire(request);
        let refusal = self.answers.missing(wire, &missing);
        self.finish(request, wire, &answer, refusal)
    }

    /// The refusal; or none, with what to write into the response in `marks`.
    #[inline]
    fn verdict<B>(
        &self,
        request: &Request<B>,
        answer: &Answer<'_>,
        marks: &mut Marks,
    ) -> Option<Refusal> {
        if answer.revision().number > self.newest.load(Ordering::Relaxed) {
            self.take_revision(answer);
        }
        if !answer.is_allowed() {
            return Some(self.refusal(request, answer));
        }
        self.mark(marks, answer, answer.decision());
        None
    }

    /// Policies that are seen for the first time: what nobody tells them.
    #[cold]
    fn take_revision(&self, answer: &Answer<'_>) {
        let number = answer.revision().number;
        if self.newest.fetch_max(number, Ordering::Relaxed) < number {
            let fields = self.not_supplied(answer.policies());
            if !fields.is_empty() {
                self.misconfigurations.report_anew(&Misconfiguration::FieldNotSupplied(fields));
            }
        }
    }

    #[cold]
    fn refusal<B>(&self, request: &Request<B>, answer: &Answer<'_>) -> Refusal {
        let wire = self.wire(request);
        let policy = answer.policy().map(|policy| policy.name.as_str());
        let refusal = match (answer.outcome(), answer.decision(), answer.missing()) {
            (Outcome::Denied | Outcome::Never, Some(decision), _) => {
                let refused = self.answers.refused(wire, &templates::all(answer), decision);
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
            // An administrator's ban is no limit of a policy.
            (Outcome::Banned, ..) if answer.authority() == Authority::Ruling => {
                self.answers.banned(wire, None)
            }
            (Outcome::Banned, ..) => self.answers.banned(wire, policy),
            (Outcome::Missing, _, Some(field)) => {
                let why = |fields: &RequestFields<'_>| fields.why_missing(field);
                let why = self.front.with_fields(request, &self.misconfigurations, false, why);
                self.answers.missing(wire, &self.front.missing(field, why))
            }
            _ => self.unavailable(wire, policy.as_slice()),
        };
        self.finish(request, wire, answer, refusal)
    }

    /// A refusal as the program wants it said.
    fn finish<B>(
        &self,
        request: &Request<B>,
        wire: Wire,
        answer: &Answer<'_>,
        mut refusal: Response<Bytes>,
    ) -> Refusal {
        self.show_revision(refusal.headers_mut(), answer);
        if let Some(on_refused) = &self.on_refused
            && wire == Wire::Http
        {
            let refused = Refused {
                request: RequestHead::new(request),
                outcome: answer.outcome(),
                policy: answer.policy().map(|policy| policy.name.as_str()),
                decision: answer.decision(),
            };
            refusal = on_refused(&refused, refusal);
        }
        Box::new(refusal)
    }

    /// How a refusal is said.
    fn wire<B>(&self, request: &Request<B>) -> Wire {
        if self.for_proxies { Wire::Http } else { Wire::from_headers(request.headers()) }
    }

    fn unavailable(&self, wire: Wire, policies: &[&str]) -> Response<Bytes> {
        self.answers.unavailable(wire, policies, self.retry_when_unavailable)
    }

    /// What is to be written into the headers of a response: what the decision says.
    #[inline]
    pub(super) fn mark(
        &self,
        marks: &mut Marks,
        answer: &Answer<'_>,
        decision: Option<&Decision<'_>>,
    ) {
        if let Some(decision) = decision {
            match templates::only(answer) {
                Some(template) => self.answers.fill(marks, &[template], decision),
                None => self.answers.fill(marks, &templates::all(answer), decision),
            }
        }
        if self.show_revision {
            marks.add(REVISION, revision(answer));
        }
    }

    fn show_revision(&self, headers: &mut HeaderMap, answer: &Answer<'_>) {
        if self.show_revision
            && let Some(value) = revision(answer)
        {
            headers.insert(REVISION, value);
        }
    }
}

fn revision(answer: &Answer<'_>) -> Option<HeaderValue> {
    HeaderValue::try_from(answer.revision().to_string()).ok()
}
