//! The one table of the operations over HTTP: the routes, the labels of metrics, the names in
//! queries and the fields of bodies.

use core::fmt;

use http::Method;
use tollgate::{MAX_COST, MAX_PARTS, MAX_REQUEST_BYTES};

use crate::service::MAX_TEXT_BYTES;

/// The most questions in one batch.
pub(crate) const MAX_BATCH: usize = 256;

/// The most jobs that one request takes or settles.
pub(crate) const MAX_JOBS: usize = 100;

/// The longest name of a worker, in bytes.
pub(crate) const MAX_WORKER_BYTES: usize = 128;

/// The prefix of every path of a queue.
const QUEUES: &str = "/v1/queues/";

/// The part of a path that names a queue.
const NAME: &str = "{name}";

/// The operations, in the order of the table. The files of the console are one. The command line
/// asks for some of them.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Operation {
    Check,
    Peek,
    Charge,
    Refund,
    Reserve,
    Commit,
    Acquire,
    Renew,
    Release,
    Auth,
    Json,
    Queue,
    Take,
    Done,
    Extend,
    Nack,
    Policies,
    Explain,
    Openapi,
    Index,
    Healthz,
    Readyz,
    Healthcheck,
    Metrics,
    Inspect,
    Reset,
    Adjust,
    Credit,
    Reload,
    Series,
    Top,
    Ban,
    Exempt,
    Set,
    Lift,
    Rulings,
    AdminPeek,
    AdminExplain,
    AdminPolicies,
    Overview,
    Lookup,
    AdminRelease,
    Dead,
    Console,
}

/// One operation.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) operation: Operation,
    /// Its path, which is also its label.
    pub(crate) path: &'static str,
    pub(crate) methods: Methods,
    pub(crate) callers: Callers,
    /// The names in its query.
    pub(crate) query: &'static [&'static str],
    /// The fields of its body, in groups that operations share.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests hold the documents to it"))]
    pub(crate) fields: &'static [&'static [Field]],
}

/// The methods that an operation takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Methods {
    Post,
    /// `GET` and `HEAD`.
    Read,
    /// `GET` alone.
    Get,
    /// `POST`, `GET` and `HEAD`.
    PostOrRead,
    /// Those of the requests that a proxy asks about.
    Any,
}

impl Methods {
    /// The methods that would be right, where this one is not.
    pub(crate) fn instead_of(self, method: &Method) -> Option<&'static str> {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        let (is_taken, all) = match self {
            Self::Post => (method == Method::POST, "POST"),
            Self::Read => (reads, "GET"),
            Self::Get => (method == Method::GET, "GET"),
            Self::PostOrRead => (reads || method == Method::POST, "GET, POST"),
            Self::Any => (true, ""),
        };
        (!is_taken).then_some(all)
    }
}

/// The callers of an operation, by the listener that has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Callers {
    Clients,
    Administrators,
    Both,
}

/// A field of a body.
#[derive(Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "tests hold the documents to it"))]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

/// The types of a field.
#[derive(Debug)]
pub(crate) enum Kind {
    /// A text of at most this many bytes.
    Text(usize),
    /// A text that is parsed: a duration, a receipt, a hold.
    Parsed,
    Word(&'static [&'static str]),
    /// A whole number from the first to the second.
    Whole(i64, u64),
    Flag,
    /// A list of at most this many elements.
    List(usize),
    Object,
    /// A text, or a list or an object that says more.
    Either,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(most) => write!(f, "a text of at most {most} bytes"),
            Self::Parsed => f.write_str("a text"),
            Self::Word(words) => write!(f, "one of {}", words.join(", ")),
            Self::Whole(least, most) => write!(f, "{least} to {most}"),
            Self::Flag => f.write_str("true or false"),
            Self::List(most) => write!(f, "a list of at most {most}"),
            Self::Object => f.write_str("an object"),
            Self::Either => f.write_str("a text or more"),
        }
    }
}

const fn field(name: &'static str, kind: Kind) -> Field {
    Field { name, kind }
}

const fn text(name: &'static str) -> Field {
    field(name, Kind::Text(MAX_TEXT_BYTES))
}

const fn parsed(name: &'static str) -> Field {
    field(name, Kind::Parsed)
}

const POLICY: Field = text("policy");
const FIELDS: Field = field("fields", Kind::Object);
const COST: Field = field("cost", Kind::Whole(1, MAX_COST));
const DEADLINE: Field = parsed("deadline");
const HOLD: Field = parsed("hold");
const ID: Field = field("id", Kind::Text(MAX_ID_BYTES));
const TTL: Field = parsed("ttl");
const JOBS: Field = field("jobs", Kind::List(MAX_JOBS));

/// The most descriptors of a message of Envoy's.
const MAX_DESCRIPTORS: usize = 100;

/// The longest id of a hold, in bytes.
const MAX_ID_BYTES: usize = 256;

/// The fields that name a count.
const COUNT: &[Field] = &[
    POLICY,
    field("subject", Kind::Either),
    text("written_subject"),
    field("limit", Kind::Either),
    field("on", Kind::List(MAX_PARTS)),
    text("shard"),
];

/// The fields of a question.
const ASKED: &[&[Field]] = &[
    COUNT,
    &[
        FIELDS,
        COST,
        DEADLINE,
        field("checks", Kind::List(MAX_BATCH)),
        field("on_failure", Kind::Either),
        field("idempotency_key", Kind::Text(MAX_REQUEST_BYTES)),
        field("receipt", Kind::Flag),
        field("kind", Kind::Word(&["check", "reserve", "acquire"])),
        field("waiting", Kind::Word(&["again"])),
        field("response", Kind::Word(&["draft", "legacy", "both", "none"])),
    ],
];

/// Those of an operation that places a hold. Its failure rule has no share.
const PLACED: &[Field] = &[
    FIELDS,
    COST,
    DEADLINE,
    field("on_failure", Kind::Word(&["deny", "allow"])),
    ID,
    field("waiting", Kind::Word(&["again", "in_line"])),
];

/// Those of an operation on an open hold: the hold, or its name and its count.
const OPEN: &[Field] = &[HOLD, ID, FIELDS];

/// The fields that name a ruling.
const RULED: &[Field] = &[field("when", Kind::Object), POLICY];

/// The fields of a new ruling.
const RULING: &[&[Field]] = &[RULED, &[parsed("for"), text("reason")]];

/// The fields of a ruling that sets limits.
const SETTING: &[&[Field]] =
    &[RULED, &[field("limits", Kind::Object), parsed("for"), text("reason")]];

/// The names in the query of operations that may be denied.
const DENIED: &[&str] = &["deny_status", "retry_after"];

/// The names in the query of a request that is explained; others are fields of policies, too.
const REQUEST: &[&str] = &["ip", "host", "method", "path", "route", "user", "api_key"];

const fn post(
    operation: Operation,
    path: &'static str,
    fields: &'static [&'static [Field]],
) -> Row {
    let (methods, callers) = (Methods::Post, Callers::Clients);
    Row { operation, path, methods, callers, query: &[], fields }
}

const fn read(operation: Operation, path: &'static str, query: &'static [&'static str]) -> Row {
    let (methods, callers) = (Methods::Read, Callers::Clients);
    Row { operation, path, methods, callers, query, fields: &[] }
}

/// An operation of administrators that changes or shows a count, or rules.
const fn act(operation: Operation, path: &'static str, fields: &'static [&'static [Field]]) -> Row {
    Row { callers: Callers::Administrators, ..post(operation, path, fields) }
}

/// An operation of administrators that only looks.
const fn look(operation: Operation, path: &'static str, query: &'static [&'static str]) -> Row {
    let (methods, callers) = (Methods::Get, Callers::Administrators);
    Row { methods, callers, ..read(operation, path, query) }
}

/// All operations, in the order of their counters.
pub(crate) static TABLE: [Row; 44] = [
    Row { query: DENIED, ..post(Operation::Check, "/v1/check", ASKED) },
    Row { query: DENIED, ..post(Operation::Peek, "/v1/peek", ASKED) },
    post(Operation::Charge, "/v1/charge", &[COUNT, &[FIELDS, COST]]),
    post(Operation::Refund, "/v1/refund", &[&[parsed("receipt"), field("units", Kind::Either)]]),
    Row {
        query: DENIED,
        ..post(
            Operation::Reserve,
            "/v1/reserve",
            &[COUNT, PLACED, &[TTL, field("at_end", Kind::Word(&["charge", "nothing"]))]],
        )
    },
    post(Operation::Commit, "/v1/commit", &[COUNT, OPEN, &[field("actual", Kind::Either)]]),
    Row { query: DENIED, ..post(Operation::Acquire, "/v1/acquire", &[COUNT, PLACED]) },
    post(Operation::Renew, "/v1/renew", &[COUNT, OPEN, &[TTL]]),
    post(Operation::Release, "/v1/release", &[COUNT, OPEN]),
    Row { methods: Methods::Any, ..read(Operation::Auth, "/v1/auth", &["deny_status"]) },
    post(
        Operation::Json,
        "/json",
        &[&[
            parsed("domain"),
            field("descriptors", Kind::List(MAX_DESCRIPTORS)),
            field("hitsAddend", Kind::Whole(0, u32::MAX as u64)),
        ]],
    ),
    Row {
        methods: Methods::PostOrRead,
        ..read(Operation::Queue, "/v1/queues/{name}", &["once", "deadline", "client"])
    },
    post(
        Operation::Take,
        "/v1/queues/{name}/take",
        &[&[
            field("worker", Kind::Text(MAX_WORKER_BYTES)),
            field("max", Kind::Whole(1, MAX_JOBS as u64)),
            parsed("wait"),
        ]],
    ),
    post(Operation::Done, "/v1/queues/{name}/done", &[&[JOBS]]),
    post(Operation::Extend, "/v1/queues/{name}/extend", &[&[JOBS]]),
    post(
        Operation::Nack,
        "/v1/queues/{name}/nack",
        &[&[JOBS, text("why"), parsed("after"), field("begun", Kind::Flag)]],
    ),
    read(Operation::Policies, "/v1/policies", &["after", "count"]),
    read(Operation::Explain, "/v1/explain", REQUEST),
    read(Operation::Openapi, "/v1/openapi.yaml", &[]),
    Row { callers: Callers::Both, ..read(Operation::Index, "/", &[]) },
    Row { callers: Callers::Both, ..read(Operation::Healthz, "/healthz", &[]) },
    Row { callers: Callers::Both, ..read(Operation::Readyz, "/readyz", &["store"]) },
    Row { callers: Callers::Both, ..read(Operation::Healthcheck, "/healthcheck", &[]) },
    Row { callers: Callers::Both, ..read(Operation::Metrics, "/metrics", &[]) },
    act(Operation::Inspect, "/v1/admin/inspect", &[COUNT]),
    act(Operation::Reset, "/v1/admin/reset", &[COUNT]),
    act(
        Operation::Adjust,
        "/v1/admin/adjust",
        &[COUNT, &[field("by", Kind::Whole(i64::MIN, i64::MAX as u64))]],
    ),
    act(
        Operation::Credit,
        "/v1/admin/credit",
        &[COUNT, &[field("units", Kind::Either), parsed("for"), ID]],
    ),
    act(Operation::Reload, "/v1/admin/reload", &[]),
    look(Operation::Series, "/v1/admin/series", &["last"]),
    look(Operation::Top, "/v1/admin/top", &["by", "n"]),
    act(Operation::Ban, "/v1/admin/ban", RULING),
    act(Operation::Exempt, "/v1/admin/exempt", RULING),
    act(Operation::Set, "/v1/admin/set", SETTING),
    act(Operation::Lift, "/v1/admin/lift", &[RULED]),
    look(Operation::Rulings, "/v1/admin/rulings", &[]),
    act(Operation::AdminPeek, "/v1/admin/peek", &[COUNT]),
    look(Operation::AdminExplain, "/v1/admin/explain", REQUEST),
    look(Operation::AdminPolicies, "/v1/admin/policies", &["after", "count"]),
    look(Operation::Overview, "/v1/admin/overview", &["peers"]),
    act(Operation::Lookup, "/v1/admin/lookup", &[&[text("subject")]]),
    act(Operation::AdminRelease, "/v1/admin/release", &[&[HOLD]]),
    act(
        Operation::Dead,
        "/v1/admin/dead",
        &[&[parsed("queue"), parsed("again"), parsed("forget")]],
    ),
    Row { callers: Callers::Administrators, ..read(Operation::Console, "/console", &[]) },
];

impl Operation {
    /// Its path.
    #[must_use]
    pub fn path(self) -> &'static str {
        self.row().path
    }

    /// The method of a client that asks for it: `POST` where it has a body, else `GET`.
    #[must_use]
    pub fn method(self) -> Method {
        match self.row().methods {
            Methods::Post => Method::POST,
            Methods::Read | Methods::Get | Methods::PostOrRead | Methods::Any => Method::GET,
        }
    }

    /// Its row of the table.
    pub(crate) fn row(self) -> &'static Row {
        TABLE.get(self as usize).unwrap_or(&TABLE[0])
    }

    /// The operation at a path, for any caller.
    pub(crate) fn at(path: &str) -> Option<Self> {
        if path.starts_with("/console/") {
            return Some(Self::Console);
        }
        // A queue's name is not a label, since clients may request queues that do not exist.
        let act = queue_of(path).map(|(_, act)| act);
        let is_it = |row: &&Row| match (act, queue_of(row.path)) {
            (Some(act), Some((NAME, known))) => act == known,
            (None, None) => row.path == path,
            _ => false,
        };
        TABLE.iter().find(is_it).map(|row| row.operation)
    }

    /// Whether a client of the listener for clients finds it, or an administrator at theirs.
    pub(crate) fn is_for(self, caller: Callers) -> bool {
        let callers = self.row().callers;
        callers == caller || callers == Callers::Both
    }

    /// Whether a request only monitors the service.
    pub(crate) fn monitors(self) -> bool {
        matches!(self, Self::Healthz | Self::Readyz | Self::Healthcheck | Self::Metrics)
    }

    /// The last word of its path, for logs.
    pub(crate) fn word(self) -> &'static str {
        self.row().path.rsplit('/').next().unwrap_or_default()
    }
}

/// The queue's name and the act in a path.
pub(crate) fn queue_of(path: &str) -> Option<(&str, Option<&str>)> {
    let rest = path.strip_prefix(QUEUES)?;
    // Names contain no slash.
    Some(rest.split_once('/').map_or((rest, None), |(name, act)| (name, Some(act))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_its_place_and_the_rest_is_none() {
        for (place, row) in TABLE.iter().enumerate() {
            assert_eq!(row.operation as usize, place);
            assert_eq!(Operation::at(row.path), Some(row.operation));
        }
        assert_eq!(Operation::at("/v1/queues/mail/take"), Some(Operation::Take));
        for path in [
            "",
            "/v1",
            "/v1/check/",
            "/v1/checks",
            "/user:42",
            "/v1/admin/user:42",
            "/v1/queues/a/b",
        ] {
            assert_eq!(Operation::at(path), None, "{path}");
        }
    }
}
