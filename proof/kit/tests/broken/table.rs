//! The table of broken limiters: their mistakes, the load of the clients, and which check catches
//! each.

use tollgate_proof::history::Promise;

use super::clients::{Clients, Mistake as Around};
use super::gcra::{Gcra, Mistake as Arithmetic};
use super::queue::Mistake as Queueing;
use super::several::{Both, Changing, Mistake as Several};
use super::sim::{Limiter, Load};
use super::windows::{Expiry, FirstHit, Fixed, Log, LogMistake, Mistake as Windows};

/// One broken limiter.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// The promise that its runs break.
    pub(crate) by: Promise,
    pub(crate) load: Load,
    /// The limiter with its mistake, or without.
    pub(crate) make: fn(bool) -> Box<dyn Limiter>,
}

const GCRA: Load = Load { costs: &[1, 1, 2, 3], ..Load::DEFAULT };
const FIXED: Load = Load { limits: &["5/10s via fixed_window"], ..Load::DEFAULT };
const MANY: Load = Load {
    subjects: &["a", "b", "c", "d", "e", "f", "g", "h"],
    gaps_us: &[10, 1_000, 200_000],
    calls: 300,
    ..FIXED
};
const PAIRS: &[&str] = &["tenant|a:b", "tenant:a|b"];
const LOG: Load = Load { limits: &["5/10ms via sliding_log"], ..Load::DEFAULT };
const FIRST_HIT: Load = Load {
    limits: &["3/1500ms anchor first-hit via fixed_window"],
    gaps_us: &[10, 200_000],
    ..Load::DEFAULT
};
const BOTH: Load = Load {
    limits: &["9/360s via gcra, 3/10s via gcra"],
    gaps_us: &[10, 1_000, 9_000_000],
    costs: &[1, 1, 2],
    ..Load::DEFAULT
};
const STEPS: &[(u64, i64)] = &[(40, -3_600_000_000), (80, 1_800_000_000)];
const FORTH_AND_BACK: &[(u64, i64)] = &[(40, 3_600_000_000), (60, -3_600_000_000)];

/// A limiter `$make($mistake)`, or `$make($nothing)` without it.
macro_rules! row {
    ($name:literal, $by:ident, $load:expr, $mistake:expr, $nothing:expr, $make:expr) => {
        Row {
            name: $name,
            by: Promise::$by,
            load: $load,
            make: |wrong| {
                let make = $make;
                Box::new(make(if wrong { $mistake } else { $nothing }))
            },
        }
    };
}

/// `5/10s via gcra`, or with other numbers.
macro_rules! gcra {
    ($name:literal, $by:ident, $load:expr, $mistake:ident) => {
        gcra!($name, $by, $load, $mistake, (5, 10_000_000, 5))
    };
    ($name:literal, $by:ident, $load:expr, $mistake:ident, $numbers:expr) => {
        row!($name, $by, $load, Arithmetic::$mistake, Arithmetic::Nothing, |mistake| {
            let (n, d_us, burst) = $numbers;
            Gcra::new(n, d_us, burst, mistake)
        })
    };
}

macro_rules! fixed {
    ($name:literal, $by:ident, $load:expr, $mistake:ident) => {
        row!($name, $by, $load, Windows::$mistake, Windows::Nothing, |mistake| {
            Fixed::new(5, 10_000_000, mistake)
        })
    };
}

macro_rules! log {
    ($name:literal, $by:ident, $load:expr, $mistake:ident) => {
        row!($name, $by, $load, LogMistake::$mistake, LogMistake::Nothing, |mistake| {
            Log::new(5, 10_000, mistake)
        })
    };
}

macro_rules! first_hit {
    ($name:literal, $by:ident, $mistake:ident) => {
        row!($name, $by, FIRST_HIT, Expiry::$mistake, Expiry::Right, |mistake| {
            FirstHit::new(3, 1_500_000, mistake)
        })
    };
}

macro_rules! both {
    ($name:literal, $by:ident, $mistake:ident) => {
        row!($name, $by, BOTH, Several::$mistake, Several::Nothing, Both::new)
    };
}

macro_rules! clients {
    ($name:literal, $by:ident, $load:expr, $mistake:ident, $with:expr) => {
        row!($name, $by, $load, Around::$mistake, Around::Nothing, |mistake| {
            let with: fn(Clients) -> Clients = $with;
            with(Clients::new(mistake))
        })
    };
}

/// Limiters whose history is recorded.
pub(crate) const LIMITERS: &[Row] = &[
    gcra!("has a tolerance of one unit too much", Bound, GCRA, Tolerance),
    gcra!("saves credit below an empty backlog", Bound, GCRA, Credit),
    gcra!(
        "rounds waits down",
        Exact,
        Load { gaps_us: &[7, 999], limits: &["3/10s via gcra"], ..GCRA },
        FloorWait,
        (3, 10_000_000, 3)
    ),
    gcra!(
        "tells a wait for what is never admitted",
        Exact,
        Load { costs: &[1, 9], ..GCRA },
        WaitForNever
    ),
    gcra!("drops fractions of a refill", Exact, Load { gaps_us: &[900_000], ..GCRA }, Fraction),
    gcra!(
        "keeps time in a double of seconds",
        Exact,
        Load { limits: &["10/1s via gcra"], gaps_us: &[100, 50_000], ..GCRA },
        Double,
        (10, 1_000_000, 10)
    ),
    gcra!(
        "writes times with 14 digits",
        Exact,
        Load { limits: &["5/1ms via gcra"], gaps_us: &[20, 300], ..GCRA },
        Digits,
        (5, 1_000, 5)
    ),
    gcra!("keeps time in whole seconds", Exact, GCRA, Seconds),
    gcra!(
        "multiplies in 32 bits",
        Bound,
        Load { limits: &["500/10s via gcra"], costs: &[430, 1, 7], ..GCRA },
        Narrow,
        (500, 10_000_000, 500)
    ),
    gcra!("tells what remained before the charge", Exact, GCRA, RemainingBefore),
    gcra!(
        "adds denied calls to the backlog",
        DenialsFree,
        Load { limits: &["5/1h via gcra"], ..GCRA },
        DenialCharges,
        (5, 3_600_000_000, 5)
    ),
    gcra!("takes negative costs", Bound, Load { costs: &[1, 2, -3], ..GCRA }, NegativeCost),
    gcra!("takes a cost of 0 for 1", Exact, Load { costs: &[1, 0, 0], ..GCRA }, ZeroCost),
    gcra!(
        "takes a step back for time gone by",
        Exact,
        Load { clock_steps: STEPS, ..GCRA },
        StepBackRefills
    ),
    gcra!(
        "blocks after a step forward and back",
        Exact,
        Load { clock_steps: FORTH_AND_BACK, ..GCRA },
        StepForwardBlocks
    ),
    gcra!("goes by each client's own clock", Order, GCRA, LocalClock),
    fixed!("compares by >= and denies the last unit", Exact, FIXED, AtLeast),
    fixed!("reads, then writes", Bound, FIXED, ReadThenWrite),
    fixed!(
        "counts first, and compares then",
        DenialsFree,
        Load { costs: &[1, 3], gaps_us: &[10, 1_000_000], ..FIXED },
        CountThenCompare
    ),
    fixed!(
        "takes the edge into the old window",
        Exact,
        Load { edge_us: 10_000_000, ..FIXED },
        Edge
    ),
    fixed!("reads from a replica", Bound, FIXED, Replica),
    fixed!("evicts counts that still count", Bound, MANY, Eviction),
    row!(
        "answers from two primaries",
        Bound,
        Load { failover: Some((60, 61)), gaps_us: &[10, 1_000_000], ..FIXED },
        Windows::StalePrimary,
        Windows::Nothing,
        |mistake| { Fixed::new(5, 10_000_000, mistake).failing_at(60) }
    ),
    row!(
        "joins keys by a colon",
        Exact,
        Load { subjects: PAIRS, ..FIXED },
        Windows::JoinedKey,
        Windows::Nothing,
        |mistake| { Fixed::new(5, 10_000_000, mistake).keyed(PAIRS) }
    ),
    log!(
        "counts what is exactly one window old",
        Exact,
        Load { edge_us: 1_000, gaps_us: &[10, 1_000], ..LOG },
        Edge
    ),
    log!("names entries by their time", Bound, Load { gaps_us: &[10, 300], ..LOG }, SameMember),
    first_hit!("rounds the time to live down", Exact, Short),
    first_hit!("loses the time to live in a crash", Exact, Lost),
    both!("charges one limit after the other", AllOrNothing, OneAfterTheOther),
    both!("asks all limits, then charges them", Bound, AskThenCharge),
    both!("tells the most that remains", Exact, TellsMost),
    row!(
        "starts fresh when numbers change (history)",
        Exact,
        Load {
            limits: &["5/10s via fixed_window", "7/10s via fixed_window"],
            gaps_us: &[10, 1_000_000],
            ..FIXED
        },
        true,
        false,
        Changing::new
    ),
    clients!(
        "sends again when a reply is lost",
        ChargedOnce,
        Load { gaps_us: &[10, 900_000], ..Load::DEFAULT },
        SendsAgain,
        |it| it.losing(6)
    ),
    clients!(
        "forgets request ids",
        ChargedOnce,
        Load { repeats: true, ..Load::DEFAULT },
        ForgetsRequests,
        |it| it
    ),
    clients!(
        "caches a denial for every cost",
        Exact,
        Load { costs: &[1, 4], ..Load::DEFAULT },
        CachesDenials,
        |it| it
    ),
    clients!(
        "lets through uncharged after an allowed call",
        Bound,
        Load { gaps_us: &[10, 900_000], ..Load::DEFAULT },
        CachesAllowed,
        |it| it
    ),
    clients!(
        "allows when the store is away",
        Bound,
        Load { gaps_us: &[10, 900_000], ..Load::DEFAULT },
        FailsOpen,
        |it| it.unreachable(4)
    ),
];

/// Queues.
pub(crate) const QUEUES: &[(&str, Queueing)] = &[
    ("delivers the newest job first", Queueing::LastIn),
    ("trims accepted jobs", Queueing::Trims),
    ("reads the length before it adds", Queueing::ReadsLength),
    ("delivers acknowledged jobs again", Queueing::ForgetsAcknowledgements),
    ("keeps refused jobs", Queueing::KeepsRefused),
    ("loses accepted jobs", Queueing::Loses),
];
