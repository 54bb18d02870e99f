//! A backend, as written in a file.

use core::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::case::{Backend, SlowPhase, check_work};
use crate::experiment::file::duration;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::experiment) struct RawBackend {
    servers: Spanned<u32>,
    work: Spanned<String>,
    #[serde(default)]
    slow: Vec<Spanned<RawSlowPhase>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSlowPhase {
    from: Spanned<String>,
    until: Spanned<String>,
    work: Spanned<String>,
}

/// An error with its position in the text.
type BackendError = (Range<usize>, String);

impl RawBackend {
    /// Parses the backend of an experiment of this duration.
    pub(in crate::experiment) fn read(&self, duration_us: u64) -> Result<Backend, BackendError> {
        let mut backend = Backend {
            servers: *self.servers.get_ref(),
            work_us: work(&self.work)?,
            slow: Vec::with_capacity(self.slow.len()),
        };
        backend.check_servers().map_err(|what| (self.servers.span(), what))?;
        for raw in &self.slow {
            let RawSlowPhase { from, until, work: slow_work } = raw.get_ref();
            let phase = SlowPhase {
                from_us: time(from, "from")?,
                until_us: time(until, "until")?,
                work_us: work(slow_work)?,
            };
            if phase.from_us >= phase.until_us {
                return Err((until.span(), "`until` is not after `from`".to_owned()));
            }
            if phase.from_us >= duration_us {
                return Err((from.span(), "`from` is not before the end".to_owned()));
            }
            if backend.slow.last().is_some_and(|last| phase.from_us < last.until_us) {
                let what = "`from` is before the end of the phase before it: write phases in \
                            order, and none within another";
                return Err((from.span(), what.to_owned()));
            }
            backend.slow.push(phase);
        }
        Ok(backend)
    }
}

fn time(text: &Spanned<String>, key: &str) -> Result<u64, BackendError> {
    duration(text.get_ref()).map_err(|what| (text.span(), format!("`{key}`: {what}")))
}

fn work(text: &Spanned<String>) -> Result<u64, BackendError> {
    check_work(time(text, "work")?).map_err(|what| (text.span(), what))
}
