//! The outcomes of requests at a backend, in sentences.

use super::results::BackendResult;
use crate::experiment::results::CaseResult;
use crate::figure::{plural, span};

/// The findings about backends: how much was in flight, how long it took, and how long the backend
/// needed to be as before.
pub(in crate::experiment) fn findings(cases: &[CaseResult]) -> Vec<String> {
    let backends = cases.iter().filter_map(|case| Some((case, case.backend.as_ref()?)));
    let mut findings = Vec::new();
    for (case, backend) in backends {
        findings.extend(in_flight(case, backend));
        findings.extend(recovered(case, backend));
        findings.extend(overran(case, backend));
    }
    findings
}

fn in_flight(case: &CaseResult, backend: &BackendResult) -> Option<String> {
    let latency = backend.latency_us.as_ref()?;
    Some(format!(
        "{}: at most {} in flight at {}; half were done within {}, 99 of 100 within {}; {} denied.",
        case.name,
        backend.in_flight_max,
        plural(u64::from(backend.servers), "server"),
        span(latency.p50),
        span(latency.p99),
        case.denied
    ))
}

fn recovered(case: &CaseResult, backend: &BackendResult) -> Option<String> {
    let last = backend.slow.last()?;
    let name = &case.name;
    Some(match backend.recovered_us {
        Some(0) => format!("{name}: when the backend was fast again, none waited for a server."),
        Some(us) => format!(
            "{name}: when the backend was fast again, it took {} until none waited for a server.",
            span(us)
        ),
        None => format!(
            "{name}: some still waited for a server at the end; the backend was to be fast again \
             after {}.",
            span(last.until_us)
        ),
    })
}

fn overran(case: &CaseResult, backend: &BackendResult) -> Option<String> {
    (backend.overran > 0).then(|| {
        format!(
            "{}: {} ended while the work went on, so that more were at work than there are slots: \
             make `hold` longer than the longest work, or renew.",
            case.name,
            plural(backend.overran, "hold")
        )
    })
}
