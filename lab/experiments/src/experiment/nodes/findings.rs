//! The decisions of nodes in place of their store, in sentences.

use crate::experiment::results::{CaseResult, NodesResult};
use crate::figure::{plural, share};

/// The findings about nodes: how often the store was asked, and the cost in exactness.
pub(in crate::experiment) fn findings(cases: &[CaseResult]) -> Vec<String> {
    let nodes = cases.iter().filter_map(|case| Some((case, case.nodes.as_ref()?)));
    let mut findings = Vec::new();
    for (case, nodes) in nodes {
        findings.extend(questions(case, nodes));
        findings.extend(beyond(case, nodes));
        findings.extend(without_store(case, nodes));
    }
    findings
}

fn questions(case: &CaseResult, nodes: &NodesResult) -> Option<String> {
    let per_question = nodes.per_question?;
    let admitted = nodes.difference.map(|difference| {
        let more = if difference < 0.0 { "less" } else { "more" };
        let than = "than one count without nodes";
        format!("; {} {more} was admitted {than}", share(difference.abs()))
    });
    Some(format!(
        "{}: {per_question:.1} decisions for each question to the store{}.",
        case.name,
        admitted.unwrap_or_default()
    ))
}

fn beyond(case: &CaseResult, nodes: &NodesResult) -> Option<String> {
    (nodes.beyond > 0).then(|| {
        format!(
            "{}: a limit let up to {} more through in a window than it promises without nodes.",
            case.name, nodes.beyond
        )
    })
}

fn without_store(case: &CaseResult, nodes: &NodesResult) -> Option<String> {
    let NodesResult { by_failure_rule, by_local_share, on_failure, .. } = nodes;
    let by = match (by_failure_rule, by_local_share) {
        (0, 0) => return None,
        (rule, 0) => {
            format!("the failure rule `{on_failure}` decided {}", plural(*rule, "attempt"))
        }
        (0, shares) => format!("local shares decided {}", plural(*shares, "attempt")),
        (rule, shares) => format!(
            "local shares decided {}, and the rule alone {rule}",
            plural(*shares, "attempt")
        ),
    };
    Some(format!("{}: without the store {by}.", case.name))
}
