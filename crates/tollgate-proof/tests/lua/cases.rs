//! Cases that random histories reach seldom or never: bad arguments, damaged states, large numbers.

use std::collections::HashMap;

use rand::RngExt;
use tollgate::engine::Mode;
use tollgate::{LimitSet, Strategy, Subject, Time};
use tollgate_redis::compose::{self, Check, Clock, ReplyFormat};
use tollgate_redis::{Keys, Script};

use super::fake::{Fake, Held, Reply};
use super::histories::{Difference, Pair, Plan, Texts, next, seeded};
use super::model::{Charge, whose};

type Case = fn(&Texts) -> Result<(), Difference>;

/// All cases, by name.
pub(crate) const CASES: [(&str, Case); 25] = [
    ("long products", products),
    ("bad costs", bad_costs),
    ("wrong numbers of keys and arguments", wrong_numbers),
    ("damaged states", damaged),
    ("damaged states of several limits", damaged_several),
    ("damaged logs", damaged_logs),
    ("integers that no count has", unsound_words),
    ("the largest numbers that a count has", sound_words),
    ("states that a refund and an adjustment refuse", damaged_rare),
    ("short answers", boolean),
    ("remembered answers", remembered),
    ("what is held", inspect),
    ("compare and swap", swap),
    ("totals that wrap around", wrapped),
    ("numbers of which some change", changed),
    ("refunds beside the skew", skewed),
    ("refunds in parts", in_parts),
    ("marks of refunds that are no numbers", marks),
    ("refunds after a reset, by this client or another", forgotten),
    ("a part of a unit that is scaled with a rest of one", scaled),
    ("a refund that lets older counts count again", uncovered),
    ("a window from the future", stepped_back),
    ("the end of time", end_of_time),
    ("a given clock, long logs and many limits", long),
    ("several questions in one call", together),
];

const NOW_US: u64 = 1_763_632_025_123_456;

const MODES: [Mode; 4] = [Mode::Whole, Mode::Partial, Mode::Peek, Mode::PeekPartial];

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

/// The keys of one subject under limits, and what a check of them takes.
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
    args: &[String],
    wanted: &str,
) -> Result<(), Difference> {
    let before = fake.keys();
    let answer = fake.call(script, keys, args);
    equal(&format!("{args:?}"), answer, Reply::Error(wanted.to_owned()))?;
    equal(&format!("{args:?} wrote"), fake.keys() == before && !fake.wrote(), true)
}

/// The product that steps share, over numbers whose products no double holds.
fn products(texts: &Texts) -> Result<(), Difference> {
    let text = format!("#!lua\n{}\n{}", texts.parts.mul_div, PRODUCT);
    let script = Script::new(text);
    let mut fake = Fake::new().bounded();
    let mut rng = seeded(7);
    let mut of = |a: u64, b: u64, c: u64| {
        let args = [a, b, c].map(|number| number.to_string());
        let (product, c) = (u128::from(a) * u128::from(b), u128::from(c));
        let wanted = [product / c, product % c].map(|n| Reply::Text(n.to_string().into_bytes()));
        equal(
            &format!("{a} * {b} / {c}"),
            fake.call(&script, &[], &args),
            Reply::List(wanted.into()),
        )
    };
    let ends = [0, 1, 2, 127, 128, 129, (1 << 42) - 1, 1 << 42, (1 << 42) + 1, (1 << 45) - 1];
    for a in ends {
        for b in [0, 1, 3, 1 << 8, 1 << 41, (1 << 42) + 5, 1 << 44, (1 << 49) - 1] {
            for c in [1, 7, 1 << 20, (1 << 45) - 1] {
                if a <= c {
                    of(a, b, c)?;
                }
            }
        }
    }
    // Products beside 2^53.
    for (a, b) in
        [(1 << 26, 1 << 27), (1, 1 << 48), (6_361, 1_416_003_655_831), (94_906_266, 94_906_265)]
    {
        for c in [a, a + 1, (1 << 45) - 1] {
            of(a, b, c)?;
        }
    }
    for _ in 0..300 {
        let c = (next(&mut rng) >> rng.random_range(19..60)).max(1);
        let a = next(&mut rng) % (c + 1);
        let b = next(&mut rng) >> rng.random_range(15..60);
        of(a, b, c)?;
    }
    Ok(())
}

const PRODUCT: &str = "
local quotient, rest = mul_div(tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]))
return {string.format('%.0f', quotient), string.format('%.0f', rest)}";

const BAD_COST: &str = "TOLLGATE the cost must be a whole number from 1 to 2^40";

/// Costs that are no costs. The words of the refusal are always the same: nothing of the question
/// comes back in them.
fn bad_costs(texts: &Texts) -> Result<(), Difference> {
    let costs = [
        "",
        "0",
        "-1",
        "1.5",
        "1.0",
        "nan",
        "inf",
        "0x10",
        " 5 ",
        "5 ",
        "1e3",
        "01",
        "+1",
        "five",
        "1099511627777",
        "9007199254740993",
        "99999999999999999999999",
        "1;DEL",
        "2\n",
    ];
    for limits in LIMITS.map(set) {
        for mode in MODES {
            let script = check(texts, Check::new(mode), &[&limits]);
            let mut fake = Fake::new().bounded();
            fake.at(NOW_US);
            for cost in costs {
                let args = words(&[cost, "nonce"]);
                refused(&mut fake, &script, &place(&limits).check, &args, BAD_COST)?;
            }
            // The bounds themselves are costs.
            for cost in ["1", "2", "1099511627776"] {
                match fake.call(&script, &place(&limits).check, &words(&[cost, "nonce"])) {
                    Reply::List(_) => {}
                    other => return Err(format!("cost {cost}: {other:?}")),
                }
            }
        }
    }
    Ok(())
}

fn wrong_numbers(texts: &Texts) -> Result<(), Difference> {
    for answer in [ReplyFormat::Verbose, ReplyFormat::Boolean, ReplyFormat::Remembered] {
        for clock in [Clock::Server, Clock::Given] {
            for mode in MODES {
                let limits = set("a: 7/m via gcra, b: 5/m via sliding_log");
                let mut of = Check::new(mode);
                (of.reply, of.clock) = (answer, clock);
                let script = check(texts, of, &[&limits]);
                let mut keys = place(&limits).check;
                if answer == ReplyFormat::Remembered {
                    keys.push("request".to_owned());
                }
                let args = vec!["1".to_owned(); of.arguments()];
                let text = format!(
                    "TOLLGATE this script takes {} keys and {} arguments",
                    keys.len(),
                    args.len()
                );
                let mut fake = Fake::new().bounded();
                fake.at(NOW_US);
                let more = [keys.clone(), vec!["one more".to_owned()]].concat();
                refused(&mut fake, &script, &more, &args, &text)?;
                refused(&mut fake, &script, &keys[1..], &args, &text)?;
                refused(&mut fake, &script, &[], &args, &text)?;
                refused(&mut fake, &script, &keys, &args[1..], &text)?;
                refused(&mut fake, &script, &keys, &[], &text)?;
                let more = [args.clone(), vec!["1".to_owned()]].concat();
                refused(&mut fake, &script, &keys, &more, &text)?;
            }
        }
    }
    Ok(())
}

/// One of several questions that fails, and wrong numbers of keys and arguments of several.
fn together(texts: &Texts) -> Result<(), Difference> {
    for answer in [ReplyFormat::Verbose, ReplyFormat::Remembered] {
        for clock in [Clock::Server, Clock::Given] {
            for text in ["x: 7/m via gcra", "x: 7/m via sliding_log", SEVERAL[0]] {
                let mut of = Check::new(Mode::Whole);
                (of.reply, of.clock) = (answer, clock);
                one_fails(texts, of, &set(text))?;
            }
            // As many as live in local variables: there is room for all of them, for the words of
            // a question, and for its answer.
            for strategy in Strategy::ALL {
                let limit = |i| format!("l{i}: {i}/{i}m via {}", strategy.name());
                let text = (1..=8).map(limit).collect::<Vec<_>>().join(", ");
                let mut of = Check::new(Mode::Whole);
                (of.reply, of.clock) = (answer, clock);
                one_fails(texts, of, &set(&text))?;
                four_subjects(texts, of, strategy)?;
            }
        }
    }
    Ok(())
}

/// Eight limits of four subjects, which take more variables than those of one.
fn four_subjects(texts: &Texts, of: Check, strategy: &Strategy) -> Result<(), Difference> {
    let limits = set(&format!("a: 3/m via {0}, b: 5/2m via {0}", strategy.name()));
    let script = texts.script(of.compose_batch(&[&limits; 4], &texts.parts).unwrap());
    let mut keys = Vec::new();
    for name in ["one", "two", "three", "four"] {
        let state = Keys::new().state(&Subject::literal(name).unwrap(), &limits);
        keys.extend(Keys::for_check(&state, &limits));
    }
    let mut args = words(&["1", "7"]);
    if of.reply == ReplyFormat::Remembered {
        keys.push("request".to_owned());
        args.extend(words(&["question", "1000"]));
    }
    if of.clock == Clock::Given {
        args.push(NOW_US.to_string());
    }
    let mut fake = Fake::new().bounded();
    fake.at(NOW_US);
    let answers = fake.call(&script, &keys, &args).unpack_reply();
    let Reply::List(answers) = &answers else { return Err(format!("{answers:?}")) };
    let Some(Reply::List(answer)) = answers.first() else { return Err(format!("{answers:?}")) };
    let granted = 1 + usize::from(of.reply == ReplyFormat::Remembered);
    equal("granted", &answer[granted], &Reply::Int(1))?;
    equal("numbers", answer.len(), granted + 2 + 3 * 8)
}

fn one_fails(texts: &Texts, of: Check, limits: &LimitSet) -> Result<(), Difference> {
    let script = texts.script(of.compose_batch(&[limits], &texts.parts).unwrap());
    let (mut keys, mut args) = (Vec::new(), Vec::new());
    for (number, name) in ["first", "damaged", "broken", "dear", "last"].iter().enumerate() {
        let state = Keys::new().state(&Subject::literal(name).unwrap(), limits);
        keys.extend(Keys::for_check(&state, limits));
        let cost = if *name == "dear" { "0" } else { "1" };
        let mut own = words(&[cost, &number.to_string()]);
        if of.reply == ReplyFormat::Remembered {
            keys.push(format!("{state}!request"));
            own.extend(words(&["question", "1000"]));
        }
        if of.clock == Clock::Given {
            own.push(NOW_US.to_string());
        }
        args.extend(own);
    }
    let (each_keys, each_args) = (keys.len() / 5, args.len() / 5);
    let mut fake = Fake::new().bounded();
    fake.at(NOW_US);
    fake.put(&keys[each_keys], Held::Text(b"foreign".to_vec()));
    // What no read of ours takes ends the script of one question with a fault.
    fake.put(&keys[2 * each_keys], Held::List([b"foreign".to_vec(), b"x".to_vec()].into()));
    let Reply::List(answers) = fake.call(&script, &keys, &args).unpack_reply() else {
        return Err("no list".to_owned());
    };
    let failed: Vec<bool> = answers.iter().map(|it| matches!(it, Reply::Error(_))).collect();
    equal(&format!("{limits}: {answers:?}"), failed, vec![false, true, true, true, false])?;
    equal("damaged", &answers[1], &Reply::Error(FOREIGN.to_owned()))?;
    equal("the cost", &answers[3], &Reply::Error(BAD_COST.to_owned()))?;
    for i in [0, 4] {
        let Reply::List(list) = &answers[i] else { return Err(format!("{:?}", answers[i])) };
        equal("whose answer", &list[0], &Reply::Text(i.to_string().into_bytes()))?;
        let granted = 1 + usize::from(of.reply == ReplyFormat::Remembered);
        equal("granted", &list[granted], &Reply::Int(1))?;
        equal("charged", fake.get(&keys[i * each_keys]).is_some(), true)?;
    }
    let text =
        format!("TOLLGATE this script takes {each_keys} keys and {each_args} arguments a question");
    refused(&mut fake, &script, &keys, &args[1..], &text)?;
    refused(&mut fake, &script, &keys, &args[..args.len() - each_args], &text)?;
    refused(&mut fake, &script, &[], &args, &text)?;
    let odd = [keys.clone(), words(&["one more"])].concat();
    if each_keys > 1 {
        refused(&mut fake, &script, &odd, &args, &text)?;
    }
    equal("none", fake.call(&script, &[], &[]), Reply::List(Vec::new()))
}

const FOREIGN: &str = "TOLLGATE the key holds something that is no state of Tollgate";
const NEWER: &str =
    "TOLLGATE the state was written by a newer version: use that one, or reset the subject with it";
const LENGTH: &str = "TOLLGATE the state is damaged: it does not have the length that it says";
const NUMBER: &str = "TOLLGATE the state is damaged: it is of another number of limits";
const UNSOUND: &str = "TOLLGATE the state is damaged: it holds numbers that no count has";
const UNREADABLE: &str = "TOLLGATE the state is damaged: it cannot be read";
const STEP: &str =
    "TOLLGATE the state was written by a newer version: it names a step that is not known";
const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// The state that a charge leaves at the first key of a check.
fn charged(limits: &LimitSet) -> Held {
    let mut pair = Pair::new(Texts::default());
    pair.check(&[("somebody".to_owned(), limits.clone())], 2, Mode::Whole, NOW_US).unwrap();
    pair.fake.get(&place(limits).check[0]).unwrap()
}

fn text(held: Held) -> Vec<u8> {
    match held {
        Held::Text(bytes) => bytes,
        Held::List(rows) => rows[0].clone(),
    }
}

/// A state and what is wrong with it.
fn damages(good: &[u8], several: bool) -> Vec<(Vec<u8>, &'static str)> {
    let bar = good.iter().position(|byte| *byte == b'|').unwrap();
    let (tag, integers) = good.split_at(bar);
    let with = |tag: &[u8], integers: &[u8]| [tag, integers].concat();
    let newer = |version: &[u8]| [version, &good[1..]].concat();
    // Nothing counted by one limit more.
    let more = [b"|", &vec![0; integers.len() - 1 + 13][..]].concat();
    let mut all = vec![
        (b"hello".to_vec(), FOREIGN),
        (b"".to_vec(), FOREIGN),
        (b"1gg2:1,2,3;".to_vec(), FOREIGN),
        (good[1..].to_vec(), FOREIGN),
        (newer(b"2"), NEWER),
        (newer(b"11"), NEWER),
        (newer(b"10"), NEWER),
        (good[..good.len() - 1].to_vec(), LENGTH),
        (with(good, b"!"), LENGTH),
        (tag.iter().chain(b"|").copied().collect(), LENGTH),
        (with(&[tag, b"gg2:60000000,7,7;"].concat(), &more), NUMBER),
        (b"1|".to_vec(), NUMBER),
    ];
    // What the tag says is looked at before anything is counted with it.
    for (step, wrong) in [
        ("gg2:0,7,7;", UNSOUND),
        ("gg2:7,0,7;", UNSOUND),
        ("gg2:0,0,0;", UNSOUND),
        ("gg2:5;", UNSOUND),
        ("gg2:,;", UNSOUND),
        ("gg2:60000000,,7,7;", UNSOUND),
        ("gg2:,60000000,7,7;", UNSOUND),
        ("gg2:60000000,7,7,;", UNSOUND),
        ("gg2:60000000,7,0;", UNSOUND),
        ("gg2:1,9007199254741,1000;", UNSOUND),
        ("gg2:31622400000000,1,1000;", UNSOUND),
        ("ti2:7,60000000,0;", UNSOUND),
        ("ti2:1,31622400000000,73;", UNSOUND),
        ("ff2:1099511627777,60000000,0;", UNSOUND),
        ("ff2:7,60000000,2;", UNSOUND),
        ("ss4:1099511627777,20000000,2,0;", UNSOUND),
        ("ss2:7,20000000,0,0;", UNSOUND),
        ("ss1003:7,20000000,1001,0;", UNSOUND),
        ("ss4:7,20000000,2,3;", UNSOUND),
        ("ss4:7,15811200000001,2,0;", UNSOUND),
        ("ll0:1099511627777,60000000;", UNSOUND),
        ("gg2:60000000,7;", UNSOUND),
        ("gg2:60000000,7,7,7;", UNSOUND),
        ("gg3:60000000,7,7;", UNSOUND),
        ("gg0:60000000,7,7;", UNSOUND),
        ("gg2:31622400000001,7,7;", UNSOUND),
        ("gg2:7,7,99999999999999999999999999999999;", UNSOUND),
        ("ff2:3,0,0;", UNSOUND),
        ("ff2:0,3,0;", UNSOUND),
        ("ti2:7,7;", UNSOUND),
        ("ss4:7,20000000,3,0;", UNSOUND),
        ("ss2:7,20000000;", UNSOUND),
        ("ll2:7,60000000;", UNSOUND),
        ("gf2:7,60000000,0;", STEP),
        ("zz2:7,60000000,7;", STEP),
        ("g2:60000000,7,7;", UNREADABLE),
        ("gg2:60000000,7,7", UNREADABLE),
        ("gg2:60000000,7,-7;", UNREADABLE),
        ("!gg2:60000000,7,7;", UNREADABLE),
        ("gg2:60000000,7,7;!", UNREADABLE),
        ("hello", UNREADABLE),
    ] {
        all.push((with(format!("1{step}|").as_bytes(), b"0123456789012"), wrong));
        all.push((with(format!("1{step}|").as_bytes(), b""), wrong));
    }
    if several {
        all.push(([&b"1gg2:60000000,7,7;|"[..], &[0; 13]].concat(), NUMBER));
    }
    all
}

/// Texts at the key of a state: refused, and left as they are.
fn damaged_of(texts: &Texts, limits: &LimitSet) -> Result<(), Difference> {
    let place = place(limits);
    let good = text(charged(limits));
    let mut fake = Fake::new().bounded();
    for mode in MODES {
        let script = check(texts, Check::new(mode), &[limits]);
        let args = words(&["1", "nonce"]);
        fake.flush_scripts();
        for (state, wrong) in damages(&good, limits.limits().len() > 1) {
            fake.clear();
            fake.at(NOW_US);
            fake.put(&place.state, Held::Text(state));
            refused(&mut fake, &script, &place.check, &args, wrong)?;
        }
        fake.clear();
        fake.put(&place.state, Held::List([b"foreign".to_vec()].into()));
        let several = limits.limits().len() > 1;
        let wrong = if several { WRONGTYPE } else { FOREIGN };
        refused(&mut fake, &script, &place.check, &args, wrong)?;
    }
    Ok(())
}

fn damaged(texts: &Texts) -> Result<(), Difference> {
    for limits in &LIMITS[..4] {
        damaged_of(texts, &set(limits))?;
    }
    Ok(())
}

fn damaged_several(texts: &Texts) -> Result<(), Difference> {
    damaged_of(texts, &set("a: 7/m via gcra, b: 6/m precision 20s via sliding_window"))?;
    let limits = set("a: 7/m via gcra, b: 5/m via sliding_log");
    damaged_of(texts, &limits)?;
    let place = place(&limits);
    for mode in MODES {
        let script = check(texts, Check::new(mode), &[&limits]);
        let mut fake = Fake::new().bounded();
        fake.at(NOW_US);
        fake.put(&place.logs[1], Held::Text(b"text".to_vec()));
        refused(&mut fake, &script, &place.check, &words(&["1", "n"]), WRONGTYPE)?;
    }
    Ok(())
}

fn damaged_logs(texts: &Texts) -> Result<(), Difference> {
    let limits = set("x: 7/m via sliding_log");
    let place = place(&limits);
    let Held::List(rows) = charged(&limits) else { return Err("no list".to_owned()) };
    for mode in MODES {
        let script = check(texts, Check::new(mode), &[&limits]);
        let args = words(&["1", "nonce"]);
        let newer = [b"2", &rows[0][1..]].concat();
        let heads = [
            ("1ll0:7,0;|123456", UNSOUND),
            ("1ll0:8,60000000;|12345", FOREIGN),
            ("1ll0:8,60000000;|1234567", FOREIGN),
            ("1ll0:8,60000000;ll0:7,60000000;|123456", FOREIGN),
            ("1gg2:60000000,7,7;|123456", FOREIGN),
            ("1|123456", FOREIGN),
            ("1ll0:8,60000000;!|123456", UNREADABLE),
        ];
        let heads = heads.map(|(head, wrong)| (head.as_bytes().to_vec(), wrong));
        for (head, wrong) in
            [(b"foreign".to_vec(), FOREIGN), (newer, NEWER)].into_iter().chain(heads)
        {
            let mut fake = Fake::new().bounded();
            fake.at(NOW_US);
            let mut rows = rows.clone();
            rows[0] = head;
            fake.put(&place.state, Held::List(rows));
            refused(&mut fake, &script, &place.check, &args, wrong)?;
        }
        // A head alone is no log: no script leaves one.
        let mut fake = Fake::new().bounded();
        fake.at(NOW_US);
        fake.put(&place.state, Held::List([rows[0].clone()].into()));
        let before = fake.keys();
        let answer = fake.call(&script, &place.check, &args);
        equal("a head alone", matches!(answer, Reply::Error(_)), true)?;
        equal("a head alone", fake.keys(), before)?;
        for (state, wrong) in [("text", FOREIGN), ("2gg2:1,2,3;|0123456789012", NEWER)] {
            let mut fake = Fake::new().bounded();
            fake.at(NOW_US);
            fake.put(&place.state, Held::Text(state.into()));
            refused(&mut fake, &script, &place.check, &args, wrong)?;
        }
    }
    Ok(())
}

const MOST: u64 = 1 << 40;
const EXACT: u64 = 1 << 53;

/// States whose tag is sound, and the words that are not: the time, then the others.
const UNSOUND_WORDS: [(&str, &[u64]); 19] = [
    // As many parts of a microsecond as make one.
    ("1gg2:60000000,7,3;|", &[0, 7]),
    ("1gg2:60000000,7,3;|", &[NOW_US, (1 << 48) - 1]),
    ("1gg2:1,1,1;|", &[NOW_US, 9]),
    ("1gg2:60000000,7,3;|", &[EXACT, 0]),
    ("1gg2:60000000,7,3;|", &[(1 << 56) - 1, 0]),
    ("1tg2:60000000,7,3;|", &[NOW_US, 7]),
    ("1ti2:7,60000000,7;|", &[NOW_US, 8]),
    ("1ti2:7,60000000,7;|", &[EXACT, 1]),
    ("1ff2:7,60000000,0;|", &[NOW_US, MOST + 1]),
    ("1ff2:5,10000000,0;|", &[NOW_US, 60_000_000_000_000]),
    ("1ff2:7,60000000,1;|", &[EXACT, 1]),
    ("1ug2:60000000,7,3;|", &[NOW_US, 7]),
    ("1ss5:6,20000000,3,1;|", &[NOW_US / 20_000_000, MOST + 1, 0, 0, 0]),
    ("1ss5:6,20000000,3,1;|", &[NOW_US / 20_000_000, 0, MOST + 1, 0, 0]),
    ("1ss5:6,20000000,3,1;|", &[NOW_US / 20_000_000, 0, 0, 0, MOST + 1]),
    ("1ss5:6,20000000,3,1;|", &[EXACT / 20_000_000 + 1, 1, 1, 1, 1]),
    ("1ss5:6,1,3,1;|", &[EXACT, 1, 1, 1, 1]),
    ("1ss5:7,30000000,3,0;|", &[NOW_US, 1, 1, 1, 1]),
    ("1ss3:7,30000000,1,0;|", &[NOW_US / 30_000_000, 1, MOST + 1]),
];

fn packed(words: &[u64]) -> Vec<u8> {
    let bytes =
        |(i, word): (usize, &u64)| word.to_be_bytes()[if i == 0 { 1 } else { 2 }..].to_vec();
    words.iter().enumerate().flat_map(bytes).collect()
}

/// Integers that no count has, behind a tag that a limit has: the one that is asked for, another,
/// or that of another strategy. Nothing is decided by them.
fn unsound_words(texts: &Texts) -> Result<(), Difference> {
    for limits in LIMITS {
        let limits = set(limits);
        let place = place(&limits);
        let mut fake = Fake::new().bounded();
        let own = compose::set_tag(&limits);
        let (step, _) = own[1..].split_once(':').unwrap();
        let of_step = UNSOUND_WORDS.into_iter().filter(|(tag, _)| tag[1..].starts_with(step));
        let mut states: Vec<Vec<u8>> =
            of_step.map(|(_, words)| [own.as_bytes(), &packed(words)].concat()).collect();
        for (tag, words) in UNSOUND_WORDS {
            states.push([tag.as_bytes(), &packed(words)].concat());
        }
        // What a script of checks took for a count.
        states.push(b"1gg2:1,1,1;|0123456789012".to_vec());
        states.push(b"1ff2:5,10000000,0;|0123456789012".to_vec());
        for mode in MODES {
            let script = check(texts, Check::new(mode), &[&limits]);
            for state in &states {
                fake.clear();
                fake.at(NOW_US);
                fake.put(&place.state, Held::Text(state.clone()));
                refused(&mut fake, &script, &place.check, &words(&["1", "n"]), UNSOUND)?;
            }
        }
        for (script, keys, args) in rare(texts, &limits) {
            for state in &states {
                fake.clear();
                fake.put(&place.state, Held::Text(state.clone()));
                refused(&mut fake, &script, &keys, &args, UNSOUND)?;
            }
        }
    }
    // Of several, one.
    let limits = set("a: 7/m via gcra, b: 6/m precision 20s via sliding_window");
    let place_of = place(&limits);
    for (pair, row) in [([NOW_US, 7], [1, 1, 1, 1, 1]), ([NOW_US, 0], [1, 1, 1, MOST + 1, 1])] {
        let state = [compose::set_tag(&limits).into_bytes(), packed(&pair), packed(&row)].concat();
        let script = check(texts, Check::new(Mode::Whole), &[&limits]);
        let mut fake = Fake::new().bounded();
        fake.at(NOW_US);
        fake.put(&place_of.state, Held::Text(state));
        refused(&mut fake, &script, &place_of.check, &words(&["1", "n"]), UNSOUND)?;
    }
    unsound_logs(texts)
}

/// Events that are out of order, too late, or too long.
fn unsound_logs(texts: &Texts) -> Result<(), Difference> {
    let limits = set("x: 7/m via sliding_log");
    let place = place(&limits);
    let row = |at_us: u64, total: u64| packed(&[at_us, total]);
    let head = |tag: &str| [tag.as_bytes(), &[0; 6]].concat();
    for tag in [compose::set_tag(&limits).as_str(), "1ll0:8,60000000;|"] {
        for (events, in_checks, wrong) in [
            (vec![row(NOW_US, 1), row(NOW_US - 1, 2)], true, UNSOUND),
            (vec![row(EXACT, 1)], true, UNSOUND),
            (vec![row(NOW_US, 1), row(EXACT, 2)], true, UNSOUND),
            (vec![row(NOW_US, 1), row(NOW_US - 1, 2), row(NOW_US, 3)], false, UNSOUND),
            (
                vec![row(NOW_US, 1), [row(NOW_US, 2), vec![0]].concat(), row(NOW_US, 3)],
                false,
                LENGTH,
            ),
        ] {
            let rows = [vec![head(tag)], events].concat();
            let check = check(texts, Check::new(Mode::Whole), &[&limits]);
            let check = in_checks.then(|| (check, place.check.clone(), words(&["1", "n"])));
            for (script, keys, args) in rare(texts, &limits).into_iter().chain(check) {
                let mut fake = Fake::new().bounded();
                fake.at(NOW_US);
                fake.put(&place.state, Held::List(rows.clone().into()));
                refused(&mut fake, &script, &keys, &args, wrong)?;
            }
        }
    }
    Ok(())
}

/// The largest integers that a count can have are none of those, nor are the largest numbers of a
/// limit, under which others count now.
fn sound_words(texts: &Texts) -> Result<(), Difference> {
    for (limits, other, largest) in [
        ("x: 7/m burst 3 via gcra", "x: 9/m via gcra", [EXACT - 1, 6]),
        ("x: 7/m via fixed_window", "x: 9/m via fixed_window", [EXACT - 1, MOST]),
        (
            "x: 7/m refill interval via token_bucket",
            "x: 9/m refill interval via token_bucket",
            [EXACT - 1, 7],
        ),
    ] {
        let limits = set(limits);
        let place = place(&limits);
        for asked in [limits.clone(), set(other)] {
            let script = check(texts, Check::new(Mode::Peek), &[&asked]);
            let mut fake = Fake::new().bounded();
            fake.at(NOW_US);
            let state = [compose::set_tag(&limits).as_bytes(), &packed(&largest)].concat();
            fake.put(&place.state, Held::Text(state));
            let answer = fake.call(&script, &place.check, &words(&["1", "n"]));
            equal(&format!("{limits}, {asked}"), matches!(answer, Reply::List(_)), true)?;
        }
    }
    for (was, is) in [
        ("x: 1/366d burst 71 via gcra", "x: 1/365d burst 71 via gcra"),
        ("x: 1/1us burst 1099511627776 via gcra", "x: 1/2us via gcra"),
        (
            "x: 1/366d burst 71 refill interval via token_bucket",
            "x: 1/365d burst 71 refill interval via token_bucket",
        ),
        ("x: 1099511627776/366d via fixed_window", "x: 7/366d anchor first-hit via fixed_window"),
        ("x: 7/366d anchor first-hit via fixed_window", "x: 7/365d via fixed_window"),
        ("x: 1099511627776/366d via sliding_log", "x: 7/366d via sliding_log"),
        (
            "x: 1099511627776/10s precision 10ms rounding truncate via sliding_window",
            "x: 7/366d precision 366d via sliding_window",
        ),
        (
            "x: 7/366d precision 366d rounding truncate via sliding_window",
            "x: 7/10s via sliding_window",
        ),
    ] {
        let mut pair = Pair::new(texts.clone());
        for limits in [was, is] {
            let asked = [("somebody".to_owned(), set(limits))];
            pair.check(&asked, 1, Mode::Whole, NOW_US)?;
        }
    }
    // What the largest limit truncates away still lies in its buckets. Another rounding counts it,
    // and the next numbers place it all in one bucket, which holds no more than a limit has.
    let start = NOW_US - NOW_US % 10_000_000;
    let kept = start + 19_999_999;
    let truncating = "x: 1099511627776/10s precision 10s rounding truncate via sliding_window";
    let slower = "x: 7/20s precision 20s via sliding_window";
    let mut pair = Pair::new(texts.clone());
    for (limits, cost, at) in [
        (truncating, 1 << 40, start),
        (truncating, 1_099_511_517_824, kept),
        ("x: 1099511627776/10s precision 10s via sliding_window", 1, kept),
        (slower, 1, kept),
        (slower, 1, kept),
    ] {
        let asked = [("somebody".to_owned(), set(limits))];
        pair.check(&asked, cost, Mode::Whole, at)?;
    }
    Ok(())
}

/// The arguments of a refund and of an adjustment of one subject.
fn rare(texts: &Texts, limits: &LimitSet) -> [(Script, Vec<String>, Vec<String>); 2] {
    let Place { state, logs, .. } = place(limits);
    let refund = texts.script(compose::refund(Clock::Server, &texts.parts));
    let adjust = texts.script(compose::adjust(Clock::Server, &texts.parts));
    let mut keys = vec![Keys::mark(&state, 1), state.clone(), Keys::reset(&state)];
    keys.extend(logs.iter().cloned());
    let at = NOW_US.to_string();
    let mut args = words(&["nonce", "1", &at, &at, "1", "1", &limits.limits().len().to_string()]);
    for limit in limits.limits() {
        args.push(format!("{}{at}:{}", limit.strategy().code(), NOW_US + 10_000_000));
    }
    let logs = [vec![state], logs].concat();
    let has_state = u8::from(compose::has_state(limits)).to_string();
    let adjusted = words(&["nonce", "1", &compose::set_tag(limits), &has_state]);
    [(refund, keys, args), (adjust, logs, adjusted)]
}

fn damaged_rare(texts: &Texts) -> Result<(), Difference> {
    let several = ["a: 7/m via gcra, b: 6/m precision 20s via sliding_window"];
    for limits in LIMITS.into_iter().chain(several).map(set) {
        let place = place(&limits);
        let good = text(charged(&limits));
        let many = limits.limits().len() > 1;
        let is_log = limits.to_string().contains("sliding_log");
        for (script, keys, args) in rare(texts, &limits) {
            let mut fake = Fake::new().bounded();
            fake.at(NOW_US);
            for (state, wrong) in damages(&good, many) {
                // The head of a log is no state of its own.
                let damaged_head = is_log && (wrong == LENGTH || wrong == NUMBER);
                if damaged_head {
                    continue;
                }
                fake.clear();
                fake.put(&place.state, Held::Text(state));
                refused(&mut fake, &script, &keys, &args, wrong)?;
            }
            fake.clear();
            let unknown = |letter: &str| {
                let end = good.iter().position(|byte| *byte == b':').unwrap();
                [&good[..2], letter.as_bytes(), &good[3..end], &good[end..]].concat()
            };
            if !is_log {
                fake.put(&place.state, Held::Text(unknown("z")));
                refused(&mut fake, &script, &keys, &args, STEP)?;
            }
            for head in [
                "foreign",
                "1gg2:1,2,3;|123456",
                "1ll0:7,60000000;|1234567",
                "1ll0:7,60000000;ll0:7,60000000;|123456",
            ] {
                fake.put(&place.state, Held::List([head.as_bytes().to_vec()].into()));
                let wrong = if many { WRONGTYPE } else { FOREIGN };
                refused(&mut fake, &script, &keys, &args, wrong)?;
            }
        }
    }
    // A log beside a state.
    let limits = set("a: 7/m via gcra, b: 5/m via sliding_log");
    for (script, keys, args) in rare(texts, &limits) {
        let mut fake = Fake::new().bounded();
        fake.at(NOW_US);
        let log = &place(&limits).logs[1];
        fake.put(log, Held::List([b"2ll0:7,60000000;|123456".to_vec()].into()));
        refused(&mut fake, &script, &keys, &args, NEWER)?;
    }
    Ok(())
}

/// 1 and 0, and the same states as the long answers leave.
fn boolean(texts: &Texts) -> Result<(), Difference> {
    for limits in LIMITS.into_iter().chain(SEVERAL).map(set) {
        for mode in MODES {
            let mut short = Check::new(mode);
            short.reply = ReplyFormat::Boolean;
            let short = check(texts, short, &[&limits]);
            let mut pair = Pair::new(texts.clone());
            let mut fake = Fake::new().bounded();
            for i in 0..12 {
                let (cost, now_us) = (1 + i % 4, NOW_US + i * 5_000_000);
                let asked = [("somebody".to_owned(), limits.clone())];
                let outcome = pair.check(&asked, cost, mode, now_us)?;
                fake.at(now_us);
                let answer = fake.call(&short, &place(&limits).check, &[cost.to_string()]);
                equal("short", answer, Reply::Int(i64::from(outcome.granted > 0)))?;
                equal("its state", fake.keys(), pair.fake.keys())?;
            }
        }
    }
    Ok(())
}

/// The first answer is given again, and nothing is charged for it.
fn remembered(texts: &Texts) -> Result<(), Difference> {
    for clock in [Clock::Server, Clock::Given] {
        for text in LIMITS.into_iter().chain(SEVERAL) {
            let mut of = Check::new(Mode::Whole);
            (of.reply, of.clock) = (ReplyFormat::Remembered, clock);
            // Under other numbers in turn, so that answers say what was carried over.
            let other = text.replace("7/m", "8/m").replace("6/m", "9/m").replace("5/m", "4/m");
            let sets = [set(text), set(&other)];
            let scripts = sets.each_ref().map(|limits| check(texts, of, &[limits]));
            let mut pair = Pair::by(clock, texts.clone());
            let mut fake = Fake::new().bounded();
            for i in 0..24 {
                // Every other time back within the skew, so that answers say when was charged.
                let (cost, now_us) = (1 + i % 3, NOW_US + i / 2 * 5_000_000 - i % 2 * 600_000);
                let turn = usize::from(i % 6 == 4 || i % 6 == 5);
                let (limits, script) = (&sets[turn], &scripts[turn]);
                let asked = [("somebody".to_owned(), limits.clone())];
                let outcome = pair.check(&asked, cost, Mode::Whole, now_us)?;
                let request = format!("request{i}");
                let keys = [place(limits).check, vec![request.clone()]].concat();
                let mut args =
                    vec![cost.to_string(), format!("n{i}"), format!("q{i}"), "7000".into()];
                fake.at(now_us);
                if clock == Clock::Given {
                    fake.at(1);
                    args.push(now_us.to_string());
                }
                let answer = fake.call(script, &keys, &args);
                let Reply::List(list) = &answer else { return Err(format!("{answer:?}")) };
                let wanted = super::model::reply(&outcome);
                let own = Reply::Text(format!("n{i}").into_bytes());
                equal("nonce", &list[0], &own)?;
                equal("number", &list[1], &own)?;
                let integers: Vec<Reply> = wanted.iter().map(|n| Reply::Int(*n)).collect();
                equal("answer", &list[2..], &integers[..list.len() - 2])?;
                let more = integers.len() > list.len() - 2;
                let more_of = &wanted[wanted.len() - 2 * outcome.fields.len()..];
                let usual = more_of.chunks(2).all(|pair| pair == [wanted[1], 0]);
                equal("says what is unusual", more, usual)?;
                let granted = outcome.granted > 0;
                equal("kept", fake.get(&request).is_some(), granted)?;
                if !granted {
                    continue;
                }
                equal("for", fake.lifetime(&request), Some(7000))?;
                // Again under another nonce: the same but for the nonce.
                let before = fake.keys();
                args[1] = "again".to_owned();
                let mut same = list.clone();
                same[0] = Reply::Text(b"again".to_vec());
                equal("again", fake.call(script, &keys, &args), Reply::List(same))?;
                args[2] = "other".to_owned();
                let other = Reply::List(vec![Reply::Text(b"again".to_vec()), Reply::Int(-1)]);
                equal("another question", fake.call(script, &keys, &args), other)?;
                equal("a repeat changes nothing", fake.keys(), before)?;
            }
        }
    }
    Ok(())
}

fn inspect(texts: &Texts) -> Result<(), Difference> {
    for clock in [Clock::Server, Clock::Given] {
        let script = texts.script(compose::inspect(clock, &texts.parts));
        let mut fake = Fake::new().bounded();
        fake.at(NOW_US);
        fake.put("text", Held::Text(b"t".to_vec()));
        fake.put("list", Held::List([b"a".to_vec(), b"b".to_vec(), b"c".to_vec()].into()));
        let mut args = words(&["nonce"]);
        let now_us = if clock == Clock::Given { 5_000_000 } else { NOW_US };
        args.push("5000000".to_owned());
        let text = |text: &str| Reply::Text(text.into());
        let wanted = vec![
            text("nonce"),
            Reply::Int(i64::try_from(now_us).unwrap()),
            text("t"),
            Reply::List(vec![text("a"), text("b"), text("c")]),
            Reply::Nil,
        ];
        let keys = words(&["text", "list", "none"]);
        equal("held", fake.call(&script, &keys, &args), Reply::List(wanted))?;
    }
    Ok(())
}

fn swap(texts: &Texts) -> Result<(), Difference> {
    let script = texts.script(compose::swap(&texts.parts));
    let keys = words(&["a", "b", "c"]);
    let fresh = || {
        let fake = Fake::new().bounded();
        fake.put("a", Held::Text(b"old".to_vec()));
        fake.put("c", Held::Text(b"gone".to_vec()));
        fake
    };
    let answer = |said| Reply::List(vec![Reply::Text(b"n".to_vec()), Reply::Int(said)]);
    let good = ["n", "old", "new", "10", "0", "", "more", "20", "0", "gone", "", "30", "40"];
    let mut fake = fresh();
    equal("swap", fake.call(&script, &keys, &words(&good)), answer(1))?;
    let held = |reset: &str| -> HashMap<Vec<u8>, Held> {
        let each = [("a", "new"), ("b", "more"), ("c!reset", reset)];
        each.map(|(k, v)| (k.into(), Held::Text(v.into()))).into()
    };
    equal("swapped", fake.keys(), held("0:0"))?;
    equal("for", fake.lifetime("a"), Some(10))?;
    equal("for", fake.lifetime("b"), Some(20))?;
    equal("for", fake.lifetime("c!reset"), Some(40))?;
    // A reset that is remembered is remembered for longer, never for less.
    for (left, is_longer) in [("39", false), ("40", false), ("41", true)] {
        let (mut fake, mut args) = (fresh(), words(&good));
        let mut reset = words(&good);
        "40".clone_into(&mut reset[12]);
        fake.call(&script, &keys, &reset);
        fake.put("a", Held::Text(b"old".to_vec()));
        fake.put("c", Held::Text(b"gone".to_vec()));
        fake.call(&script, &words(&["b"]), &words(&["n", "more", "", "1", "0"]));
        fake.put("c!reset", Held::Text(b"5:6".to_vec()));
        left.clone_into(&mut args[12]);
        equal("swap", fake.call(&script, &keys, &args), answer(1))?;
        equal("kept", fake.keys(), held("5:6"))?;
        equal("longer", fake.written().contains_key(&b"c!reset"[..]), is_longer)?;
    }
    for expected in [1, 5, 9] {
        let (mut fake, mut args) = (fresh(), words(&good));
        "other".clone_into(&mut args[expected]);
        equal("no swap", fake.call(&script, &keys, &args), answer(0))?;
        equal("nothing swapped", fake.keys(), fresh().keys())?;
    }
    Ok(())
}

/// Sets that replace each other and differ in one limit, or one number of it.
const CHANGES: [&[&str]; 11] = [
    &[
        "a: 6/6ms via sliding_log, b: 5/6ms via sliding_log",
        "a: 6/6ms via sliding_log, b: 4/6ms via sliding_log",
        "a: 7/6ms via sliding_log, b: 5/6ms via sliding_log",
        "a: 7/8ms via sliding_log, b: 5/7ms via sliding_log",
    ],
    &[
        "x: 7/m via fixed_window",
        "x: 5/m via fixed_window",
        "x: 7/5s via fixed_window",
        "x: 7/m anchor first-hit via fixed_window",
        "x: 60/m via fixed_window",
    ],
    &["x: 7/m anchor first-hit via fixed_window", "x: 9/m anchor first-hit via fixed_window"],
    &[
        "x: 3/10us burst 5 via gcra",
        "x: 7/3us burst 5 via gcra",
        "x: 5/7us burst 9 via gcra",
        "x: 7/5us burst 4 via gcra",
        "x: 3/10us burst 8 via gcra",
    ],
    &["x: 3/11ms burst 5 via gcra", "x: 7/3ms burst 5 via gcra", "x: 3/11ms burst 3 via gcra"],
    &[
        "x: 3/10us burst 5 refill interval via token_bucket",
        "x: 3/10us burst 5 via token_bucket",
        "x: 4/10us burst 3 refill interval via token_bucket",
        "x: 4/7us burst 9 refill interval via token_bucket",
    ],
    &[
        "x: 6/6s precision 2s rounding interpolate via sliding_window",
        "x: 9/6s precision 2s rounding interpolate via sliding_window",
        "x: 6/6s precision 2s rounding truncate via sliding_window",
        "x: 6/6s precision 3s rounding interpolate via sliding_window",
        "x: 6/4s precision 2s rounding conservative via sliding_window",
    ],
    &["x: 6/6s via sliding_log", "x: 3/6s via sliding_log", "x: 6/3s via sliding_log"],
    &[
        "x: 6/6s precision 6s rounding truncate via sliding_window",
        "x: 6/6s precision 6s rounding interpolate via sliding_window",
        "x: 3/6s precision 6s rounding truncate via sliding_window",
    ],
    &[
        "a: 3/10ms burst 5 via gcra, b: 6/6ms via sliding_log, c: 6/6ms precision 2ms via sliding_window",
        "a: 3/10ms burst 5 via gcra, b: 5/6ms via sliding_log, c: 6/6ms precision 2ms via sliding_window",
        "a: 3/10ms burst 5 via gcra, b: 6/6ms via sliding_log, c: 6/6ms precision 3ms via sliding_window",
        "a: 3/11ms burst 5 via gcra, b: 6/6ms via sliding_log, c: 6/6ms precision 2ms via sliding_window",
        "a: 3/10ms via fixed_window, b: 6/6ms via gcra, c: 6/6ms via sliding_log",
    ],
    &[
        "a: 3/10ms burst 5 refill interval via token_bucket, b: 6/6ms via fixed_window",
        "a: 3/10ms burst 5 refill interval via token_bucket, b: 7/6ms via fixed_window",
        "a: 3/10ms burst 7 via token_bucket, b: 6/6ms via fixed_window",
    ],
];

fn changed(texts: &Texts) -> Result<(), Difference> {
    let mut pair = Pair::new(texts.clone());
    pair.fake = Fake::new().bounded();
    // The first moments of all time, when nothing lies before.
    for (i, limits) in LIMITS.into_iter().chain(SEVERAL).map(set).enumerate() {
        for now_us in [0, 1, 19_999_999, 20_000_000, 20_000_001] {
            let asked = [(format!("s{i}-{now_us}"), limits.clone())];
            pair.check(&asked, 2, Mode::Whole, now_us)?;
        }
    }
    // A debt of one unit and a third, which is one and three sevenths, rounded up.
    let asked = |text: &str| [("third".to_owned(), set(text))];
    pair.check(&asked("x: 1/3us burst 5 via gcra"), 2, Mode::Whole, NOW_US)?;
    pair.check(&asked("x: 1/7us burst 5 via gcra"), 1, Mode::Peek, NOW_US + 2)?;
    // A denial of which only the log was counted under other numbers.
    let several = |units: u64| {
        let b = format!("b: {units}/6ms via sliding_log");
        let text =
            format!("a: 3/10ms burst 5 via gcra, {b}, c: 6/6ms precision 2ms via sliding_window");
        [("denied".to_owned(), set(&text))]
    };
    pair.check(&several(6), 5, Mode::Whole, NOW_US)?;
    pair.check(&several(5), 1, Mode::Whole, NOW_US + 1)?;
    pair.check(&several(6), 1, Mode::Whole, NOW_US + 2)?;
    // A denial of which only the window is from the future: the others start fresh.
    let window = "c: 6/6ms precision 2ms via sliding_window";
    let old = set(&format!("a: 30/10ms via fixed_window, b: 60/6ms via gcra, {window}"));
    let new = set(&format!("a: 3/10ms burst 5 via gcra, b: 6/6ms via sliding_log, {window}"));
    pair.check(&[("future".to_owned(), old)], 6, Mode::Whole, NOW_US)?;
    pair.check(&[("future".to_owned(), new)], 1, Mode::Whole, NOW_US - 2_000_000)?;
    for (sets, seed) in CHANGES.into_iter().zip(100..) {
        let mut plan = Plan::new(sets.iter().map(|text| set(text)).collect());
        plan.restless = true;
        let several = sets[0].contains(',');
        for seed in [seed, seed + 100, seed + 200].into_iter().take(if several { 3 } else { 1 }) {
            pair.history(&mut seeded(seed), &plan, 1, 600)?;
        }
    }
    Ok(())
}

/// A refund at the edge of what counts as skew, and one microsecond beyond it.
fn skewed(texts: &Texts) -> Result<(), Difference> {
    for limits in LIMITS.map(set) {
        for back_us in [0, 1, 999_999, 1_000_000, 1_000_001, 1_000_002] {
            let mut pair = Pair::new(texts.clone());
            pair.fake = Fake::new().bounded();
            let asked = [("somebody".to_owned(), limits.clone())];
            for cost in [1, 2] {
                pair.check(&asked, cost, Mode::Whole, NOW_US)?;
            }
            let parts = vec![("somebody".to_owned(), limits.clone(), vec![NOW_US])];
            let charge = Charge { number: 1, at_us: NOW_US, cost: 2, parts };
            pair.refund(&charge, charge.cost, NOW_US - back_us)?;
            pair.check(&asked, 1, Mode::Peek, NOW_US - back_us)?;
        }
    }
    Ok(())
}

/// Parts of a charge, while others count and time passes, until nothing is left.
fn in_parts(texts: &Texts) -> Result<(), Difference> {
    for limits in LIMITS.map(set) {
        for parts in [[1, 1, 1, 1], [2, 1, 3, 1], [3, 1, 1, 1], [1, 2, 2, 3]] {
            for step_us in [0, 1, 2_857_143, 8_571_428, 9_000_000, 20_000_000] {
                let mut pair = Pair::new(texts.clone());
                pair.fake = Fake::new().bounded();
                let asked = [("somebody".to_owned(), limits.clone())];
                pair.check(&asked, 3, Mode::Whole, NOW_US)?;
                let own = vec![("somebody".to_owned(), limits.clone(), vec![NOW_US])];
                let charge = Charge { number: 1, at_us: NOW_US, cost: 3, parts: own };
                for (i, units) in (1..).zip(parts) {
                    pair.refund(&charge, units, NOW_US + i * step_us)?;
                    pair.check(&asked, 1, Mode::Peek, NOW_US + i * step_us)?;
                    pair.check(&asked, 1, Mode::Whole, NOW_US + i * step_us)?;
                }
            }
        }
    }
    Ok(())
}

/// A clock beyond the last time counts as that one.
fn end_of_time(texts: &Texts) -> Result<(), Difference> {
    let last_us = Time::MAX.as_micros();
    for limits in LIMITS.map(set) {
        let mut pair = Pair::new(texts.clone());
        pair.fake = Fake::new().bounded();
        let asked = [("somebody".to_owned(), limits.clone())];
        for now_us in [last_us - 1, last_us, last_us + 1, last_us + 30_000_000] {
            pair.check(&asked, 1, Mode::Whole, now_us)?;
        }
    }
    Ok(())
}

/// A mark without a number is one of before, or damaged: nothing is given back.
fn marks(texts: &Texts) -> Result<(), Difference> {
    for limits in LIMITS.map(set) {
        for mark in ["", "x", "-1", "1.5", "1e0", "0x1", " 1", "nan", "inf", "99999999999999999999"]
        {
            let mut pair = Pair::new(texts.clone());
            pair.fake = Fake::new().bounded();
            let asked = [("somebody".to_owned(), limits.clone())];
            pair.check(&asked, 3, Mode::Whole, NOW_US)?;
            let parts = vec![("somebody".to_owned(), limits.clone(), vec![NOW_US])];
            let charge = Charge { number: 1, at_us: NOW_US, cost: 3, parts };
            pair.fake.put(&Keys::mark(&place(&limits).state, 1), Held::Text(mark.into()));
            pair.model.given_back(1, 3);
            pair.refund(&charge, 1, NOW_US + 1)?;
        }
    }
    Ok(())
}

/// A reset after the charge, by its number or by its time, where only one of them says so.
fn forgotten(texts: &Texts) -> Result<(), Difference> {
    const FAR: u64 = 1 << 40;
    for limits in LIMITS.map(set) {
        for (number, reset) in [
            (FAR + 9, FAR + 10),
            (FAR + 10, FAR + 9),
            (FAR + 9, FAR + FAR + 8),
            (FAR + 9, FAR + FAR + 9),
            (FAR + FAR + 8, FAR + 9),
            (FAR + FAR + 9, FAR + 9),
        ] {
            for reset_us in [NOW_US - 1, NOW_US, NOW_US + 1] {
                let mut pair = Pair::new(texts.clone());
                pair.fake = Fake::new().bounded();
                let asked = [("somebody".to_owned(), limits.clone())];
                pair.nonce = number - 1;
                pair.check(&asked, 2, Mode::Whole, NOW_US)?;
                pair.nonce = reset - 1;
                pair.reset("somebody", &limits, reset_us)?;
                pair.check(&asked, 2, Mode::Whole, NOW_US)?;
                let parts = vec![("somebody".to_owned(), limits.clone(), vec![NOW_US])];
                let charge = Charge { number, at_us: NOW_US, cost: 2, parts };
                pair.refund(&charge, charge.cost, NOW_US + 2)?;
            }
        }
    }
    Ok(())
}

/// A third of a unit is left, and a third of seven microseconds is two and a rest of one.
fn scaled(texts: &Texts) -> Result<(), Difference> {
    let mut pair = Pair::new(texts.clone());
    let [was, is] = ["x: 1/3us burst 9 via gcra", "x: 1/7us burst 9 via gcra"].map(set);
    pair.check(&[("somebody".to_owned(), was)], 1, Mode::Whole, NOW_US)?;
    pair.check(&[("somebody".to_owned(), is)], 1, Mode::Peek, NOW_US + 2)?;
    Ok(())
}

/// The newest count lies within the skew ahead: without it the window is that of now, which holds
/// what had left the other one.
fn uncovered(texts: &Texts) -> Result<(), Difference> {
    let mut pair = Pair::new(texts.clone());
    let limits = set("x: 9/4s precision 1s rounding truncate via sliding_window");
    let asked = [("somebody".to_owned(), limits.clone())];
    pair.check(&asked, 3, Mode::Whole, 10_000_000)?;
    pair.check(&asked, 1, Mode::Whole, 14_000_000)?;
    let parts = vec![("somebody".to_owned(), limits, vec![14_000_000])];
    let charge = Charge { number: 2, at_us: 14_000_000, cost: 1, parts };
    pair.refund(&charge, charge.cost, 13_500_000)?;
    Ok(())
}

/// A window from the future, of which a bucket straddles that loses many units in a microsecond.
fn stepped_back(texts: &Texts) -> Result<(), Difference> {
    let mut pair = Pair::new(texts.clone());
    pair.fake = Fake::new().bounded();
    let limits = set("x: 1000/4us precision 2us rounding interpolate via sliding_window");
    let asked = [("somebody".to_owned(), limits)];
    let start_us = NOW_US - NOW_US % 2;
    pair.check(&asked, 400, Mode::Whole, start_us)?;
    pair.check(&asked, 100, Mode::Whole, start_us + 4)?;
    for mode in [Mode::Peek, Mode::PeekPartial, Mode::Whole] {
        pair.check(&asked, 600, mode, start_us - 2_000_000)?;
    }
    Ok(())
}

/// A log whose totals pass 2^48 counts what it counted.
fn wrapped(texts: &Texts) -> Result<(), Difference> {
    let limits = set("x: 7/m via sliding_log");
    let place = place(&limits);
    let most: u64 = 1 << 48;
    let row = |at_us: u64, total: u64| {
        [&at_us.to_be_bytes()[1..], &(total % most).to_be_bytes()[2..]].concat()
    };
    let head = [compose::set_tag(&limits).as_bytes(), &(most - 3).to_be_bytes()[2..]].concat();
    // Costs 2, 3 and 1, at seconds that follow each other.
    let rows = [(0, most - 1), (1, most + 2), (2, most + 3)];
    let rows = rows.map(|(i, total)| row(NOW_US + i * 1_000_000, total));
    let rows: Vec<Vec<u8>> = [vec![head], rows.into()].concat();
    let whole = check(texts, Check::new(Mode::Whole), &[&limits]);
    let fresh = || {
        let fake = Fake::new().bounded();
        fake.put(&place.state, Held::List(rows.clone().into()));
        fake
    };
    let later = NOW_US + 3_000_000;
    for (now_us, cost, wanted) in [
        (later, "1", [1, 0, 0, 60_000_000]),
        (later, "2", [0, 1, 57_000_000, 59_000_000]),
        (later, "4", [0, 1, 58_000_000, 59_000_000]),
        (later, "6", [0, 1, 58_000_000, 59_000_000]),
        (later, "7", [0, 1, 59_000_000, 59_000_000]),
        (NOW_US + 60_000_000, "3", [3, 0, 0, 60_000_000]),
        (NOW_US + 61_000_000, "3", [3, 3, 0, 60_000_000]),
    ] {
        let mut fake = fresh();
        fake.at(now_us);
        let answer = fake.call(&whole, &place.check, &words(&[cost, "n"]));
        let now = i64::try_from(now_us).unwrap();
        let wanted = [wanted[0], now, wanted[1], wanted[2], wanted[3]];
        equal(cost, answer.integers(), wanted.into())?;
    }
    // What is given back goes from the oldest; what is taken is written after the newest.
    for (delta, now_us, left) in [("3", later, 4), ("-1", later, 0), ("1", NOW_US + 60_500_000, 4)]
    {
        let mut fake = fresh();
        fake.at(now_us);
        let [_, (adjust, keys, mut args)] = rare(texts, &limits);
        delta.clone_into(&mut args[1]);
        fake.call(&adjust, &keys, &args);
        let peek = check(texts, Check::new(Mode::Peek), &[&limits]);
        let answer = fake.call(&peek, &place.check, &words(&["1", "n"]));
        equal(delta, answer.integers()[2], left)?;
    }
    // What is charged or taken leaves the events before it as they are, wherever totals lie.
    for start in most - 5..most {
        let head = [compose::set_tag(&limits).as_bytes(), &start.to_be_bytes()[2..]].concat();
        let events = [0, 1, 2, 3].map(|i| row(NOW_US + i, start + 1 + i));
        let rows: Vec<Vec<u8>> = [vec![head], events.into()].concat();
        let [_, (adjust, keys, mut args)] = rare(texts, &limits);
        "-1".clone_into(&mut args[1]);
        let charge = (whole.clone(), place.check.clone(), words(&["1", "n"]));
        for (script, keys, args) in [(adjust, keys, args), charge] {
            let mut fake = Fake::new().bounded();
            fake.at(NOW_US + 3);
            fake.put(&place.state, Held::List(rows[..4].to_vec().into()));
            fake.call(&script, &keys, &args);
            equal("rows", fake.get(&place.state), Some(Held::List(rows.clone().into())))?;
        }
    }
    Ok(())
}

/// Longer than random histories: logs of thousands of events, and a clock that is given.
fn long(texts: &Texts) -> Result<(), Difference> {
    for strategy in Strategy::ALL {
        let mut pair = Pair::by(Clock::Given, texts.clone());
        pair.fake = Fake::new().bounded();
        let mut rng = seeded(3);
        let plan = Plan::of(&mut rng, *strategy);
        pair.history(&mut rng, &plan, 1, 120)?;
    }
    let mut pair = Pair::by(Clock::Given, texts.clone());
    pair.fake = Fake::new().bounded();
    for limits in SEVERAL {
        pair.history(&mut seeded(4), &Plan::new(vec![set(limits)]), 2, 80)?;
    }
    let limits = set("x: 5000/m via sliding_log");
    for count in [999, 1000, 1999] {
        let mut fake = Fake::new().bounded();
        let mut rows = vec![[compose::set_tag(&limits).as_bytes(), &[0; 6]].concat()];
        for i in 1..=count {
            rows.push([&(NOW_US + i).to_be_bytes()[1..], &i.to_be_bytes()[2..]].concat());
        }
        let [_, (adjust, keys, mut args)] = rare(texts, &limits);
        "-1".clone_into(&mut args[1]);
        fake.put(&place(&limits).state, Held::List(rows.clone().into()));
        fake.at(NOW_US + count + 1);
        fake.call(&adjust, &keys, &args);
        let last = count + 1;
        rows.push([&(NOW_US + last).to_be_bytes()[1..], &last.to_be_bytes()[2..]].concat());
        equal("log", fake.get(&place(&limits).state), Some(Held::List(rows.into())))?;
        // The time, how long two keys lie, the state, the log, DEL, the head, the events by the
        // thousand, PEXPIRE, and how long they lie now.
        equal("calls", fake.calls(), 10 + last.div_ceil(1000))?;
    }
    let mut pair = Pair::new(texts.clone());
    let limits = set("x: 5/s via gcra");
    let asked = [("somebody".to_owned(), limits.clone())];
    let outcome = pair.check(&asked, 1, Mode::Whole, NOW_US)?;
    let charge = Charge {
        number: 1,
        at_us: NOW_US,
        cost: outcome.granted,
        parts: vec![("somebody".to_owned(), limits.clone(), vec![NOW_US])],
    };
    // Of the same microsecond as a reset: forgotten.
    pair.reset("somebody", &limits, NOW_US)?;
    pair.check(&asked, 1, Mode::Whole, NOW_US)?;
    pair.refund(&charge, charge.cost, NOW_US)?;
    let held = pair.model.counts.contains_key(&whose("somebody", &limits));
    equal("kept what was charged after a reset", held, true)
}
