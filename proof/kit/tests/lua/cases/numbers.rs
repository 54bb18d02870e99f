//! Large numbers: products that no double holds, integers that no count has, and the largest that
//! one has.

use rand::RngExt;
use tollgate::engine::Mode;
use tollgate_redis::Script;
use tollgate_redis::compose::{self, Check};

use super::{LENGTH, LIMITS, MODES, NOW_US, UNSOUND};
use super::{check, equal, place, rare, refused, set, words};
use crate::lua::fake::{Fake, Reply, Stored};
use crate::lua::histories::{Difference, Pair, Texts, next, seeded};

/// The product that steps share, over numbers whose products no double holds.
pub(super) fn products(texts: &Texts) -> Result<(), Difference> {
    let text = format!("#!lua\n{}\n{}", texts.parts.mul_div, PRODUCT);
    let script = Script::new(text);
    let mut fake = Fake::new().bounded();
    let mut rng = seeded(7);
    let mut product = |a: u64, b: u64, c: u64| {
        let args = [a, b, c].map(|number| number.to_string());
        let (all, c) = (u128::from(a) * u128::from(b), u128::from(c));
        let wanted = [all / c, all % c].map(|n| Reply::Text(n.to_string().into_bytes()));
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
                    product(a, b, c)?;
                }
            }
        }
    }
    // Products beside 2^53.
    for (a, b) in
        [(1 << 26, 1 << 27), (1, 1 << 48), (6_361, 1_416_003_655_831), (94_906_266, 94_906_265)]
    {
        for c in [a, a + 1, (1 << 45) - 1] {
            product(a, b, c)?;
        }
    }
    for _ in 0..300 {
        let c = (next(&mut rng) >> rng.random_range(19..60)).max(1);
        let a = next(&mut rng) % (c + 1);
        let b = next(&mut rng) >> rng.random_range(15..60);
        product(a, b, c)?;
    }
    Ok(())
}

const PRODUCT: &str = "
local quotient, rest = mul_div(tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]))
return {string.format('%.0f', quotient), string.format('%.0f', rest)}";

const MOST: u64 = 1 << 40;

const EXACT: u64 = 1 << 53;

/// States whose tag is sound, and the words that are not: the time, then the others.
const UNSOUND_WORDS: [(&str, &[u64]); 19] = [
    // As many parts of a microsecond as make one.
    ("1gg2:60000000,7,3,6;|", &[0, 7]),
    ("1gg2:60000000,7,3,6;|", &[NOW_US, (1 << 48) - 1]),
    ("1gg2:1,1,1,2;|", &[NOW_US, 9]),
    ("1gg2:60000000,7,3,6;|", &[EXACT, 0]),
    ("1gg2:60000000,7,3,6;|", &[(1 << 56) - 1, 0]),
    ("1tg2:60000000,7,3,6;|", &[NOW_US, 7]),
    ("1ti2:7,60000000,7,14;|", &[NOW_US, 15]),
    ("1ti2:7,60000000,7,7;|", &[EXACT, 1]),
    ("1ff2:7,60000000,0;|", &[NOW_US, MOST + 1]),
    ("1ff2:5,10000000,0;|", &[NOW_US, 60_000_000_000_000]),
    ("1ff2:7,60000000,1;|", &[EXACT, 1]),
    ("1ug2:60000000,7,3,6;|", &[NOW_US, 7]),
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
pub(super) fn unsound_words(texts: &Texts) -> Result<(), Difference> {
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
        // Values that a script of checks took for a count.
        states.push(b"1gg2:1,1,1,2;|0123456789012".to_vec());
        states.push(b"1ff2:5,10000000,0;|0123456789012".to_vec());
        for mode in MODES {
            let script = check(texts, Check::new(mode), &[&limits]);
            for state in &states {
                fake.clear();
                fake.at(NOW_US);
                fake.put(&place.state, Stored::Text(state.clone()));
                refused(&mut fake, &script, &place.check, &words(&["1", "n"]), UNSOUND)?;
            }
        }
        for (script, keys, args) in rare(texts, &limits) {
            for state in &states {
                fake.clear();
                fake.put(&place.state, Stored::Text(state.clone()));
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
        fake.put(&place_of.state, Stored::Text(state));
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
            let words = vec![b"1".to_vec(), b"n".to_vec()];
            let check = in_checks.then(|| (check, place.check.clone(), words));
            for (script, keys, args) in rare(texts, &limits).into_iter().chain(check) {
                let mut fake = Fake::new().bounded();
                fake.at(NOW_US);
                fake.put(&place.state, Stored::List(rows.clone().into()));
                refused(&mut fake, &script, &keys, &args, wrong)?;
            }
        }
    }
    Ok(())
}

/// The largest integers of a count are not among those. Neither are the largest numbers of a limit,
/// under which others count now.
pub(super) fn sound_words(texts: &Texts) -> Result<(), Difference> {
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
            fake.put(&place.state, Stored::Text(state));
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
    // Units that the largest limit truncates away are still in its buckets. Another rounding counts
    // it, and the next numbers place it all in one bucket, which holds no more than a limit has.
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
