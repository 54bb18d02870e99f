//! Examines whether a server is fit to store counts: gathers facts, then judges them. It does the
//! same for every node of a cluster, and for sentinels with the servers under them.
//!
//! [`gather`] leaves nothing on the server but two short scripts in its cache. [`diagnose`] is a
//! pure function, so every finding can be tested without a faulty server.

mod cluster;
mod commands;
mod connection;
mod facts;
mod nodes;
mod sentinel;
mod server;

pub use self::commands::key_pattern;
pub use self::connection::{ConnectError, Connection};
pub use self::facts::{Commands, ConnectionLost, Facts, Rights, gather};
pub use self::server::{acl_line, diagnose};
pub use crate::command_reply::CommandReply;

use self::connection::{Line, Unopened};
use self::facts::gather_for;
use crate::options::{Address, Options, Target};

/// The severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(clippy::exhaustive_enums, reason = "fit, fit with a price, unfit: there is no fourth")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It works, with a disadvantage that the finding names.
    Warning,
    /// Limits would be wrong, or no check would work.
    Failure,
}

impl Level {
    /// `ok`, `warning`, `failure`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }
}

/// The result of one examination.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// A stable name for scripts: `eviction`.
    pub id: &'static str,
    /// The severity.
    pub level: Level,
    /// What was found, and what it means.
    pub what: String,
    /// What to do about it, or what would be better still.
    pub remedy: Option<String>,
    /// The addresses of the nodes it is about; empty where it is about the whole, or one server.
    pub nodes: Vec<String>,
}

impl Finding {
    fn new(id: &'static str, level: Level, what: impl Into<String>) -> Self {
        Self { id, level, what: what.into(), remedy: None, nodes: Vec::new() }
    }

    fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    fn ok(id: &'static str, what: impl Into<String>) -> Self {
        Self::new(id, Level::Ok, what)
    }

    fn warning(id: &'static str, what: impl Into<String>) -> Self {
        Self::new(id, Level::Warning, what)
    }

    fn failure(id: &'static str, what: impl Into<String>) -> Self {
        Self::new(id, Level::Failure, what)
    }

    /// The same, about this node.
    fn about(mut self, node: impl Into<String>) -> Self {
        self.nodes.push(node.into());
        self
    }
}

/// The most nodes that a line names.
const MAX_NAMED: usize = 3;

/// What was found at a URL.
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

/// The first of these names, and the number of the others.
fn few(names: &[String], between: &str) -> Option<String> {
    let (named, others) = names.split_at(names.len().min(MAX_NAMED));
    match (named, others.len()) {
        ([], _) => None,
        (named, 0) => Some(named.join(between)),
        (named, others) => Some(format!("{} and {others} more", named.join(between))),
    }
}

/// Examines what a URL names: a server, a cluster, or sentinels and the servers under them. It
/// waits on the calling thread, so do not use it within a tokio runtime.
///
/// ```no_run
/// let report = tollgate_redis::doctor::examine("redis+cluster://10.0.0.1:6379,10.0.0.2:6379")?;
/// for finding in &report.findings {
///     println!("{} {}: {}", finding.level.name(), finding.id, finding.what);
/// }
/// # Ok::<(), tollgate_redis::doctor::ConnectError>(())
/// ```
///
/// # Errors
///
/// The URL is invalid, or nothing of what it names can be reached. A refusal is a finding.
pub fn examine(url: &str) -> Result<Report, ConnectError> {
    let options = connection::options(url)?;
    let address = options.target.to_string();
    let runtime = connection::runtime(&address)?;
    runtime.block_on(async {
        match options.target.clone() {
            Target::Server(server) => examine_server(&options, server).await,
            Target::Cluster { seeds, tls } => cluster::examine(&options, &seeds, tls).await,
            Target::Sentinel(sentinels) => sentinel::examine(&options, &sentinels).await,
        }
    })
}

async fn examine_server(options: &Options, server: Address) -> Result<Report, ConnectError> {
    let address = server.to_string();
    let facts = match Line::open(options, server).await {
        Ok(mut line) => gather_for(&mut line, &options.prefix, &[])
            .await
            .map_err(|lost| ConnectError::Lost { address: address.clone(), why: lost.0 })?,
        Err(Unopened::Refused(why)) => Facts::refused(why),
        Err(Unopened::Unreachable(why)) => return Err(ConnectError::Unreachable { address, why }),
    };
    Ok(Report { address, nodes: Vec::new(), findings: diagnose(&facts) })
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
            // Of addresses that are none of the nodes.
            (0, 0..2, "n0, n1"),
        ] {
            assert_eq!(about(names(0..all), names(named)), words);
        }
    }
}
