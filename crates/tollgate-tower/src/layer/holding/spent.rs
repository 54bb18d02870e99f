//! A service's report: how much a request has used.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate::Cost;

/// The units that a request has used, for a policy that reserves (`docs/holds.md`). A plain number
/// is requests.
///
/// A service attaches one to its response, or uses the one that a [`super::HoldingLayer`] has
/// attached to the request. Clones are one report, so a stream can go on counting while it is sent.
/// Where the client hangs up, the amounts at that time are charged.
///
/// ```
/// use tollgate::Cost;
/// use tollgate_tower::Spent;
/// let spent = Spent::default();
/// assert_eq!(spent.used(), None);
/// spent.clone().add(3);
/// spent.add(4);
/// assert_eq!(spent.used(), Some(Cost::from(7)));
/// spent.set("tokens=5".parse::<Cost>()?);
/// spent.add(Cost::used([("tokens", 2), ("microdollars", 30)])?);
/// assert_eq!(spent.used(), Some("tokens=7,microdollars=30".parse()?));
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, Default, Debug)]
pub struct Spent(Arc<Mutex<Option<Cost>>>);

impl Spent {
    /// A report of these units.
    #[must_use]
    pub fn new(units: impl Into<Cost>) -> Self {
        Self(Arc::new(Mutex::new(Some(units.into()))))
    }

    /// Sets the units that were used in all.
    pub fn set(&self, units: impl Into<Cost>) {
        *self.lock() = Some(units.into());
    }

    /// Adds units to those that were used so far.
    pub fn add(&self, units: impl Into<Cost>) {
        let more = units.into();
        let mut known = self.lock();
        *known = Some(match known.take() {
            None => more,
            Some(known) => {
                let amounts = known.amounts().iter().chain(more.amounts().iter());
                amounts.map(|(unit, amount)| (*unit, amount)).collect()
            }
        });
    }

    /// The units so far; `None` if nobody has said anything.
    #[must_use]
    pub fn used(&self) -> Option<Cost> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Cost>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
