//! Costs in a snapshot.

use std::io::{Read, Write};

use super::chunks::{ChunkReader, ChunkWriter};
use super::error::SnapshotError;
use super::tag;
use crate::cost::{Cost, MAX_COST_UNITS};
use crate::limit::Unit;
use crate::strategy::MAX_EXACT;

/// Whether the costs in a part name their units: how many there are, the first one, and the others,
/// each with its amount.
fn names_units(part: u8) -> bool {
    [tag::UNITS, tag::CREDITS, tag::SPENT_UNITS].contains(&part)
}

/// Reads a cost; `None` for one that cannot be.
pub(in crate::memory) fn read_cost<R: Read>(
    part: u8,
    from: &mut ChunkReader<R>,
) -> Result<Option<Cost>, SnapshotError> {
    let amount = from.u64()?;
    let count = if names_units(part) { read_byte(from)? } else { 0 };
    if count == 0 {
        return Ok(Some(amount.into()));
    }
    let mut all: Vec<(Unit, u64)> = Vec::new();
    for place in 0..count {
        let mut name = vec![0; read_byte(from)?.into()];
        from.fill(&mut name)?;
        let unit = core::str::from_utf8(&name).ok().and_then(|name| name.parse().ok());
        let amount = if place == 0 { amount } else { from.u64()? };
        let Some(unit) = unit.filter(|_| amount <= MAX_EXACT) else { return Ok(None) };
        all.push((unit, amount));
    }
    Ok(Some(Cost::of(&all)).filter(|_| all.len() <= MAX_COST_UNITS))
}

fn read_byte<R: Read>(from: &mut ChunkReader<R>) -> Result<u8, SnapshotError> {
    let mut byte = [0];
    from.fill(&mut byte)?;
    Ok(byte[0])
}

pub(in crate::memory) fn write_cost<W: Write>(
    part: u8,
    cost: &Cost,
    out: &mut ChunkWriter<W>,
) -> Result<(), SnapshotError> {
    let amounts = cost.amounts();
    out.put(&amounts.first().to_le_bytes())?;
    if !names_units(part) {
        return Ok(());
    }
    let all = || amounts.iter().filter(|_| amounts.plain().is_none());
    // A cost has at most 8 units, and a name at most 32 bytes.
    let byte = |count: usize| [u8::try_from(count).unwrap_or(u8::MAX)];
    out.put(&byte(all().count()))?;
    for (place, (unit, amount)) in all().enumerate() {
        out.put(&byte(unit.name().len()))?;
        out.put(unit.name().as_bytes())?;
        if place > 0 {
            out.put(&amount.to_le_bytes())?;
        }
    }
    Ok(())
}
