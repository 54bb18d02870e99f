//! The commands that correct counts: refunds of clients, and resets of administrators.

use std::net::IpAddr;

use super::ask::{begin_of_options, parts, texts};
use super::codec::Words;
use super::commands::Command;
use super::options::{Options, number};
use super::reply::Replies;
use super::why::{Why, refused};
use crate::metrics::Metrics;
use crate::service::{Refusal, Service, ask};

/// Gives back the charge of a receipt, or some units of it.
pub(super) async fn refund(
    words: &Words<'_>,
    service: &Service,
    replies: &mut Replies,
) -> Result<(), Why> {
    let receipt = words.get(1).copied().unwrap_or_default();
    let units = texts(words.get(2..).unwrap_or_default())?.first().map(|word| number(word));
    // Bytes that are no text are no receipt either, which the service says.
    let receipt = core::str::from_utf8(receipt).unwrap_or_default();
    let refund = service.refund(receipt, units.transpose()?).await.map_err(refused)?;
    replies.map(3);
    replies.text("already");
    replies.boolean(refund.already);
    replies.text("given");
    replies.array(refund.given.len());
    for units in refund.given {
        replies.integer(i64::try_from(units).unwrap_or(i64::MAX));
    }
    replies.text("left");
    replies.integer(i64::try_from(refund.left).unwrap_or(i64::MAX));
    Ok(())
}

/// Deletes a count. Each act of an administrator is logged, also when it fails.
pub(super) async fn reset(
    (command, user, peer): (&Command, &str, IpAddr),
    words: &Words<'_>,
    (service, metrics): (&Service, &Metrics),
    replies: &mut Replies,
) -> Result<(), Why> {
    let words = texts(words.get(1..).unwrap_or_default())?;
    let (what, options) = words.split_at(begin_of_options(command, &words, false));
    let options = Options::read(command, options)?;
    let parts = parts(what, service)?;
    let subjects: Vec<_> =
        parts.iter().filter_map(|(subject, _)| metrics.written(subject)).collect();
    let subjects = (!subjects.is_empty()).then(|| subjects.join(" "));
    let question = ask(&parts, options.get("SHARD")).map_err(refused)?;
    match service.gate.admin().reset(question).await {
        Ok(was_there) => {
            tracing::info!(
                target: "tollgate", act = "reset", user, %peer, subjects,
                "an administrator has asked over RESP"
            );
            replies.integer(i64::from(was_there));
            Ok(())
        }
        Err(error) => {
            tracing::warn!(
                target: "tollgate", act = "reset", user, %peer, subjects,
                "an administrator was refused over RESP"
            );
            Err(refused(Refusal::from(error)))
        }
    }
}
