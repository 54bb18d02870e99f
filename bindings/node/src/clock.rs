//! A clock that tests move.

use core::time::Duration;

use napi_derive::napi;
use tollgate::{Clock as _, ManualClock, Time};

use crate::error::Result;
use crate::handles::Handled as _;
use crate::numbers::{number, whole};

/// The number of a new clock, at a time in microseconds since 1970.
#[napi(catch_unwind)]
pub(crate) fn clock(at_us: f64) -> u32 {
    ManualClock::at_micros(whole(at_us)).put()
}

/// Sets its time.
#[napi(catch_unwind)]
pub(crate) fn set_clock(clock: u32, at_us: f64) -> Result<()> {
    ManualClock::find(clock)?.set(Time::from_micros(whole(at_us)));
    Ok(())
}

/// Moves it forward by seconds.
#[napi(catch_unwind)]
pub(crate) fn advance_clock(clock: u32, seconds: f64) -> Result<()> {
    let clock = ManualClock::find(clock)?;
    clock.advance(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    Ok(())
}

/// Its time.
#[napi(catch_unwind)]
pub(crate) fn clock_time(clock: u32) -> Result<f64> {
    Ok(number(ManualClock::find(clock)?.now().as_micros()))
}

/// Forgets a clock that nobody has any more.
#[napi(catch_unwind)]
pub(crate) fn forget_clock(clock: u32) {
    ManualClock::forget(clock);
}
