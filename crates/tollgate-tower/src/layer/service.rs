//! The service: one decision per request, then the inner service or a refusal.

use core::fmt;
use core::future::ready;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Extensions, HeaderMap, Request, Response};
use tollgate::{Decision, Store, SubjectPrefix};
use tollgate_policy::{Answer, DecisionMark, Field, Policies, Prepared, subject_of};
use tower_service::Service;

use super::find_limits::LaterPrepared;
use super::front::RequestFields;
use super::future::{Admitted, ResponseFuture};
use super::mark;
use super::misconfigurations::Misconfiguration;
use super::refused::{Refused, RequestHead};
use super::respond;
use super::share::Timer;
use super::shared::Shared;
use super::templates;
use super::to_its_end::ToItsEnd;
use crate::answer::{Marks, Wire};
use crate::identity::Why;

const REVISION: HeaderName = HeaderName::from_static("tollgate-revision");

/// A rate-limited service, created by [`super::TollgateLayer`].
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
        // Filled in place, and moved once, with the future.
        let mut admitted = Admitted::default();
        match self.shared.decide(&mut request, &mut admitted) {
            Next::Pass => ResponseFuture::running(self.inner.call(request), admitted),
            Next::Refuse(refusal) => ResponseFuture::refused(refusal),
            Next::Wait(prepared, timer) => self.wait(prepared, request, timer),
        }
    }
}

/// Boxed, since few requests have one.
pub(super) type Refusal = Box<Response<Bytes>>;

/// The next step for a request.
enum Next {
    /// The inner service is called.
    Pass,
    Refuse(Refusal),
    /// The store, or a function that gives limits, does not answer immediately.
    Wait(LaterPrepared, Option<Timer>),
}

impl<I, S> Tollgate<I, S> {
    /// Handles a request whose store or whose limits have to be waited for. It is a separate
    /// function, so that other requests need no stack space for it.
    #[inline(never)]
    fn wait<B, RB>(
        &mut self,
        prepared: LaterPrepared,
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
        // The call uses the service that was polled ready; the clone replaces it.
        let clone = self.inner.clone();
        let mut inner = core::mem::replace(&mut self.inner, clone);
        let shared = Arc::clone(&self.shared);
        ResponseFuture::waiting(Box::pin(async move {
            let prepared = prepared.await;
            let mark = prepared.mark();
            let gate = shared.gate.clone();
            let answer = ToItsEnd::new(async move { gate.ask(prepared).await }).await;
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
    /// Decides a request, and marks it as decided. The work left for its response is put into
    /// `admitted`.
    #[inline]
    fn decide<B>(self: &Arc<Self>, request: &mut Request<B>, admitted: &mut Admitted<S>) -> Next {
        let timer = self.times.start();
        let is_marked = mark::is_on(request.extensions());
        if is_marked && self.has_decided(request.extensions()) {
            return Next::Pass;
        }
        // A request decided by another layer, which is rare, is already marked.
        let id = self.front.request_id(request, &self.misconfigurations);
        let at_once = !is_marked && self.is_plain && id.is_none();
        let (closely, marks) = (timer.is_some(), &mut admitted.marks);
        let by_ipv4 = if at_once && !closely {
            let subject = |field: &Field, prefix: &SubjectPrefix| {
                self.front.subject_of_ipv4(request.extensions(), field, prefix)
            };
            self.gate.check_at_once(None, subject, |answer| self.verdict(request, answer, marks))
        } else {
            None
        };
        let judged = match by_ipv4 {
            Some(judged) => Err(judged),
            None => self.judge(request, closely, at_once, marks),
        };
        let judged = judged.map(|mut prepared| {
            if let Some(id) = id {
                prepared.request(id);
            }
            prepared
        });
        match judged {
            Err((mark, None)) => {
                mark::put(request.extensions_mut(), mark);
                admitted.later(self, None, timer);
                Next::Pass
            }
            Err((_, Some(refusal))) => Next::Refuse(refusal),
            Ok(prepared) => match self.with_limits(request, prepared) {
                Ok(prepared) => self.ask(prepared, request, admitted, timer),
                Err(later) => Next::Wait(later, timer),
            },
        }
    }

    /// The prepared check of a request; or its result, by any of its fields, if that is already
    /// known.
    #[inline(never)]
    fn judge<B>(
        &self,
        request: &Request<B>,
        closely: bool,
        at_once: bool,
        marks: &mut Marks,
    ) -> Result<Prepared, (DecisionMark, Option<Refusal>)> {
        self.front.with_fields(request, &self.misconfigurations, closely, |fields| {
            // Every field that was read is sound, or the general path finds what it means.
            let subject = |field: &Field, prefix: &SubjectPrefix| {
                subject_of(fields, field, prefix).filter(|_| fields.are_sound())
            };
            let verdict = |answer: &Answer<'_>| self.verdict(request, answer, marks);
            let judged = at_once.then(|| self.gate.check_at_once(Some(fields), subject, verdict));
            match judged.flatten() {
                Some(judged) => Err(judged),
                None => self.prepare(request, fields),
            }
        })
    }

    /// The prepared check of a request, under any policies; or the refusal of a request with an
    /// unusable field.
    pub(super) fn prepare<B>(
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

    /// Calls any store.
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
            return Next::Wait(Box::pin(ready(prepared.for_long())), timer);
        };
        if let Some(refusal) = self.verdict(request, &answer, &mut admitted.marks) {
            return Next::Refuse(refusal);
        }
        // If charges depend on the response, the answer is needed for a refund or an extra charge.
        let answer = (!self.charging.is_none()).then(|| answer.into_owned());
        mark::put(request.extensions_mut(), mark);
        admitted.later(self, answer, timer);
        Next::Pass
    }

    /// The fields that policies read and this layer does not provide.
    pub(super) fn not_supplied(&self, policies: &Policies) -> Vec<Field> {
        policies.fields().iter().filter(|field| !self.front.supplies(field)).cloned().collect()
    }

    /// True when the same policies over the same store have decided this request, by its marks.
    #[cold]
    pub(super) fn has_decided(&self, extensions: &Extensions) -> bool {
        let decided = mark::is_alike(extensions, self.gate.current().mark());
        if decided {
            self.misconfigurations.report(Misconfiguration::LayeredTwice);
        }
        decided
    }

    /// The refusal of a request with an unusable field.
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

    /// The refusal; or `None`, with the headers for the response in `marks`.
    #[inline]
    pub(super) fn verdict<B>(
        &self,
        request: &Request<B>,
        answer: &Answer<'_>,
        marks: &mut Marks,
    ) -> Option<Refusal> {
        if answer.revision().number > self.newest.load(Ordering::Relaxed) {
            self.take_revision(answer);
        }
        if answer.decision().is_some_and(Decision::is_id_overused) {
            self.report_overused_id();
        }
        if !answer.is_allowed() {
            return Some(self.refusal(request, answer));
        }
        self.mark(marks, answer, answer.decision());
        None
    }

    #[cold]
    fn report_overused_id(&self) {
        if let Some((name, _)) = &self.front.request_id {
            self.misconfigurations.report(Misconfiguration::OverusedRequestId(name.clone()));
        }
    }

    /// Handles new policies: reports the fields that this layer does not provide.
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
        let missing = |field: &Field| {
            let why = |fields: &RequestFields<'_>| fields.why_missing(field);
            let why = self.front.with_fields(request, &self.misconfigurations, false, why);
            self.answers.missing(wire, &self.front.missing(field, why))
        };
        let wait = self.retry_when_unavailable;
        let refusal = respond::refusal(&self.answers, wire, wait, answer, missing);
        self.finish(request, wire, answer, refusal)
    }

    /// The refusal, customized by the program.
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
                policy: answer.policy().map(|policy| policy.name.as_str()),
                decision: answer.decision(),
            };
            refusal = on_refused(answer.outcome(), &refused, refusal);
        }
        Box::new(refusal)
    }

    /// The protocol of the refusal.
    pub(super) fn wire<B>(&self, request: &Request<B>) -> Wire {
        if self.for_proxies { Wire::Http } else { Wire::from_headers(request.headers()) }
    }

    pub(super) fn unavailable(&self, wire: Wire, policies: &[&str]) -> Response<Bytes> {
        self.answers.unavailable(wire, policies, self.retry_when_unavailable)
    }

    /// The headers of the decision, for the response.
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
                None => {
                    let all = templates::all(answer);
                    self.answers.fill(marks, &templates::lent(&all), decision);
                }
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
