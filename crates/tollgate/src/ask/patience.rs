//! Whether the caller waits where it is denied.

use super::Ask;
use crate::hold::Patience;

impl Ask<'_> {
    /// Says that the caller waits, and asks again where it is denied. A denial then counts for no
    /// ban beside the limits, of a check or a hold.
    ///
    /// A front that takes asks from clients lets them ask for it only where it trusts them: they
    /// would escape every ban.
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
    #[doc(alias("queue", "fair"))]
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
