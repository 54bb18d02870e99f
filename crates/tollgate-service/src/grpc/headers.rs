//! The headers and the body for the client of Envoy.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use tollgate_envoy::proto::core::HeaderValue as Header;
use tollgate_envoy::proto::service::rate_limit_response::Code;
use tollgate_envoy::proto::service::{RateLimitRequest, RateLimitResponse};
use tollgate_policy::Answer;
use tollgate_tower::answer::{
    Answers, HeaderTemplate, MAX_LISTED, Profile, RATE_LIMIT_POLICY, Wire,
};

use super::answer::Judged;
use super::decide::Asked;
use super::plan::{How, Planned};
use super::question::entries;
use super::rules::Live;

/// The templates of what was asked under rules, by the places of its descriptors. A descriptor that
/// brought its limit has no template yet.
pub(super) struct Templates<'t> {
    live: &'t Live,
    planned: &'t [Planned<'t>],
    made: Vec<Option<HeaderTemplate>>,
}

impl<'t> Templates<'t> {
    pub(super) fn new(
        request: &RateLimitRequest,
        live: &'t Live,
        planned: &'t [Planned<'t>],
    ) -> Self {
        let domain = &request.domain;
        let made = planned.iter().zip(&request.descriptors).map(|(planned, descriptor)| {
            let Planned { rule: None, how: How::Count(_, limits), .. } = planned else {
                return None;
            };
            // Two of one request need different names. A long one is left out.
            let mut name = domain.clone();
            for (key, value) in entries(descriptor) {
                name.extend([".", key, "_", value]);
            }
            let made = HeaderTemplate::new(&name, limits);
            made.or_else(|_| HeaderTemplate::new(domain, limits)).ok()
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
    let own = limits.bound.iter().find_map(|template| template.own_profile());
    if own.unwrap_or(profile) == Profile::None {
        return;
    }
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
    list(&mut headers, limits);
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| Header {
        key: name.as_str().to_owned(),
        value: value.to_str().unwrap_or_default().to_owned(),
        raw_value: Vec::new(),
    };
    response.response_headers_to_add = headers.iter().map(header).collect();
}

/// Lists the limits of all descriptors in `RateLimit-Policy`, each once, up to as many as one
/// header lists.
fn list(headers: &mut HeaderMap, limits: &Limits<'_>) {
    let Some(value) = headers.get_mut(RATE_LIMIT_POLICY) else { return };
    let entries = |templates: &'_ [&'_ HeaderTemplate]| {
        templates.iter().map(|template| template.entries().count()).sum::<usize>()
    };
    // So many that only the one that binds is there.
    if entries(&limits.bound) > MAX_LISTED {
        return;
    }
    let mut all: Vec<&str> = Vec::with_capacity(MAX_LISTED);
    let templates = limits.bound.iter().chain(&limits.others);
    for entry in templates.flat_map(|template| template.entries()) {
        if !all.contains(&entry) && all.len() < MAX_LISTED {
            all.push(entry);
        }
    }
    if let Ok(all) = HeaderValue::try_from(all.join(", ")) {
        *value = all;
    }
}
