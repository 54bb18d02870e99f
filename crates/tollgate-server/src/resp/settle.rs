//! The commands about a hold that was placed: commit, cancel, renew and release.

use core::time::Duration;

use super::ask::{texts, write_json};
use super::codec::Words;
use super::commands::Command;
use super::options::{Options, number};
use super::reply::Replies;
use super::why::{Why, refused};
use crate::json::{CommittedJson, ReleasedJson, RenewedJson};
use crate::service::Service;

/// What is done with a hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Settle {
    Commit,
    /// A commit of nothing.
    Cancel,
    Renew,
    Release,
}

/// Answers a command.
pub(super) async fn answer(
    (settle, command): (Settle, &Command),
    words: &Words<'_>,
    service: &Service,
    replies: &mut Replies,
) -> Result<(), Why> {
    // A hold is longer than other words. Bytes that are no text are no hold either, which the
    // service says.
    let hold = core::str::from_utf8(words.get(1).copied().unwrap_or_default()).unwrap_or_default();
    let mut hold = service.signed(hold).map_err(refused)?;
    let rest = texts(words.get(2..).unwrap_or_default())?;
    match settle {
        Settle::Commit | Settle::Cancel => {
            let actual = rest.first().map_or(Ok(0), |units| number(units))?;
            let settled = service.commit(&hold, actual).await.map_err(refused)?;
            write_json(&CommittedJson::from(&settled), replies);
        }
        Settle::Renew => {
            let ttl = Options::read(command, &rest)?.number("TTL")?.map(Duration::from_millis);
            let holding = service.renew(&mut hold, ttl).await.map_err(refused)?;
            write_json(&RenewedJson::new(holding, false), replies);
        }
        Settle::Release => {
            service.release(&hold).await.map_err(refused)?;
            write_json(&ReleasedJson { released: true }, replies);
        }
    }
    Ok(())
}
