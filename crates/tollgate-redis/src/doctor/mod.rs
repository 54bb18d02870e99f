//! Examines whether a server is fit to store counts: gathers facts, then judges them. It does the
//! same for every node of a cluster, and for sentinels with the servers under them.
//!
//! [`gather`] leaves nothing on the server but two short scripts in its cache. [`diagnose`] is a
//! pure function, so every finding can be tested without a faulty server.

mod cluster;
mod commands;
mod connection;
mod facts;
mod finding;
mod nodes;
mod report;
mod sentinel;
mod server;
mod slots;

pub use self::commands::key_pattern;
pub use self::connection::{ConnectError, Connection};
pub use self::facts::{Commands, ConnectionLost, Facts, Rights, gather};
pub use self::finding::{Finding, Level};
pub use self::report::Report;
pub use self::server::{acl_line, diagnose};
pub use crate::command_reply::CommandReply;

use self::connection::{Line, Unopened};
use self::facts::gather_for;
use crate::options::{Address, Options, Target};

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
/// The URL is invalid, or none of its addresses can be reached. A refusal is a finding.
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
