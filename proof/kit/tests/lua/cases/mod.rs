//! Cases that random histories reach seldom or never: bad arguments, damaged states, large numbers.

mod answers;
mod changes;
mod damaged;
mod hold_edges;
mod holds;
mod layouts;
mod numbers;
mod questions;
mod refunds;
mod time;

use tollgate::engine::Mode;
use tollgate::{LimitSet, Subject};
use tollgate_redis::compose::{self, Check, Clock};
use tollgate_redis::{Keys, Script};

use super::fake::{Fake, Reply};
use super::histories::{Difference, Texts};

type Case = fn(&Texts) -> Result<(), Difference>;

/// All cases, by name.
pub(crate) const CASES: [(&str, Case); 31] = [
    ("long products", numbers::products),
    ("bad costs", questions::bad_costs),
    ("wrong numbers of keys and arguments", questions::wrong_numbers),
    ("damaged states", damaged::damaged),
    ("damaged states of several limits", damaged::damaged_several),
    ("damaged logs", damaged::damaged_logs),
    ("integers that no count has", numbers::unsound_words),
    ("the largest numbers that a count has", numbers::sound_words),
    ("states that a refund and an adjustment refuse", damaged::damaged_rare),
    ("short answers", answers::boolean),
    ("remembered answers", answers::remembered),
    ("remembered answers that turn over", answers::turned_over),
    ("an id that is repeated too often", answers::overused),
    ("what is held", answers::inspect),
    ("compare and swap", answers::swap),
    ("totals that wrap around", time::wrapped),
    ("numbers of which some change", changes::changed),
    ("a log that outlived its state", changes::outlived),
    ("refunds beside the skew", refunds::skewed),
    ("refunds in parts", refunds::in_parts),
    ("marks of refunds that are no numbers", refunds::marks),
    ("refunds after a reset, by this client or another", refunds::forgotten),
    ("a part of a unit that is scaled with a rest of one", changes::scaled),
    ("a refund that lets older counts count again", refunds::uncovered),
    ("a window from the future", time::stepped_back),
    ("the end of time", time::end_of_time),
    ("a given clock, long logs and many limits", time::long),
    ("several questions in one call", questions::together),
    ("numbers that a call brings", layouts::numbers),
    ("a call without the right numbers", layouts::wrong),
    ("answers in words", layouts::in_words),
];

/// Those of the scripts of holds.
pub(crate) const HOLD_CASES: [(&str, Case); 30] = [
    ("rights that are missing", hold_edges::rights),
    ("holds of a count whose numbers change", holds::changed),
    ("the most holds of a count", holds::most),
    ("repeated requests among holds", holds::requests),
    ("damaged sums of holds", holds::damaged),
    ("sums that were lost", holds::lost_sums),
    ("how long holds lie", holds::lifetimes),
    ("how long renewed holds lie", holds::renewed),
    ("holds that lie as long as their sums", holds::together),
    ("holds by the fast path", holds::fast),
    ("the end of a hold", holds::ends),
    ("damaged states of holds", holds::damaged_states),
    ("how holds are kept", hold_edges::written),
    ("holds beside a clock that is behind", hold_edges::behind),
    ("times that are not exact", hold_edges::inexact),
    ("what became of the numbers of holds", hold_edges::numbers),
    ("the last end of holds", hold_edges::last_ends),
    ("a commit of more than may be owed", hold_edges::owed),
    ("fewer slots than are taken", hold_edges::fewer_slots),
    ("how long sums lie", hold_edges::fenced),
    ("holds at the beginning of time", hold_edges::beginning_of_time),
    ("holds that a server dropped", hold_edges::dropped),
    ("sums that a server dropped", hold_edges::orphans),
    ("a hold that a server dropped beside one that is settled", hold_edges::evicted),
    ("holds that are forgotten", hold_edges::forgotten),
    ("sums that say less than their holds keep", hold_edges::less_kept),
    ("the most ends that a denial looks at", hold_edges::most_ends),
    ("a window that ends with a hold", hold_edges::end_of_window),
    ("more holds than a denial looks at, with one end", hold_edges::ends_together),
    ("open holds that are shown", holds::shown),
];

const NOW_US: u64 = 1_763_632_025_123_456;

const MODES: [Mode; 6] = [
    Mode::Whole,
    Mode::Partial,
    Mode::Peek,
    Mode::PeekPartial,
    Mode::Waiting,
    Mode::WaitingPartial,
];

/// Several limits of all forms, and two of one form.
const SEVERAL: [&str; 3] = [
    "a: 7/m via gcra, b: 5/m via sliding_log, c: 6/m precision 20s via sliding_window",
    "a: 7/m via gcra, b: 5/m via gcra",
    "a: 7/m via sliding_log, b: 5/m via sliding_log",
];

/// The forms of a state: two integers, whole refills, a row, a log.
const LIMITS: [&str; 5] = [
    "x: 7/m burst 3 via gcra",
    "x: 7/m refill interval via token_bucket",
    "x: 7/m via fixed_window",
    "x: 6/m precision 20s rounding interpolate via sliding_window",
    "x: 7/m via sliding_log",
];

fn set(text: &str) -> LimitSet {
    text.parse().unwrap()
}

fn check(texts: &Texts, check: Check, sets: &[&LimitSet]) -> Script {
    texts.script(check.compose(sets, &texts.parts).unwrap())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn equal<T: PartialEq + core::fmt::Debug>(what: &str, found: T, wanted: T) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{what}: {found:?}, not {wanted:?}")) }
}

/// The keys of one subject under limits, and the arguments of a check of them.
struct Place {
    state: String,
    logs: Vec<String>,
    check: Vec<String>,
}

fn place(limits: &LimitSet) -> Place {
    let state = Keys::new().state(&Subject::literal("somebody").unwrap(), limits);
    let logs = Keys::logs(&state, limits);
    Place { check: Keys::for_check(&state, limits), state, logs }
}

/// An error reply of these words, which change nothing.
fn refused(
    fake: &mut Fake,
    script: &Script,
    keys: &[String],
    args: &[impl AsRef<[u8]>],
    wanted: &str,
) -> Result<(), Difference> {
    let before = fake.keys();
    let answer = fake.call(script, keys, args);
    let args: Vec<_> = args.iter().map(|arg| arg.as_ref().escape_ascii().to_string()).collect();
    equal(&format!("{args:?}"), answer, Reply::Error(wanted.to_owned()))?;
    equal(&format!("{args:?} wrote"), fake.keys() == before && !fake.wrote(), true)
}

/// The arguments of a refund and of an adjustment of one subject.
fn rare(texts: &Texts, limits: &LimitSet) -> [(Script, Vec<String>, Vec<Vec<u8>>); 2] {
    let Place { state, logs, .. } = place(limits);
    let refund = texts.script(compose::refund(Clock::Server, &texts.parts));
    let adjust = texts.script(compose::adjust(Clock::Server, &texts.parts));
    let mut keys = vec![Keys::mark(&state, 1), state.clone(), Keys::reset(&state)];
    keys.extend(logs.iter().cloned());
    let at = NOW_US.to_string();
    let mut args = words(&["nonce", "1", &at, &at, "1", "1", &limits.limits().len().to_string()]);
    args.push(tollgate::engine::longest_count_us(limits).to_string());
    for limit in limits.limits() {
        let (code, most) = (limit.strategy().code(), limit.capacity() + limit.debt());
        args.push(format!("{code}{at}:{}:{most}", NOW_US + 10_000_000));
    }
    let mut adjusted = vec![b"nonce".to_vec(), b"1".to_vec()];
    adjusted.extend(compose::count_args(limits));
    let args = args.into_iter().map(String::into_bytes).collect();
    [(refund, keys, args), (adjust, vec![state], adjusted)]
}

const BAD_COST: &str = "TOLLGATE the cost must be a whole number from 1 to 2^40";
const FOREIGN: &str = "TOLLGATE the key holds something that is not a state of Tollgate";
const NEWER: &str =
    "TOLLGATE the state was written by a newer version: use that one, or reset the subject with it";
const LENGTH: &str = "TOLLGATE the state is damaged: it does not have the length that it says";
const NUMBER: &str = "TOLLGATE the state is damaged: it is of another number of limits";
const UNSOUND: &str = "TOLLGATE the state is damaged: it holds numbers that no count has";
const UNREADABLE: &str = "TOLLGATE the state is damaged: it cannot be read";
const STEP: &str =
    "TOLLGATE the state was written by a newer version: it names a step that is not known";
const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
