//! A queue in experiment files.

use core::ops::Range;

use serde::Deserialize;
use tollgate::LimitSet;
use tollgate_queue::Counts;
use toml::Spanned;

use super::case::QueueCase;
use crate::experiment::file::duration;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::experiment) struct RawQueue {
    bound: Spanned<u64>,
    counts: Option<Spanned<String>>,
    workers: Option<Spanned<u32>>,
    work: Spanned<String>,
    rate: Option<Spanned<String>>,
}

/// An error with its position in the text, if it has one.
type QueueError = (Option<Range<usize>>, String);

impl RawQueue {
    /// Parses the queue.
    pub(in crate::experiment) fn read(&self) -> Result<QueueCase, QueueError> {
        let Self { bound, counts, workers, work, rate } = self;
        let counts = match counts.as_ref().map(|it| (it.get_ref().as_str(), it.span())) {
            None | Some(("waiting", _)) => Counts::Waiting,
            Some(("all", _)) => Counts::All,
            Some((other, span)) => {
                let what = format!("`counts` is \"waiting\" or \"all\", not \"{other}\"");
                return Err((Some(span), what));
            }
        };
        let work_us = duration(work.get_ref())
            .map_err(|what| (Some(work.span()), format!("`work`: {what}")))?;
        let rate = rate.as_ref().map(|text| {
            let limits: Result<LimitSet, _> = text.get_ref().parse();
            limits.map_err(|error| (Some(text.span()), format!("`rate`: {error}")))
        });
        let queue = QueueCase {
            bound: *bound.get_ref(),
            counts,
            workers: workers.as_ref().map_or(1, |workers| *workers.get_ref()),
            work_us,
            rate: rate.transpose()?,
        };
        let span_of = |key| match key {
            "bound" => Some(bound.span()),
            "work" => Some(work.span()),
            _ => workers.as_ref().map(Spanned::span),
        };
        queue.check().map_err(|(key, what)| (span_of(key), what))?;
        Ok(queue)
    }
}
