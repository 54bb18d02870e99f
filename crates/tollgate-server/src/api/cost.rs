//! The cost of a question and what was used of a hold: a number of requests, or an object with an
//! amount of each unit.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use tollgate::{Cost, MAX_COST_UNITS, ParseError};

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

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Cost, M::Error> {
        let mut amounts: Vec<(String, u64)> = Vec::new();
        while let Some(amount) = map.next_entry()? {
            // One more than is allowed: the error says how many there are at most.
            if amounts.len() <= MAX_COST_UNITS {
                amounts.push(amount);
            }
        }
        let amounts: Vec<(&str, u64)> =
            amounts.iter().map(|(unit, amount)| (&**unit, *amount)).collect();
        (self.0)(&amounts)
            .map_err(|error| M::Error::custom(format!("{}: {}", error.what(), error.remedy())))
    }
}
