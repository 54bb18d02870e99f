//! Reads what a request costs.

use core::time::Duration;

use tollgate::{MAX_COST, Period, Share};

use super::keys::{Keys, Reader, shown};
use crate::cost::{Commit, Cost, Estimate, MAX_HOLD, MIN_HOLD, Reserve};
use crate::field::Field;
use crate::source::{Node, Value};

/// The keys of a cost that is read from a field.
pub(crate) const COST_KEYS: [&str; 3] = ["from", "max", "otherwise"];

/// The keys of a cost that is known afterwards.
pub(crate) const RESERVE_KEYS: [&str; 7] =
    ["reserve", "otherwise", "at_most", "commit", "max", "hold", "at_end"];

const FROM: &str = "name the field, e.g. `from = \"field.weight\"`";

pub(super) fn cost(reader: &mut Reader<'_>, node: &Node) -> Option<Cost> {
    let right = "a whole number, `{ from = \"field.weight\", max = 50, otherwise = 1 }`, or \
                 `{ reserve = 500, commit = \"header.x-tokens-used\", max = 2000, hold = \"2m\" }`";
    match &node.value {
        Value::Whole(_) => reader.whole(node, "cost", 1, MAX_COST).map(Cost::Fixed),
        Value::Table(pairs) if pairs.iter().any(|(key, _)| key.text == "reserve") => {
            reserve(reader, node).map(Cost::Reserve)
        }
        Value::Table(_) => {
            let keys = reader.keys(node, "cost", &COST_KEYS)?;
            let from = reader.required(&keys, keys.at, "from", FROM);
            let from = from.and_then(|node| field(reader, node, "from", FROM));
            let max = most(reader, &keys);
            let otherwise = otherwise(reader, &keys, max);
            Some(Cost::From { field: from?, max: max?, otherwise: otherwise? })
        }
        _ => {
            reader.wrong(node, "cost", right);
            None
        }
    }
}

fn most(reader: &mut Reader<'_>, keys: &Keys<'_>) -> Option<u64> {
    let remedy = "write the most that one request may cost, e.g. `max = 50`";
    let max = reader.required(keys, keys.at, "max", remedy)?;
    reader.whole(max, "max", 1, MAX_COST)
}

/// A field with a number.
fn field(reader: &mut Reader<'_>, node: &Node, key: &str, remedy: &str) -> Option<Field> {
    let text = reader.text(node, key, "a field, e.g. `\"field.weight\"`")?;
    match Field::parse(text) {
        Ok(field @ (Field::Header(_) | Field::Custom(_))) => Some(field),
        Ok(field) => {
            reader.error(node.at, format!("`{field}` is not a number"), remedy);
            None
        }
        Err(error) => {
            reader.refused(node, text, &error);
            None
        }
    }
}

/// The cost without the field; `Some(None)` to deny.
fn otherwise(reader: &mut Reader<'_>, keys: &Keys<'_>, max: Option<u64>) -> Option<Option<u64>> {
    let remedy = "say what it costs when the field is absent or no number: `otherwise = 1` or \
                  `\"deny\"`";
    let node = reader.required(keys, keys.at, "otherwise", remedy)?;
    match &node.value {
        Value::Text(word) if word == "deny" => Some(None),
        Value::Text(_) => {
            reader.error(node.at, "`otherwise` is neither a cost nor `deny`", remedy);
            None
        }
        _ => reader.whole(node, "otherwise", 1, max.unwrap_or(MAX_COST)).map(Some),
    }
}

fn reserve(reader: &mut Reader<'_>, node: &Node) -> Option<Reserve> {
    let keys = reader.keys(node, "cost", &RESERVE_KEYS)?;
    let max = most(reader, &keys);
    let is_quantile = matches!(
        keys.get("reserve").map(|node| &node.value),
        Some(Value::Text(text)) if Estimate::percent(text).is_some()
    );
    if let (false, Some(node)) = (is_quantile, keys.get("at_most")) {
        let what = "`at_most` is for an estimate by a quantile";
        reader.error(node.at, what, "leave it out, or reserve one, e.g. `reserve = \"p90\"`");
    }
    let estimate = keys.get("reserve").and_then(|node| estimate(reader, &keys, node, max));
    let commit = match keys.get("commit") {
        None => Some(None),
        Some(node) => {
            let right = "a text in quotes, e.g. `\"header.x-tokens-used\"` or `\"bytes\"`";
            reader.text(node, "commit", right).and_then(|text| match Commit::parse(text) {
                Ok(commit) => Some(Some(commit)),
                Err(error) => {
                    reader.refused(node, text, &error);
                    None
                }
            })
        }
    };
    let remedy = "say how long the estimate is held unless it is committed, e.g. `hold = \"2m\"`";
    let hold = reader.required(&keys, keys.at, "hold", remedy);
    let hold = hold.and_then(|node| hold_of(reader, node));
    let charges = keys.get("at_end").map_or(Some(true), |node| match &node.value {
        Value::Text(word) if word == "charge" => Some(true),
        Value::Text(word) if word == "nothing" => Some(false),
        _ => {
            reader.error(
                node.at,
                "`at_end` is neither `charge` nor `nothing`",
                "`charge`, the default: where nobody says what was used, the estimate is charged; \
                 `nothing`: it is not",
            );
            None
        }
    });
    Some(Reserve {
        estimate: estimate?,
        commit: commit?,
        max: max?,
        hold: hold?,
        charge_at_end: charges?,
    })
}

fn estimate(
    reader: &mut Reader<'_>,
    keys: &Keys<'_>,
    node: &Node,
    max: Option<u64>,
) -> Option<Estimate> {
    match &node.value {
        Value::Whole(_) => {
            if let Some(other) = keys.get("otherwise") {
                let what = "`otherwise` stands beside an estimate that is always known";
                reader.error(other.at, what, "leave it out, or reserve what a field says");
                return None;
            }
            reader.whole(node, "reserve", 1, max.unwrap_or(MAX_COST)).map(Estimate::Units)
        }
        Value::Text(text) if Estimate::percent(text).is_some() => {
            let percent = Estimate::percent(text)?;
            let remedy = "say what is reserved until enough is known, e.g. `otherwise = 500`";
            let otherwise = reader.required(keys, keys.at, "otherwise", remedy);
            let otherwise = otherwise
                .and_then(|node| reader.whole(node, "otherwise", 1, max.unwrap_or(MAX_COST)));
            let at_most = at_most(reader, keys);
            Some(Estimate::Quantile { percent, otherwise: otherwise?, at_most: at_most? })
        }
        Value::Text(_) => {
            let remedy = "reserve a number, or what a field says, e.g. `\"header.x-max-tokens\"`";
            let field = field(reader, node, "reserve", remedy);
            let otherwise = otherwise(reader, keys, max);
            Some(Estimate::From { field: field?, otherwise: otherwise? })
        }
        _ => {
            reader.wrong(
                node,
                "reserve",
                "a whole number, or a field, e.g. `\"header.x-max-tokens\"`",
            );
            None
        }
    }
}

/// The part of a limit that an estimate takes at most.
fn at_most(reader: &mut Reader<'_>, keys: &Keys<'_>) -> Option<Share> {
    let Some(node) = keys.get("at_most") else { return Share::new(1, 10) };
    let text = reader.text(node, "at_most", "a share in quotes, e.g. `\"10 %\"`")?;
    match text.parse() {
        Ok(share) => Some(share),
        Err(error) => {
            reader.refused(node, text, &error);
            None
        }
    }
}

fn hold_of(reader: &mut Reader<'_>, node: &Node) -> Option<Duration> {
    let text = reader.text(node, "hold", "a duration in quotes from 1ms to 366d, e.g. `\"2m\"`")?;
    let read = text.parse::<Period>().ok().map(Period::as_duration);
    let hold = read.filter(|hold| (MIN_HOLD..=MAX_HOLD).contains(hold));
    if hold.is_none() {
        let what = match text {
            "" => "an empty text is not a time of a hold".to_owned(),
            _ => format!("`{}` is not a time of a hold", shown(text)),
        };
        reader.error(node.at, what, "write a duration from 1ms to 366d, e.g. `hold = \"2m\"`");
    }
    hold
}
