//! The HTTP API: it routes requests to their handlers.

mod admin;
mod answer;
mod auth;
mod bearer;
mod check;
mod endpoint;
mod holds;
mod on_failure;
mod policies;
mod problem;
mod query;
mod question;
mod queue_errors;
mod queues;
mod request;
mod rulings;
mod subject;
mod text;
mod waiters;
mod workers;

use core::sync::atomic::{AtomicBool, Ordering};

use std::sync::Arc;

use http::{Method, Request, StatusCode};
use opentelemetry::context::FutureExt as _;

use crate::grpc::Rls;
use crate::http::{Answering, Caller, Explain, Reply, Whole};
use crate::metrics::{FrontCounts, Metrics, OTHER, Page};
use crate::queues::Queues;
use crate::service::{Act, Service};
use crate::traces::Traces;
use answer::{text, told};
use check::Denial;
use endpoint::{Endpoint, class_of};
use problem::Problem;
use query::Query;
use request::{body_of, is_read, strict};

pub(crate) use admin::Admin;
pub(crate) use auth::Auth;
pub(crate) use bearer::{Guard, Origins};
pub(crate) use endpoint::requests;
pub(crate) use workers::Workers;

/// A short description of the service, as plain text.
const INDEX: &str = include_str!("index.txt");

/// The OpenAPI description of every path.
const OPENAPI: &str = include_str!("openapi.yaml");

/// The answer of a service that is ready, and has had no connection to its store.
const AWAITS_STORE: &str =
    "ready\nstore: not reached since the start, so the failure rules decide\n";

/// The API for clients and proxies.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) service: Arc<Service>,
    pub(crate) auth: Auth,
    pub(crate) metrics: Metrics,
    pub(crate) requests: Arc<FrontCounts>,
    pub(crate) page: Page,
    pub(crate) queues: Queues,
    pub(crate) workers: Workers,
    pub(crate) rls: Arc<Rls>,
    pub(crate) origins: Origins,
    /// False while the service shuts down.
    pub(crate) open: AtomicBool,
}

impl Answering for Api {
    const EXPLAIN: Explain = problem::explain;

    fn no_room() -> Reply {
        Problem::no_room().response()
    }

    /// The body of a request to `/v1/auth` belongs to the original request, and is not read.
    fn reads_body(&self, path: &str) -> bool {
        path != "/v1/auth"
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    async fn answer(&self, request: Request<Whole>, caller: Caller<'_>) -> Reply {
        let endpoint = Endpoint::from_path(request.uri().path());
        // What only monitors the service is not traced.
        let is_traced = endpoint.is_none_or(|endpoint| !endpoint.monitors());
        let traces = self.metrics.traces().filter(|_| is_traced);
        let route = endpoint.map_or(OTHER, Endpoint::path);
        let span = traces.map(|traces| traces.begin(route, &request));
        let route = self.route(request, caller);
        let answered = match &span {
            None => route.await,
            Some(span) => route.with_context(span.clone()).await,
        };
        let response = answered.unwrap_or_else(|problem| problem.response());
        if let Some(span) = span {
            Traces::end(&span, response.status());
        }
        self.count(endpoint, response.status());
        response
    }
}

impl Api {
    /// Counts an answered request.
    fn count(&self, endpoint: Option<Endpoint>, status: StatusCode) {
        self.requests.add(endpoint.map(|endpoint| endpoint as usize), class_of(status), 1);
    }

    async fn route(&self, request: Request<Whole>, caller: Caller<'_>) -> Result<Reply, Problem> {
        strict(&request)?;
        let peer = caller.peer.address();
        let path = request.uri().path();
        // A request to `/v1/auth` has the headers of the proxy's client, so its origin is not
        // checked.
        if path != "/v1/auth" {
            self.origins.check(request.headers(), peer)?;
        }
        let question = match path {
            "/v1/check" => Some(Act::Check),
            "/v1/peek" => Some(Act::Peek),
            _ => None,
        };
        if let Some(act) = question {
            if request.method() != Method::POST {
                return Ok(Problem::method("POST"));
            }
            let denial = Denial::of(request.uri())?;
            let body = body_of(request)?;
            return check::respond(&self.service, &body, act, denial).await;
        }
        if path == "/v1/auth" {
            return self.auth.respond(request, caller.peer).await;
        }
        if path == "/json" {
            if request.method() != Method::POST {
                return Ok(Problem::method("POST"));
            }
            // Boxed, since the compiler computes no size of futures that are nested so deeply.
            let body = body_of(request)?;
            let answer = Box::pin(self.rls.json(&self.service, &body, peer)).await;
            return answer.map(told).ok_or_else(|| Problem::not_found("/json"));
        }
        if path == "/v1/refund" {
            if request.method() != Method::POST {
                return Ok(Problem::method("POST"));
            }
            let body = body_of(request)?;
            return check::refund(&self.service, &body).await;
        }
        if path == "/v1/charge" {
            if request.method() != Method::POST {
                return Ok(Problem::method("POST"));
            }
            let body = body_of(request)?;
            return Box::pin(check::charge(&self.service, &body)).await;
        }
        if let Some(act) = holds::Act::from_path(path) {
            if request.method() != Method::POST {
                return Ok(Problem::method("POST"));
            }
            let denial = Denial::of(request.uri())?;
            let body = body_of(request)?;
            return Box::pin(holds::respond(&self.service, &body, act, denial)).await;
        }
        if path.starts_with(queues::PREFIX) {
            return queues::respond(&self.queues, &self.workers, request, caller).await;
        }
        if !is_read(&request) {
            let known = ["/", "/v1/policies", "/v1/explain", "/v1/openapi.yaml"];
            let watched = ["/healthz", "/readyz", "/metrics"];
            if known.contains(&path) || watched.contains(&path) {
                return Ok(Problem::method("GET"));
            }
        }
        match path {
            "/" => Ok(text("text/plain; charset=utf-8", INDEX)),
            "/v1/policies" => policies::list(&self.service, Query::new(request.uri())),
            "/v1/explain" => policies::explain(&self.service, Query::new(request.uri())).await,
            "/v1/openapi.yaml" => Ok(text("application/yaml", OPENAPI)),
            "/healthz" => Ok(text("text/plain; charset=utf-8", "ok\n")),
            "/readyz" => self.ready(Query::new(request.uri())).await,
            "/metrics" => Ok(self.page.respond(request.headers())),
            _ => Err(Problem::not_found(path)),
        }
    }

    /// Whether this instance should receive requests. It is ready while it takes requests and can
    /// answer them: with the store, or without it by the failure rules. An unavailable store
    /// affects every instance, so it counts only with `store=1`.
    async fn ready(&self, query: Query<'_>) -> Result<Reply, Problem> {
        let with_store = query.only(&["store"])?.with_store()?;
        if !self.open.load(Ordering::Relaxed) {
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the service is ending"));
        }
        if with_store {
            self.service.probe_store().await?;
        }
        let ready = match self.service.has_store() {
            true => "ready\n",
            false => AWAITS_STORE,
        };
        Ok(text("text/plain; charset=utf-8", ready))
    }
}

#[cfg(test)]
mod tests {
    use super::OPENAPI;

    /// Many generators of clients read YAML 1.1, where a bare `on` is `true`.
    #[test]
    fn the_openapi_document_has_no_word_that_yaml_1_1_reads_as_a_boolean() {
        let booleans = ["on", "off", "yes", "no", "y", "n"];
        for (number, line) in OPENAPI.lines().enumerate() {
            let (before, value) = line.split_once(':').unwrap_or(("", line));
            let key = before.trim_start_matches([' ', '-']);
            let items = value.split(['[', ']', '{', '}', ',']).map(str::trim);
            let found = items.chain([key]).find(|word| booleans.contains(word));
            assert_eq!(found, None, "line {}: quote it: {line}", number + 1);
        }
    }

    /// Without a format a generated client has 32 bits for an integer.
    #[test]
    fn an_integer_of_the_openapi_document_is_small_or_says_that_it_is_not() {
        let lines: Vec<&str> = OPENAPI.lines().collect();
        let mut found = 0;
        for (number, line) in lines.iter().enumerate() {
            if !line.contains("type: integer") && !line.contains("type: [integer") {
                continue;
            }
            found += 1;
            let next = lines.get(number + 1).copied().unwrap_or_default();
            let (_, most) = line.split_once("maximum: ").unwrap_or(("", "none"));
            let most: String = most.chars().take_while(char::is_ascii_digit).collect();
            // The value of a field may be any integer of 64 bits, with a sign or without.
            let is_any = line.contains("minimum: -9223372036854775808");
            let is_small = most.parse::<i32>().is_ok();
            let is_long = line.contains("format: int64") || next.trim() == "format: int64";
            assert!(is_small || is_long || is_any, "line {}: {line}", number + 1);
        }
        assert!(found > 40, "{found}");
    }
}
