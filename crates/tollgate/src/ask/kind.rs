//! The kind of cost that a peek judges: a check, or a hold of some kind.

use crate::engine::Mode;
use crate::error::Error;
use crate::hold::{HoldKind, HoldTerms};
use crate::question::Question;

/// The terms by which a peek judges as a hold of this kind.
#[cold]
pub(super) fn terms_of_peek(
    question: &Question<'_>,
    kind: HoldKind,
) -> Result<&'static HoldTerms, Error> {
    if kind == HoldKind::Credit {
        return Err(Error::Ask(
            "a credit is given whatever is left: nothing asks for it".to_owned(),
        ));
    }
    let what = match question.mode {
        Mode::Peek => {
            let has_slots = question.parts.iter().any(|part| part.limits.needs_hold());
            let is_idle = kind == HoldKind::Acquire && !has_slots;
            return if is_idle { Err(no_slots()) } else { Ok(HoldTerms::of_peek(kind)) };
        }
        Mode::PeekPartial => "a hold is placed whole or not at all: peek without `partial`",
        Mode::Whole | Mode::Partial | Mode::Waiting | Mode::WaitingPartial => {
            return Err(hold_of_a_check());
        }
    };
    Err(Error::Ask(what.to_owned()))
}

/// The refusal of terms of a hold for a check or a charge.
#[cold]
pub(super) fn hold_of_a_check() -> Error {
    let what = "only a peek has a kind: a check is a check, and a hold is placed by `reserve` or \
                `acquire`";
    Error::Ask(what.to_owned())
}

/// The refusal of a hold without terms.
#[cold]
pub(super) fn no_terms() -> Error {
    Error::Ask("the ask does not say what to hold: add `reserve` or `acquire`".to_owned())
}

/// The refusal of an acquire of limits that count none.
#[cold]
pub(super) fn no_slots() -> Error {
    Error::Ask(
        "these limits have no slots to acquire: write one as `20 at once`, or reserve units \
         (`Ask::reserve`)"
            .to_owned(),
    )
}
