//! The earliest time of the next admission.

use core::cell::RefCell;

use napi_derive::napi;
use tollgate::Pace;

use crate::decision::Made;
use crate::error::Result;
use crate::handles::Handled as _;

/// The number of a new one.
#[napi(catch_unwind)]
pub(crate) fn pace() -> u32 {
    RefCell::new(Pace::new()).put()
}

/// Adds an admission. Returns the seconds until the next of the same cost at the earliest.
#[napi(catch_unwind)]
pub(crate) fn admitted(pace: u32, made: Made) -> Result<f64> {
    let pace = RefCell::<Pace>::find(pace)?;
    made.with(|_, decision| pace.borrow_mut().admitted(decision).as_secs_f64())
}

/// Forgets one that nobody has any more.
#[napi(catch_unwind)]
pub(crate) fn forget_pace(pace: u32) {
    RefCell::<Pace>::forget(pace);
}
