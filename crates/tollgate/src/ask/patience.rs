//! Whether the caller waits where it is denied.

use super::Ask;
use crate::error::Error;
use crate::hold::{HoldName, Patience};

impl Ask<'_> {
    /// Says that the caller waits, and asks again where it is denied. A denial then counts for no
    /// ban beside the limits, of a check or a hold.
    ///
    /// Whoever takes asks from clients lets them say so only where it trusts them: they would
    /// escape every ban.
    #[must_use]
    pub fn waiting(self) -> Self {
        self.with_patience(Patience::Waiting)
    }

    /// Stands in line for the hold: it is admitted behind those who came before, also a small cost
    /// behind a large one. The limits have slots, and the ask has a name ([`Ask::named`]), by which
    /// it keeps its place when it is asked again. The place ends a while after the last ask, 10 s
    /// at the longest, and when a hold of that name is settled or released. A check takes no slot,
    /// and refuses it.
    ///
    /// Denials count for no ban, as of [`Ask::waiting`].
    #[must_use]
    pub fn in_line(self) -> Self {
        self.with_patience(Patience::InLine)
    }

    /// True for a caller that waits, in line or not.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.patience != Patience::None
    }

    /// The same ask of a caller with this patience.
    #[must_use]
    pub fn with_patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }
}

/// Rejects a place in a line that nothing could keep.
pub(super) fn check_line(name: Option<HoldName>, has_slots: bool) -> Result<(), Error> {
    if name.is_none() {
        let what = "who stands in line keeps its place by an id: give the hold one, and ask again \
                    under the same";
        return Err(Error::Ask(what.to_owned()));
    }
    if !has_slots {
        let what = "these limits have no slots to stand in line for: write one as `20 at once`, or \
                    wait without a line";
        return Err(Error::Ask(what.to_owned()));
    }
    Ok(())
}

/// The refusal of a place in line for what takes no slot.
#[cold]
pub(super) fn lines_up_for_a_check() -> Error {
    let what =
        "a check takes no slot to stand in line for: acquire or reserve, or wait without a line";
    Error::Ask(what.to_owned())
}

/// The refusal of a wait for what is never denied.
#[cold]
pub(super) fn waits_for_a_charge() -> Error {
    Error::Ask("a charge is never denied: there is nothing to wait for".to_owned())
}
