//! Answers that histories do not ask for: short ones, remembered ones, held units, and whether a
//! swap took place.

use std::collections::HashMap;

use tollgate::engine::{MAX_REPEATS, MAX_REQUESTS, Mode};
use tollgate_redis::compose::{self, Check, Clock, ReplyFormat};

use super::{LIMITS, MODES, NOW_US, SEVERAL, check, equal, place, set, words};
use crate::lua::fake::{Fake, Reply, Stored};
use crate::lua::histories::{Difference, Pair, Texts};
use crate::lua::model::reply;

/// 1 and 0, and the same states as the long answers leave.
pub(super) fn boolean(texts: &Texts) -> Result<(), Difference> {
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
pub(super) fn remembered(texts: &Texts) -> Result<(), Difference> {
    for clock in [Clock::Server, Clock::Given] {
        for text in LIMITS.into_iter().chain(SEVERAL) {
            let mut of = Check::new(Mode::Whole);
            (of.reply, of.clock) = (ReplyFormat::Remembered, clock);
            // Under other numbers in turn, so that answers say what was carried over.
            let other = text.replace("7/m", "8/m").replace("6/m", "9/m").replace("5/m", "4/m");
            let sets = [set(text), set(&other)];
            let scripts = sets.each_ref().map(|limits| check(texts, of.clone(), &[limits]));
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
                    vec![cost.to_string(), format!("n{i}"), words_of("q", i), "7000000".into()];
                fake.at(now_us);
                if clock == Clock::Given {
                    fake.at(1);
                    args.push(now_us.to_string());
                }
                let answer = fake.call(script, &keys, &args);
                let Reply::List(list) = &answer else { return Err(format!("{answer:?}")) };
                let wanted = reply(&outcome);
                let own = Reply::Text(format!("n{i}").into_bytes());
                equal("nonce", &list[0], &own)?;
                equal("number", &list[1], &own)?;
                let integers: Vec<Reply> = wanted.iter().map(|n| Reply::Int(*n)).collect();
                equal("forgotten", &list[2], &Reply::Int(0))?;
                equal("answer", &list[3..], &integers[..list.len() - 3])?;
                let more = integers.len() > list.len() - 3;
                let more_of = &wanted[wanted.len() - 2 * outcome.fields.len()..];
                let usual = more_of.chunks(2).all(|pair| pair == [wanted[1], 0]);
                equal("says what is unusual", more, usual)?;
                let granted = outcome.granted > 0;
                equal("kept", fake.get(&request).is_some(), granted)?;
                if !granted {
                    continue;
                }
                // Twice as long as it is remembered, and a second more.
                let wanted = if clock == Clock::Given { 3_600_000 } else { 15_000 };
                equal("for", fake.lifetime(&request), Some(wanted))?;
                // Again under another nonce: the same but for the nonce.
                let before = fake.keys();
                args[1] = "again".to_owned();
                let head = [Reply::Text(b"again".to_vec()), own, Reply::Int(0)];
                let same = [&head[..], &integers].concat();
                equal("again", fake.call(script, &keys, &args), Reply::List(same))?;
                let once = fake.keys();
                let of_counts = |mut keys: HashMap<Vec<u8>, Stored>| {
                    keys.remove(request.as_bytes());
                    keys
                };
                let counts = of_counts(once.clone());
                equal("a repeat charges nothing", counts, of_counts(before))?;
                args[2] = words_of("o", i);
                let other = Reply::List(vec![Reply::Text(b"again".to_vec()), Reply::Int(-1)]);
                equal("another question", fake.call(script, &keys, &args), other)?;
                equal("it changes nothing", fake.keys(), once)?;
            }
        }
    }
    Ok(())
}

/// A request id, and a question of 8 bytes.
fn words_of(question: &str, number: u64) -> String {
    format!("{number:016}{question}{number:07}")
}

/// The memory of a count turns over by age and by number, and each key lives long enough.
pub(super) fn turned_over(texts: &Texts) -> Result<(), Difference> {
    let half = MAX_REQUESTS as u64 / 2;
    let mut of = Check::new(Mode::Whole);
    of.reply = ReplyFormat::Remembered;
    let limits = set("x: 1000000/h via fixed_window");
    let script = check(texts, of, &[&limits]);
    let keys = [place(&limits).check, vec!["request".to_owned()]].concat();
    let mut fake = Fake::new();
    let ask = |fake: &mut Fake, at_us: u64, number: u64, for_us: u64| {
        fake.at(NOW_US + at_us);
        let args = [
            "1".to_owned(),
            format!("n{number}/{at_us}"),
            words_of("q", number),
            for_us.to_string(),
        ];
        let answer = fake.call(&script, &keys, &args);
        let Reply::List(list) = answer else { return Err(format!("{answer:?}")) };
        let is_repeated = list[1] != list[0];
        Ok((is_repeated, list[2].clone()))
    };
    let new = |forgotten| (false, Reply::Int(forgotten));
    let known = (true, Reply::Int(0));
    // With few ids there is one hash.
    for number in 0..64 {
        equal("few", ask(&mut fake, number, number, 5_000_000)?, new(0))?;
    }
    equal("one hash", fake.get("request-").is_some(), false)?;
    // This one lasts longest: its key lies as long, also when it is the older one.
    equal("turned by age", ask(&mut fake, 64, 64, 20_000_000)?, new(0))?;
    equal("two hashes", fake.get("request-").is_some(), true)?;
    for number in 65..64 + half {
        equal("young", ask(&mut fake, number, number, 5_000_000)?, new(0))?;
    }
    equal("the oldest", ask(&mut fake, 3_000, 0, 5_000_000)?, known.clone())?;
    equal("turned by number", ask(&mut fake, 3_000, 9_999, 5_000_000)?, new(64))?;
    equal("gone", ask(&mut fake, 3_000, 0, 5_000_000)?, new(0))?;
    equal("the older", ask(&mut fake, 3_000, 64, 5_000_000)?, known.clone())?;
    let lies = fake.lifetime("request").unwrap_or_default();
    equal("as long as the older", lies >= 20_000, true)?;
    // An id that expires is judged again, others are still known.
    equal("expired", ask(&mut fake, 5_003_000, 0, 5_000_000)?, new(0))?;
    equal("the last of its time", ask(&mut fake, 20_000_063, 64, 5_000_000)?, known)?;
    // Those that have expired are not counted where they go.
    for number in 0..half {
        equal("more", ask(&mut fake, 20_000_064, 30_000 + number, 5_000_000)?, new(0))?;
    }
    for number in 0..half {
        let (is_repeated, forgotten) = ask(&mut fake, 20_000_065, 40_000 + number, 5_000_000)?;
        equal("new", is_repeated, false)?;
        if forgotten != Reply::Int(0) {
            return equal("those of the older hash", forgotten, Reply::Int(64));
        }
    }
    Err("none was forgotten".to_owned())
}

/// An id that was repeated too often is charged, and lies for as long as it is asked for; in which
/// hash it lies makes no difference.
pub(super) fn overused(texts: &Texts) -> Result<(), Difference> {
    let mut of = Check::new(Mode::Whole);
    of.reply = ReplyFormat::Remembered;
    let limits = set("x: 1000000/h via fixed_window");
    let script = check(texts, of, &[&limits]);
    let keys = [place(&limits).check, vec!["request".to_owned()]].concat();
    for among in [0, 70] {
        let mut fake = Fake::new();
        let ask = |fake: &mut Fake, at_us: u64, number: u64| {
            fake.at(NOW_US + at_us);
            let nonce = format!("n{number}/{at_us}");
            let args = ["1".to_owned(), nonce, words_of("q", number), "5000000".to_owned()];
            let answer = fake.call(&script, &keys, &args);
            let Reply::List(list) = answer else { return Err(format!("{answer:?}")) };
            Ok((list[1] != list[0], list[2].clone()))
        };
        let (new, known) = ((false, Reply::Int(0)), (true, Reply::Int(0)));
        let overused = (false, Reply::Int(-1));
        equal("first", ask(&mut fake, 0, 7)?, new.clone())?;
        for number in 0..among {
            equal("others", ask(&mut fake, 1, 1_000 + number)?, new.clone())?;
        }
        equal("in which hash", fake.get("request-").is_some(), among > 0)?;
        for at_us in 1..=MAX_REPEATS {
            equal("repeated", ask(&mut fake, at_us, 7)?, known.clone())?;
        }
        // Twelve seconds after its first answer it is known still.
        for at_us in [17, 4_000_000, 8_000_000, 12_000_000] {
            equal("overused", ask(&mut fake, at_us, 7)?, overused.clone())?;
            let lies = fake.lifetime("request").unwrap_or_default();
            equal("it lies", lies >= 5_000, true)?;
        }
        equal("forgotten", ask(&mut fake, 17_000_000, 7)?, new)?;
        equal("and known again", ask(&mut fake, 17_000_001, 7)?, known)?;
    }
    Ok(())
}

pub(super) fn inspect(texts: &Texts) -> Result<(), Difference> {
    for clock in [Clock::Server, Clock::Given] {
        let script = texts.script(compose::inspect(clock, &texts.parts));
        let mut fake = Fake::new().bounded();
        fake.at(NOW_US);
        fake.put("text", Stored::Text(b"t".to_vec()));
        fake.put("list", Stored::List([b"a".to_vec(), b"b".to_vec(), b"c".to_vec()].into()));
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

pub(super) fn swap(texts: &Texts) -> Result<(), Difference> {
    let script = texts.script(compose::swap(&texts.parts));
    let keys = words(&["a", "b", "c"]);
    let fresh = || {
        let fake = Fake::new().bounded();
        fake.put("a", Stored::Text(b"old".to_vec()));
        fake.put("c", Stored::Text(b"gone".to_vec()));
        fake
    };
    let answer = |said| Reply::List(vec![Reply::Text(b"n".to_vec()), Reply::Int(said)]);
    let good = ["n", "old", "new", "10", "0", "", "more", "20", "0", "gone", "", "30", "40"];
    let mut fake = fresh();
    equal("swap", fake.call(&script, &keys, &words(&good)), answer(1))?;
    let held = |reset: &str| -> HashMap<Vec<u8>, Stored> {
        let each = [("a", "new"), ("b", "more"), ("c!reset", reset)];
        each.map(|(k, v)| (k.into(), Stored::Text(v.into()))).into()
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
        fake.put("a", Stored::Text(b"old".to_vec()));
        fake.put("c", Stored::Text(b"gone".to_vec()));
        fake.call(&script, &words(&["b"]), &words(&["n", "more", "", "1", "0"]));
        fake.put("c!reset", Stored::Text(b"5:6".to_vec()));
        left.clone_into(&mut args[12]);
        equal("swap", fake.call(&script, &keys, &args), answer(1))?;
        equal("kept", fake.keys(), held("5:6"))?;
        equal("longer", fake.written("c!reset").is_some(), is_longer)?;
    }
    for expected in [1, 5, 9] {
        let (mut fake, mut args) = (fresh(), words(&good));
        "other".clone_into(&mut args[expected]);
        equal("no swap", fake.call(&script, &keys, &args), answer(0))?;
        equal("nothing swapped", fake.keys(), fresh().keys())?;
    }
    Ok(())
}
