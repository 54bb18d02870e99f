//! Refuses asks for what a store does not keep, before it is asked; and answers of a store that
//! does not keep what it says.

use crate::ask::Ask;
use crate::engine::Outcome;
use crate::error::{Error, StoreError};
use crate::operation::not_kept;
use crate::store::Store;

/// Refuses the id of a request at a store that remembers none.
#[inline]
pub(super) fn check_request<S: Store>(ask: &Ask<'_>) -> Result<(), Error> {
    match S::KEEPS.requests || ask.request.is_none() || ask.peek {
        true => Ok(()),
        false => Err(not_kept("request ids").into()),
    }
}

/// Refuses a hold at a store that keeps none.
#[inline]
pub(super) fn check_holds<S: Store>() -> Result<(), Error> {
    match S::KEEPS.holds {
        true => Ok(()),
        false => Err(not_kept("holds").into()),
    }
}

/// Refuses a charge without a check at a store that makes none.
#[inline]
pub(super) fn check_charges<S: Store>() -> Result<(), Error> {
    match S::KEEPS.charges {
        true => Ok(()),
        false => Err(not_kept("charges without a check").into()),
    }
}

/// Refuses to admit a hold that the store has not placed: nobody would ever be denied for it. It
/// is an error of the kind that no failure rule admits.
#[inline]
pub(super) fn check_placed(outcome: &Outcome) -> Result<(), Error> {
    match outcome.granted == 0 || outcome.hold.is_some() {
        true => Ok(()),
        false => Err(StoreError::misuse(
            "the store admitted the request and placed no hold: a store that keeps none has \
             `Keeps::COUNTS` as its `Store::KEEPS`",
        )
        .into()),
    }
}
