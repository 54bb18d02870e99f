//! Reads what a request costs.

use core::time::Duration;

use std::sync::Arc;

use tollgate::{MAX_COST, Period, Share, Unit};

use super::keys::{Keys, Reader, shown};
use crate::cost::{Amount, CostRule};
use crate::field::Field;
use crate::problem::Span;
use crate::reserve::{Commit, Estimate, MAX_HOLD, MIN_HOLD, Reserve};
use crate::source::{Key, Node, Value};
use crate::sum::{Factor, MAX_TERMS, WeightedSum};

/// The keys of a cost that is read from fields.
pub(crate) const COST_KEYS: [&str; 4] = ["from", "times", "max", "otherwise"];

/// The keys of a cost that is known afterwards.
pub(crate) const RESERVE_KEYS: [&str; 8] =
    ["reserve", "times", "otherwise", "at_most", "commit", "max", "hold", "at_end"];

const FROM: &str = "name the field, e.g. `from = \"field.weight\"`";

pub(super) fn cost(reader: &mut Reader<'_>, node: &Node) -> Option<CostRule> {
    let is_of_one = |key: &str| COST_KEYS.contains(&key) || RESERVE_KEYS.contains(&key);
    match &node.value {
        Value::Table(pairs) if !pairs.iter().any(|(key, _)| is_of_one(&key.text)) => {
            units(reader, node, pairs)
        }
        _ => amount(reader, node, ("cost", 1)).map(CostRule::from),
    }
}

/// An amount of each unit.
fn units(reader: &mut Reader<'_>, node: &Node, pairs: &[(Key, Node)]) -> Option<CostRule> {
    let mut all = Vec::new();
    for (key, value) in pairs {
        if let Err(error) = key.text.parse::<Unit>() {
            reader.refused_key(key, &error);
            continue;
        }
        // Of several units a request may take nothing of one.
        let least = u64::from(pairs.len() == 1 && key.text == Unit::REQUESTS.name());
        if let Some(amount) = amount(reader, value, (&key.text, least)) {
            all.push((key.text.as_str(), amount));
        }
    }
    if all.len() < pairs.len() {
        return None;
    }
    let rule = CostRule::new(all);
    let rule = rule.map_err(|error| reader.error(node.at, error.what(), error.remedy())).ok()?;
    if !rule.has_one_hold() {
        let remedy = "they are one hold: give all of them the same";
        reader.error(node.at, "the estimates differ in their `hold` or `at_end`", remedy);
        return None;
    }
    Some(rule)
}

/// An amount of one unit under this key; `least` is that without its field.
fn amount(reader: &mut Reader<'_>, node: &Node, (key, least): (&str, u64)) -> Option<Amount> {
    let right = "a whole number, `{ from = \"field.weight\", max = 50, otherwise = 1 }`, or \
                 `{ reserve = 500, commit = \"header.x-tokens-used\", max = 2000, hold = \"2m\" }`";
    match &node.value {
        Value::Whole(_) => reader.whole(node, key, 1, MAX_COST).map(Amount::Fixed),
        Value::Table(pairs) if pairs.iter().any(|(key, _)| key.text == "reserve") => {
            reserve(reader, node, (key, least)).map(Amount::Reserve)
        }
        Value::Table(_) => {
            let keys = reader.keys(node, key, &COST_KEYS)?;
            let times = times(reader, &keys);
            let from = reader.required(&keys, keys.at, "from", FROM);
            let from = from.and_then(|node| fields(reader, node, ("from", FROM), times.as_ref()));
            let max = most(reader, &keys);
            let otherwise = otherwise(reader, &keys, (least, max));
            Some(Amount::From { sum: from?, max: max?, otherwise: otherwise? })
        }
        _ => {
            reader.wrong(node, key, right);
            None
        }
    }
}

/// The factors of the sums of an amount.
fn times(reader: &mut Reader<'_>, keys: &Keys<'_>) -> Option<(Span, Vec<Factor>)> {
    let node = keys.get("times")?;
    let right = "a whole number, or a decimal number in quotes, e.g. `\"0.15\"`";
    let mut all = Vec::new();
    let nodes = reader.one_or_more(node, "times");
    for each in nodes {
        let text = match &each.value {
            Value::Whole(number) => number.to_string(),
            _ => reader.text(each, "times", right).unwrap_or("1").to_owned(),
        };
        match text.parse::<Factor>() {
            Ok(factor) => all.push(factor),
            Err(error) => reader.error(each.at, error.what(), error.remedy()),
        }
    }
    (all.len() == nodes.len()).then_some((node.at, all))
}

/// The sum of these sources, which are as many as there are factors.
fn sum<T>(
    reader: &mut Reader<'_>,
    (at, key): (Span, &str),
    sources: Vec<T>,
    times: Option<&(Span, Vec<Factor>)>,
) -> Option<WeightedSum<T>> {
    if sources.len() > MAX_TERMS {
        let what = format!("`{key}` names {} numbers", sources.len());
        reader.error(at, what, format!("at most {MAX_TERMS} are added up"));
        return None;
    }
    let Some((at, factors)) = times else {
        return Some(WeightedSum::new(sources.into_iter().map(|source| (source, Factor::ONE))));
    };
    if factors.len() != sources.len() {
        let what =
            format!("`{key}` names {} numbers, and `times` {}", sources.len(), factors.len());
        reader.error(*at, what, "give one factor for each, in the same order");
        return None;
    }
    Some(WeightedSum::new(sources.into_iter().zip(factors.iter().copied())))
}

/// A field, or several, of which the numbers are added up.
fn fields(
    reader: &mut Reader<'_>,
    node: &Node,
    (key, remedy): (&str, &str),
    times: Option<&(Span, Vec<Factor>)>,
) -> Option<WeightedSum<Field>> {
    let nodes = reader.one_or_more(node, key);
    let found: Vec<Field> =
        nodes.iter().filter_map(|node| field(reader, node, key, remedy)).collect();
    if found.is_empty() || found.len() < nodes.len() {
        return None;
    }
    sum(reader, (node.at, key), found, times)
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

/// The amount without the field, at least `least`; `Some(None)` to deny.
fn otherwise(
    reader: &mut Reader<'_>,
    keys: &Keys<'_>,
    (least, max): (u64, Option<u64>),
) -> Option<Option<u64>> {
    let remedy = "say what it costs when the field is absent or no number: `otherwise = 1` or \
                  `\"deny\"`";
    let node = reader.required(keys, keys.at, "otherwise", remedy)?;
    match &node.value {
        Value::Text(word) if word == "deny" => Some(None),
        Value::Text(_) => {
            reader.error(node.at, "`otherwise` is neither a cost nor `deny`", remedy);
            None
        }
        _ => reader.whole(node, "otherwise", least, max.unwrap_or(MAX_COST)).map(Some),
    }
}

fn reserve(reader: &mut Reader<'_>, node: &Node, (key, least): (&str, u64)) -> Option<Reserve> {
    let keys = reader.keys(node, key, &RESERVE_KEYS)?;
    let times = times(reader, &keys);
    let max = most(reader, &keys);
    let is_quantile = matches!(
        keys.get("reserve").map(|node| &node.value),
        Some(Value::Text(text)) if Estimate::percent(text).is_some()
    );
    if let (false, Some(node)) = (is_quantile, keys.get("at_most")) {
        let what = "`at_most` is for an estimate by a quantile";
        reader.error(node.at, what, "leave it out, or reserve one, e.g. `reserve = \"p90\"`");
    }
    let estimate = keys
        .get("reserve")
        .and_then(|node| estimate(reader, (&keys, node), (least, max), times.as_ref()));
    let commit = match keys.get("commit") {
        None => Some(None),
        Some(node) => commit(reader, node, times.as_ref()).map(Some),
    };
    let multiplies = matches!(estimate, None | Some(Estimate::From { .. }))
        || matches!(commit, None | Some(Some(Commit::Headers(_))));
    if let (false, Some((at, _))) = (multiplies, &times) {
        let remedy = "leave it out, or name the fields or the headers that it multiplies";
        reader.error(*at, "`times` multiplies nothing", remedy);
    }
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

/// Where a front reads what was used.
fn commit(
    reader: &mut Reader<'_>,
    node: &Node,
    times: Option<&(Span, Vec<Factor>)>,
) -> Option<Commit> {
    let right = "a text in quotes, e.g. `\"header.x-tokens-used\"` or `\"bytes\"`";
    let nodes = reader.one_or_more(node, "commit");
    let mut headers: Vec<Arc<str>> = Vec::new();
    for each in nodes {
        let text = reader.text(each, "commit", right)?;
        match Commit::parse(text) {
            Ok(Commit::Headers(sum)) => headers.extend(sum.sources().cloned()),
            Ok(Commit::Bytes) if nodes.len() == 1 && times.is_none() => return Some(Commit::Bytes),
            Ok(Commit::Bytes) => {
                let remedy = "write `commit = \"bytes\"` without `times`, or name headers";
                reader.error(each.at, "the bytes of a body are counted alone", remedy);
                return None;
            }
            Err(error) => {
                reader.refused(each, text, &error);
                return None;
            }
        }
    }
    if headers.is_empty() {
        return None;
    }
    sum(reader, (node.at, "commit"), headers, times).map(Commit::Headers)
}

fn estimate(
    reader: &mut Reader<'_>,
    (keys, node): (&Keys<'_>, &Node),
    (least, max): (u64, Option<u64>),
    times: Option<&(Span, Vec<Factor>)>,
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
        Value::Text(_) | Value::List(_) => {
            let remedy = "reserve a number, or what a field says, e.g. `\"header.x-max-tokens\"`";
            let sum = fields(reader, node, ("reserve", remedy), times);
            let otherwise = otherwise(reader, keys, (least, max));
            Some(Estimate::From { sum: sum?, otherwise: otherwise? })
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
