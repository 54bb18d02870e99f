//! Exports traces to an OpenTelemetry collector.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response, Uri};
use opentelemetry::global::BoxedTracer;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tollgate_service::Traces;

use crate::client::over_https;

/// The timeout of one batch.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The longest time for exporting the remaining spans at shutdown.
const END: Duration = Duration::from_secs(5);

/// Exports spans until it is ended.
#[derive(Debug)]
pub(super) struct Exporter(SdkTracerProvider);

/// Starts to export spans to the collector at this URL, over connections on the current Tokio
/// runtime.
pub(super) fn start(url: &str) -> Result<(Traces, Exporter)> {
    let endpoint = endpoint(url)?;
    let client = ReportingClient {
        endpoint: endpoint.clone(),
        runtime: Handle::current(),
        client: client(&endpoint)?,
        failing: AtomicBool::new(false),
    };
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(&endpoint)
        .with_timeout(TIMEOUT)
        .build()
        .with_context(|| format!("traces cannot be sent to {url}"))?;
    // The variables of OpenTelemetry take precedence.
    let named = std::env::var_os("OTEL_SERVICE_NAME").is_some()
        || std::env::var_os("OTEL_RESOURCE_ATTRIBUTES")
            .is_some_and(|list| list.to_string_lossy().contains("service.name="));
    let resource = Resource::builder();
    let resource = if named { resource } else { resource.with_service_name("tollgate") };
    let provider = SdkTracerProvider::builder()
        .with_resource(resource.build())
        .with_batch_exporter(exporter)
        .build();
    let tracer = BoxedTracer::new(Box::new(provider.tracer("tollgate")));
    Ok((Traces::new(tracer, TraceContextPropagator::new()), Exporter(provider)))
}

impl Exporter {
    /// Exports the remaining spans.
    pub(super) async fn end(self) {
        // The shutdown blocks on the exporter's thread, which needs the runtime.
        let ended = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(END)).await;
        if !matches!(ended, Ok(Ok(()))) {
            tracing::warn!(target: "tollgate", "the last traces were not sent within {END:?}");
        }
    }
}

/// The endpoint for spans, below the collector's URL.
fn endpoint(url: &str) -> Result<String> {
    let wanted = "give the URL of a collector, e.g. http://127.0.0.1:4318";
    // The URL may contain a password, so it is not repeated in an error that may be logged.
    if url.contains('@') {
        bail!(
            "--otlp: a URL with a user or a password is not accepted; put the headers for the \
             collector into OTEL_EXPORTER_OTLP_HEADERS, e.g. `authorization=Basic ...`"
        );
    }
    let parsed: Uri = url.parse().map_err(|error| anyhow!("--otlp {url}: {error}; {wanted}"))?;
    match parsed.scheme_str() {
        Some("http" | "https") => {}
        Some(other) => bail!("--otlp {url}: `{other}` is neither http nor https; {wanted}"),
        None => bail!("--otlp {url}: it does not begin with http:// or https://; {wanted}"),
    }
    if parsed.query().is_some() {
        bail!("--otlp {url}: the URL of a collector has no `?`; {wanted}");
    }
    let base = url.trim_end_matches('/');
    if base.ends_with("/v1/traces") {
        bail!("--otlp {url}: leave /v1/traces out, it is added");
    }
    Ok(format!("{base}/v1/traces"))
}

/// A client for this URL, which follows no redirects.
pub(super) fn client(endpoint: &str) -> Result<Arc<dyn HttpClient>> {
    if endpoint.starts_with("http://") {
        return Ok(Arc::new(HyperClient::with_default_connector(TIMEOUT, None)));
    }
    Ok(Arc::new(HyperClient::new(over_https()?, TIMEOUT, None)))
}

/// A client that works on any thread. It logs when exports begin to fail, and when they succeed
/// again.
struct ReportingClient {
    endpoint: String,
    runtime: Handle,
    client: Arc<dyn HttpClient>,
    failing: AtomicBool,
}

impl fmt::Debug for ReportingClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReportingClient").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

#[async_trait]
impl HttpClient for ReportingClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = Arc::clone(&self.client);
        // The exporter's thread is not part of the runtime, and has neither timers nor sockets.
        let sent = self.runtime.spawn(async move { client.send_bytes(request).await });
        let answer = sent.await.map_err(HttpError::from).and_then(|answer| answer);
        self.tell(match &answer {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("it answers {}", response.status())),
            Err(error) => Some(reason(&**error)),
        });
        answer
    }
}

impl ReportingClient {
    fn tell(&self, why: Option<String>) {
        let endpoint = &self.endpoint;
        let was_failing = self.failing.swap(why.is_some(), Ordering::Relaxed);
        match why {
            Some(why) if !was_failing => {
                tracing::warn!(target: "tollgate", "traces do not arrive at {endpoint}: {why}");
            }
            None if was_failing => {
                tracing::info!(target: "tollgate", "traces arrive at {endpoint} again");
            }
            _ => {}
        }
    }
}

/// The innermost cause: outer errors report only that something failed.
pub(super) fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_added_to_the_url_of_a_collector() {
        for url in ["http://127.0.0.1:4318", "http://127.0.0.1:4318/"] {
            assert_eq!(endpoint(url).unwrap(), "http://127.0.0.1:4318/v1/traces");
        }
        assert_eq!(endpoint("https://a.example/otlp").unwrap(), "https://a.example/otlp/v1/traces");
    }
}
