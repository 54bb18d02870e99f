//! The response that a gate's answer stands for, for fronts that have no request at hand.

use core::time::Duration;

use bytes::Bytes;
use http::Response;
use tollgate::{Decision, LimitSet, Unit};
use tollgate_policy::{Answer, Authority, Field, Outcome};

use super::templates::{self, MAX_SUBJECT_BYTES};
use crate::answer::{Answers, HeaderTemplate, Wire};
use crate::identity::{Missing, Required, Why};

/// The default `Retry-After` when the store has failed: 1 s.
pub const RETRY_WHEN_UNAVAILABLE: Duration = Duration::from_secs(1);

/// The name in headers of limits that have no policy and no name.
const USUAL_NAME: &str = "client";

/// The response to a request that this answer is about. One that is admitted is an empty 200 with
/// the headers of its decision, for the response of the service behind. A limit without a policy
/// goes by its own name, else by `client`.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tollgate::MemoryStore;
/// use tollgate_policy::{Format, Gate, Policies};
/// use tollgate_tower::answer::{Answers, Profile};
///
/// let text = "version = 1\n[[policies]]\nname = \"api\"\non_failure = \"deny\"\n\
///             limits = [{ subject = \"user\", absent = \"deny\", limit = \"1/m via gcra\" }]\n";
/// let gate = Gate::new(Policies::parse(text, Format::Toml)?, MemoryStore::new())?;
/// # struct Ann;
/// # impl tollgate_policy::Fields for Ann {
/// #     fn field(&self, field: &tollgate_policy::Field) -> Option<std::borrow::Cow<'_, str>> {
/// #         (*field == tollgate_policy::Field::User).then_some("ann".into())
/// #     }
/// # }
/// # futures_executor::block_on(async {
/// for status in [200, 429] {
///     // `Ann` has the fields of a request: its user.
///     let answer = gate.ask(gate.prepare(&Ann)).await;
///     let response = tollgate_tower::response(&Answers::new(Profile::Draft), &answer);
///     assert_eq!(response.status().as_u16(), status);
///     assert_eq!(response.headers()["ratelimit-policy"], r#""api";q=1;w=60"#);
/// }
/// # });
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn response(answers: &Answers, answer: &Answer<'_>) -> Response<Bytes> {
    if !answer.is_allowed() {
        return refusal(answers, Wire::Http, RETRY_WHEN_UNAVAILABLE, answer, |field| {
            let name = field.to_string();
            let missing = Missing { what: Required::Field(&name), why: why_absent(field) };
            answers.missing(Wire::Http, &missing)
        });
    }
    let mut response = Response::new(Bytes::new());
    if let Some(decision) = answer.decision() {
        with_templates(answer, decision, |templates| {
            answers.mark(response.headers_mut(), templates, decision);
        });
    }
    response
}

/// The response to a request that was not admitted; `missing` is the one to a request without a
/// field that its policy needs.
pub(super) fn refusal(
    answers: &Answers,
    wire: Wire,
    retry_when_unavailable: Duration,
    answer: &Answer<'_>,
    missing: impl FnOnce(&Field) -> Response<Bytes>,
) -> Response<Bytes> {
    let policy = answer.policy().map(|policy| policy.name.as_str());
    let unavailable = |names: &[&str]| answers.unavailable(wire, names, retry_when_unavailable);
    match (answer.outcome(), answer.decision(), answer.missing()) {
        (Outcome::Denied | Outcome::Never, Some(decision), _) => {
            let refused = with_templates(answer, decision, |templates| {
                answers.refused(wire, templates, decision)
            });
            refused.unwrap_or_else(|| unavailable(&[]))
        }
        (Outcome::Never, None, _) => {
            let most = answer.too_costly().unwrap_or((&Unit::REQUESTS, tollgate::MAX_COST));
            answers.too_costly(wire, policy.unwrap_or_default(), most)
        }
        // An administrator's ban is not a limit of a policy.
        (Outcome::Banned, ..) if answer.authority() == Authority::Ruling => {
            answers.banned(wire, None)
        }
        (Outcome::Banned, ..) => answers.banned(wire, policy),
        (Outcome::Missing, _, Some(field)) => missing(field),
        _ => unavailable(policy.as_slice()),
    }
}

/// A caller cannot fix that its server has no address of it.
fn why_absent(field: &Field) -> Why {
    match field {
        Field::Ip => Why::NoPeer,
        Field::Route => Why::NoRoute,
        _ => Why::Absent,
    }
}

/// Calls `with` the templates of an answer: those of its policies, else of its own limits.
fn with_templates<T>(
    answer: &Answer<'_>,
    decision: &Decision<'_>,
    with: impl FnOnce(&[&HeaderTemplate]) -> T,
) -> T {
    if !answer.parts().is_empty() {
        let all = templates::all(answer);
        return with(&templates::lent(&all));
    }
    let own = own_templates(decision);
    with(&own.iter().collect::<Vec<_>>())
}

/// The templates of limits that have no policy; none where one of them cannot be named.
#[cold]
fn own_templates(decision: &Decision<'_>) -> Vec<HeaderTemplate> {
    let sets: Vec<&LimitSet> = decision.limit_sets().collect();
    let names = names(&sets, decision);
    let made = names.iter().zip(&sets).map(|(name, limits)| HeaderTemplate::new(name, limits));
    made.collect::<Result<_, _>>().unwrap_or_default()
}

/// A name for each set, which no other has.
fn names(sets: &[&LimitSet], decision: &Decision<'_>) -> Vec<String> {
    let mut reports = decision.reports();
    let mut names: Vec<String> = Vec::with_capacity(sets.len());
    for (place, set) in sets.iter().enumerate() {
        let limits = set.limits();
        let subject = reports.next().map(|report| report.subject()).unwrap_or_default();
        // The other limits of this subject.
        reports.by_ref().take(limits.len().saturating_sub(1)).for_each(drop);
        let own = match limits {
            [only] => only.name(),
            _ => None,
        };
        let dimensions = dimensions(subject);
        let name = match own {
            Some(name) => name.to_owned(),
            None if sets.len() == 1 => USUAL_NAME.to_owned(),
            None if dimensions.len() > MAX_SUBJECT_BYTES => String::new(),
            None => format!("{USUAL_NAME}/{dimensions}"),
        };
        let is_good = !name.is_empty() && !names.contains(&name);
        names.push(if is_good { name } else { format!("{USUAL_NAME}/{}", place + 1) });
    }
    names
}

/// The dimensions of a subject in its written form: `tenant+user` of `tenant:12,user:42`.
fn dimensions(subject: &str) -> String {
    let each = subject.split(',').map(|part| part.split_once(':').map_or(part, |(name, _)| name));
    each.collect::<Vec<_>>().join("+")
}
