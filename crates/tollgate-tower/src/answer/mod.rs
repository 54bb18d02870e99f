//! Responses: headers for limited requests, and complete responses for refused ones.
//!
//! `docs/headers.md` describes the headers and their numbers.

mod advice;
mod grpc;
mod header_template;
mod numbers;
mod problem;
mod profile;
mod rate;

use core::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tollgate::{Decision, Report, Unit, Verdict};

use crate::identity::Missing;

pub use advice::wait_of;
use grpc::Code;
pub use grpc::Wire;
use header_template::{Bound, Item};
pub use header_template::{HeaderTemplate, MAX_LISTED, MAX_NAME_BYTES};
use numbers::Numbers;
pub use numbers::retry_seconds;
use problem::Problem;
pub use profile::{Profile, Reset};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// The header that lists the limits of a request.
pub const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const REPEATED: HeaderName = HeaderName::from_static("tollgate-repeated");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The headers of a decision, to be written into a response.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    policy: Option<HeaderValue>,
    rate_limit: Option<HeaderValue>,
    legacy: Option<Legacy>,
    /// The profile whose headers pages may read.
    expose: Option<Profile>,
    /// Whether the answer is the first one under a request id once more.
    repeated: bool,
    /// A header of the layer itself, which few responses have.
    other: Option<Box<(HeaderName, HeaderValue)>>,
}

/// The numbers of [`Profile::Legacy`].
#[derive(Clone, Copy, Debug)]
struct Legacy {
    limit: u64,
    remaining: u64,
    reset: u64,
}

impl Marks {
    /// Adds a header, if it has a value.
    pub(crate) fn add(&mut self, name: HeaderName, value: Option<HeaderValue>) {
        self.other = value.map(|value| Box::new((name, value)));
    }

    /// Writes the headers, once.
    #[inline]
    pub(crate) fn write(&mut self, headers: &mut HeaderMap) {
        // The header is a list: values of an inner server about its own limits stay.
        if let Some(value) = self.policy.take() {
            headers.append(RATE_LIMIT_POLICY, value);
        }
        if let Some(value) = self.rate_limit.take() {
            headers.append(RATE_LIMIT, value);
        }
        if let Some(Legacy { limit, remaining, reset }) = self.legacy.take() {
            headers.insert(X_LIMIT, HeaderValue::from(limit));
            headers.insert(X_REMAINING, HeaderValue::from(remaining));
            headers.insert(X_RESET, HeaderValue::from(reset));
        }
        if core::mem::take(&mut self.repeated) {
            headers.insert(REPEATED, HeaderValue::from(1));
        }
        if let Some(profile) = self.expose.take() {
            profile.list_exposed(headers);
        }
        if let Some(other) = self.other.take() {
            headers.insert(other.0, other.1);
        }
    }
}

/// How a denied request is refused.
struct Refused {
    problem: Problem,
    code: Code,
    /// The time to come back at, if there is a fixed one.
    wait: Option<Duration>,
    /// Whether no waiting helps.
    never: bool,
}

/// Converts decisions to headers and responses.
///
/// ```
/// use http::HeaderMap;
/// use tollgate::Limiter;
/// use tollgate_tower::answer::{Answers, HeaderTemplate, Profile, Wire};
///
/// let limiter = Limiter::memory("1/m via gcra".parse()?);
/// let template = HeaderTemplate::new("api", limiter.limits())?;
/// let answers = Answers::new(Profile::Draft);
///
/// let mut headers = HeaderMap::new();
/// answers.mark(&mut headers, &[&template], &limiter.check("ip:192.0.2.7").now()?);
/// assert_eq!(headers["ratelimit-policy"], r#""api";q=1;w=60"#);
/// assert_eq!(headers["ratelimit"], r#""api";r=0;t=60"#);
///
/// let denied = limiter.check("ip:192.0.2.7").now()?;
/// let response = answers.refused(Wire::Http, &[&template], &denied).ok_or("admitted")?;
/// assert_eq!(response.status().as_u16(), 429);
/// assert_eq!(response.headers()["retry-after"], "60");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Answers {
    profile: Profile,
    expose: bool,
    any_wait: bool,
    partition_keys: bool,
}

impl Answers {
    /// Uses the headers of `profile`.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self { profile, expose: false, any_wait: false, partition_keys: false }
    }

    /// Sets whether `Access-Control-Expose-Headers` also lists the headers of the profile. The
    /// default is no.
    #[must_use]
    pub fn expose(self, expose: bool) -> Self {
        Self { expose, ..self }
    }

    /// Sets whether a denial says when to come back even where open holds are in the way. The
    /// default is no: such a wait is the longest one, and settling a hold ends it.
    #[must_use]
    pub fn retry_after_any(self, any: bool) -> Self {
        Self { any_wait: any, ..self }
    }

    /// Sets whether `RateLimit-Policy` has the parameter `pk` of the draft: the start of the
    /// SHA-256 of the subject that a limit counts. Requests with the same key share that limit.
    /// The default is no: anybody who guesses a subject can compute its key.
    #[must_use]
    pub fn partition_keys(self, shown: bool) -> Self {
        Self { partition_keys: shown, ..self }
    }

    /// Writes the headers of a decision into a response.
    ///
    /// `templates` are those of the decision's subjects, in the same order. With any others,
    /// headers that would be wrong are omitted.
    pub fn mark(
        &self,
        headers: &mut HeaderMap,
        templates: &[&HeaderTemplate],
        decision: &Decision<'_>,
    ) {
        let mut marks = Marks::default();
        self.fill(&mut marks, templates, decision);
        marks.write(headers);
    }

    /// The headers that [`Answers::mark`] writes, for later: the decision need not live until then.
    #[inline]
    pub(crate) fn fill(
        &self,
        marks: &mut Marks,
        templates: &[&HeaderTemplate],
        decision: &Decision<'_>,
    ) {
        marks.repeated = decision.is_repeated();
        marks.expose = self.expose.then_some(self.profile);
        // The usual case of one template with one limit: nothing to search.
        if let [template] = templates
            && let Some(item) = template.only()
        {
            return self.fill_in(marks, templates, item, &decision.binding(), decision);
        }
        self.fill_in_all(marks, templates, decision);
    }

    #[inline(never)]
    fn fill_in_all(
        &self,
        marks: &mut Marks,
        templates: &[&HeaderTemplate],
        decision: &Decision<'_>,
    ) {
        if let Some(Bound { item, report }) = header_template::bound(templates, decision) {
            self.fill_in(marks, templates, item, &report, decision);
        }
    }

    /// Fills in the headers for `report`, that of the binding limit, under the name of `item`.
    #[inline]
    fn fill_in(
        &self,
        marks: &mut Marks,
        templates: &[&HeaderTemplate],
        item: &Item,
        report: &Report<'_>,
        decision: &Decision<'_>,
    ) {
        let profile = item.profile.unwrap_or(self.profile);
        marks.expose = self.expose.then_some(profile);
        if profile == Profile::None {
            return;
        }
        let numbers = Numbers::new(decision, item.rate, report);
        if profile.draft() {
            marks.policy = match self.partition_keys {
                true => header_template::policy_with_keys(templates, item, decision),
                false => header_template::policy(templates, item),
            };
            marks.rate_limit = item.rate_limit(numbers);
        }
        if let Some(reset) = profile.legacy() {
            let reset = match reset {
                Reset::Delta => numbers.seconds(),
                Reset::Epoch => numbers.epoch_seconds(),
            };
            let limit = report.limit().capacity();
            marks.legacy = Some(Legacy { limit, remaining: numbers.remaining, reset });
        }
    }

    fn list_exposed(&self, headers: &mut HeaderMap) {
        if self.expose {
            self.profile.list_exposed(headers);
        }
    }

    /// The response to a denied request: 429 if waiting helps, 422 if the cost is above the
    /// capacity of a limit. `None` for a decision that admits.
    #[must_use]
    pub fn refused(
        &self,
        wire: Wire,
        templates: &[&HeaderTemplate],
        decision: &Decision<'_>,
    ) -> Option<Response<Bytes>> {
        let Refused { problem, code, wait, never } = self.refusal(decision)?;
        if wire != Wire::Http {
            return Some(grpc::refusal(wire, code, &problem.detail, wait, self.expose));
        }
        let judged = header_template::items(templates).zip(decision.reports());
        let violated = judged.filter_map(|(item, report)| {
            // If one limit never admits, limits that would admit later are not the reason.
            let blames = if never { report.retry_after().is_none() } else { !report.admits() };
            blames.then_some(item.name.as_str())
        });
        let mut response = problem.response(violated);
        if let Some(wait) = wait {
            let value = HeaderValue::from(retry_seconds(wait));
            response.headers_mut().insert(RETRY_AFTER, value);
        }
        self.mark(response.headers_mut(), templates, decision);
        Some(response)
    }

    /// The sentence of [`Answers::refused`], for a front that has no room for more. `None` for a
    /// decision that admits.
    #[must_use]
    pub fn detail(&self, decision: &Decision<'_>) -> Option<String> {
        self.refusal(decision).map(|refused| refused.problem.detail)
    }

    fn refusal(&self, decision: &Decision<'_>) -> Option<Refused> {
        let (problem, code, wait) = match decision.verdict() {
            Verdict::Allow => return None,
            Verdict::NotYet(wait) => {
                (problem::quota_exceeded(retry_seconds(wait)), Code::RESOURCE_EXHAUSTED, Some(wait))
            }
            Verdict::Never => (
                problem::too_costly(decision.limit(), decision.unit()),
                Code::INVALID_ARGUMENT,
                None,
            ),
        };
        let never = wait.is_none();
        // A wait that ends earlier when somebody settles a hold is not a fixed time to come back
        // at.
        let is_told = self.any_wait || !decision.is_until_hold();
        let (problem, wait) = match wait {
            Some(_) if !is_told => (problem::held(), None),
            wait => (problem, wait),
        };
        Some(Refused { problem, code, wait, never })
    }

    /// The response to a request whose amount of a unit is above the maximum of `policy`: 422.
    #[must_use]
    pub fn too_costly(
        &self,
        wire: Wire,
        policy: &str,
        (unit, most): (&Unit, u64),
    ) -> Response<Bytes> {
        let problem = problem::above_maximum(most, unit);
        if wire != Wire::Http {
            let code = Code::INVALID_ARGUMENT;
            return grpc::refusal(wire, code, &problem.detail, None, self.expose);
        }
        problem.response([header_template::quoted(policy).as_str()].into_iter())
    }

    /// The response if the store failed and the policy's failure rule denies: 503. `Retry-After` is
    /// `retry_after`, rounded up to seconds.
    #[must_use]
    pub fn unavailable(
        &self,
        wire: Wire,
        policies: &[&str],
        retry_after: Duration,
    ) -> Response<Bytes> {
        let problem = problem::reduced_capacity();
        if wire != Wire::Http {
            let (code, wait) = (Code::UNAVAILABLE, Some(retry_after));
            return grpc::refusal(wire, code, &problem.detail, wait, self.expose);
        }
        let names: Vec<String> =
            policies.iter().map(|name| header_template::quoted(name)).collect();
        let mut response = problem.response(names.iter().map(String::as_str));
        let value = HeaderValue::from(retry_seconds(retry_after));
        response.headers_mut().insert(RETRY_AFTER, value);
        self.list_exposed(response.headers_mut());
        response
    }

    /// The response to a client that a policy or an administrator bans: 403. Waiting does not help.
    /// `policy` is `None` if no policy applies to the request.
    #[must_use]
    pub fn banned(&self, wire: Wire, policy: Option<&str>) -> Response<Bytes> {
        let problem = problem::banned();
        if wire != Wire::Http {
            return grpc::refusal(
                wire,
                Code::PERMISSION_DENIED,
                &problem.detail,
                None,
                self.expose,
            );
        }
        problem.response(policy.map(header_template::quoted).iter().map(String::as_str))
    }

    /// The response to a request without the identity that its policy requires. The status is
    /// [`Missing::status`], and the body contains the reason. A 401 contains how to authenticate.
    #[must_use]
    pub fn missing(&self, wire: Wire, missing: &Missing<'_>) -> Response<Bytes> {
        let status = missing.status();
        let problem = Problem::plain(status, missing.to_string());
        if wire != Wire::Http {
            let code = match status {
                StatusCode::UNAUTHORIZED => Code::UNAUTHENTICATED,
                StatusCode::NOT_FOUND => Code::UNIMPLEMENTED,
                StatusCode::SERVICE_UNAVAILABLE => Code::UNAVAILABLE,
                _ => Code::INVALID_ARGUMENT,
            };
            return grpc::refusal(wire, code, &problem.detail, None, self.expose);
        }
        let mut response = problem.response([].into_iter());
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
