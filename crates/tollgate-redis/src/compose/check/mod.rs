//! The script of a check, a partial check or a peek.

mod composer;
mod inline;
mod number_args;
mod read;
mod spec;
mod write;

use tollgate::LimitSet;

use self::composer::Composer;
use super::Parts;
use crate::script::Script;

pub use self::number_args::{number_args, shape};
pub use self::spec::{Check, ReplyFormat};

impl Check {
    /// The script for limits of one or several subjects, in the order of a question's parts.
    ///
    /// None when some limit's strategy has no step in Lua.
    #[must_use]
    pub fn compose(&self, subjects: &[&LimitSet], parts: &Parts) -> Option<Script> {
        let composer = Composer::new(self, subjects, parts)?;
        Some(Script::new(composer.write()))
    }

    /// The script for all limits of the [`shape`](super::shape) of these: it takes their numbers as
    /// arguments, which are [`number_args`](super::number_args). They stand after the others, and
    /// before a clock that is given.
    #[must_use]
    pub fn compose_with_number_args(
        &self,
        subjects: &[&LimitSet],
        parts: &Parts,
    ) -> Option<Script> {
        let composer = Composer::new(self, subjects, parts)?;
        Some(Script::new(composer.with_number_args().write()))
    }

    /// The script of several such questions in one call, about the same limits of other subjects
    /// or the same ones. It takes the keys of all questions, one after the other, then their
    /// arguments, and answers with a list of what [`Check::compose`]'s script would answer each,
    /// were they called in this order at one time. What fails for one is the error in its place.
    ///
    /// A verbose answer about up to eight limits is packed: [`unpack_reply`] has its numbers. So
    /// the nonce must be a number, below 2^53: another text is an error after the charge. A list
    /// takes longer to write, and several times as long to read.
    #[must_use]
    pub fn compose_batch(&self, subjects: &[&LimitSet], parts: &Parts) -> Option<Script> {
        let composer = Composer { is_batched: true, ..Composer::new(self, subjects, parts)? };
        Some(Script::new(composer.write_batch()))
    }
}

/// The numbers of a packed answer, which are those of [`ReplyFormat::Verbose`]: eight bytes each,
/// signed and big-endian. None for bytes that are no such answer.
#[must_use]
pub fn unpack_reply(answer: &[u8]) -> Option<impl ExactSizeIterator<Item = i64>> {
    let (numbers, rest) = answer.as_chunks();
    rest.is_empty().then(|| numbers.iter().map(|number| i64::from_be_bytes(*number)))
}
