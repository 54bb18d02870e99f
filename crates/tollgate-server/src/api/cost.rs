//! The cost of a question: a number of requests, or an object with an amount of each unit.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use tollgate::{Cost, MAX_COST_UNITS};

/// A cost as JSON.
#[derive(Debug)]
pub(crate) struct CostJson(pub(crate) Cost);

impl<'de> Deserialize<'de> for CostJson {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Read)
    }
}

struct Read;

impl<'de> Visitor<'de> for Read {
    type Value = CostJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("u64, or an object of units and their amounts")
    }

    fn visit_u64<E: Error>(self, requests: u64) -> Result<CostJson, E> {
        // 0 and numbers that are too large are refused where the question is.
        Ok(CostJson(Cost::from(requests)))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<CostJson, M::Error> {
        let mut amounts: Vec<(String, u64)> = Vec::new();
        while let Some(amount) = map.next_entry()? {
            // One more than is allowed: the error says how many there are at most.
            if amounts.len() <= MAX_COST_UNITS {
                amounts.push(amount);
            }
        }
        let cost = Cost::new(amounts.iter().map(|(unit, amount)| (&**unit, *amount)));
        cost.map(CostJson)
            .map_err(|error| M::Error::custom(format!("{}: {}", error.what(), error.remedy())))
    }
}
