//! The tables of queues in a file, and how their rows are read and written.

use std::sync::Arc;

use tollgate_sqlite::Transaction;
use tollgate_sqlite::rusqlite::types::ValueRef;
use tollgate_sqlite::rusqlite::{self, Row};

use crate::body::Body;
use crate::drain::Drain;
use crate::error::Error;
use crate::job::{DedupRecord, JobId};
use crate::stats::Stats;

/// The migrations that create the tables, step by step.
pub(super) const MIGRATIONS: &[&str] = &[
    "
    -- What is known of a queue; `waiting`, `out` and `dead` are how many rows there are, and the
    -- rest what there was.
    CREATE TABLE queues (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        offering TEXT,
        working TEXT,
        counts_all INTEGER NOT NULL,
        keep_done INTEGER NOT NULL,
        last_ms INTEGER NOT NULL,
        last_number INTEGER NOT NULL,
        drain_window INTEGER NOT NULL,
        drain_now INTEGER NOT NULL,
        drain_before INTEGER NOT NULL,
        waiting INTEGER NOT NULL,
        out INTEGER NOT NULL,
        dead INTEGER NOT NULL,
        accepted INTEGER NOT NULL,
        refused INTEGER NOT NULL,
        known INTEGER NOT NULL,
        delivered INTEGER NOT NULL,
        redelivered INTEGER NOT NULL,
        done INTEGER NOT NULL,
        too_old INTEGER NOT NULL,
        died INTEGER NOT NULL
    );
    -- Jobs that wait, and those that are out: `due_us` says when these come back. A body of fields
    -- is a JSON object, another a blob.
    CREATE TABLE queue_jobs (
        id INTEGER PRIMARY KEY,
        queue INTEGER NOT NULL,
        ms INTEGER NOT NULL,
        number INTEGER NOT NULL,
        due_us INTEGER,
        until_us INTEGER,
        deliveries INTEGER NOT NULL DEFAULT 0,
        held INTEGER NOT NULL DEFAULT 0,
        worker TEXT,
        why TEXT,
        body NOT NULL
    );
    CREATE UNIQUE INDEX queue_jobs_ids ON queue_jobs (queue, ms, number);
    CREATE INDEX queue_jobs_due ON queue_jobs (queue, due_us, ms, number);
    CREATE TABLE queue_dead (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        queue INTEGER NOT NULL,
        ms INTEGER NOT NULL,
        number INTEGER NOT NULL,
        deliveries INTEGER NOT NULL,
        why TEXT,
        body NOT NULL
    );
    CREATE INDEX queue_dead_oldest ON queue_dead (queue, id);
    -- The last jobs that were done, where these are kept.
    CREATE TABLE queue_done (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        queue INTEGER NOT NULL,
        ms INTEGER NOT NULL,
        number INTEGER NOT NULL,
        deliveries INTEGER NOT NULL,
        body NOT NULL
    );
    CREATE INDEX queue_done_oldest ON queue_done (queue, id);
    -- Ids of jobs that said one, until when they are remembered.
    CREATE TABLE queue_once (
        queue INTEGER NOT NULL,
        once TEXT NOT NULL,
        ms INTEGER NOT NULL,
        number INTEGER NOT NULL,
        until_us INTEGER NOT NULL,
        PRIMARY KEY (queue, once)
    ) WITHOUT ROWID;
    CREATE INDEX queue_once_until ON queue_once (queue, until_us);
",
    "
    ALTER TABLE queues ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
",
    "
    ALTER TABLE queue_jobs ADD COLUMN client TEXT;
    ALTER TABLE queue_dead ADD COLUMN client TEXT;
    -- How many jobs of each client wait, and how many are out. Triggers keep it: then no statement
    -- can forget to, and neither can a process of an older version that has the file open.
    CREATE TABLE queue_clients (
        queue INTEGER NOT NULL,
        client TEXT NOT NULL,
        waiting INTEGER NOT NULL,
        out INTEGER NOT NULL,
        PRIMARY KEY (queue, client)
    ) WITHOUT ROWID;
    CREATE TRIGGER queue_clients_come AFTER INSERT ON queue_jobs WHEN new.client IS NOT NULL
    BEGIN
        INSERT INTO queue_clients
            VALUES (new.queue, new.client, new.due_us IS NULL, new.due_us IS NOT NULL)
            ON CONFLICT (queue, client) DO UPDATE
                SET waiting = waiting + excluded.waiting, out = out + excluded.out;
    END;
    CREATE TRIGGER queue_clients_move AFTER UPDATE OF due_us ON queue_jobs
        WHEN old.client IS NOT NULL AND (old.due_us IS NULL) <> (new.due_us IS NULL)
    BEGIN
        UPDATE queue_clients
            SET waiting = waiting - (old.due_us IS NULL) + (new.due_us IS NULL),
                out = out - (old.due_us IS NOT NULL) + (new.due_us IS NOT NULL)
            WHERE queue = old.queue AND client = old.client;
    END;
    CREATE TRIGGER queue_clients_go AFTER DELETE ON queue_jobs WHEN old.client IS NOT NULL
    BEGIN
        UPDATE queue_clients
            SET waiting = waiting - (old.due_us IS NULL), out = out - (old.due_us IS NOT NULL)
            WHERE queue = old.queue AND client = old.client;
        DELETE FROM queue_clients
            WHERE queue = old.queue AND client = old.client AND waiting <= 0 AND out <= 0;
    END;
",
    "
    -- What a job was accepted once under: the id of that job, a blank, and what was said.
    ALTER TABLE queue_jobs ADD COLUMN once TEXT;
    ALTER TABLE queue_dead ADD COLUMN once TEXT;
",
];

/// The names of the existing queues.
pub(super) fn names(tx: &Transaction<'_>) -> Result<Vec<String>, Error> {
    let sql = "SELECT name FROM queues WHERE offering IS NOT NULL OR working IS NOT NULL
               ORDER BY name";
    Ok(tx.rows(sql, (), |row| row.get(0))?)
}

/// The row of a queue.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct QueueRow {
    pub(super) id: i64,
    pub(super) producer: Option<String>,
    pub(super) consumer: Option<String>,
    pub(super) counts_all: bool,
    pub(super) keep_done: u32,
    pub(super) last: JobId,
    pub(super) drain: Drain,
    /// Includes the current numbers, except for the oldest job.
    pub(super) totals: Stats,
}

/// A queue within a transaction.
pub(super) struct QueueTx<'a, 't> {
    pub(super) tx: &'a Transaction<'t>,
    pub(super) name: &'a str,
    pub(super) now_us: u64,
    pub(super) row: QueueRow,
}

/// A job in flight.
pub(super) struct InFlight {
    pub(super) row: i64,
    pub(super) until_us: Option<u64>,
    pub(super) deliveries: u32,
    pub(super) is_held: bool,
}

pub(super) fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}

pub(super) fn optional_number(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(i64::cast_unsigned))
}

/// The client of a job. A value of another program that is not text counts as none.
pub(super) fn client(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Arc<str>>> {
    match row.get_ref(column)? {
        ValueRef::Text(name) => Ok(core::str::from_utf8(name).ok().map(Arc::from)),
        _ => Ok(None),
    }
}

/// The deduplication record of a job. A value of another program counts as none.
pub(super) fn dedup(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<DedupRecord>> {
    match row.get_ref(column)? {
        ValueRef::Text(text) => Ok(core::str::from_utf8(text).ok().and_then(DedupRecord::parse)),
        _ => Ok(None),
    }
}

pub(super) fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<JobId> {
    Ok(JobId::new(number(row, column)?, number(row, column + 1)?))
}

/// A decoded body. For an invalid body of another program, its raw content and the problem with it.
type ReadBody = Result<Body, (Body, String)>;

pub(super) fn body(row: &Row<'_>, column: usize) -> rusqlite::Result<ReadBody> {
    let read = match row.get_ref(column)? {
        ValueRef::Blob(bytes) => Ok(Body::Bytes(bytes.into())),
        ValueRef::Text(json) => {
            Body::from_json(json).map_err(|error| (json.into(), error.to_string()))
        }
        ValueRef::Null => Err((Vec::new(), "it is NULL".to_owned())),
        ValueRef::Integer(number) => Err((number.to_string().into(), "it is a number".to_owned())),
        ValueRef::Real(number) => Err((number.to_string().into(), "it is a number".to_owned())),
    };
    let read = read.map_err(|(raw, reason): (Vec<u8>, String)| (Body::Bytes(raw.into()), reason));
    Ok(read.and_then(|body| match body.check() {
        Ok(()) => Ok(body),
        Err(error) => Err((body, error.to_string())),
    }))
}

/// Reads a row of `id, until_us, deliveries, held`.
pub(super) fn read_in_flight(row: &Row<'_>) -> rusqlite::Result<InFlight> {
    Ok(InFlight {
        row: row.get(0)?,
        until_us: optional_number(row, 1)?,
        deliveries: row.get(2)?,
        is_held: row.get(3)?,
    })
}

const SELECT_QUEUE: &str = "
    SELECT id, offering, working, counts_all, keep_done, last_ms, last_number, drain_window, drain_now,
           drain_before, waiting, out, dead, accepted, refused, known, delivered, redelivered, done,
           too_old, died, paused
    FROM queues WHERE name = ?1";

const UPDATE_QUEUE: &str = "
    UPDATE queues SET offering = ?2, working = ?3, counts_all = ?4, keep_done = ?5, last_ms = ?6,
        last_number = ?7, drain_window = ?8, drain_now = ?9, drain_before = ?10, waiting = ?11,
        out = ?12, dead = ?13, accepted = ?14, refused = ?15, known = ?16, delivered = ?17,
        redelivered = ?18, done = ?19, too_old = ?20, died = ?21, paused = ?22
    WHERE id = ?1";

impl<'a, 't> QueueTx<'a, 't> {
    pub(super) fn find(tx: &'a Transaction<'t>, name: &'a str) -> Result<Option<Self>, Error> {
        let is = tx.first(SELECT_QUEUE, [name], |row| {
            Ok(QueueRow {
                id: row.get(0)?,
                producer: row.get(1)?,
                consumer: row.get(2)?,
                counts_all: row.get(3)?,
                keep_done: row.get(4)?,
                last: id(row, 5)?,
                drain: Drain {
                    window: number(row, 7)?,
                    now: number(row, 8)?,
                    before: number(row, 9)?,
                },
                totals: Stats {
                    waiting: number(row, 10)?,
                    in_flight: number(row, 11)?,
                    dead: number(row, 12)?,
                    oldest: None,
                    accepted: number(row, 13)?,
                    refused: number(row, 14)?,
                    duplicates: number(row, 15)?,
                    delivered: number(row, 16)?,
                    redelivered: number(row, 17)?,
                    done: number(row, 18)?,
                    expired: number(row, 19)?,
                    died: number(row, 20)?,
                    paused: row.get(21)?,
                },
            })
        })?;
        Ok(is.map(|is| Self { tx, name, now_us: tx.now().as_micros(), row: is }))
    }

    pub(super) fn make(tx: &'a Transaction<'t>, name: &'a str) -> Result<Self, Error> {
        let sql =
            "INSERT INTO queues VALUES (NULL, ?1, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                              0, 0, 0, 0, 0, 0, 0, 0) RETURNING id";
        let id = tx.first(sql, [name], |row| row.get(0))?.unwrap_or_default();
        let is = QueueRow { id, ..QueueRow::default() };
        Ok(Self { tx, name, now_us: tx.now().as_micros(), row: is })
    }

    /// Whether the queue has settings.
    pub(super) fn is_made(&self) -> bool {
        self.row.producer.is_some() || self.row.consumer.is_some()
    }

    /// Saves the row if it has changed.
    pub(super) fn save(&self, before: &QueueRow) -> Result<(), Error> {
        if self.row == *before {
            return Ok(());
        }
        let QueueRow { id, producer, consumer, counts_all, keep_done, last, drain, totals } =
            &self.row;
        let numbers = [
            last.ms(),
            last.number(),
            drain.window,
            drain.now,
            drain.before,
            totals.waiting,
            totals.in_flight,
            totals.dead,
            totals.accepted,
            totals.refused,
            totals.duplicates,
            totals.delivered,
            totals.redelivered,
            totals.done,
            totals.expired,
            totals.died,
        ]
        .map(u64::cast_signed);
        let mut params: Vec<&dyn rusqlite::ToSql> =
            vec![id, producer, consumer, counts_all, keep_done];
        params.extend(numbers.iter().map(|number| number as &dyn rusqlite::ToSql));
        params.push(&totals.paused);
        self.tx.execute(UPDATE_QUEUE, &params[..])?;
        Ok(())
    }
}
