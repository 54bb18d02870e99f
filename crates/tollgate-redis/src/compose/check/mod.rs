//! The script of a check, a partial check or a peek.

mod composer;
mod inline;
mod number_args;
mod read;
mod refuse;
mod remember;
mod spec;
mod words;
mod write;

use tollgate::LimitSet;

use self::composer::Composer;
use super::layout::Layout;
use super::parts::Parts;
use crate::script::Script;

pub use self::number_args::{number_args, shape};
pub use self::spec::{Check, ReplyFormat};

impl Check {
    /// The script for limits of one or several subjects, in the order of a question's parts.
    ///
    /// `None` when the strategy of a limit has no step in Lua, or only holds take from a limit.
    #[must_use]
    pub fn compose(&self, subjects: &[&LimitSet], parts: &Parts) -> Option<Script> {
        let composer = Composer::new(self, subjects, parts)?;
        Some(Script::new(composer.write()))
    }

    /// The script for all limits of the same [`shape`](super::shape). It takes their numbers as
    /// arguments, which are [`number_args`](super::number_args). They follow the other arguments,
    /// and precede a given clock.
    #[must_use]
    pub fn compose_with_number_args(
        &self,
        subjects: &[&LimitSet],
        parts: &Parts,
    ) -> Option<Script> {
        let composer = Composer::new(self, subjects, parts)?;
        Some(Script::new(composer.with_number_args().write()))
    }

    /// The same script, called with the words of a [`Layout`] that was read for these subjects: it
    /// computes the arguments from them.
    #[must_use]
    pub fn compose_with_layout(
        &self,
        subjects: &[&LimitSet],
        parts: &Parts,
        layout: &Layout,
    ) -> Option<Script> {
        let composer = Composer::new(self, subjects, parts)?.with_number_args();
        let has_nonce = self.reply == ReplyFormat::Verbose;
        let lines = layout.lines(subjects, composer.keys, has_nonce, parts);
        Some(Script::new(Composer { lines, ..composer }.write()))
    }

    /// The script of a batch of such questions, about the same limits of the same or other
    /// subjects. It takes the keys of all questions in order, then their arguments. It replies with
    /// a list of the replies that [`Check::compose`]'s script would give to each, called in this
    /// order at one time. A failed question has its error in the list.
    ///
    /// A verbose reply about up to eight limits is packed, since a list takes longer to write and
    /// several times as long to read; [`unpack_reply`] unpacks the numbers. So the nonce must be a
    /// number below 2^53: other text is an error after the charge.
    #[must_use]
    pub fn compose_batch(&self, subjects: &[&LimitSet], parts: &Parts) -> Option<Script> {
        let composer = Composer { is_batched: true, ..Composer::new(self, subjects, parts)? };
        Some(Script::new(composer.write_batch()))
    }
}

/// The numbers of a packed reply, as in [`ReplyFormat::Verbose`]: eight bytes each, signed and
/// big-endian. `None` for bytes that are not such a reply.
#[must_use]
pub fn unpack_reply(answer: &[u8]) -> Option<impl ExactSizeIterator<Item = i64>> {
    let (numbers, rest) = answer.as_chunks();
    rest.is_empty().then(|| numbers.iter().map(|number| i64::from_be_bytes(*number)))
}

#[cfg(test)]
mod tests {
    use tollgate::engine::Mode;

    use super::*;

    #[test]
    fn limits_that_only_holds_take_from_have_no_script_of_a_check() {
        let parts = Parts::default();
        for text in ["3 at once", "10/s, 3 at once"] {
            let limits: LimitSet = text.parse().expect("limits");
            for mode in [Mode::Whole, Mode::Peek] {
                let check = Check::new(mode);
                assert!(check.compose(&[&limits], &parts).is_none(), "{text}");
                assert!(check.compose_batch(&[&limits], &parts).is_none(), "{text}");
                assert!(check.compose_with_number_args(&[&limits], &parts).is_none(), "{text}");
            }
        }
        let rate: LimitSet = "10/s".parse().expect("limits");
        assert!(Check::new(Mode::Whole).compose(&[&rate], &parts).is_some());
    }
}
