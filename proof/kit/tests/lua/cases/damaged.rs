//! Keys that hold what no script of ours wrote, or a newer one: refused, and left as they are.

use tollgate::LimitSet;
use tollgate::engine::Mode;
use tollgate_redis::compose::Check;

use super::{FOREIGN, LENGTH, NEWER, NUMBER, STEP, UNREADABLE, UNSOUND, WRONGTYPE};
use super::{LIMITS, MODES, NOW_US, check, equal, place, rare, refused, set, words};
use crate::lua::fake::{Fake, Reply, Stored};
use crate::lua::histories::{Difference, Pair, Texts};

/// The state that a charge leaves at the first key of a check.
fn charged(limits: &LimitSet) -> Stored {
    let mut pair = Pair::new(Texts::default());
    pair.check(&[("somebody".to_owned(), limits.clone())], 2, Mode::Whole, NOW_US).unwrap();
    pair.fake.get(&place(limits).check[0]).unwrap()
}

fn text(held: Stored) -> Vec<u8> {
    match held {
        Stored::Text(bytes) => bytes,
        Stored::List(rows) => rows[0].clone(),
        Stored::Sorted(_) | Stored::Hash(_) => panic!("no state of ours"),
    }
}

/// A damaged state and the damage.
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
        (newer(b"3"), NEWER),
        (newer(b"11"), NEWER),
        (newer(b"10"), NEWER),
        (good[..good.len() - 1].to_vec(), LENGTH),
        (with(good, b"!"), LENGTH),
        (tag.iter().chain(b"|").copied().collect(), LENGTH),
        (with(&[tag, b"gg2:60000000,7,7,7;"].concat(), &more), NUMBER),
        (b"1|".to_vec(), NUMBER),
    ];
    // Version 2 without holds belongs to limits with a debt.
    if !good.windows(2).any(|step| matches!(step, b"ug" | b"gg" | b"tg" | b"ti")) {
        all.push((newer(b"2"), NEWER));
    }
    // The tag is checked before anything is counted with it.
    for (step, wrong) in [
        ("gg2:0,7,7,7;", UNSOUND),
        ("gg2:7,0,7,7;", UNSOUND),
        ("gg2:0,0,0,0;", UNSOUND),
        ("gg2:5;", UNSOUND),
        ("gg2:,;", UNSOUND),
        ("gg2:60000000,,7,7,7;", UNSOUND),
        ("gg2:,60000000,7,7,7;", UNSOUND),
        ("gg2:60000000,7,7,7,;", UNSOUND),
        ("gg2:60000000,7,0,7;", UNSOUND),
        ("gg2:60000000,7,7,6;", UNSOUND),
        ("gg2:1,9007199254741,1000,1000;", UNSOUND),
        ("gg2:1,9007199254741,1,1000;", UNSOUND),
        ("gg2:31622400000000,1,1000,1000;", UNSOUND),
        ("gg2:31622400000000,1,1,1000;", UNSOUND),
        ("ti2:7,60000000,0,7;", UNSOUND),
        ("ti2:7,60000000,7,6;", UNSOUND),
        ("ti2:7,60000000,7,1099511627777;", UNSOUND),
        ("ti2:1,31622400000000,73,73;", UNSOUND),
        ("ti2:1,31622400000000,1,73;", UNSOUND),
        ("ff2:1099511627777,60000000,0;", UNSOUND),
        ("ff2:7,60000000,2;", UNSOUND),
        ("ss4:1099511627777,20000000,2,0;", UNSOUND),
        ("ss2:7,20000000,0,0;", UNSOUND),
        ("ss1003:7,20000000,1001,0;", UNSOUND),
        ("ss4:7,20000000,2,3;", UNSOUND),
        ("ss4:7,15811200000001,2,0;", UNSOUND),
        ("ll0:1099511627777,60000000;", UNSOUND),
        ("gg2:60000000,7;", UNSOUND),
        ("gg2:60000000,7,7,7,7;", UNSOUND),
        ("gg3:60000000,7,7,7;", UNSOUND),
        ("gg0:60000000,7,7,7;", UNSOUND),
        ("gg2:31622400000001,7,7,7;", UNSOUND),
        ("gg2:7,7,7,99999999999999999999999999999999;", UNSOUND),
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
        ("!gg2:60000000,7,7,7;", UNREADABLE),
        ("gg2:60000000,7,7,7;!", UNREADABLE),
        ("hello", UNREADABLE),
    ] {
        all.push((with(format!("1{step}|").as_bytes(), b"0123456789012"), wrong));
        all.push((with(format!("1{step}|").as_bytes(), b""), wrong));
    }
    if several {
        all.push(([&b"1gg2:60000000,7,7,7;|"[..], &[0; 13]].concat(), NUMBER));
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
        fake.keep_scripts([]);
        for (state, wrong) in damages(&good, limits.limits().len() > 1) {
            fake.clear();
            fake.at(NOW_US);
            fake.put(&place.state, Stored::Text(state));
            refused(&mut fake, &script, &place.check, &args, wrong)?;
        }
        fake.clear();
        fake.put(&place.state, Stored::List([b"foreign".to_vec()].into()));
        let several = limits.limits().len() > 1;
        let wrong = if several { WRONGTYPE } else { FOREIGN };
        refused(&mut fake, &script, &place.check, &args, wrong)?;
    }
    Ok(())
}

pub(super) fn damaged(texts: &Texts) -> Result<(), Difference> {
    for limits in &LIMITS[..4] {
        damaged_of(texts, &set(limits))?;
    }
    Ok(())
}

pub(super) fn damaged_several(texts: &Texts) -> Result<(), Difference> {
    damaged_of(texts, &set("a: 7/m via gcra, b: 6/m precision 20s via sliding_window"))?;
    let limits = set("a: 7/m via gcra, b: 5/m via sliding_log");
    damaged_of(texts, &limits)?;
    let place = place(&limits);
    for mode in MODES {
        let script = check(texts, Check::new(mode), &[&limits]);
        let mut fake = Fake::new().bounded();
        fake.at(NOW_US);
        fake.put(&place.logs[1], Stored::Text(b"text".to_vec()));
        refused(&mut fake, &script, &place.check, &words(&["1", "n"]), WRONGTYPE)?;
    }
    Ok(())
}

pub(super) fn damaged_logs(texts: &Texts) -> Result<(), Difference> {
    let limits = set("x: 7/m via sliding_log");
    let place = place(&limits);
    let Stored::List(rows) = charged(&limits) else { return Err("no list".to_owned()) };
    for mode in MODES {
        let script = check(texts, Check::new(mode), &[&limits]);
        let args = words(&["1", "nonce"]);
        let newer = [b"2", &rows[0][1..]].concat();
        let heads = [
            ("1ll0:7,0;|123456", UNSOUND),
            ("1ll0:8,60000000;|12345", FOREIGN),
            ("1ll0:8,60000000;|1234567", FOREIGN),
            ("1ll0:8,60000000;ll0:7,60000000;|123456", FOREIGN),
            ("1gg2:60000000,7,7,7;|123456", FOREIGN),
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
            fake.put(&place.state, Stored::List(rows));
            refused(&mut fake, &script, &place.check, &args, wrong)?;
        }
        // A head alone is not a log: no script leaves one.
        let mut fake = Fake::new().bounded();
        fake.at(NOW_US);
        fake.put(&place.state, Stored::List([rows[0].clone()].into()));
        let before = fake.keys();
        let answer = fake.call(&script, &place.check, &args);
        equal("a head alone", matches!(answer, Reply::Error(_)), true)?;
        equal("a head alone", fake.keys(), before)?;
        for (state, wrong) in [("text", FOREIGN), ("3gg2:1,2,3;|0123456789012", NEWER)] {
            let mut fake = Fake::new().bounded();
            fake.at(NOW_US);
            fake.put(&place.state, Stored::Text(state.into()));
            refused(&mut fake, &script, &place.check, &args, wrong)?;
        }
    }
    Ok(())
}

pub(super) fn damaged_rare(texts: &Texts) -> Result<(), Difference> {
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
                // The head of a log is not a state by itself.
                let damaged_head = is_log && (wrong == LENGTH || wrong == NUMBER);
                if damaged_head {
                    continue;
                }
                fake.clear();
                fake.put(&place.state, Stored::Text(state));
                refused(&mut fake, &script, &keys, &args, wrong)?;
            }
            fake.clear();
            let unknown = |letter: &str| {
                let end = good.iter().position(|byte| *byte == b':').unwrap();
                [&good[..2], letter.as_bytes(), &good[3..end], &good[end..]].concat()
            };
            if !is_log {
                fake.put(&place.state, Stored::Text(unknown("z")));
                refused(&mut fake, &script, &keys, &args, STEP)?;
            }
            for head in [
                "foreign",
                "1gg2:1,2,3,3;|123456",
                "1ll0:7,60000000;|1234567",
                "1ll0:7,60000000;ll0:7,60000000;|123456",
            ] {
                fake.put(&place.state, Stored::List([head.as_bytes().to_vec()].into()));
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
        fake.put(log, Stored::List([b"2ll0:7,60000000;|123456".to_vec()].into()));
        refused(&mut fake, &script, &keys, &args, NEWER)?;
    }
    Ok(())
}
