//! Amounts of units as they are stored: a number of requests, or a text such as
//! `requests=1,tokens=800`. An earlier version reads no such text, and refuses the row.

use rusqlite::types::{Type, Value, ValueRef};
use rusqlite::{Error, Row};
use tollgate::engine::{Credits, UnitSums};
use tollgate::{Cost, ParseError, Unit};

pub(crate) fn cost_value(cost: &Cost) -> Value {
    match cost.amounts().plain() {
        Some(requests) => Value::Integer(requests.cast_signed()),
        None => Value::Text(cost.to_string()),
    }
}

/// The cost in a column. A negative number is that of a mark where there was no hold.
pub(crate) fn cost_in(row: &Row<'_>, column: usize) -> rusqlite::Result<Cost> {
    match text_in(row, column)? {
        Some(text) => Cost::parse_used(text).map_err(|fault| damaged(column, fault)),
        None => Ok(Cost::from(row.get::<_, i64>(column)?.max(0).cast_unsigned())),
    }
}

pub(crate) fn sums_value(sums: &UnitSums) -> Value {
    if sums.more.is_empty() {
        return Value::Integer(sums.requests.cast_signed());
    }
    Value::Text(sums_text(sums))
}

fn sums_text(sums: &UnitSums) -> String {
    let more = sums.more.iter().map(|(unit, sum)| format!(",{unit}={sum}"));
    format!("requests={}{}", sums.requests, more.collect::<String>())
}

/// The sums and, behind `+`, the credits of a count.
pub(crate) fn kept_value(sums: &UnitSums, credits: &Credits) -> Value {
    match credits.is_empty() {
        true => sums_value(sums),
        false => Value::Text(format!("{}+{credits}", sums_text(sums))),
    }
}

pub(crate) fn credits_in(row: &Row<'_>, column: usize) -> rusqlite::Result<Credits> {
    match text_in(row, column)?.and_then(|text| text.split_once('+')) {
        Some((_, credits)) => credits.parse().map_err(|fault| damaged(column, fault)),
        None => Ok(Credits::default()),
    }
}

pub(crate) fn sums_in(row: &Row<'_>, column: usize) -> rusqlite::Result<UnitSums> {
    let Some(text) = text_in(row, column)? else {
        let requests = row.get::<_, i64>(column)?.cast_unsigned();
        return Ok(UnitSums { requests, more: Vec::new() });
    };
    let text = text.split_once('+').map_or(text, |(sums, _)| sums);
    let mut sums = UnitSums::default();
    for part in text.split(',') {
        let (unit, sum) = part.split_once('=').unwrap_or((part, ""));
        let unit: Unit = unit.parse().map_err(|fault| damaged(column, fault))?;
        let sum = sum.parse().map_err(|_| Error::IntegralValueOutOfRange(column, 0))?;
        match unit {
            Unit::REQUESTS => sums.requests = sum,
            unit => sums.more.push((unit, sum)),
        }
    }
    Ok(sums)
}

fn text_in<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<Option<&'r str>> {
    match row.get_ref(column)? {
        ValueRef::Text(text) => Ok(Some(core::str::from_utf8(text)?)),
        _ => Ok(None),
    }
}

fn damaged(column: usize, fault: ParseError) -> Error {
    Error::FromSqlConversionFailure(column, Type::Text, Box::new(fault))
}
