//! The report on a URL: its servers, and the findings about them.

use super::finding::{Finding, Level, MAX_NAMED, few};

/// The findings at a URL.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The addresses of the URL, without user and password.
    pub address: String,
    /// The addresses of the servers of a cluster, or under sentinels; empty for one server.
    pub nodes: Vec<String>,
    /// The findings, in a fixed order.
    pub findings: Vec<Finding>,
}

impl Report {
    /// The number of findings of this severity.
    #[must_use]
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    /// Whether nothing must be changed.
    #[must_use]
    pub fn is_fit(&self) -> bool {
        self.count(Level::Failure) == 0
    }

    /// The nodes that a finding is about, in a few words: `all 6 nodes`. `None` where it names
    /// none.
    #[must_use]
    pub fn about(&self, finding: &Finding) -> Option<String> {
        let count = finding.nodes.len();
        let is_other = |node: &&String| !finding.nodes.contains(node);
        let others: Vec<String> = self.nodes.iter().filter(is_other).cloned().collect();
        match others.len() {
            0 if count > 1 && count == self.nodes.len() => Some(format!("all {count} nodes")),
            1 if count > MAX_NAMED => Some(format!("all nodes but {}", others.join(", "))),
            _ => few(&finding.nodes, ", "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_nodes_are_said_in_a_few_words() {
        let names = |range: core::ops::Range<usize>| range.map(|n| format!("n{n}")).collect();
        let about = |all: Vec<String>, nodes: Vec<String>| {
            let report = Report { address: String::new(), nodes: all, findings: Vec::new() };
            report.about(&Finding { nodes, ..Finding::ok("id", "what") }).unwrap_or_default()
        };
        for (all, named, words) in [
            (6, 0..0, ""),
            (6, 0..1, "n0"),
            (6, 0..3, "n0, n1, n2"),
            (6, 0..4, "n0, n1, n2 and 1 more"),
            (6, 0..5, "all nodes but n5"),
            (6, 0..6, "all 6 nodes"),
            (1, 0..1, "n0"),
            // Of addresses that are not nodes.
            (0, 0..2, "n0, n1"),
        ] {
            assert_eq!(about(names(0..all), names(named)), words);
        }
    }
}
