//! Holds as text, which leaves the process and comes back.

use napi_derive::napi;
use tollgate::{Hold, HoldKind};

use crate::error::Result;
use crate::handles::Handled as _;
use crate::numbers::number;
use crate::request::damaged;

/// A hold that was read.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub(crate) struct SavedHold {
    /// Its number.
    pub hold: u32,
    /// Its fencing number.
    pub fence: f64,
    /// When it was first to end, in microseconds since 1970.
    pub end_us: f64,
    /// Whether it holds slots.
    pub is_slot: bool,
}

/// A hold as text.
#[napi(catch_unwind)]
pub(crate) fn hold_text(hold: u32) -> Result<String> {
    Ok(Hold::find(hold)?.to_string())
}

/// The hold of a text.
#[napi(catch_unwind)]
pub(crate) fn saved_hold(text: String) -> Result<SavedHold> {
    let hold: Hold = text.parse().map_err(|it| damaged("hold", &it))?;
    let (fence, end_us) = (number(hold.fence), number(hold.end.as_micros()));
    let is_slot = hold.id.kind() == HoldKind::Acquire;
    Ok(SavedHold { hold: hold.put(), fence, end_us, is_slot })
}
