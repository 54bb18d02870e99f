//! The headers and the body for the client of Envoy.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use tollgate_envoy::proto::core::HeaderValue as Header;
use tollgate_envoy::proto::service::RateLimitResponse;
use tollgate_envoy::proto::service::rate_limit_response::Code;
use tollgate_policy::Answer;
use tollgate_tower::answer::{
    Answers, HeaderTemplate, MAX_LISTED, Profile, RATE_LIMIT_POLICY, Wire,
};

use super::answer::Judged;
use super::decide::Asked;
use super::plan::{How, Planned};
use super::rules::Live;

/// The templates of what was asked under rules, by the places of its descriptors. A descriptor that
/// brought its limit has no template yet.
pub(super) struct Templates<'t> {
    live: &'t Live,
    planned: &'t [Planned<'t>],
    made: Vec<Option<HeaderTemplate>>,
}

impl<'t> Templates<'t> {
    pub(super) fn new(domain: &str, live: &'t Live, planned: &'t [Planned<'t>]) -> Self {
        let made = planned.iter().map(|planned| match planned {
            Planned { rule: None, how: How::Count(_, limits), .. } => {
                HeaderTemplate::new(domain, limits).ok()
            }
            _ => None,
        });
        Self { live, planned, made: made.collect() }
    }

    fn get(&self, place: usize) -> Option<&HeaderTemplate> {
        let made = self.made.get(place)?.as_ref();
        made.or_else(|| self.live.template(self.planned.get(place)?.rule?))
    }

    /// The limits of a request: those of this answer, and the others that clients hear of.
    pub(super) fn of(&self, told: &Asked, judged: &[Judged]) -> Limits<'_> {
        let bound = told.places.iter().filter_map(|place| self.get(*place)).collect();
        let others = judged.iter().enumerate().filter(|(_, judged)| judged.is_told());
        Limits { bound, others: others.filter_map(|(place, _)| self.get(place)).collect() }
    }
}

/// The limits of a request.
#[derive(Default)]
pub(super) struct Limits<'t> {
    /// Those of the answer that the headers are about.
    pub(super) bound: Vec<&'t HeaderTemplate>,
    pub(super) others: Vec<&'t HeaderTemplate>,
}

/// Adds the headers of a decision, and the body of a denial: one sentence, since Envoy makes it the
/// `grpc-message` for a client of gRPC.
pub(super) fn tell(
    response: &mut RateLimitResponse,
    profile: Profile,
    limits: &Limits<'_>,
    answer: &Answer<'_>,
) {
    let Some(decision) = answer.decision() else { return };
    let answers = Answers::new(profile);
    let mut headers = HeaderMap::new();
    let is_denial = response.overall_code == i32::from(Code::OverLimit);
    // Envoy answers 429, and so the body is that of a 429 or none.
    let waits = decision.retry_after().is_some_and(|wait| !wait.is_zero());
    match answers.refused(Wire::Http, &limits.bound, decision).filter(|_| is_denial && waits) {
        Some(refusal) => {
            headers = refusal.into_parts().0.headers;
            headers.remove(CACHE_CONTROL);
            headers.remove(CONTENT_TYPE);
            let detail = answers.detail(decision).unwrap_or_default();
            response.raw_body = format!("Too many requests. {detail}\n").into();
        }
        None => answers.mark(&mut headers, &limits.bound, decision),
    }
    list(&mut headers, &limits.others);
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| Header {
        key: name.as_str().to_owned(),
        value: value.to_str().unwrap_or_default().to_owned(),
        raw_value: Vec::new(),
    };
    response.response_headers_to_add = headers.iter().map(header).collect();
}

/// Lists the limits of the other descriptors in `RateLimit-Policy`, each once, up to as many as one
/// header lists.
fn list(headers: &mut HeaderMap, others: &[&HeaderTemplate]) {
    let Some(first) = headers.get_mut(RATE_LIMIT_POLICY) else { return };
    let mut all: Vec<&str> =
        first.to_str().map_or_else(|_| Vec::new(), |all| all.split(", ").collect());
    for policy in others.iter().flat_map(|template| template.policy().split(", ")) {
        if !all.contains(&policy) && all.len() < MAX_LISTED {
            all.push(policy);
        }
    }
    if let Ok(value) = HeaderValue::try_from(all.join(", ")) {
        *first = value;
    }
}
