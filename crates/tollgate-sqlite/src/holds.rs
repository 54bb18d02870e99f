//! The holds of a count within a transaction, each a separate row.

use rusqlite::Row;
use rusqlite::types::Value;
use tollgate::engine::{
    self, HoldSums, Holds, MAX_MARKS, Mark, NamedHold, OpenHold, SETTLED_FOR_US, Ticket,
};
use tollgate::{Cost, HoldId, HoldKind, HoldName, LimitSet, SKEW_US, StoreError, Subject};

use crate::amounts::{cost_in, cost_value, credits_in, kept_value, sums_in, sums_value};
use crate::context::Context;
use crate::line;

/// The holds of one count. Faults are remembered in the context, since the engine asks for no
/// results.
#[derive(Debug)]
pub(crate) struct SqlHolds<'c> {
    context: &'c Context<'c>,
    subject: &'c str,
    counted: i64,
    sums: HoldSums,
}

impl<'c> SqlHolds<'c> {
    /// Loads the holds of a count.
    pub(crate) fn load(
        context: &'c Context<'c>,
        subject: &'c Subject,
        counted: i64,
    ) -> Result<Self, StoreError> {
        let sql = "SELECT open, units, charging, slots, fence, seen_us FROM held
                   WHERE subject = ?1 AND counted = ?2";
        let sums = context.first(sql, (subject.as_str(), counted), |row| {
            let number = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
            let (units, charging) = (sums_in(row, 1)?, sums_in(row, 2)?);
            let (count, slots) = (number(0)?, number(3)?);
            let (credits, fence, seen_us) = (credits_in(row, 1)?, number(4)?, number(5)?);
            Ok(HoldSums { count, units, charging, slots, fence, seen_us, credits })
        })?;
        let (subject, sums) = (subject.as_str(), sums.unwrap_or_default());
        Ok(Self { context, subject, counted, sums })
    }

    fn key(&self) -> (&str, i64) {
        (self.subject, self.counted)
    }

    /// Saves the sums. Returns until when the rows matter, in microseconds since the Unix epoch;
    /// `None` when there is nothing left, and nothing is kept.
    pub(crate) fn save(self, limits: &LimitSet) -> Result<Option<u64>, StoreError> {
        let Self { context, sums, .. } = &self;
        context.checked()?;
        let HoldSums { count, units, charging, slots, fence, seen_us, credits } = sums;
        let (count, slots, fence, seen_us) = (*count, *slots, *fence, *seen_us);
        let now_us = context.now().as_micros();
        let until: Option<Option<i64>> = context.first(
            "SELECT max(until_us) FROM settled WHERE subject = ?1 AND counted = ?2",
            self.key(),
            |row| row.get(0),
        )?;
        // A clock that is a little behind may still ask for it.
        let settled_us = until.flatten().map_or(0, |until| until.cast_unsigned() + SKEW_US);
        let last_us = self.last().map_or(0, |hold| hold.end_us).max(credits.last_us());
        let fenced_us = if fence > 0 { fence + SKEW_US } else { 0 };
        let charged_us = engine::ends_count_until_us(limits, &self);
        let tickets = if limits.needs_hold() { self.line() } else { Vec::new() };
        let waited_us = tickets.iter().map(|ticket| ticket.end_us + SKEW_US).max().unwrap_or(0);
        let until_us = last_us.max(settled_us).max(fenced_us).max(charged_us).max(waited_us);
        if count == 0 && until_us <= now_us {
            forget(context, self.subject, self.counted)?;
            return Ok(None);
        }
        let [count, slots, fence, seen_us] = [count, slots, fence, seen_us].map(u64::cast_signed);
        let (units, charging) = (kept_value(units, credits), sums_value(charging));
        context.execute(
            "INSERT OR REPLACE INTO held
             (subject, counted, open, units, charging, slots, fence, seen_us)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            (self.subject, self.counted, count, units, charging, slots, fence, seen_us),
        )?;
        context.checked()?;
        Ok(Some(until_us))
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params) {
        if let Err(fault) = self.context.execute(sql, params) {
            self.context.remember(fault);
        }
    }

    /// The record at this time of an id that was settled.
    fn actual_of(&self, id: HoldId, at_us: u64) -> Option<Cost> {
        let sql = "SELECT actual FROM settled
                   WHERE subject = ?1 AND counted = ?2 AND id = ?3 AND until_us > ?4";
        let key = (self.subject, self.counted, id.as_bytes(), at_us.cast_signed());
        let found = self.context.first(sql, key, |row| cost_in(row, 0));
        self.found(found)
    }

    /// The record beside the open hold of an id.
    fn kept(&self, id: HoldId) -> Option<Kept> {
        let sql = "SELECT id FROM holds INDEXED BY holds_by_id
                   WHERE id BETWEEN ?3 AND ?4 AND subject = ?1 AND counted = ?2";
        let (first, last) = stored(id);
        let key = (self.subject, self.counted, first, last);
        let found = self.context.first(sql, key, |row| Ok(id_of(row.get_ref(0)?.as_blob()?)));
        self.found(found.map(Option::flatten))
    }

    /// The result; the default where that failed, which is remembered.
    fn found<T: Default>(&self, found: Result<T, StoreError>) -> T {
        found.unwrap_or_else(|fault| {
            self.context.remember(fault);
            T::default()
        })
    }

    fn rows(&self, sql: &str, params: impl rusqlite::Params) -> Vec<OpenHold> {
        let found = self.context.rows(sql, params, hold_of);
        let found = found.and_then(|holds| {
            let holds: Option<Vec<OpenHold>> = holds.into_iter().collect();
            holds.ok_or_else(|| self.context.damaged(self.subject, "a hold has an impossible id"))
        });
        found.unwrap_or_else(|fault| {
            self.context.remember(fault);
            Vec::new()
        })
    }
}

/// Deletes every hold of a count and the records of settled ones.
pub(crate) fn forget(context: &Context<'_>, subject: &str, counted: i64) -> Result<(), StoreError> {
    forget_open(context, subject, counted)?;
    let sql = "DELETE FROM settled WHERE subject = ?1 AND counted = ?2";
    context.execute(sql, (subject, counted)).map(drop)
}

/// Deletes every open hold of a count and its sums. Returns whether there was anything.
pub(crate) fn forget_open(
    context: &Context<'_>,
    subject: &str,
    counted: i64,
) -> Result<bool, StoreError> {
    let sql = "DELETE FROM holds WHERE subject = ?1 AND counted = ?2";
    context.execute(sql, (subject, counted))?;
    let had_line = line::forget(context, (subject, counted))?;
    let sql = "DELETE FROM held WHERE subject = ?1 AND counted = ?2 RETURNING open + fence";
    let open = context.first(sql, (subject, counted), |row| row.get::<_, i64>(0))?;
    Ok(had_line || open.is_some_and(|open| open > 0))
}

/// `None` for an invalid id.
fn hold_of(row: &Row<'_>) -> rusqlite::Result<Option<OpenHold>> {
    let id = id_of(row.get_ref(1)?.as_blob()?).map(|kept| kept.id);
    let (end_us, cost) = (row.get::<_, i64>(0)?.cast_unsigned(), cost_in(row, 2)?);
    Ok(id.map(|id| OpenHold { end_us, id, cost }))
}

/// The most bytes that follow the id of a hold, eight for each number. Of a named one they are how
/// long it was asked for, its fencing number, and how often it was answered. Of one that was
/// renewed, the last say how long before its end it was placed. An earlier version refuses an id of
/// such a length.
const KEPT_BYTES: usize = 4 * size_of::<u64>();

/// An id as it is stored, with its record if its caller named it, and if it was renewed.
struct Kept {
    id: HoldId,
    named: Option<NamedHold>,
    span_us: Option<u64>,
}

fn id_of(bytes: &[u8]) -> Option<Kept> {
    let (id, kept) = bytes.split_first_chunk::<16>()?;
    let id = HoldId::from_bytes(*id)?;
    let (numbers, []) = kept.as_chunks::<8>() else { return None };
    let numbers: Vec<u64> = numbers.iter().map(|it| u64::from_be_bytes(*it)).collect();
    let (named, renewed) = match (id.name(), &numbers[..]) {
        (None, renewed) => (None, renewed),
        (Some(_), [ttl_us, fence, answers, renewed @ ..]) => {
            let (ttl_us, fence, answers) = (*ttl_us, *fence, *answers);
            (Some(NamedHold { kind: id.kind(), ttl_us, fence, answers }), renewed)
        }
        _ => return None,
    };
    match renewed {
        [] => Some(Kept { id, named, span_us: None }),
        [span_us] => Some(Kept { id, named, span_us: Some(*span_us) }),
        _ => None,
    }
}

/// The first and the last bytes that an id is stored as.
fn stored(id: HoldId) -> (Vec<u8>, Vec<u8>) {
    let first = id.as_bytes().to_vec();
    let mut last = first.clone();
    last.extend([u8::MAX; KEPT_BYTES]);
    (first, last)
}

/// The id under which it is remembered that a name is over.
fn marked_id(name: HoldName) -> HoldId {
    HoldId::named(HoldKind::Reserve, name)
}

/// The charge in a mark where there was no hold.
const EARLY: i64 = -1;

impl Holds for SqlHolds<'_> {
    fn sums(&self) -> HoldSums {
        self.sums.clone()
    }

    fn set_sums(&mut self, sums: HoldSums) {
        self.sums = sums;
    }

    fn find(&self, id: HoldId) -> Option<OpenHold> {
        // By itself SQLite would look through all holds of the count.
        let sql = "SELECT end_us, id, cost FROM holds INDEXED BY holds_by_id
                   WHERE id BETWEEN ?3 AND ?4 AND subject = ?1 AND counted = ?2";
        let (first, last) = stored(id);
        self.rows(sql, (self.subject, self.counted, first, last)).into_iter().next()
    }

    fn soonest(&self, most: usize) -> Vec<OpenHold> {
        let sql = "SELECT end_us, id, cost FROM holds WHERE subject = ?1 AND counted = ?2
                   ORDER BY end_us, id LIMIT ?3";
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.rows(sql, (self.subject, self.counted, most))
    }

    fn last(&self) -> Option<OpenHold> {
        let sql = "SELECT end_us, id, cost FROM holds WHERE subject = ?1 AND counted = ?2
                   ORDER BY end_us DESC, id DESC LIMIT 1";
        self.rows(sql, self.key()).into_iter().next()
    }

    fn insert(&mut self, hold: OpenHold) {
        let OpenHold { end_us, id, cost } = hold;
        let (end_us, cost) = (end_us.cast_signed(), cost_value(&cost));
        self.execute(
            "INSERT OR REPLACE INTO holds (subject, counted, end_us, id, cost)
             VALUES (?1, ?2, ?3, ?4, ?5)",
            (self.subject, self.counted, end_us, &id.as_bytes()[..], cost),
        );
    }

    fn remove(&mut self, hold: &OpenHold) {
        let (end_us, (first, last)) = (hold.end_us.cast_signed(), stored(hold.id));
        self.execute(
            "DELETE FROM holds WHERE subject = ?1 AND counted = ?2 AND end_us = ?3
                                 AND id BETWEEN ?4 AND ?5",
            (self.subject, self.counted, end_us, first, last),
        );
    }

    fn chargers(&self) -> u64 {
        if self.sums.charging.is_zero() {
            return 0;
        }
        // The letters of their kind, which the index names: that of a named hold is large.
        let sql = "SELECT count(*) FROM holds
                   WHERE subject = ?1 AND counted = ?2 AND substr(id, 1, 1) IN (x'43', x'63')";
        let count = self.context.first(sql, self.key(), |row| row.get::<_, i64>(0));
        self.found(count).map_or(0, i64::cast_unsigned)
    }

    fn advance(&mut self, by_us: u64) {
        // Read and written again: an update of a key row by row could meet a key that is still
        // there.
        for hold in self.soonest(usize::MAX) {
            let named = hold.id.name().and_then(|name| Some((name, self.named(name)?)));
            let (id, span_us) = (hold.id, self.renewed(hold.id));
            self.remove(&hold);
            self.insert(OpenHold { end_us: hold.end_us.saturating_sub(by_us), ..hold });
            if let Some((name, named)) = named {
                self.set_named(name, Some(named));
            }
            if let Some(span_us) = span_us {
                self.set_renewed(id, span_us);
            }
        }
    }

    fn settled(&mut self, id: HoldId, at_us: u64) -> Option<Cost> {
        self.actual_of(id, at_us)
    }

    fn remember(&mut self, id: HoldId, actual: &Cost, until_us: u64) {
        let now_us = until_us.saturating_sub(SETTLED_FOR_US).saturating_sub(SKEW_US);
        self.execute(
            "DELETE FROM settled WHERE subject = ?1 AND counted = ?2 AND until_us <= ?3",
            (self.subject, self.counted, now_us.cast_signed()),
        );
        self.execute(
            "INSERT OR REPLACE INTO settled (subject, counted, id, actual, until_us)
             VALUES (?1, ?2, ?3, ?4, ?5)",
            (self.subject, self.counted, id.as_bytes(), cost_value(actual), until_us.cast_signed()),
        );
    }

    fn named(&self, name: HoldName) -> Option<NamedHold> {
        let kinds = [HoldKind::Acquire, HoldKind::Reserve, HoldKind::Charging];
        kinds.into_iter().find_map(|kind| self.kept(HoldId::named(kind, name))?.named)
    }

    fn set_named(&mut self, name: HoldName, named: Option<NamedHold>) {
        // The record lies in the row of the hold, and goes with it.
        let Some(named) = named else { return };
        let (first, last) = stored(named.id(name));
        let mut bytes = first.clone();
        for number in [named.ttl_us, named.fence, named.answers] {
            bytes.extend(number.to_be_bytes());
        }
        // The bytes after these mean that it was renewed. SQLite joins bytes as they are.
        self.execute(
            "UPDATE holds INDEXED BY holds_by_id SET id = CAST(?5 || substr(id, 41) AS BLOB)
             WHERE id BETWEEN ?3 AND ?4 AND subject = ?1 AND counted = ?2",
            (self.subject, self.counted, first, last, bytes),
        );
    }

    fn renewed(&self, id: HoldId) -> Option<u64> {
        self.kept(id)?.span_us
    }

    fn set_renewed(&mut self, id: HoldId, span_us: u64) {
        let (first, last) = stored(id);
        let before = if id.name().is_some() { 40 } else { 16 };
        self.execute(
            "UPDATE holds INDEXED BY holds_by_id SET id = CAST(substr(id, 1, ?5) || ?6 AS BLOB)
             WHERE id BETWEEN ?3 AND ?4 AND subject = ?1 AND counted = ?2",
            (self.subject, self.counted, first, last, before, &span_us.to_be_bytes()[..]),
        );
    }

    fn marked(&mut self, name: HoldName, at_us: u64) -> Option<Cost> {
        self.actual_of(marked_id(name), at_us)
    }

    fn mark(&mut self, name: HoldName, mark: Mark, at_us: u64) {
        let Mark { until_us, actual, is_early } = mark;
        let key = (self.subject, self.counted);
        self.execute(
            "DELETE FROM settled WHERE subject = ?1 AND counted = ?2 AND until_us <= ?3",
            (key.0, key.1, at_us.saturating_sub(SKEW_US).cast_signed()),
        );
        if is_early {
            // The one that ends first makes room. The number is EARLY: the index is of that alone.
            self.execute(
                "DELETE FROM settled WHERE subject = ?1 AND counted = ?2 AND id IN
                 (SELECT id FROM settled WHERE subject = ?1 AND counted = ?2 AND actual = -1
                  ORDER BY until_us DESC, id DESC LIMIT -1 OFFSET ?3)",
                (key.0, key.1, MAX_MARKS.cast_signed() - 1),
            );
        }
        let actual = if is_early { Value::Integer(EARLY) } else { cost_value(&actual) };
        self.execute(
            "INSERT OR REPLACE INTO settled (subject, counted, id, actual, until_us)
             VALUES (?1, ?2, ?3, ?4, ?5)",
            (key.0, key.1, marked_id(name).as_bytes(), actual, until_us.cast_signed()),
        );
    }

    fn line(&self) -> Vec<Ticket> {
        self.found(line::read(self.context, self.key()))
    }

    fn stand(&mut self, ticket: Ticket) {
        self.found(line::stand(self.context, self.key(), ticket));
    }

    fn leave(&mut self, ticket: &Ticket) {
        self.found(line::leave(self.context, self.key(), ticket));
    }
}
