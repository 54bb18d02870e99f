//! Request ids, and the answers under them. Their table is created by the first one, as that of an
//! extension: a file without it is the same as before.

use tollgate::engine::{MAX_REPEATS, MAX_REQUESTS, Outcome, Recalled, Remembered};
use tollgate::{Question, RequestId, StoreError};

use crate::context::Context;

/// Under this name the file records the format of the table.
pub(crate) const EXTENSION: &str = "requests";

/// The table, step by step. Never edit a released step: append another. An answer is words of eight
/// bytes and, once it was repeated, a byte for how often, which the first versions do not read.
pub(crate) const MIGRATIONS: &[&str] = &["
    -- `subject`, `counted`: the count, as in `states`. `seq` numbers the ids of a count.
    CREATE TABLE requests_ids (
        subject TEXT NOT NULL,
        counted INTEGER NOT NULL,
        id BLOB NOT NULL,
        seq INTEGER NOT NULL,
        until_us INTEGER NOT NULL,
        question BLOB NOT NULL,
        answer BLOB NOT NULL,
        PRIMARY KEY (subject, counted, id)
    ) WITHOUT ROWID;
    CREATE INDEX requests_by_age ON requests_ids (subject, counted, seq);
    CREATE INDEX requests_by_end ON requests_ids (until_us);
"];

/// How many expired ids, of any counts, a new one removes at most.
const REMOVED_AT_ONCE: i64 = 4;

/// The earlier answer under this id, if there is one.
pub(crate) fn recall(
    cx: &Context<'_>,
    question: &Question<'_>,
    (request, id, asked): (RequestId<'_>, &[u8; 16], &[u8; 16]),
) -> Result<Recalled, StoreError> {
    let Some(first) = question.parts.first() else { return Ok(Recalled::Unknown) };
    let Some(ids) = cx.ids(first.limits)? else { return Ok(Recalled::Unknown) };
    let subject = first.subject.as_str();
    let sql = "SELECT question, answer FROM requests_ids
               WHERE subject = ?1 AND counted = ?2 AND id = ?3 AND until_us > ?4";
    let (now_us, until_us) = times(cx, request);
    let found: Option<(Vec<u8>, Vec<u8>)> =
        cx.first(sql, (subject, ids.counted, &id[..], now_us), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let Some((question_of, mut answer)) = found else { return Ok(Recalled::Unknown) };
    if question_of != asked {
        return Err(Question::of_other_question());
    }
    let words = answer.chunks_exact(8);
    let repeats = words.remainder().first().copied().unwrap_or(0);
    let words: Vec<u64> =
        words.map(|word| word.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))).collect();
    let limits = question.parts.iter().map(|part| part.limits.limits().len()).sum();
    let known = Remembered::from_words(&words, limits)
        .ok_or_else(|| cx.damaged(subject, "an answer under a request id cannot be read"))?;
    if u64::from(repeats) >= MAX_REPEATS {
        let sql = "UPDATE requests_ids SET until_us = max(until_us, ?4)
                   WHERE subject = ?1 AND counted = ?2 AND id = ?3";
        cx.execute(sql, (subject, ids.counted, &id[..], until_us))?;
        return Ok(Recalled::Overused);
    }
    answer.truncate(8 * words.len());
    answer.push(repeats + 1);
    let sql = "UPDATE requests_ids SET answer = ?4
               WHERE subject = ?1 AND counted = ?2 AND id = ?3";
    cx.execute(sql, (subject, ids.counted, &id[..], answer))?;
    Ok(Recalled::Repeated(known.outcome()))
}

/// Now, and until when an id that is asked for now is remembered.
fn times(cx: &Context<'_>, request: RequestId<'_>) -> (i64, i64) {
    let now_us = cx.now().as_micros();
    let remembered_us = u64::try_from(request.time().as_micros()).unwrap_or(u64::MAX);
    let until_us = now_us.saturating_add(remembered_us).min(i64::MAX.cast_unsigned());
    (now_us.cast_signed(), until_us.cast_signed())
}

/// Remembers an answer. Returns the number of ids that are forgotten before their time.
pub(crate) fn remember(
    cx: &Context<'_>,
    question: &Question<'_>,
    (request, id, asked): (RequestId<'_>, &[u8; 16], &[u8; 16]),
    outcome: &Outcome,
) -> Result<u64, StoreError> {
    let Some(first) = question.parts.first() else { return Ok(0) };
    let (subject, counted) = (first.subject.as_str(), cx.make_ids(first.limits)?.counted);
    let (now_us, until_us) = times(cx, request);
    cx.execute(
        "DELETE FROM requests_ids WHERE (subject, counted, id) IN
         (SELECT subject, counted, id FROM requests_ids WHERE until_us <= ?1
          ORDER BY until_us LIMIT ?2)",
        (now_us, REMOVED_AT_ONCE),
    )?;
    let sql = "SELECT max(seq) FROM requests_ids WHERE subject = ?1 AND counted = ?2";
    let last: Option<Option<i64>> = cx.first(sql, (subject, counted), |row| row.get(0))?;
    let seq = last.flatten().unwrap_or(0) + 1;
    let answer: Vec<u8> =
        Remembered::new(outcome).words().iter().flat_map(|word| word.to_be_bytes()).collect();
    cx.execute(
        "INSERT OR REPLACE INTO requests_ids
         (subject, counted, id, seq, until_us, question, answer) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        (subject, counted, &id[..], seq, until_us, &asked[..], &answer[..]),
    )?;
    let oldest = seq.saturating_sub(i64::try_from(MAX_REQUESTS).unwrap_or(i64::MAX));
    let missed: Vec<bool> = cx.rows(
        "DELETE FROM requests_ids WHERE subject = ?1 AND counted = ?2 AND seq <= ?3
         RETURNING until_us > ?4",
        (subject, counted, oldest, now_us),
        |row| row.get(0),
    )?;
    Ok(missed.into_iter().filter(|missed| *missed).count() as u64)
}

/// Forgets the ids of a count, if any was ever remembered in this file.
pub(crate) fn forget(cx: &Context<'_>, subject: &str, counted: i64) -> Result<(), StoreError> {
    if cx.has_table("requests_ids")? {
        let sql = "DELETE FROM requests_ids WHERE subject = ?1 AND counted = ?2";
        cx.execute(sql, (subject, counted))?;
    }
    Ok(())
}

/// Removes expired ids. Returns true when none is left.
pub(crate) fn sweep(cx: &Context<'_>, rows: u32) -> Result<bool, StoreError> {
    if !cx.has_table("requests_ids")? {
        return Ok(true);
    }
    let gone = cx.execute(
        "DELETE FROM requests_ids WHERE (subject, counted, id) IN
         (SELECT subject, counted, id FROM requests_ids WHERE until_us <= ?1
          ORDER BY until_us LIMIT ?2)",
        (cx.now().as_micros().cast_signed(), rows),
    )?;
    Ok(gone < rows as usize)
}
