//! The cost of a question, the used units of a hold and those of an adjustment: a number of
//! requests, or an object with an amount of each unit.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Unexpected, Visitor};
use tollgate::{Adjustment, Cost, MAX_COST_UNITS, ParseError};

/// A cost as JSON.
#[derive(Debug)]
pub(crate) struct CostJson(pub(crate) Cost);

impl<'de> Deserialize<'de> for CostJson {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Read(|amounts| Cost::new(amounts.iter().copied()))).map(Self)
    }
}

/// Used units as JSON: an amount may be 0.
#[derive(Debug)]
pub(crate) struct UsedJson(pub(crate) Cost);

impl<'de> Deserialize<'de> for UsedJson {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Read(|amounts| Cost::used(amounts.iter().copied()))).map(Self)
    }
}

/// Units that are given back, or taken where negative, as JSON.
#[derive(Debug)]
pub(crate) struct AdjustmentJson(pub(crate) Adjustment);

impl<'de> Deserialize<'de> for AdjustmentJson {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ReadAdjustment).map(Self)
    }
}

struct ReadAdjustment;

impl<'de> Visitor<'de> for ReadAdjustment {
    type Value = Adjustment;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("i64, or an object of units and their amounts")
    }

    fn visit_i64<E: Error>(self, requests: i64) -> Result<Adjustment, E> {
        Ok(Adjustment::from(requests))
    }

    fn visit_u64<E: Error>(self, requests: u64) -> Result<Adjustment, E> {
        let too_large = || E::invalid_value(Unexpected::Unsigned(requests), &self);
        i64::try_from(requests).map(Adjustment::from).map_err(|_| too_large())
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Adjustment, M::Error> {
        let amounts = amounts_in(map)?;
        Adjustment::new(amounts.iter().map(|(unit, by)| (&**unit, *by))).map_err(wrong)
    }
}

/// The amounts of an object. One more than is allowed: the error says how many there are at most.
fn amounts_in<'de, M: MapAccess<'de>, N: Deserialize<'de>>(
    mut map: M,
) -> Result<Vec<(String, N)>, M::Error> {
    let mut amounts = Vec::new();
    while let Some(amount) = map.next_entry()? {
        if amounts.len() <= MAX_COST_UNITS {
            amounts.push(amount);
        }
    }
    Ok(amounts)
}

fn wrong<E: Error>(error: ParseError) -> E {
    E::custom(format!("{}: {}", error.what(), error.remedy()))
}

/// Makes a cost of amounts by unit.
type Make = fn(&[(&str, u64)]) -> Result<Cost, ParseError>;

struct Read(Make);

impl<'de> Visitor<'de> for Read {
    type Value = Cost;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("u64, or an object of units and their amounts")
    }

    fn visit_u64<E: Error>(self, requests: u64) -> Result<Cost, E> {
        // 0 and numbers that are too large are refused where the question is.
        Ok(Cost::from(requests))
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Cost, M::Error> {
        let amounts: Vec<(String, u64)> = amounts_in(map)?;
        let amounts: Vec<(&str, u64)> =
            amounts.iter().map(|(unit, amount)| (&**unit, *amount)).collect();
        (self.0)(&amounts).map_err(wrong)
    }
}
