//! The HTTP API: it routes requests to their handlers.

mod admin;
mod answer;
mod auth;
mod bearer;
mod check;
mod cost;
mod counted;
mod credit;
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
use std::time::Instant;

use http::{Request, StatusCode};
use opentelemetry::context::FutureExt as _;

use crate::grpc::Rls;
use crate::http::{Answering, Caller, Explain, Reply, Whole};
use crate::metrics::{FrontCounts, Metrics, OTHER, Page};
use crate::operations::{Callers, Operation, queue_of};
use crate::queues::Queues;
use crate::service::{Act, Service};
use crate::traces::Traces;
use answer::{no_sniff, reply, text};
use check::Denial;
use counted::class_of;
use problem::Problem;
use query::Query;
use request::{body_of, strict};

pub(crate) use admin::Admin;
pub(crate) use auth::Auth;
pub(crate) use bearer::{Guard, Origins};
pub(crate) use counted::requests;
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
        let operation = Operation::at(request.uri().path());
        // Requests that only monitor the service are neither traced nor timed.
        let monitors = operation.is_some_and(Operation::monitors);
        let traces = self.metrics.traces().filter(|_| !monitors);
        let began = (!monitors).then(Instant::now);
        let route = operation.map_or(OTHER, |operation| operation.row().path);
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
        self.count(operation, response.status());
        if let Some(began) = began {
            self.requests.took(began.elapsed());
        }
        response
    }
}

impl Api {
    /// Counts an answered request.
    fn count(&self, operation: Option<Operation>, status: StatusCode) {
        self.requests.add(operation.map(|it| it as usize), class_of(status), 1);
    }

    async fn route(&self, request: Request<Whole>, caller: Caller<'_>) -> Result<Reply, Problem> {
        strict(&request)?;
        let peer = caller.peer.address();
        let path = request.uri().path();
        let operation = Operation::at(path).filter(|it| it.is_for(Callers::Clients));
        // A request to `/v1/auth` has the headers of the proxy's client, so its origin is not
        // checked.
        if operation != Some(Operation::Auth) {
            self.origins.check(request.headers(), peer)?;
        }
        let Some(operation) = operation else { return Err(Problem::not_found(path)) };
        let service = &*self.service;
        // A worker is refused before its method is.
        if let Some((name, _)) = queue_of(path) {
            let name = name.replace("%3A", ":").replace("%3a", ":");
            let queue = (operation, &*name);
            return queues::respond(&self.queues, queue, &self.workers, request, caller).await;
        }
        if let Some(others) = operation.row().methods.instead_of(request.method()) {
            return Ok(Problem::method(others));
        }
        // Some are boxed, since the compiler computes no size of futures that are nested so deeply.
        match operation {
            Operation::Check | Operation::Peek => {
                let act = if operation == Operation::Check { Act::Check } else { Act::Peek };
                let denial = Denial::of(&request, operation)?;
                check::respond(service, &body_of(request)?, act, denial).await
            }
            Operation::Charge => Box::pin(check::charge(service, &body_of(request)?)).await,
            Operation::Refund => check::refund(service, &body_of(request)?).await,
            Operation::Reserve | Operation::Acquire => {
                let denial = Denial::of(&request, operation)?;
                let body = body_of(request)?;
                Box::pin(holds::place(service, &body, operation, denial)).await
            }
            Operation::Commit | Operation::Renew | Operation::Release => {
                let denial = Denial::of(&request, Operation::Reserve)?;
                let body = body_of(request)?;
                Box::pin(holds::settle(service, &body, operation, denial)).await
            }
            Operation::Auth => self.auth.respond(request, caller.peer).await,
            Operation::Json => {
                let body = body_of(request)?;
                let answer = Box::pin(self.rls.json(service, &body, peer)).await;
                answer.map(reply).ok_or_else(|| Problem::not_found("/json"))
            }
            Operation::Policies => policies::list(service, Query::new(request.uri())),
            Operation::Explain => policies::explain(service, Query::new(request.uri())).await,
            Operation::Openapi => Ok(text("application/yaml", OPENAPI)),
            Operation::Index => Ok(text("text/plain; charset=utf-8", INDEX)),
            Operation::Healthz => Ok(text("text/plain; charset=utf-8", "ok\n")),
            Operation::Healthcheck => self.healthcheck(),
            Operation::Readyz => self.ready(Query::new(request.uri())).await,
            Operation::Metrics => {
                let mut page = self.page.respond(request.headers());
                no_sniff(page.headers_mut());
                Ok(page)
            }
            // Those of administrators are not for clients, and those of queues were asked above.
            _ => Err(Problem::not_found(request.uri().path())),
        }
    }

    /// Whether this instance should receive requests. It is ready while it takes requests and can
    /// answer them: with the store, or without it by the failure rules. An unavailable store
    /// affects every instance, so it counts only with `store=1`.
    async fn ready(&self, query: Query<'_>) -> Result<Reply, Problem> {
        let with_store = query.only(Operation::Readyz)?.with_store()?;
        self.may_come(StatusCode::SERVICE_UNAVAILABLE)?;
        if with_store {
            self.service.probe_store().await?;
        }
        let ready = match self.service.has_store() {
            true => "ready\n",
            false => AWAITS_STORE,
        };
        Ok(text("text/plain; charset=utf-8", ready))
    }

    /// The same as envoyproxy/ratelimit answers it.
    fn healthcheck(&self) -> Result<Reply, Problem> {
        self.may_come(StatusCode::INTERNAL_SERVER_ERROR)?;
        Ok(text("text/plain; charset=utf-8", "OK"))
    }

    /// # Errors
    /// The service is ending, or has no rules yet.
    fn may_come(&self, status: StatusCode) -> Result<(), Problem> {
        let no = |why: &str| Err(Problem::new(status, why));
        if !self.open.load(Ordering::Relaxed) {
            return no("the service is ending");
        }
        match self.rls.awaited() {
            None => Ok(()),
            Some(address) => no(&format!("the control plane {address} has not sent rules yet")),
        }
    }
}

#[cfg(test)]
mod tests;
