//! An ask, looked at: its subjects made, its numbers checked.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::Limiter;
use crate::ask::{Ask, AskPart, check_cost, check_parts, check_shard};
use crate::engine::Mode;
use crate::error::Error;
use crate::limit::LimitSet;
use crate::store::{Counted, Question, Store};
use crate::subject::Subject;

/// The subjects of an ask, each with its limits.
pub(super) type Parts<'l> = SmallVec<[(Subject, &'l LimitSet); 1]>;

/// An ask, ready for a store.
pub(super) struct Read<'l> {
    pub(super) parts: Parts<'l>,
    pub(super) shard: Option<Cow<'l, str>>,
    cost: u64,
    mode: Mode,
}

impl Read<'_> {
    #[inline]
    pub(super) fn question(&self) -> Question<'_> {
        let mut counted = SmallVec::new();
        for part in &self.parts {
            counted.push(self.counted(part));
        }
        Question::new(counted, self.cost, self.mode)
    }

    /// The first count, of which there always is one: an ask over none is refused.
    pub(super) fn first(&self) -> Counted<'_> {
        self.counted(&self.parts[0])
    }

    #[inline]
    fn counted<'a>(&'a self, (subject, limits): &'a (Subject, &LimitSet)) -> Counted<'a> {
        Counted::new(subject, limits).in_shard(self.shard.as_deref())
    }
}

impl<S: Store> Limiter<S> {
    #[inline]
    pub(super) fn read<'l>(&'l self, ask: Ask<'l>, peek: bool) -> Result<Read<'l>, Error> {
        let Ask { first, more, cost, partial, shard } = ask;
        check_cost(cost)?;
        check_shard(shard.as_deref())?;
        let mode = match (peek, partial) {
            (false, false) => Mode::Whole,
            (false, true) => Mode::Partial,
            (true, false) => Mode::Peek,
            (true, true) => Mode::PeekPartial,
        };
        let mut parts = Parts::new();
        if let Some(AskPart { subject, limits }) = first {
            parts.push((subject.resolve()?, limits.unwrap_or(&self.limits)));
        }
        if !more.is_empty() || parts.is_empty() {
            self.read_more(&mut parts, more)?;
        }
        Ok(Read { parts, shard, cost, mode })
    }

    /// What only an ask that is not over one subject needs: how many there are, and that no two
    /// are the same.
    #[inline(never)]
    fn read_more<'l>(&'l self, parts: &mut Parts<'l>, more: Vec<AskPart<'l>>) -> Result<(), Error> {
        check_parts(parts.len() + more.len())?;
        for AskPart { subject, limits } in more {
            let (subject, limits) = (subject.resolve()?, limits.unwrap_or(&self.limits));
            let twice =
                |(s, l): &(Subject, &LimitSet)| *s == subject && l.identity() == limits.identity();
            if parts.iter().any(twice) {
                return Err(Error::Ask(format!(
                    "`{subject}` is asked twice under the same limits: ask once, with a larger cost"
                )));
            }
            parts.push((subject, limits));
        }
        Ok(())
    }

    /// An ask over one subject.
    pub(super) fn read_one<'l>(&'l self, ask: Ask<'l>) -> Result<Read<'l>, Error> {
        let read = self.read(ask, true)?;
        if read.parts.len() > 1 {
            return Err(Error::Ask("this is done for one subject at a time".to_owned()));
        }
        Ok(read)
    }
}
