//! Judges small changes of the Lua, in process: `list` names them, `judge` tries those whose
//! numbers come on its standard input. `cargo xtask mutate-lua` calls it.
#![allow(clippy::unwrap_used)] // as its tests may: this is one

#[path = "../tests/lua/mod.rs"]
mod lua;

use std::collections::HashMap;
use std::io::{BufRead as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use lua::cases::{CASES, HOLD_CASES};
use lua::fake::{Fake, TOO_LONG};
use lua::histories::{Difference, Pair, Plan, Texts, seeded};
use lua::holding;
use lua::mutants::{self, Mutant};
use tollgate::Strategy;

/// How many histories judge the mutant of a step.
const HISTORIES: u64 = 80;

/// How long one of them is.
const OPERATIONS: usize = 150;

/// A mutant that makes everything slow has taken this long at most.
const LIMIT: Duration = Duration::from_secs(20);

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("list") => list(),
        Some("judge") => judge_all(),
        _ => {
            eprintln!("usage: mutate_lua list | mutate_lua judge < NUMBERS");
            std::process::exit(2);
        }
    }
}

/// One line for each mutant: its number, file, line, column, the old text, the new text, the line's
/// text.
fn list() {
    let mut out = std::io::stdout().lock();
    for (number, mutant) in mutants::all().into_iter().enumerate() {
        let Mutant { file, line, column, original, replacement, text, .. } = mutant;
        let text = text.trim();
        let row = format!("{number}\t{file}\t{line}\t{column}\t{original}\t{replacement}\t{text}");
        writeln!(out, "{row}").unwrap();
    }
}

/// One line for each number that is read, when it has been judged: the number, `killed`, `timeout`
/// or `survived`, the milliseconds, and the test that found it. `none FILE` tries the unchanged
/// text as a mutant of the file is tried.
fn judge_all() {
    let mutants = mutants::all();
    let mut unchanged: HashMap<String, Vec<u64>> = HashMap::new();
    // The effect of a mutant on the fake is a verdict, not news.
    std::panic::set_hook(Box::new(|_| {}));
    for number in std::io::stdin().lock().lines() {
        let number = number.unwrap();
        let mutant = number.parse::<usize>().ok().map(|number| &mutants[number]);
        let texts = mutant.map(Mutant::texts).unwrap_or_default();
        let file = match (mutant, number.strip_prefix("none ")) {
            (Some(mutant), _) => mutant.file.as_str(),
            (None, Some(file)) => file,
            (None, None) => panic!("`{number}` is not a mutant"),
        };
        // The calls of the unchanged text to Redis, once for the mutants of each file.
        if mutant.is_some() && !unchanged.contains_key(file) {
            let traffic = judge(&Texts::default(), file, &[], Instant::now()).unwrap();
            unchanged.insert(file.to_owned(), traffic);
        }
        let usual = unchanged.get(file).map_or(&[][..], Vec::as_slice);
        let started = Instant::now();
        let ended = catch_unwind(AssertUnwindSafe(|| judge(&texts, file, usual, started)));
        let (verdict, why) = match ended {
            Ok(Ok(_)) => ("survived", String::new()),
            Ok(Err(why)) if why.contains(TOO_LONG) => ("timeout", why),
            Ok(Err(why)) => ("killed", why),
            Err(panic) => ("killed", panic_message(panic.as_ref())),
        };
        let why: String = why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        println!("{number}\t{verdict}\t{}\t{why}", started.elapsed().as_millis());
    }
}

/// The message of a panic: a difference, or a refusal of the fake.
fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("what it asks of Redis is refused").chars().take(160).collect()
}

/// The strategies whose histories reach a file; all of them where it is shared.
fn strategies(file: &str) -> Vec<Strategy> {
    match file.rsplit('/').next().unwrap_or_default() {
        "gcra.lua" => vec![Strategy::Gcra, Strategy::TokenBucket, Strategy::Uniform],
        "interval.lua" => vec![Strategy::TokenBucket],
        "fixed_window.lua" => vec![Strategy::FixedWindow],
        "sliding_window.lua" => vec![Strategy::SlidingWindow],
        "sliding_log.lua" => vec![Strategy::SlidingLog],
        _ => Strategy::RATES.into(),
    }
}

fn pair(texts: &Texts) -> Pair {
    let mut pair = Pair::new(texts.clone());
    pair.fake = Fake::new().bounded();
    pair
}

/// How many histories of holds judge a mutant.
const HOLD_HISTORIES: u64 = 240;

/// Tries a text of holds until something differs, which panics, or more is asked of Redis than
/// usual: then a fast path is not taken. Answers what was asked, history by history.
fn judge_holds(
    texts: &Texts,
    usual: &[u64],
    in_time: impl Fn() -> Result<(), Difference>,
) -> Result<Vec<u64>, Difference> {
    let scripts = holding::Scripts::new(texts);
    let mut fake = Fake::new().bounded();
    let mut traffic = Vec::new();
    for seed in 0..HOLD_HISTORIES {
        if seed == 24 {
            for (name, case) in HOLD_CASES {
                case(texts).map_err(|difference| format!("{name}: {difference}"))?;
            }
        }
        let all = usize::try_from(seed).unwrap();
        let limits = holding::LIMITS[all % holding::LIMITS.len()];
        holding::history(&mut fake, &scripts, &limits, seed, holding::Kind::Holds);
        if !limits[0].starts_with("4 at once") {
            holding::history(&mut fake, &scripts, &limits, seed, holding::Kind::Credits);
        }
        if all % 12 == 11 {
            let limits = holding::CROWDED[all / 12 % holding::CROWDED.len()];
            holding::history(&mut fake, &scripts, &limits, seed, holding::Kind::Crowded);
        }
        in_time()?;
        let asked = fake.traffic();
        if usual.get(traffic.len()).is_some_and(|usual| asked > *usual) {
            return Err("it asks more of Redis".to_owned());
        }
        traffic.push(asked);
    }
    Ok(traffic)
}

/// Tries a text until something differs, or more is asked of Redis than usual. Answers what was
/// asked, history by history.
fn judge(
    texts: &Texts,
    file: &str,
    usual: &[u64],
    started: Instant,
) -> Result<Vec<u64>, Difference> {
    let in_time = || match started.elapsed() > LIMIT {
        true => Err(format!("all together: {TOO_LONG}")),
        false => Ok(()),
    };
    let strategies = strategies(file);
    // Separate scripts, which no history calls.
    let own = match file.rsplit('/').next().unwrap_or_default() {
        "inspect.lua" => Some("what is held"),
        "swap.lua" => Some("compare and swap"),
        _ => None,
    };
    if let Some(own) = own {
        let (_, case) = CASES.iter().find(|(name, _)| *name == own).unwrap();
        case(texts)?;
        return Ok(Vec::new());
    }
    let of_holds =
        ["holds.lua", "hold_form.lua", "hold_age.lua", "open_holds.lua", "settle.lua", "renew.lua"];
    if of_holds.iter().any(|end| file.ends_with(end)) {
        return judge_holds(texts, usual, in_time);
    }
    let mut each = pair(texts);
    let mut traffic = Vec::new();
    for seed in 0..HISTORIES {
        if seed == 6 {
            // Most mutants are gone by now; these are slower to set up.
            for (name, case) in CASES {
                case(texts).map_err(|difference| format!("{name}: {difference}"))?;
            }
        }
        let mut rng = seeded(seed);
        let strategy = strategies[usize::try_from(seed).unwrap() % strategies.len()];
        let plan = Plan::from_strategy(&mut rng, strategy);
        each.history(&mut rng, &plan, 1, OPERATIONS)?;
        if seed % 4 == 0 {
            let step = usize::try_from(seed / 4).unwrap();
            let plan = Plan::several(&mut rng, [2, 3, 5, 14][step % 4]);
            each.history(&mut rng, &plan, [1, 2, 3][step % 3], 80)?;
        }
        in_time()?;
        let asked = each.fake.traffic();
        if usual.get(traffic.len()).is_some_and(|usual| asked > *usual) {
            return Err("it asks more of Redis".to_owned());
        }
        traffic.push(asked);
    }
    Ok(traffic)
}
