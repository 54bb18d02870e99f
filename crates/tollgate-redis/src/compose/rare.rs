//! The scripts of rare operations. They are the same for all limits, which the states themselves
//! describe.

use std::fmt::Write as _;
use std::sync::LazyLock;

use tollgate::strategy::{LuaStep, lua_steps};
use tollgate::{Limit, LimitSet, Time, engine};

use super::clock::{Clock, GIVEN_LIFETIME_MS, encoded_expiry};
use super::form::{has_state, in_state_order, set_tag};
use super::kind::Kind;
use super::parts::{Parts, distinct};
use crate::script::Script;

/// The arguments by which a script of this module knows a count: how many limits it has, their
/// identities, 1 when they have a state beside their logs, and how long its counted units can
/// matter. For each limit follow the letter of its step, its maximum use, and the arguments of its
/// functions, in seven bytes each.
#[must_use]
pub fn count_args(limits: &LimitSet) -> Vec<Vec<u8>> {
    let texts = [
        limits.limits().len().to_string(),
        set_tag(limits),
        u8::from(has_state(limits)).to_string(),
        engine::longest_count_us(limits).to_string(),
    ];
    let each = in_state_order(limits).into_iter().map(|(_, limit)| {
        let spec = limit.lua_spec();
        // A strategy without a step in Lua has none of these scripts. The first arguments are the
        // numbers.
        // A limit of another unit has no fast path, which counts requests and slots: its letter is
        // a capital. One that counts nothing has a sign.
        let is_plain = limit.counts_requests();
        let code = spec.step.and_then(|step| u8::try_from(step.code).ok()).unwrap_or(b'x');
        let code = match (is_plain, limit.is_uncounted()) {
            (_, true) => b'-',
            (false, _) => code.to_ascii_uppercase(),
            (true, _) => code,
        };
        let mut arg = vec![code];
        for number in core::iter::once(most_of(limit)).chain(spec.arguments.iter().copied()) {
            arg.extend_from_slice(&number.to_be_bytes()[1..]);
        }
        arg
    });
    texts.into_iter().map(String::into_bytes).chain(each).collect()
}

/// The end of a limit's argument of a refund: of a calendar, its numbers after the units, with the
/// edges around this time.
#[must_use]
pub fn refund_edges(limit: &Limit, now: Time) -> String {
    let spec = limit.around(now).lua_spec();
    let has_edges = spec.step.is_some_and(|step| step.edges.is_some());
    let numbers = spec.numbers.get(1..).filter(|_| has_edges);
    numbers.map_or_else(String::new, |numbers| {
        let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        format!("@{}", texts.join(","))
    })
}

/// The most units that can be used of a limit.
pub(crate) fn most_of(limit: &Limit) -> u64 {
    limit.capacity() + limit.debt()
}

/// Refunds what still counts of a charge, once.
#[must_use]
pub fn refund(clock: Clock, parts: &Parts) -> Script {
    with_steps("refund.lua", clock, parts)
}

/// Refunds units without a receipt, or takes them.
#[must_use]
pub fn adjust(clock: Clock, parts: &Parts) -> Script {
    with_steps("adjust.lua", clock, parts)
}

/// Charges without a check, up to the debt of each limit.
#[must_use]
pub fn charge(clock: Clock, parts: &Parts) -> Script {
    with_steps("charge.lua", clock, parts)
}

/// The scripts of holds for counts of some steps: the fewer a script has, the sooner it begins.
/// They answer `-4` and change nothing where a state names another step; then those of all steps
/// decide.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HoldScripts {
    /// Decides about counts on which holds may be open, or places one.
    pub among: Script,
    /// Takes a hold away, and charges what was used.
    pub settle: Script,
    /// Renews a hold.
    pub renew: Script,
}

impl HoldScripts {
    /// Of the steps with these letters.
    #[must_use]
    pub fn of(codes: &str, clock: Clock, parts: &Parts) -> Self {
        let steps: Vec<&LuaStep> =
            distinct(lua_steps()).into_iter().filter(|step| codes.contains(step.code)).collect();
        let script = |name, fast| script_of(name, &steps, clock, parts, fast);
        Self {
            among: script("among_holds.lua", Some("place")),
            settle: script("settle.lua", Some("settle")),
            renew: script("renew.lua", None),
        }
    }

    /// The script that places several holds at a time, or answers checks beside open holds; `None`
    /// where the fast path does not know a step. Each question is about one count, and all have as
    /// many keys and arguments. Answers are packed numbers. `-10` changes nothing: the question is
    /// not simple, and the script of one decides, so that a batch never takes long.
    #[must_use]
    pub fn place_many(codes: &str, clock: Clock, parts: &Parts) -> Option<Script> {
        many("place", codes, clock, parts)
    }

    /// The same for commits and releases.
    #[must_use]
    pub fn settle_many(codes: &str, clock: Clock, parts: &Parts) -> Option<Script> {
        many("settle", codes, clock, parts)
    }

    /// Of all steps.
    #[must_use]
    pub fn all(clock: Clock, parts: &Parts) -> Self {
        Self::of(all_codes(), clock, parts)
    }
}

/// The letters of all steps.
pub(crate) fn all_codes() -> &'static str {
    static CODES: LazyLock<String> =
        LazyLock::new(|| distinct(lua_steps()).iter().map(|step| step.code).collect());
    &CODES
}

/// Deletes a count and its holds.
#[must_use]
pub fn reset(clock: Clock, parts: &Parts) -> Script {
    with_clock("#!lua\n-- Tollgate: reset", parts.driver("reset.lua"), clock, parts)
}

/// Returns the stored state.
#[must_use]
pub fn inspect(clock: Clock, parts: &Parts) -> Script {
    let (now, body) = (parts.clock(clock), parts.driver("inspect.lua"));
    Script::new(format!("#!lua flags=no-writes\n-- Tollgate: inspect\n{now}{body}"))
}

/// Returns the open holds of a count.
#[must_use]
pub fn open_holds(clock: Clock, parts: &Parts) -> Script {
    let drivers = ["hold_form.lua", "hold_age.lua", "open_holds.lua"];
    let body = drivers.map(|name| parts.driver(name)).concat();
    let now = parts.clock(clock);
    Script::new(format!("#!lua flags=no-writes\n-- Tollgate: open_holds\n{now}{body}"))
}

/// Writes states if they are unchanged (compare-and-swap).
#[must_use]
pub fn swap(parts: &Parts) -> Script {
    let body = parts.driver("swap.lua");
    let rights = parts.driver("rights.lua");
    Script::with_rights(&format!("#!lua\n-- Tollgate: compare and swap\n{rights}{body}"))
}

/// A script that needs the time, and a lifetime for its writes.
#[must_use]
pub(crate) fn with_clock(head: &str, body: &str, clock: Clock, parts: &Parts) -> Script {
    let (now, lifetime) = (parts.clock(clock), lifetime(clock, parts));
    let rights = if body.contains("refusal()") { parts.driver("rights.lua") } else { "" };
    Script::with_rights(&format!("{head}\n{now}{lifetime}{rights}{body}"))
}

/// The Lua function that returns the lifetime of writes.
fn lifetime(clock: Clock, parts: &Parts) -> String {
    let milliseconds = match clock {
        // As text: Redis 7.0 takes longer to write a number of Lua.
        Clock::Server => "string.format('%d', (reset - reset % 1000) / 1000)".to_owned(),
        Clock::Given => GIVEN_LIFETIME_MS.to_string(),
        Clock::GivenWithExpiry => {
            format!("string.format('%.0f', {})", encoded_expiry("(reset - reset % 1000) / 1000"))
        }
    };
    parts.driver("lifetime.lua").replace("$LIFETIME", &milliseconds)
}

fn with_steps(name: &str, clock: Clock, parts: &Parts) -> Script {
    script_of(name, &distinct(lua_steps()), clock, parts, None)
}

/// A script over any limits of these steps. It may have a function of the fast path, which answers
/// what is simple.
fn script_of(
    name: &str,
    steps: &[&LuaStep],
    clock: Clock,
    parts: &Parts,
    fast: Option<&str>,
) -> Script {
    let is_simple = |step: &&&LuaStep| fast.is_some() && is_simple(step);
    let simple: Vec<&LuaStep> = steps.iter().filter(is_simple).copied().collect();
    let mut text = format!("#!lua\n-- Tollgate: {}\n", name.trim_end_matches(".lua"));
    text.push_str(&before_all(&simple, clock, parts));
    if let Some(fast) = fast {
        // In a block: a script has at most 200 local variables at a time.
        text.push_str("do\n");
        text.push_str(&fast_path(fast, &simple, parts));
        let call = "local answer = $_simple()\nif answer then\n  return answer\nend\nend\n";
        text.push_str(&call.replace('$', fast));
    }
    text.push_str("local lacks = refusal()\nif lacks then\n  return lacks\nend\n");
    text.push_str(&parts.mul_div);
    let functions = [
        "view", "judge", "charge", "owes", "deny", "numbers", "migrate", "refund", "grant",
        "repair",
    ];
    text.push_str("local steps = {}\n");
    for step in steps {
        // In a block: a script has at most 200 local variables at a time. The functions of a log
        // are called by their names.
        let (begin, end) = if step.words == Some(0) { ("", "") } else { ("do\n", "end\n") };
        text.push_str(begin);
        if !is_simple(&step) {
            text.push_str(parts.hot(step));
        }
        text.push_str(parts.cold(step));
        let _ = write!(text, "steps.{} = {}\n{end}", step.code, parts.step_row(step, &functions));
        if let Some(counts) = Kind::of(step).counts {
            let _ = writeln!(text, "steps.{}.counts = '{counts}'", step.code);
        }
    }
    text.push_str(&parts.state_of(steps));
    text.push_str(parts.driver("rare.lua"));
    text.push_str(parts.driver("line.lua"));
    text.push_str(parts.driver("holds.lua"));
    if name == "among_holds.lua" {
        text.push_str(&parts.requests());
    }
    if name == "renew.lua" {
        text.push_str(parts.driver("hold_age.lua"));
    }
    text.push_str(parts.driver(name));
    Script::with_rights(&text)
}

/// The beginning of each script of holds: the functions of the steps that its fast path knows, the
/// time, and how holds are written.
fn before_all(simple: &[&LuaStep], clock: Clock, parts: &Parts) -> String {
    let mut text: String = simple.iter().map(|step| parts.hot(step)).collect();
    text.push_str(parts.clock(clock));
    text.push_str(&lifetime(clock, parts));
    text.push_str(parts.driver("rights.lua"));
    text.push_str(parts.driver("hold_form.lua"));
    text
}

/// The fast path alone, for several questions of one call.
fn many(fast: &str, codes: &str, clock: Clock, parts: &Parts) -> Option<Script> {
    let known = distinct(lua_steps());
    let steps: Vec<&LuaStep> = known.into_iter().filter(|it| codes.contains(it.code)).collect();
    if steps.len() != codes.len() || !steps.iter().all(is_simple) {
        return None;
    }
    let mut text = format!("#!lua\n-- Tollgate: {fast} several\n");
    // The functions see those of the question that is answered.
    text.push_str("local all_keys, all_args = KEYS, ARGV\nlocal KEYS, ARGV = KEYS, ARGV\n");
    text.push_str(&before_all(&steps, clock, parts));
    text.push_str(&fast_path(fast, &steps, parts));
    let _ = write!(
        text,
        "local args = #ARGV / #KEYS
local function check(i)
  KEYS = {{all_keys[i + 1]}}
  ARGV = {{unpack(all_args, i * args + 1, (i + 1) * args)}}
  local answer = {fast}_simple() or {{ARGV[1], -10}}
  return struct.pack('>' .. string.rep('i8', #answer), unpack(answer))
end
"
    );
    text.push_str(parts.driver("failure.lua"));
    let ending = parts.driver("many.lua").replace("$ARGS arguments", "whole arguments");
    text.push_str(&ending.replace("$KEYS", "1").replace("$ARGS", "args").replace("$EACH", "i"));
    Some(Script::with_rights(&text))
}

fn is_simple(step: &&LuaStep) -> bool {
    Kind::of(step).is_simple
}

/// The fast path of one script: its steps and its functions.
fn fast_path(name: &str, steps: &[&LuaStep], parts: &Parts) -> String {
    let mut text = parts.step_table("simple", steps, &["view", "judge", "charge"]);
    for step in steps.iter().filter(|step| step.words == Some(2)) {
        let (code, sound) = (step.code, step.sound_words);
        // Writing to a string cannot fail.
        let _ = write!(text, "simple.{code}.sound = function(w, n)\n  return {sound}\nend\n");
    }
    let (common, each) =
        parts.driver("fast_holds.lua").split_once("-- place\n").unwrap_or_default();
    let (place, settle) = each.split_once("-- settle\n").unwrap_or_default();
    text.push_str(common);
    text.push_str(if name == "place" { place } else { settle });
    text
}
