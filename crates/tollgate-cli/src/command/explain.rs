//! `explain`: the meaning of a limit, before it is used.

use anstyle::Style;
use anyhow::Result;
use serde::Serialize;
use tollgate::strategy::Shape;
use tollgate::{Lease, Limit, LimitSet, Quota, Refill, Rounding, Share};

use tollgate_redis::compose::set_tag;

use super::local_share::LocalShare;
use crate::args::Explain;
use crate::input;
use crate::show::{Output, duration, wrapped};

/// The meaning of a limit, in words.
#[derive(Debug, Serialize)]
struct Meaning {
    /// The text's rows, as the library writes them.
    #[serde(skip)]
    rows: Vec<(&'static str, String)>,
    limit: String,
    identity: String,
    meaning: &'static str,
    capacity: u64,
    debt: u64,
    /// `None` for slots, which have no bound over a time.
    worst_window: Option<u64>,
    window: String,
    sustained: String,
    burst: String,
    bytes_memory: String,
    bytes_sqlite: String,
    bytes_redis: String,
    retry: &'static str,
    clock_step: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<Leasing>,
    failure: Failures,
    #[serde(skip_serializing_if = "Option::is_none")]
    local: Option<LocalShare>,
}

/// The lease of a node for a limit, and the excess that it may admit.
#[derive(Debug, Serialize)]
struct Leasing {
    lease: String,
    units: u64,
    nodes: u64,
    worst_window: u64,
}

/// The losses and the excess when a store fails.
#[derive(Debug, Serialize)]
struct Failures {
    memory: &'static str,
    sqlite: &'static str,
    sqlite_sync_full: &'static str,
    redis: &'static str,
}

/// Which of several limits of a unit binds.
#[derive(Debug, Serialize)]
struct Binding {
    unit: String,
    burst: String,
    sustained: String,
}

#[derive(Debug, Serialize)]
struct ExplainJson {
    limits: Vec<Meaning>,
    /// One for each unit, if there are several limits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    binding: Vec<Binding>,
}

const FAILURES: Failures = Failures {
    memory: "counts end with the process: after a restart every subject starts fresh, so that at \
             most one more capacity is admitted per restart",
    sqlite: "kill -9 of any process loses nothing that was answered; a power loss may lose the \
             last charges, whose units are then admitted again; when the file cannot be written \
             or is busy for 5 s: an error, exit 2, nothing admitted",
    sqlite_sync_full: "with ?sync=full a power loss loses nothing that was answered, at a disk \
                       flush per check",
    redis: "a restart keeps what the server has on disk: with `appendonly yes` all but the last \
            second, without it nothing, and every subject starts fresh; a failover loses what its \
            replica had not seen; without an answer within the deadline: an error, exit 2, and \
            nothing is admitted",
};

pub(crate) fn explain(args: &Explain, out: &mut Output) -> Result<u8> {
    let strategy = args.strategy.as_deref().map(input::strategy).transpose()?;
    let set = input::limits(&args.limits, strategy)?;
    let binding = if set.limits().len() > 1 { binding(&set) } else { Vec::new() };
    let share = share(args)?;
    let lease = set.lease();
    let each = set.limits().iter().map(|limit| meaning(limit, lease, share, args.nodes));
    let limits = each.collect::<Result<Vec<_>>>()?;
    if args.json {
        out.json(&ExplainJson { limits, binding })?;
        return Ok(0);
    }
    for (i, meaning) in limits.iter().enumerate() {
        if i > 0 {
            out.line("")?;
        }
        out.text(&text(meaning))?;
    }
    if !binding.is_empty() {
        let bold = Style::new().bold();
        out.line(format!("\n{bold}all of them{bold:#}"))?;
        out.line(row("count", &format!("one, under the identity {}", set.identity())))?;
    }
    let of_several = binding.len() > 1;
    for Binding { unit, burst, sustained } in binding {
        let of = if of_several { format!("of {unit}: ") } else { String::new() };
        out.line(row("a burst meets", &format!("{of}{burst}")))?;
        out.line(row("demand meets", &format!("{of}{sustained}")))?;
    }
    Ok(0)
}

/// The share of the options: the given one, else that of one of the nodes.
fn share(args: &Explain) -> Result<Option<Share>> {
    match (&args.local, args.nodes) {
        (Some(text), _) => Ok(Some(text.parse()?)),
        (None, nodes) => Ok(nodes.and_then(Share::of_nodes)),
    }
}

fn meaning(
    limit: &Limit,
    lease: Option<&Lease>,
    share: Option<Share>,
    nodes: Option<u32>,
) -> Result<Meaning> {
    let local = share.map(|share| LocalShare::new(limit, share, nodes)).transpose()?;
    let words = limit.meaning();
    let rows = words.rows(duration);
    let clock_step = words.clock_step(duration);
    let window = words.window;
    Ok(Meaning {
        rows,
        limit: limit.to_string(),
        identity: words.identity,
        meaning: words.summary,
        capacity: words.capacity,
        debt: words.debt,
        worst_window: words.worst_window,
        window: window.to_string(),
        sustained: words.sustained,
        burst: words.burst,
        bytes_sqlite: bytes_sqlite(limit),
        bytes_redis: bytes_redis(limit)?,
        bytes_memory: words.bytes,
        retry: words.retry,
        clock_step,
        lease: lease.map(|lease| {
            let nodes = nodes.map_or(1, u64::from);
            Leasing {
                lease: lease.to_string(),
                units: lease.units(),
                nodes,
                worst_window: lease.most_in(limit, window, nodes),
            }
        }),
        failure: FAILURES,
        local,
    })
}

fn text(meaning: &Meaning) -> String {
    let bold = Style::new().bold();
    let local = meaning.local.as_ref().map(LocalShare::text);
    let mut rows = meaning.rows.clone();
    // The effect of the clock is reported after all sizes.
    let sizes = rows.iter().position(|(name, _)| *name == "clock step").unwrap_or(rows.len());
    rows.insert(sizes, ("bytes, redis", meaning.bytes_redis.clone()));
    rows.insert(sizes, ("bytes, sqlite", meaning.bytes_sqlite.clone()));
    rows.extend([
        ("fault, memory", meaning.failure.memory.to_owned()),
        ("fault, sqlite", meaning.failure.sqlite.to_owned()),
        ("", meaning.failure.sqlite_sync_full.to_owned()),
        ("fault, redis", meaning.failure.redis.to_owned()),
    ]);
    if let Some(Leasing { lease, units, nodes, worst_window }) = &meaning.lease {
        let nodes = if *nodes == 1 { "one node".to_owned() } else { format!("{nodes} nodes") };
        let text = format!(
            "{lease}: a node holds at most {units} units; {nodes} admit at most {worst_window} in \
             any {}",
            meaning.window
        );
        rows.push(("lease", text));
    }
    let mut text = format!("{bold}{}{bold:#}\n", meaning.limit);
    let local = local.map(|local| ("store away", local));
    for (name, value) in rows.into_iter().chain(local) {
        text.push_str(&row(name, &value));
        text.push('\n');
    }
    text
}

/// One row: a name, and its text in as many lines as necessary.
fn row(name: &str, value: &str) -> String {
    const NAME: usize = 14;
    format!("  {name:<NAME$} {}", wrapped(value, NAME + 3))
}

/// An estimate of the bytes of a subject in the database. The encoding of numbers has a variable
/// length, and pages are rarely full.
fn bytes_sqlite(limit: &Limit) -> String {
    let pages = "without its key, and up to twice that for pages that are not full";
    match limit.shape() {
        Shape::Words(words) => {
            format!("about {} per subject, {pages}", SQLITE_ROW_BYTES + SQLITE_WORD_BYTES * words)
        }
        Shape::Log => format!(
            "about {} per subject and {SQLITE_EVENT_BYTES} per remembered event, at most {} of \
             them, {pages}",
            SQLITE_ROW_BYTES + SQLITE_LOG_BYTES,
            limit.quota().units
        ),
    }
}

/// An estimate of the bytes of a subject as Redis counts them (`MEMORY USAGE`), with a key of 30
/// bytes. Its allocator rounds up, and versions differ.
fn bytes_redis(limit: &Limit) -> Result<String> {
    let tag = set_tag(&LimitSet::new(vec![limit.clone()])?).len();
    Ok(match limit.shape() {
        Shape::Words(words) => {
            let value = tag + 1 + REDIS_WORD_BYTES * words;
            format!("about {} per subject with its key", REDIS_KEY_BYTES + value)
        }
        Shape::Log => format!(
            "about {} per subject with its key and {REDIS_EVENT_BYTES} per remembered event, at \
             most {} of them",
            REDIS_KEY_BYTES + REDIS_LIST_BYTES + tag,
            limit.quota().units
        ),
    })
}

/// The bytes of a key of 30 bytes, its entry, its time to live, and the head of its value.
const REDIS_KEY_BYTES: usize = 96;

/// The bytes of a word; the first has one more.
const REDIS_WORD_BYTES: usize = 6;

/// The bytes of a list beside its elements.
const REDIS_LIST_BYTES: usize = 64;

/// The bytes of an event in a list: time, total, and two lengths.
const REDIS_EVENT_BYTES: usize = 16;

/// The bytes of a state's row without its words: header, ids of the sets, expiry.
const SQLITE_ROW_BYTES: usize = 28;

/// The usual bytes of a word at most: a time in 7-bit groups.
const SQLITE_WORD_BYTES: usize = 8;

/// The bytes of a log's header: six numbers for its position and totals.
const SQLITE_LOG_BYTES: usize = 10;

/// The bytes of an event's row: header, number of the log, sequence, time, total.
const SQLITE_EVENT_BYTES: usize = 22;

/// Which limit of each unit binds first in a burst, and which one under sustained demand. Slots
/// bind what is at work, and no demand; a ban binds only whom others denied. If there is nothing
/// else, they represent it.
fn binding(set: &LimitSet) -> Vec<Binding> {
    let first = set.limits().iter().map(Limit::kind).min();
    let is_first = |limit: &&Limit| Some(limit.kind()) == first;
    let mut of_kind: Vec<&Limit> = set.limits().iter().filter(is_first).collect();
    let mut all = Vec::new();
    while let Some(unit) = of_kind.first().map(|limit| *limit.unit()) {
        let same: Vec<&Limit> = of_kind.extract_if(.., |limit| *limit.unit() == unit).collect();
        // Ties go to the first declared limit, as in a decision.
        let least = |order: &dyn Fn(&Limit, &Limit) -> std::cmp::Ordering| {
            same.iter().min_by(|a, b| order(a, b)).map_or_else(String::new, ToString::to_string)
        };
        all.push(Binding {
            unit: unit.to_string(),
            burst: least(&|a, b| a.capacity().cmp(&b.capacity())),
            sustained: least(&|a, b| {
                let ((a_units, a_us), (b_units, b_us)) = (sustained(a), sustained(b));
                // At most 2^40 x 1,000 units and 2^45 x 1,001 us: a product fits.
                (a_units * b_us).cmp(&(b_units * a_us))
            }),
        });
    }
    all
}

/// The sustained rate, as units per microseconds.
fn sustained(limit: &Limit) -> (u128, u128) {
    let quota: &Quota = limit.quota();
    let (mut units, mut us) = (u128::from(quota.units), u128::from(quota.period.as_micros()));
    if quota.rounding == Some(Rounding::Conservative)
        && let Some(precision) = quota.precision
    {
        // The sub-bucket at the window's edge counts in full: the window is one sub-bucket longer.
        us += u128::from(precision.as_micros());
    }
    if quota.refill == Some(Refill::Interval) {
        units = units.min(u128::from(limit.capacity()));
    }
    (units, us)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(text: &str) -> Limit {
        text.parse().unwrap()
    }

    #[test]
    fn the_limit_that_binds_is_named() {
        let of = |text: &str| {
            let all = binding(&text.parse().unwrap());
            let [Binding { burst, sustained, .. }] = &all[..] else { panic!("{all:?}") };
            (burst.clone(), sustained.clone())
        };
        let log = |quota: &str| format!("{quota} via sliding_log");
        assert_eq!(of("10/s, 120/m, 240/h"), (log("10/s"), log("240/h")));
        assert_eq!(of("240/h, 10/s"), (log("10/s"), log("240/h")));
        // Slots have no rate.
        assert_eq!(of("2 at once, 5/s"), (log("5/s"), log("5/s")));
        // Neither has a ban, and it binds only whom others denied.
        let slots = "2 at once hold 30s".to_owned();
        let ban = "ban 1s after 1 denial in 1s";
        assert_eq!(of(&format!("{ban}, 5/s")), (log("5/s"), log("5/s")));
        assert_eq!(of(&format!("{ban}, 2 at once")), (slots.clone(), slots));
        // The window rounds up, and sustains 10/11 of the rate.
        let window = "w: 10/s via sliding_window";
        let full = limit(window).to_string();
        assert_eq!(of(&format!("g: 10/s via gcra, {window}")).1, full);
        // Of equal limits the first declared one binds.
        assert_eq!(of("a: 5/s, b: 5/s"), (log("a: 5/s"), log("a: 5/s")));
        // Each unit has its own.
        let all = binding(&"60/m, 9/m of tokens, 99/h of tokens, 2 at once".parse().unwrap());
        let all: Vec<_> = all.iter().map(|it| (&*it.unit, &*it.burst, &*it.sustained)).collect();
        let (one, two) = (log("60/m"), [log("9/m of tokens"), log("99/h of tokens")]);
        assert_eq!(all, [("requests", &*one, &*one), ("tokens", &*two[0], &*two[1])]);
    }

    #[test]
    fn rows_break_between_words() {
        let long = row("name", &"word ".repeat(40));
        assert!(long.lines().all(|line| line.chars().count() <= 98), "{long}");
        assert_eq!(long.split_whitespace().count(), 41);
    }
}
