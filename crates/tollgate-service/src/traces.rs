//! Traces: a span for each question, with a child span for each decision.
//!
//! Attribute names follow OpenTelemetry's semantic conventions for HTTP. Tollgate's own attributes
//! begin with `tollgate.`.

use core::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderMap, Method, Request, StatusCode};
use opentelemetry::global::BoxedTracer;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{Span as _, SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue};
use tollgate_policy::Event;

/// The tracer and the propagator of a service's spans. Cheap to clone.
#[derive(Clone)]
pub struct Traces(Arc<Inner>);

struct Inner {
    tracer: BoxedTracer,
    propagator: Box<dyn TextMapPropagator + Send + Sync>,
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Traces").field(&self.0.propagator).finish()
    }
}

impl Traces {
    /// Creates spans with this tracer, as children of the span that the propagator finds in the
    /// request headers.
    pub fn new(
        tracer: BoxedTracer,
        propagator: impl TextMapPropagator + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner { tracer, propagator: Box::new(propagator) }))
    }

    /// Begins the span of a request. Its route is not the path, which may contain personal data.
    pub(crate) fn begin<B>(&self, route: &'static str, request: &Request<B>) -> Context {
        let method = method(request.method());
        let attributes =
            [KeyValue::new("http.request.method", method), KeyValue::new("http.route", route)];
        self.start(request.headers(), format!("{method} {route}"), attributes)
    }

    /// Begins a span of this name, as a child of the one in the request's headers.
    pub(crate) fn start<const N: usize>(
        &self,
        headers: &HeaderMap,
        name: String,
        attributes: [KeyValue; N],
    ) -> Context {
        let parent = self.0.propagator.extract(&Headers(headers));
        let span = self.0.tracer.span_builder(name);
        let span = span.with_kind(SpanKind::Server).with_attributes(attributes);
        let span = self.0.tracer.build_with_context(span, &parent);
        parent.with_span(span)
    }

    /// Ends the span of a request.
    pub(crate) fn end(context: &Context, status: StatusCode) {
        let span = context.span();
        let code = i64::from(status.as_u16());
        span.set_attribute(KeyValue::new("http.response.status_code", code));
        // A denial is a regular answer, not an error of the service.
        if status.is_server_error() {
            span.set_status(Status::error(""));
        }
        span.end();
    }

    /// Begins the span of a command of the Redis protocol. Clients send no parent with it.
    #[cfg(feature = "resp")]
    pub(crate) fn begin_command(&self, name: &str) -> Context {
        let span = self.0.tracer.span_builder(name.to_ascii_uppercase());
        let protocol = KeyValue::new("network.protocol.name", "resp");
        let span = span.with_kind(SpanKind::Server).with_attributes([protocol]);
        let parent = Context::new();
        parent.with_span(self.0.tracer.build_with_context(span, &parent))
    }

    /// Ends the span of a command, which was answered or is an error.
    #[cfg(feature = "resp")]
    pub(crate) fn end_command(context: &Context, is_error: bool) {
        let span = context.span();
        let result = if is_error { "error" } else { "answer" };
        span.set_attribute(KeyValue::new("tollgate.result", result));
        span.end();
    }

    /// Adds the span of a decision to the span of the current request.
    pub(crate) fn decided(&self, event: &Event<'_>) {
        let context = Context::current();
        if !event.decides || !context.span().is_recording() {
            return;
        }
        let end = SystemTime::now();
        let start = end.checked_sub(event.duration).unwrap_or(end);
        let mut attributes = vec![
            KeyValue::new("tollgate.outcome", event.outcome.name()),
            KeyValue::new("tollgate.authority", event.authority.name()),
        ];
        attributes
            .extend(event.policy.map(|policy| KeyValue::new("tollgate.policy", policy.to_owned())));
        let rule = event.rule.map(|rule| (Some(rule.domain), rule.rule));
        let (domain, rule) = rule.unwrap_or_default();
        let named = [("tollgate.domain", domain), ("tollgate.rule", rule)];
        let named = named.into_iter().filter_map(|(name, value)| Some((name, value?)));
        attributes.extend(named.map(|(name, value)| KeyValue::new(name, value.to_owned())));
        let span = self.0.tracer.span_builder("decide").with_start_time(start);
        let span = span.with_attributes(attributes);
        self.0.tracer.build_with_context(span, &context).end_with_timestamp(end);
    }
}

/// The name of a standard HTTP method; all other methods share one name.
fn method(method: &Method) -> &'static str {
    const KNOWN: [&str; 9] =
        ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE"];
    KNOWN.into_iter().find(|known| method == known).unwrap_or("_OTHER")
}

/// Request headers, as propagators read them.
struct Headers<'h>(&'h HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}
