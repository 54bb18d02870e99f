//! Questions with bad costs, wrong numbers of words, and several of them in one call.

use tollgate::engine::Mode;
use tollgate::{LimitSet, Strategy, Subject};
use tollgate_redis::Keys;
use tollgate_redis::compose::{Check, Clock, ReplyFormat};

use super::{BAD_COST, FOREIGN, LIMITS, MODES, NOW_US, SEVERAL};
use super::{check, equal, place, refused, set, words};
use crate::lua::fake::{Fake, Reply, Stored};
use crate::lua::histories::{Difference, Texts};

/// Invalid costs. The words of the refusal are always the same: nothing of the question comes back
/// in them.
pub(super) fn bad_costs(texts: &Texts) -> Result<(), Difference> {
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

pub(super) fn wrong_numbers(texts: &Texts) -> Result<(), Difference> {
    for answer in [ReplyFormat::Verbose, ReplyFormat::Boolean, ReplyFormat::Remembered] {
        for clock in [Clock::Server, Clock::Given] {
            for mode in MODES {
                let limits = set("a: 7/m via gcra, b: 5/m via sliding_log");
                let mut of = Check::new(mode);
                (of.reply, of.clock) = (answer, clock);
                let script = check(texts, of.clone(), &[&limits]);
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
                refused(&mut fake, &script, &keys, &[""; 0], &text)?;
                let more = [args.clone(), vec!["1".to_owned()]].concat();
                refused(&mut fake, &script, &keys, &more, &text)?;
            }
        }
    }
    Ok(())
}

/// One of several questions that fails, and wrong numbers of keys and arguments of several.
pub(super) fn together(texts: &Texts) -> Result<(), Difference> {
    for answer in [ReplyFormat::Verbose, ReplyFormat::Remembered] {
        for clock in [Clock::Server, Clock::Given] {
            for text in ["x: 7/m via gcra", "x: 7/m via sliding_log", SEVERAL[0]] {
                let mut of = Check::new(Mode::Whole);
                (of.reply, of.clock) = (answer, clock);
                one_fails(texts, of, &set(text))?;
            }
            // As many as live in local variables: there is room for all of them, for the words of
            // a question, and for its answer.
            for strategy in Strategy::RATES {
                let limit = |i| format!("l{i}: {i}/{i}m via {}", strategy.name());
                let text = (1..=8).map(limit).collect::<Vec<_>>().join(", ");
                let mut of = Check::new(Mode::Whole);
                (of.reply, of.clock) = (answer, clock);
                one_fails(texts, of.clone(), &set(&text))?;
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
        args.extend(words(&["some id of bytesquestion", "1000"]));
    }
    if of.clock == Clock::Given {
        args.push(NOW_US.to_string());
    }
    let mut fake = Fake::new().bounded();
    fake.at(NOW_US);
    let answers = fake.call(&script, &keys, &args).unpack_reply();
    let Reply::List(answers) = &answers else { return Err(format!("{answers:?}")) };
    let Some(Reply::List(answer)) = answers.first() else { return Err(format!("{answers:?}")) };
    let granted = 1 + 2 * usize::from(of.reply == ReplyFormat::Remembered);
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
            own.extend(words(&["some id of bytesquestion", "1000"]));
        }
        if of.clock == Clock::Given {
            own.push(NOW_US.to_string());
        }
        args.extend(own);
    }
    let (each_keys, each_args) = (keys.len() / 5, args.len() / 5);
    let mut fake = Fake::new().bounded();
    fake.at(NOW_US);
    fake.put(&keys[each_keys], Stored::Text(b"foreign".to_vec()));
    // A value that no read of ours takes ends the script of one question with a fault.
    fake.put(&keys[2 * each_keys], Stored::List([b"foreign".to_vec(), b"x".to_vec()].into()));
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
        let granted = 1 + 2 * usize::from(of.reply == ReplyFormat::Remembered);
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
    equal("none", fake.call(&script, &[], &[""; 0]), Reply::List(Vec::new()))
}
