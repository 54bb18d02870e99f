//! The subjects of a command: SUBJECT with its limits, and every `--on`.

use anyhow::{Result, bail};
use tollgate::{Ask, LimitSet, Subject};

use crate::args::SubjectArgs;
use crate::input;

/// One or several subjects, each with its limits.
#[derive(Debug)]
pub(crate) struct SubjectLimits {
    parts: Vec<(Subject, LimitSet)>,
}

impl SubjectLimits {
    /// Parses the arguments.
    pub(crate) fn read(which: &SubjectArgs) -> Result<Self> {
        let strategy = which.strategy.as_deref().map(input::strategy).transpose()?;
        if let Some(value) = &which.shard {
            input::shard(value)?;
        }
        let mut parts = Vec::new();
        match (&which.subject, which.limit.is_empty()) {
            (Some(subject), false) => {
                let subject = input::subject(subject, which.literal)?;
                parts.push((subject, input::limits(&which.limit, strategy)?));
            }
            (Some(subject), true) => bail!(
                "no limit is given for `{}`: add one, as in `--limit 10/s`",
                input::shown(subject)
            ),
            (None, false) => {
                bail!("no subject is given for `--limit`: name one, as in `user:42 --limit 10/s`")
            }
            (None, true) => {}
        }
        for text in &which.on {
            parts.push(input::on(text, strategy, which.literal)?);
        }
        if parts.is_empty() {
            bail!(
                "no subject is given: write `SUBJECT --limit LIMIT`, as in `user:42 --limit 10/s`, \
                 or `--on SUBJECT=LIMIT`"
            );
        }
        Ok(Self { parts })
    }

    /// The ask over all subjects.
    pub(crate) fn ask(&self) -> Ask<'_> {
        let parts: Vec<_> = self.parts.iter().map(|(subject, set)| (subject, set)).collect();
        parts.into()
    }

    /// All subjects with their limits.
    pub(crate) fn parts(&self) -> &[(Subject, LimitSet)] {
        &self.parts
    }

    /// The only subject, for operations on one subject.
    pub(crate) fn only(&self) -> Result<&(Subject, LimitSet)> {
        match &self.parts[..] {
            [one] => Ok(one),
            _ => bail!("this is done for one subject at a time: give one, and repeat the command"),
        }
    }

    /// Any of the limits, for a limiter whose asks always name their own.
    pub(crate) fn first_limits(&self) -> &LimitSet {
        &self.parts[0].1
    }
}
