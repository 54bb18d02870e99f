//! Costs of several units, as JavaScript writes them.

use napi_derive::napi;
use tollgate::{Cost, ParseError};

use crate::error::{self, Result};
use crate::numbers::whole;

/// An amount of a unit.
#[napi(object)]
#[derive(Clone, Debug)]
pub(crate) struct Amount {
    /// The unit.
    pub unit: String,
    /// How much of it.
    pub amount: f64,
}

/// A cost of amounts.
pub(crate) fn cost_of(
    amounts: &[Amount],
    make: impl Fn(Vec<(&str, u64)>) -> core::result::Result<Cost, ParseError>,
) -> Result<Cost> {
    let each = amounts.iter().map(|it| (&*it.unit, whole(it.amount))).collect();
    make(each).map_err(|it| error::argument(format!("{}: {}", it.what(), it.remedy())))
}

/// The cost of these amounts, or one request.
pub(crate) fn asked(amounts: Option<&[Amount]>) -> Result<Cost> {
    amounts.map_or_else(|| Ok(Cost::from(1)), |amounts| cost_of(amounts, |all| Cost::new(all)))
}
