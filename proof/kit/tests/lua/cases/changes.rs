//! Limits whose numbers change while they count.

use tollgate::engine::Mode;

use super::{LIMITS, NOW_US, SEVERAL, set};
use crate::lua::fake::Fake;
use crate::lua::histories::{Difference, Pair, Plan, Texts, seeded};

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

pub(super) fn changed(texts: &Texts) -> Result<(), Difference> {
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
    // A denial; only the log was counted under other numbers.
    let several = |units: u64| {
        let b = format!("b: {units}/6ms via sliding_log");
        let text =
            format!("a: 3/10ms burst 5 via gcra, {b}, c: 6/6ms precision 2ms via sliding_window");
        [("denied".to_owned(), set(&text))]
    };
    pair.check(&several(6), 5, Mode::Whole, NOW_US)?;
    pair.check(&several(5), 1, Mode::Whole, NOW_US + 1)?;
    pair.check(&several(6), 1, Mode::Whole, NOW_US + 2)?;
    // A denial; only the window is from the future: the others start fresh.
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

/// A third of a unit is left, and a third of seven microseconds is two and a rest of one.
pub(super) fn scaled(texts: &Texts) -> Result<(), Difference> {
    let mut pair = Pair::new(texts.clone());
    let [was, is] = ["x: 1/3us burst 9 via gcra", "x: 1/7us burst 9 via gcra"].map(set);
    pair.check(&[("somebody".to_owned(), was)], 1, Mode::Whole, NOW_US)?;
    pair.check(&[("somebody".to_owned(), is)], 1, Mode::Peek, NOW_US + 2)?;
    Ok(())
}

/// A log that outlived the state beside it, as after a step back of the server's clock: what it
/// holds is from before another strategy counted under its name.
pub(super) fn outlived(texts: &Texts) -> Result<(), Difference> {
    let mut pair = Pair::new(texts.clone());
    let asked = |b: &str| [("s".to_owned(), set(&format!("a: 9/m via gcra, b: {b}")))];
    let key = "tg1:{s}:a,b~b";
    for cost in [1, 9] {
        pair.check(&asked("5/10s via sliding_log"), 2, Mode::Whole, NOW_US)?;
        let log = pair.fake.get(key).ok_or("no log")?;
        pair.check(&asked("5/20s via uniform"), 1, Mode::Whole, NOW_US + 1)?;
        assert_eq!(pair.fake.get(key), None);
        pair.fake.put(key, log);
        pair.check(&asked("5/10s via sliding_log"), 1, Mode::Peek, NOW_US + 2)?;
        pair.check(&asked("5/10s via sliding_log"), cost, Mode::Partial, NOW_US + 2)?;
        pair.reset("s", &asked("5/10s via sliding_log")[0].1, NOW_US + 3)?;
    }
    Ok(())
}
