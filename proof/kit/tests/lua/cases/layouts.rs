//! Scripts whose calls bring the numbers of limits: they count as those with these numbers do.

use tollgate::LimitSet;
use tollgate::engine::Mode;
use tollgate_proof::Random;
use tollgate_redis::compose::{Check, Layout, ReplyFormat, number_args};

use super::{NOW_US, equal, place, set, words};
use crate::lua::fake::{Fake, Reply};
use crate::lua::histories::{Difference, Texts};

/// A limit of `n` in `3 * third` milliseconds, with a burst, and the words of its calls.
type Form = (fn(u64, u64, u64) -> String, &'static str);

const FORMS: [Form; 8] = [
    (|n, third, _| format!("{n}/{}ms via uniform", 3 * third), "n ms cost"),
    (|n, third, burst| format!("{n}/{}ms burst {burst} via gcra", 3 * third), "n ms burst cost"),
    (
        |n, third, burst| {
            format!("{n}/{}ms burst {burst} refill interval via token_bucket", 3 * third)
        },
        "burst n ms cost",
    ),
    (|n, third, _| format!("{n}/{}ms via token_bucket", 3 * third), "n ms cost"),
    (|n, third, _| format!("{n}/{}ms via fixed_window", 3 * third), "_ n ms cost"),
    (|n, third, _| format!("{n}/{}ms anchor first-hit via fixed_window", 3 * third), "cost n ms"),
    (|n, third, _| format!("{n}/{}ms via sliding_log", 3 * third), "n ms cost"),
    (
        |n, third, _| {
            let whole = 3 * third;
            format!("{n}/{whole}ms precision {third}ms rounding interpolate via sliding_window")
        },
        "n ms cost",
    ),
];

/// Units, thirds of a time in milliseconds, and bursts: small and large, and some of no limit.
const NUMBERS: [[u64; 3]; 9] = [
    [7, 20_000, 3],
    [1, 1, 1],
    [1_000, 1, 5_000],
    [999_983, 1_200_000, 999_983],
    [1 << 40, 10_540_800_000, 1 << 40],
    [1 << 40, 1, 1],
    [1, 10_540_800_000, 71],
    [1, 10_540_800_000, 72],
    [3, 10_540_800_001, 3],
];

/// Random limits are asked with their numbers in the call, and with their arguments.
pub(super) fn numbers(texts: &Texts) -> Result<(), Difference> {
    let mut random = Random::new(62);
    for (form, layout) in FORMS {
        let base = set(&form(7, 20_000, 7));
        let layout = Layout::parse(layout, &[&base]).map_err(|error| error.to_string())?;
        let mut check = Check::new(Mode::Whole);
        check.reply = ReplyFormat::Verbose;
        let parts = &texts.parts;
        let given = check.compose_with_number_args(&[&base], parts);
        let given = texts.script(given.ok_or("no script")?);
        let with = check.compose_with_layout(&[&base], parts, &layout);
        let with = texts.script(with.ok_or("no script")?);
        let (mut one, mut other) = (Fake::new().bounded(), Fake::new().bounded());
        for round in 0..60 {
            let random_numbers = [
                1 + random.below(1 << (1 + round % 40)),
                1 + random.below(1 << (1 + round % 31)),
                1 + random.below(1 << (1 + round % 24)),
            ];
            let [n, third, burst] = NUMBERS.get(round).copied().unwrap_or(random_numbers);
            let args = layout_args(layout.text(), n, 3 * third, burst);
            let keys = place(&base).check;
            one.clear();
            other.clear();
            let Ok(limits) = form(n, third, burst).parse::<LimitSet>() else {
                one.at(NOW_US);
                let answer = one.call(&with, &keys, &args);
                let is_refused =
                    matches!(&answer, Reply::Error(text) if text.starts_with("TOLLGATE "));
                equal(&format!("{args:?}: {answer:?}"), is_refused && !one.wrote(), true)?;
                continue;
            };
            let mut same = words(&["1", "0"]);
            same.extend(number_args(&[&limits]));
            for i in 0..3 {
                one.at(NOW_US + i * 1_000 * third);
                other.at(NOW_US + i * 1_000 * third);
                let answer = one.call(&with, &keys, &args);
                equal(&limits.to_string(), answer, other.call(&given, &keys, &same))?;
                equal("its state", one.keys(), other.keys())?;
            }
        }
    }
    Ok(())
}

/// The call of these numbers.
fn layout_args(words: &str, n: u64, ms: u64, burst: u64) -> Vec<String> {
    let value = |word: &str| match word {
        "n" => n,
        "ms" => ms,
        "burst" => burst,
        _ => 1,
    };
    words.split(' ').map(|word| value(word).to_string()).collect()
}

/// Words that are no numbers, or too few, are an error that changes nothing.
pub(super) fn wrong(texts: &Texts) -> Result<(), Difference> {
    let limits = set("7/m via sliding_log");
    let layout = Layout::parse("n s cost", &[&limits]).map_err(|error| error.to_string())?;
    let script = Check::new(Mode::Whole).compose_with_layout(&[&limits], &texts.parts, &layout);
    let script = texts.script(script.ok_or("no script")?);
    let mut fake = Fake::new().bounded();
    fake.at(NOW_US);
    let keys = place(&limits).check;
    let units = "a number of units must be a whole number from 1 to 1099511627776";
    let time = "the time of a limit must be a whole number from 1 to 31622400";
    let count = "this script takes 1 keys and 3 arguments: n s cost";
    for (args, says) in [
        (&["0", "60", "1"][..], units),
        (&["07", "60", "1"], units),
        (&["1099511627777", "60", "1"], units),
        (&["x", "60", "1"], units),
        (&["7", "31622401", "1"], time),
        (&["7", "6.5", "1"], time),
        (&["7", "60", "0"], "the cost must be a whole number from 1 to 2^40"),
        (&["7", "60"], count),
        (&["7", "60", "1", "1"], count),
    ] {
        super::refused(&mut fake, &script, &keys, &words(args), &format!("TOLLGATE {says}"))?;
    }
    let answer = fake.call(&script, &keys, &words(&["7", "60", "1"]));
    equal("the right ones", matches!(answer, Reply::List(_)), true)
}

/// A denial names the limit with the longest wait.
pub(super) fn in_words(texts: &Texts) -> Result<(), Difference> {
    let (resource, consumer) = (set("5/10s via sliding_log"), set("x: 3/20s via gcra"));
    let mut check = Check::new(Mode::Whole);
    check.reply = ReplyFormat::Words;
    check.labels = words(&["RESOURCE", "CONSUMER"]);
    let sets = [&resource, &consumer];
    let script = texts.script(check.compose(&sets, &texts.parts).ok_or("no script")?);
    let mut fake = Fake::new().bounded();
    let asks: [(&str, &str, u64, &str); 9] = [
        ("a", "2", 0, "OK"),
        ("a", "2", 0, "CONSUMER OVERLIMIT: 2"),
        ("a", "1", 0, "OK"),
        ("a", "1", 0, "CONSUMER OVERLIMIT: 3"),
        ("b", "2", 1, "OK"),
        ("c", "1", 1, "RESOURCE OVERLIMIT: 5"),
        // Both deny: the consumer waits less for a unit than the resource does.
        ("a", "1", 1, "RESOURCE OVERLIMIT: 5"),
        ("c", "4", 1, "CONSUMER NEVER: 3"),
        ("c", "9", 1, "RESOURCE NEVER: 5"),
    ];
    for (who, cost, seconds, wanted) in asks {
        fake.at(NOW_US + seconds * 1_000_000);
        let keys = words(&["resource", &format!("consumer:{who}")]);
        let answer = fake.call(&script, &keys, &[cost.to_owned()]);
        equal(&format!("{who} {cost}"), answer, Reply::Text(wanted.as_bytes().to_vec()))?;
    }
    let mut partial = Check::new(Mode::Partial);
    (partial.reply, partial.labels) = (ReplyFormat::Words, words(&["X"]));
    let limits = set("5/10s via sliding_log, ban 1m after 1 denial in 1m");
    let script = texts.script(partial.compose(&[&limits], &texts.parts).ok_or("no script")?);
    let keys = place(&limits).check;
    for wanted in ["OK: 4", "OK: 1", "2 BANNED", "2 BANNED"] {
        let answer = fake.call(&script, &keys, &["4".to_owned()]);
        equal("partial", answer, Reply::Text(wanted.as_bytes().to_vec()))?;
    }
    Ok(())
}
