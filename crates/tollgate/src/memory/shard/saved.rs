//! The parts of a snapshot that a shard writes and reads.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::Arc;

use super::{KEY_BITS, Key, LONG, Shard, Shared, State};
use crate::ask::MAX_PARTS;
use crate::cost::Cost;
use crate::engine::{
    self, Credit, Credits, HoldSums, HoldTable, Holds as _, MAX_CREDITS, MAX_HOLDS, MAX_MARKS,
    Mark, NamedHold, OpenHold,
};
use crate::hold::{HoldId, HoldKind};
use crate::limit::{LimitSet, MAX_COST};
use crate::memory::marks::{Reset, Spent};
use crate::memory::slabs;
use crate::memory::snapshot::{
    ChunkReader, ChunkWriter, SnapshotError, read_cost, tag, write_cost,
};
use crate::memory::state::{Budget, Large, held_until_us};
use crate::strategy::{Entry, MAX_EXACT};
use crate::time::{SKEW_US, Time};

/// The most entries, and large states, for which a shard reserves room because a snapshot announces
/// them. Beyond that, room grows with the bytes that are read.
const FORESEEN: u32 = 1 << 16;

/// The numbers of items in a shard, to reserve room for them.
#[derive(Clone, Copy, Debug)]
pub(in crate::memory) struct Sizes {
    pub(in crate::memory) entries: u32,
    pub(in crate::memory) long_keys: u32,
    pub(in crate::memory) large: u32,
}

/// A state from a snapshot, the set it is written under, and when it equals a fresh one.
#[derive(Debug)]
pub(in crate::memory) struct Kept {
    state: State,
    limits: LimitSet,
    fresh_at_us: u64,
}

impl Kept {
    /// Reads a state of `limits`. The input is not trusted: the result is a state that the steps
    /// can work on. `check` reports when there is no room for more.
    pub(in crate::memory) fn read<R: Read>(
        from: &mut ChunkReader<R>,
        limits: &LimitSet,
        budget: &Arc<Budget>,
        check: impl Fn(u64) -> Result<(), SnapshotError>,
    ) -> Result<Self, SnapshotError> {
        let at = from.at();
        let mut state = State::fresh_anyway(limits, budget);
        check(at)?;
        let words = match &mut state {
            State::Pair(words) => &mut words[..],
            State::Large(large) => &mut large.words,
        };
        for word in &mut *words {
            *word = from.u64()?;
        }
        if !engine::is_sound(limits, words) {
            return Err(SnapshotError::damaged(at, "a state holds numbers that no count has"));
        }
        if let State::Large(large) = &mut state {
            for log in 0..large.logs.len() {
                read_log(from, large, log, &check)?;
            }
        }
        let fresh_at_us = engine::fresh_at_us(limits, &mut state);
        Ok(Self { state, limits: limits.clone(), fresh_at_us })
    }

    /// Reads what is held of the count, in the form of this part.
    pub(in crate::memory) fn read_holds<R: Read>(
        self,
        part: u8,
        from: &mut ChunkReader<R>,
        budget: &Arc<Budget>,
        check: impl Fn(u64) -> Result<(), SnapshotError>,
    ) -> Result<Self, SnapshotError> {
        let damaged = |at| SnapshotError::damaged(at, "a hold that cannot be");
        let mut table = HoldTable::default();
        let at = from.at();
        let (fence, seen_us) = (from.u64()?, from.u64()?);
        let open = from.u64()?;
        if open > MAX_HOLDS || fence > MAX_EXACT || seen_us > MAX_EXACT {
            return Err(damaged(at));
        }
        for _ in 0..open {
            let at = from.at();
            let (end_us, id, cost) = (from.u64()?, read_id(from)?, read_cost(part, from)?);
            let id = id.filter(|id| end_us <= MAX_EXACT && table.find(*id).is_none());
            let cost = cost.filter(|cost| (1..=MAX_COST).contains(&cost.amount));
            let (id, cost) = id.zip(cost).ok_or_else(|| damaged(at))?;
            table.place(OpenHold { end_us, id, cost });
            if let Some(name) = id.name() {
                let (ttl_us, fence, answers) = (from.u64()?, from.u64()?, from.u64()?);
                if ttl_us > MAX_EXACT || fence > MAX_EXACT {
                    return Err(damaged(at));
                }
                table.set_named(name, Some(NamedHold { kind: id.kind(), ttl_us, fence, answers }));
            }
            check(at)?;
        }
        let at = from.at();
        let settled = from.u64()?;
        if settled > 2 * (MAX_HOLDS + 1) + MAX_MARKS {
            return Err(damaged(at));
        }
        for _ in 0..settled {
            let at = from.at();
            let (until_us, id, actual) = (from.u64()?, read_id(from)?, read_cost(part, from)?);
            let id = id.filter(|_| until_us <= MAX_EXACT);
            let (id, actual) = id.zip(actual).ok_or_else(|| damaged(at))?;
            match id.name() {
                Some(name) => {
                    let is_early = actual.amount == EARLY;
                    let actual = if is_early { 0.into() } else { actual };
                    table.mark(name, Mark { until_us, actual, is_early }, 0);
                }
                None => table.remember(id, &actual, until_us),
            }
            check(at)?;
        }
        table.set_sums(HoldSums { fence, seen_us, ..table.sums() });
        if part != tag::HELD {
            for _ in 0..from.u64()? {
                let at = from.at();
                let (id, span_us) = (read_id(from)?, from.u64()?);
                let id = id.filter(|id| span_us <= MAX_EXACT && table.find(*id).is_some());
                table.set_renewed(id.ok_or_else(|| damaged(at))?, span_us);
                check(at)?;
            }
        }
        if part == tag::CREDITS {
            let credits = read_credits(from)?;
            table.set_sums(HoldSums { credits, ..table.sums() });
        }
        // A restored store takes no more memory than the saved one.
        table.shrink_to_fit();
        let fresh_at_us = self.fresh_at_us.max(held_until_us(&self.limits, &table));
        let state = self.state.with_holds(table, budget);
        Ok(Self { state, limits: self.limits, fresh_at_us })
    }

    pub(in crate::memory) fn is_expired(&self, now: Time) -> bool {
        self.fresh_at_us + SKEW_US <= now.as_micros()
    }
}

/// The charge in a mark where there was no hold.
const EARLY: u64 = u64::MAX;

fn read_id<R: Read>(from: &mut ChunkReader<R>) -> Result<Option<HoldId>, SnapshotError> {
    let mut bytes = [0; 16];
    from.fill(&mut bytes)?;
    Ok(HoldId::from_bytes(bytes))
}

fn read_credits<R: Read>(from: &mut ChunkReader<R>) -> Result<Credits, SnapshotError> {
    let (start, count) = (from.at(), from.u64()?);
    if count > MAX_CREDITS as u64 {
        return Err(SnapshotError::damaged(start, "more credits than a count has"));
    }
    let mut credits = Vec::new();
    for _ in 0..count {
        let at = from.at();
        let (end_us, id) = (from.u64()?, read_id(from)?);
        let (left, given) = (read_cost(tag::CREDITS, from)?, from.u64()?);
        let id = id.filter(|id| id.kind() == HoldKind::Credit);
        let whole = id.zip(left).filter(|(_, left)| left.amount <= given);
        let is_exact = end_us <= MAX_EXACT && given <= MAX_COST;
        let Some((id, left)) = whole.filter(|_| is_exact) else {
            return Err(SnapshotError::damaged(at, "a credit that cannot be"));
        };
        let amounts = left.amounts();
        let (unit, left) = (*amounts.first_unit(), amounts.first());
        credits.push(Credit { end_us, id, unit, left, given });
    }
    Ok(credits.into_iter().collect())
}

/// The part that holds are written as.
fn part_of(table: &HoldTable) -> u8 {
    if !table.sums().credits.is_empty() {
        return tag::CREDITS;
    }
    let is_plain = |cost: &Cost| cost.amounts().plain().is_some();
    if !table.open().all(|hold| is_plain(&hold.cost))
        || !table.remembered().all(|(.., actual)| is_plain(actual))
        || !table.marks().all(|(_, mark)| is_plain(&mark.actual))
    {
        return tag::UNITS;
    }
    if table.renewed_len() == 0 { tag::HELD } else { tag::RENEWED }
}

fn write_holds<W: Write>(
    part: u8,
    table: &HoldTable,
    out: &mut ChunkWriter<W>,
) -> Result<(), SnapshotError> {
    let HoldSums { fence, seen_us, count, credits, .. } = table.sums();
    for number in [fence, seen_us, count] {
        out.put(&number.to_le_bytes())?;
    }
    for OpenHold { end_us, id, cost } in table.open() {
        out.put(&end_us.to_le_bytes())?;
        out.put(id.as_bytes())?;
        write_cost(part, &cost, out)?;
        if let Some(NamedHold { ttl_us, fence, answers, .. }) =
            id.name().and_then(|name| table.named(name))
        {
            for number in [ttl_us, fence, answers] {
                out.put(&number.to_le_bytes())?;
            }
        }
    }
    let remembered = table.remembered().count() + table.marks().count();
    out.put(&(remembered as u64).to_le_bytes())?;
    // A name that is over is among the settled, with the id of any kind of hold.
    for (name, Mark { until_us, actual, is_early }) in table.marks() {
        out.put(&until_us.to_le_bytes())?;
        out.put(HoldId::named(HoldKind::Reserve, name).as_bytes())?;
        let early = Cost::from(EARLY);
        write_cost(part, if *is_early { &early } else { actual }, out)?;
    }
    for (until_us, id, actual) in table.remembered() {
        out.put(&until_us.to_le_bytes())?;
        out.put(id.as_bytes())?;
        write_cost(part, actual, out)?;
    }
    if part != tag::HELD {
        out.put(&(table.renewed_len() as u64).to_le_bytes())?;
        for (id, span_us) in table.renewed_holds() {
            out.put(id.as_bytes())?;
            out.put(&span_us.to_le_bytes())?;
        }
    }
    if part == tag::CREDITS {
        out.put(&(credits.iter().count() as u64).to_le_bytes())?;
        for Credit { end_us, id, unit, left, given } in credits.iter() {
            out.put(&end_us.to_le_bytes())?;
            out.put(id.as_bytes())?;
            write_cost(part, &Cost::of_unit(*unit, *left), out)?;
            out.put(&given.to_le_bytes())?;
        }
    }
    Ok(())
}

fn read_log<R: Read>(
    from: &mut ChunkReader<R>,
    large: &mut Large,
    log: usize,
    check: impl Fn(u64) -> Result<(), SnapshotError>,
) -> Result<(), SnapshotError> {
    let count = usize::try_from(from.u64()?).unwrap_or(usize::MAX);
    let log = &mut large.logs[log];
    let mut newest = Entry { at_us: 0, total: 0 };
    for _ in 0..count {
        let at = from.at();
        let at_us = from.u64()?;
        let total = newest.total.saturating_add(from.u64()?);
        if at_us < newest.at_us || at_us > Time::MAX.as_micros() {
            return Err(SnapshotError::damaged(at, "the events of a log are not in order of time"));
        }
        if total > MAX_EXACT {
            return Err(SnapshotError::damaged(at, "a log holds more than can be counted"));
        }
        newest = Entry { at_us, total };
        log.restore(newest, count);
        check(at)?;
    }
    Ok(())
}

fn write_state<W: Write>(state: &State, out: &mut ChunkWriter<W>) -> Result<(), SnapshotError> {
    for word in state.words() {
        out.put(&word.to_le_bytes())?;
    }
    let State::Large(large) = state else { return Ok(()) };
    write_logs(large, out)
}

fn write_logs<W: Write>(large: &Large, out: &mut ChunkWriter<W>) -> Result<(), SnapshotError> {
    for log in &large.logs {
        let events = log.events();
        out.put(&(events.len() as u64).to_le_bytes())?;
        for (at_us, cost) in events {
            let (at_us, cost) = (at_us.to_le_bytes(), cost.to_le_bytes());
            out.put(&at_us)?;
            out.put(&cost)?;
        }
    }
    Ok(())
}

impl Shard {
    pub(in crate::memory) fn charges(&self) -> u64 {
        self.charges
    }

    /// Continues the numbers of charges after `charges`, which is not less than before.
    pub(in crate::memory) fn number_after(&mut self, charges: u64) {
        self.charges = charges;
    }

    /// Every set that a state is written under.
    pub(in crate::memory) fn sets(&self) -> impl Iterator<Item = &LimitSet> {
        self.rest.sets.iter().map(|(_, held)| &held.limits)
    }

    /// The number of states that several subjects share.
    pub(in crate::memory) fn shared(&self) -> usize {
        self.rest.shared.len()
    }

    /// Writes the whole shard, which has been swept. `numbers` maps the serials of sets to their
    /// positions.
    pub(in crate::memory) fn write<W: Write>(
        &self,
        index: u32,
        numbers: &HashMap<u64, u32>,
        out: &mut ChunkWriter<W>,
    ) -> Result<(), SnapshotError> {
        let number = |limits: &LimitSet| {
            let number = numbers.get(&limits.serial()).copied();
            number.unwrap_or(u32::MAX).to_le_bytes()
        };
        let marks = &self.rest.marks;
        if self.table.is_empty() && self.rest.shared.is_empty() && marks.is_empty() {
            return Ok(());
        }
        // Cannot overflow: 2^32 items of a shard would not fit into memory.
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes();
        out.put(&[tag::SHARD])?;
        out.put(&index.to_le_bytes())?;
        out.put(&marks.forgotten().to_le_bytes())?;
        for held in [self.table.len(), self.rest.long_keys.len(), self.rest.large.len()] {
            out.put(&count(held))?;
        }
        for (charge, Spent { units, until_us }) in marks.spent() {
            let part = match units.plain() {
                Some(Spent::WHOLE) => tag::SPENT,
                Some(_) => tag::SPENT_PART,
                None => tag::SPENT_UNITS,
            };
            out.put(&[part])?;
            for number in [charge, *until_us] {
                out.put(&number.to_le_bytes())?;
            }
            if part != tag::SPENT {
                write_cost(part, units, out)?;
            }
        }
        for (key_hash, Reset { charges, at_us, until_us }) in marks.resets() {
            out.put(&[tag::RESET])?;
            for number in [key_hash, charges, at_us, until_us] {
                out.put(&number.to_le_bytes())?;
            }
        }
        if let Some(until_us) = marks.outlived_us() {
            // Written as a reset of nothing, so that every version can read it.
            out.put(&[tag::RESET])?;
            for number in [0, 0, 0, until_us] {
                out.put(&number.to_le_bytes())?;
            }
        }
        for Shared { set, state, .. } in &self.rest.shared {
            let Some(held) = self.rest.sets.get(*set) else { continue };
            out.put(&[tag::SHARED])?;
            out.put(&number(&held.limits))?;
            write_state(state, out)?;
        }
        self.write_entries(&number, out)
    }

    fn write_entries<W: Write>(
        &self,
        number: &impl Fn(&LimitSet) -> [u8; 4],
        out: &mut ChunkWriter<W>,
    ) -> Result<(), SnapshotError> {
        let sets: HashMap<usize, [u8; 4]> =
            self.rest.sets.iter().map(|(index, held)| (index, number(&held.limits))).collect();
        let mut line = Vec::new();
        for slot in &self.table {
            let key = if slot.meta & KEY_BITS == LONG {
                self.rest.long_keys.get(slot.long_key()).map_or(&[][..], |bytes| bytes)
            } else {
                &slot.key[..(slot.meta & KEY_BITS) as usize]
            };
            line.clear();
            // No state is taken out: the shard is locked and no check is in progress.
            let large = || self.rest.large.get(slot.index()).and_then(Option::as_ref);
            let large = slot.is_large().then(large).flatten();
            let holds = large.and_then(|large| large.holds.as_ref()).map(|holds| &holds.table);
            let part = holds.map_or(tag::ENTRY, part_of);
            line.push(part);
            line.extend_from_slice(sets.get(&slot.set()).unwrap_or(&[u8::MAX; 4]));
            // Cannot overflow: a subject has at most 64 KiB.
            let length = u32::try_from(key.len()).unwrap_or(u32::MAX);
            line.extend_from_slice(&length.to_le_bytes());
            line.extend_from_slice(key);
            if slot.is_large() {
                out.put(&line)?;
                if let Some(large) = large {
                    for word in &large.words {
                        out.put(&word.to_le_bytes())?;
                    }
                    write_logs(large, out)?;
                }
                if let Some(table) = holds {
                    write_holds(part, table, out)?;
                }
            } else {
                for word in slot.pair() {
                    line.extend_from_slice(&word.to_le_bytes());
                }
                out.put(&line)?;
            }
        }
        Ok(())
    }

    /// Reserves room for the numbers that a snapshot announces, within limits.
    pub(in crate::memory) fn foresee(
        &mut self,
        sizes: Sizes,
        rehash: &impl Fn(&[u8], &LimitSet) -> u64,
    ) {
        let Sizes { entries, long_keys, large } = sizes;
        let room = |count: u32| count.min(FORESEEN) as usize;
        self.rebuild(room(entries).max(self.table.len()), rehash);
        self.rest.long_keys.reserve_exact(room(long_keys));
        self.rest.large.reserve_exact(room(large));
        self.settle();
    }

    /// Frees the room that was reserved in excess.
    pub(in crate::memory) fn trim(&mut self) {
        self.rest.long_keys.shrink_to_fit();
        self.rest.large.shrink_to_fit();
        self.rest.sets.shrink();
        self.shrink_shared();
        self.settle();
    }

    /// The bytes that `trim` would free.
    pub(in crate::memory) fn spare(&self) -> usize {
        let rest = &self.rest;
        slabs::spare(&rest.long_keys)
            + slabs::spare(&rest.large)
            + rest.sets.spare()
            + self.spare_shared()
    }

    /// Restores a subject's state, beyond the byte bound if necessary. False when the subject
    /// already has one.
    pub(in crate::memory) fn restore(
        &mut self,
        key: &Key<'_>,
        kept: Kept,
        rehash: &impl Fn(&[u8], &LimitSet) -> u64,
    ) -> bool {
        let Kept { state, limits, .. } = kept;
        if self.find(key, &limits).is_some() {
            return false;
        }
        self.insert(key, &limits, state, rehash);
        true
    }

    /// Restores a shared state. False when there are more of its identity than one check can use.
    pub(in crate::memory) fn restore_shared(&mut self, kept: Kept) -> bool {
        let Kept { state, limits, .. } = kept;
        let Some(nth) = self.shared_of(&limits, MAX_PARTS) else { return false };
        let set = self.use_set(&limits);
        self.insert_shared(Shared { set, nth, state });
        self.leave_set(set);
        self.settle();
        true
    }
}
