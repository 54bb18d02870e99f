//! Holds: cases that histories reach seldom. Each panics or differs where a script is changed.

use tollgate::engine::MAX_REPEATS;
use tollgate_redis::compose::{Clock, HoldScripts, count_args, open_holds};
use tollgate_redis::{Keys, Script};

use super::{NOW_US, Subject, set};
use crate::lua::fake::{Fake, Reply, Stored};
use crate::lua::histories::{Difference, Texts};

/// An id of a reserve.
pub(super) const ID: &str = "72000000000000000000000000000001";

/// The scripts of holds on one count.
pub(super) struct World<'t> {
    pub(super) fake: Fake,
    texts: &'t Texts,
    pub(super) limits: String,
    pub(super) key: String,
    /// Whether the fast path alone answers what has one.
    pub(super) fast: bool,
}

impl<'t> World<'t> {
    pub(super) fn new(texts: &'t Texts, limits: &str) -> Self {
        let fake = Fake::new().bounded();
        fake.at(NOW_US);
        let subject = Subject::literal("s").unwrap();
        let key = Keys::new().state(&subject, &set(limits));
        Self { fake, texts, limits: limits.to_owned(), key, fast: false }
    }

    fn words(&self, own: &[&str]) -> (Vec<String>, Vec<Vec<u8>>) {
        let limits = set(&self.limits);
        let keys = vec![self.key.clone()];
        let mut args = vec![b"7".to_vec()];
        args.extend(own.iter().map(|word| word.as_bytes().to_vec()));
        args.extend(count_args(&limits));
        (keys, args)
    }

    /// Asks for a hold; without an id for a charge.
    pub(super) fn ask(&mut self, id: &str, request: Option<(&str, &str)>) -> Reply {
        let (asked, remembered) = match request {
            Some((_, question)) => (format!("some id of bytes{question}"), "60000000"),
            None => (String::new(), "0"),
        };
        let (mut keys, args) = self.words(&["1", "whole", id, "2000000", &asked, remembered]);
        keys.extend(request.map(|(key, _)| key.to_owned()));
        self.call(HoldScripts::all(Clock::Server, &self.texts.parts).among, &keys, &args)
    }

    /// Asks without a request, of a hold that lasts this many microseconds.
    pub(super) fn question(&mut self, mode: &str, id: &str, cost: u64, ttl_us: u64) -> Reply {
        let (cost, ttl_us) = (cost.to_string(), ttl_us.to_string());
        let (keys, args) = self.words(&[&cost, mode, id, &ttl_us, "", "0"]);
        self.call(HoldScripts::all(Clock::Server, &self.texts.parts).among, &keys, &args)
    }

    pub(super) fn place(&mut self, id: &str, cost: u64, ttl_us: u64) -> Reply {
        self.question("whole", id, cost, ttl_us)
    }

    pub(super) fn settle(&mut self, id: &str, actual: &str) -> Reply {
        self.settle_of(id, 1, actual)
    }

    /// Settles a hold that was placed with a cost.
    pub(super) fn settle_of(&mut self, id: &str, cost: u64, actual: &str) -> Reply {
        let (keys, args) = self.words(&[id, &cost.to_string(), actual, "60000"]);
        self.call(HoldScripts::all(Clock::Server, &self.texts.parts).settle, &keys, &args)
    }

    fn call(&mut self, script: Script, keys: &[String], args: &[Vec<u8>]) -> Reply {
        let script = self.texts.script(script);
        let script = if self.fast { fast_alone(&script) } else { script };
        self.fake.call(&script, keys, args)
    }

    fn renew(&mut self, id: &str) -> Reply {
        let (keys, args) = self.words(&[id, "1", "3000000", "2000000"]);
        let script = HoldScripts::all(Clock::Server, &self.texts.parts).renew;
        self.fake.call(&self.texts.script(script), &keys, &args)
    }

    /// The key of the set of the holds.
    pub(super) fn open(&self) -> String {
        format!("{}@", self.key)
    }

    pub(super) fn sums(&self) -> Vec<u64> {
        let Some(Stored::Text(text)) = self.fake.get(&format!("{}@sums", self.key)) else {
            return Vec::new();
        };
        let mut rest = &text[..];
        let mut take = |bytes: usize| {
            let (number, others) = rest.split_at(bytes);
            rest = others;
            number.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
        };
        SUMS.map(&mut take).into()
    }

    pub(super) fn put_sums(&self, bytes: Vec<u8>) {
        self.fake.put(&format!("{}@sums", self.key), Stored::Text(bytes));
    }
}

/// The bytes of each number of the sums: the version, how many holds, their units, those that their
/// ends charge, their slots, the fencing number, the latest time, the first end, the last.
const SUMS: [usize; 9] = [1, 4, 7, 7, 4, 7, 7, 7, 7];

pub(super) fn sums_of(numbers: [u64; 9]) -> Vec<u8> {
    let each = SUMS.iter().zip(numbers);
    each.flat_map(|(bytes, number)| number.to_be_bytes()[8 - bytes..].to_vec()).collect()
}

pub(super) fn expect<T: PartialEq + std::fmt::Debug>(
    what: &str,
    got: T,
    wanted: T,
) -> Result<(), Difference> {
    match got == wanted {
        true => Ok(()),
        false => Err(format!("{what}: {got:?} instead of {wanted:?}")),
    }
}

/// The first word of a reply.
fn nonce_of(reply: &Reply) -> Option<&str> {
    let Reply::List(list) = reply else { return None };
    let Some(Reply::Text(text)) = list.first() else { return None };
    std::str::from_utf8(text).ok()
}

pub(super) fn id(number: u64) -> String {
    format!("72{number:030x}")
}

/// The hundred-thousandth hold is placed, and one more is not.
pub(super) fn most(texts: &Texts) -> Result<(), Difference> {
    for (before, admitted) in [(99_998, true), (99_999, true), (100_000, false), (100_001, false)] {
        let mut world = World::new(texts, "x: 200000 at once");
        world.ask(&id(1), None);
        let first = NOW_US + 2_000_000;
        let sums = [1, before, before, 0, before, NOW_US, NOW_US, first, first];
        world.put_sums(sums_of(sums));
        let reply = world.ask(&id(2), None);
        let numbers = reply.integers();
        expect("the nonce", nonce_of(&reply), Some("7"))?;
        expect(&format!("after {before} holds"), numbers[0] == -3, !admitted)?;
        let count = world.sums()[1];
        expect("the holds then", count, before + u64::from(admitted))?;
    }
    Ok(())
}

/// A repeated request is answered as before, in the form that the script of a check remembers too;
/// another question under its id is refused.
pub(super) fn requests(texts: &Texts) -> Result<(), Difference> {
    let mut world = World::new(texts, "x: 7/m via gcra");
    let first = world.ask("", Some(("request", "question"))).integers();
    expect("the units", first[0], 1)?;
    expect("none is forgotten", *first.last().unwrap(), 0)?;
    let before = world.fake.keys();
    let again = world.ask("", Some(("request", "question")));
    let Reply::List(again) = &again else { return Err(format!("{again:?}")) };
    // The nonce, the marker and the number of the charge: all calls of this world have one nonce.
    let seven = Reply::Text(b"7".to_vec());
    expect("a repeated request", &again[..3], &[seven.clone(), Reply::Int(-5), seven])?;
    let integers = |numbers: &[i64]| numbers.iter().copied().map(Reply::Int).collect::<Vec<_>>();
    expect("its answer", &again[3..5], &integers(&first[..2]))?;
    expect("its fields", &again[5..], &integers(&first[4..10]))?;
    let mut once = world.fake.keys();
    let (mut counts, mut of) = (once.clone(), before);
    expect(
        "that it is counted",
        counts.remove(&b"request"[..]) == of.remove(&b"request"[..]),
        false,
    )?;
    expect("that it charges nothing", counts, of)?;
    for number in 2..=MAX_REPEATS {
        let again = world.ask("", Some(("request", "question")));
        let Reply::List(again) = &again else { return Err(format!("{again:?}")) };
        expect(&format!("repeat {number}"), &again[1], &Reply::Int(-5))?;
    }
    once = world.fake.keys();
    let other = world.ask("", Some(("request", "querulum")));
    expect("the nonce", nonce_of(&other), Some("7"))?;
    expect("another question", other.integers(), vec![-1])?;
    expect("what it leaves", world.fake.keys(), once)?;
    expect("how long it lies", world.fake.lifetime("request"), Some(121_000))?;
    // Beyond the repeats it is charged as without an id.
    for units in (0..6).rev() {
        let charged = world.ask("", Some(("request", "question"))).integers();
        expect("what is granted and left", [charged[0], charged[4]], [1, units])?;
        expect("that it is overused", charged.last(), Some(&-1))?;
    }
    let denied = world.ask("", Some(("request", "question"))).integers();
    expect("a denial", (denied[0], denied.last()), (0, Some(&-1)))?;
    // A denial is judged again.
    let mut world = World::new(texts, "x: 1 at once");
    world.ask(&id(1), None);
    let denied = world.ask(&id(2), Some(("request", "question"))).integers();
    expect("a denial", denied[0], 0)?;
    expect("what is remembered of it", world.fake.get("request"), None)
}

/// A renewed hold lies as long as it lasts then, and so does all that says that it is open.
pub(super) fn renewed(texts: &Texts) -> Result<(), Difference> {
    for limits in [
        "9/5s via sliding_log",
        "x: 9/1ms via sliding_log, y: 6/2ms via gcra",
        "x: 6/2ms via gcra",
        "x: 3 at once",
    ] {
        let mut world = World::new(texts, limits);
        world.ask(ID, None);
        expect(limits, world.renew(ID).integers()[0], i64::try_from(NOW_US).unwrap() + 3_000_000)?;
        let keys = world.fake.keys();
        expect(limits, keys.len() >= 3, true)?;
        for key in keys.keys() {
            let key = std::str::from_utf8(key).unwrap();
            expect(&format!("{limits}: {key}"), world.fake.left_ms(key), Some(4_000))?;
        }
    }
    Ok(())
}

/// The set of the holds never lies longer than their sums: it would name holds that nobody counts.
pub(super) fn together(texts: &Texts) -> Result<(), Difference> {
    for limits in ["x: 7/m via gcra", "x: 9/5s via sliding_log", "x: 3 at once"] {
        let mut world = World::new(texts, limits);
        let charging = format!("63{:030x}", 5);
        world.ask(ID, None);
        world.ask(&charging, None);
        world.fake.at(NOW_US + 1_500_000);
        world.ask(&id(2), None);
        for settled in [id(2), charging] {
            world.settle(&settled, "0");
            let [open, sums] = ["@", "@sums"].map(|end| format!("{}{end}", world.key));
            let (open, sums) = (world.fake.left_ms(&open), world.fake.left_ms(&sums));
            expect(&format!("{limits}: the set beside the sums"), open, sums)?;
        }
    }
    Ok(())
}

/// A script that ends where its fast path has no answer.
fn fast_alone(script: &Script) -> Script {
    let (fast, _) = script.text().split_once("if answer then\n").unwrap();
    Script::new(format!("{fast}return answer or 'none'\nend\n"))
}

/// The fast path answers simple cases, and only those.
pub(super) fn fast(texts: &Texts) -> Result<(), Difference> {
    for (limits, units) in [
        ("x: 7/m via gcra", "1"),
        ("8/10s via fixed_window", "1"),
        ("9/m burst 5 refill interval via token_bucket", "1"),
        ("3 at once", "0"),
        ("x: 6/m via gcra, y: 8/m via fixed_window, 3 at once", "1"),
    ] {
        let mut world = World::new(texts, limits);
        let count = set(limits).limits().len();
        let rows = |reply: &Reply, head: usize, each: usize| match reply {
            Reply::List(list) => list.len() == head + each * count,
            _ => false,
        };
        let charging = format!("63{:030x}", 5);
        let acquired = format!("61{:030x}", 6);
        // A fresh count of several limits may have logs of others.
        if count > 1 {
            world.ask(&id(9), None);
            world.settle(&id(9), "1");
        }
        world.fast = true;
        for (id, now_us) in
            [ID, &charging, &acquired].into_iter().zip((NOW_US..).step_by(90_000_000))
        {
            world.fake.at(now_us);
            let reply = world.ask(id, None);
            expect(&format!("{limits}: {id}: {reply:?}"), rows(&reply, 5, 6), true)?;
            let slots = limits.contains("at once");
            if !slots {
                let reply = world.ask("", None);
                expect(&format!("{limits}: a check: {reply:?}"), rows(&reply, 5, 6), true)?;
            }
            let reply = world.settle(id, if id == acquired { "0" } else { units });
            expect(&format!("{limits}: settled {id}: {reply:?}"), rows(&reply, 3, 5), true)?;
        }
    }
    Ok(())
}

/// A hold keeps its unit for a last microsecond, and nothing at its end.
pub(super) fn ends(texts: &Texts) -> Result<(), Difference> {
    for (now_us, remaining) in [(NOW_US + 1_999_999, 5), (NOW_US + 2_000_000, 6)] {
        let mut world = World::new(texts, "x: 7/m via gcra");
        world.ask(ID, None);
        world.fake.at(now_us);
        expect("what remains", world.ask(&id(2), None).integers()[4], remaining)?;
    }
    Ok(())
}

/// A state that no step has written is an error, and changes nothing.
pub(super) fn damaged_states(texts: &Texts) -> Result<(), Difference> {
    let state = |tag: &str, a: u64, b: u64, rest: &[u8]| {
        [tag.as_bytes(), &a.to_be_bytes()[1..], &b.to_be_bytes()[2..], rest].concat()
    };
    let tag = "2gg2:60000000,7,7,14;h|";
    let exact = 1 << 53;
    for bytes in [
        state(tag, exact, 0, &[]),
        state(tag, exact + 1, 0, &[]),
        state(tag, NOW_US, 7, &[]),
        state(tag, NOW_US, 0, &[0]),
        state(tag, NOW_US, 0, &[])[..tag.len() + 12].to_vec(),
        state("1gg2:60000000,7,7,14;h}", NOW_US, 0, &[]),
        state("1gg2:60000000,7,7,14;i|", NOW_US, 0, &[]),
        tag.into(),
    ] {
        let mut world = World::new(texts, "x: 7/m via gcra");
        world.ask(ID, None);
        world.fake.put(&world.key, Stored::Text(bytes.clone()));
        let before = world.fake.keys();
        for reply in [world.ask(&id(2), None), world.settle(ID, "1"), world.renew(ID)] {
            let Reply::Error(text) = reply else { return Err(format!("{bytes:?}: {reply:?}")) };
            let damaged = ["TOLLGATE the state is damaged", "that is not a state of Tollgate"];
            expect(&text, damaged.iter().any(|says| text.contains(says)), true)?;
        }
        expect("what is held", world.fake.keys(), before)?;
    }
    // The largest number that is exact is a time, far ahead: the clock has stepped back.
    let mut world = World::new(texts, "x: 7/m via gcra");
    world.ask(ID, None);
    world.fake.put(&world.key, Stored::Text(state(tag, exact - 1, 0, &[])));
    expect("far ahead", world.ask(&id(2), None).integers()[0], 0)
}

/// Sums that are damaged are an error, and change nothing.
pub(super) fn damaged(texts: &Texts) -> Result<(), Difference> {
    let sound = sums_of([1, 1, 1, 0, 1, 5, 5, 5, 5]);
    let (shorter, longer) = (sound[..50].to_vec(), [&sound[..], &[0]].concat());
    let mut all = vec![shorter, longer, Vec::new(), b"1:1:1:0:1:5:5:5:5".to_vec()];
    let credit = format!("+6b{:030x}:requests=1/2@{}", 1, NOW_US + 9);
    let mut damage = |version: u64, text: &str| {
        let chargers = if (version.max(1) - 1) / 2 % 2 == 1 { &[0, 1][..] } else { &[] };
        let numbers = sums_of([version, 1, 1, 0, 1, 5, 5, 5, 5]);
        all.push([&numbers, chargers, text.as_bytes()].concat());
    };
    // No such version; credits that the version does not name, and none that it names.
    for version in [0, 9, 255] {
        damage(version, "");
        damage(version, &credit);
    }
    for version in 1..=4 {
        damage(version, &credit);
        damage(version + 4, "");
        damage(version + 4, "+");
    }
    for text in [
        credit.replace("+6b0", "+6b"),
        credit.replace("+6b0", "+6b00"),
        credit.replace("+6b0", "+6c0"),
        credit.replace("=1", "="),
        credit.replace("/2", ""),
        credit.replace('@', ":"),
        format!("{credit},6b"),
        format!("tokens=5{credit}"),
        format!("tokens=5/{credit}"),
        format!("=5/1{credit}"),
    ] {
        damage(5, &text);
        damage(7, &text);
    }
    for text in
        ["tokens", "tokens=5", "tokens=5/1,bytes=1", "Tokens=5/1", "tokens=-5/1", "tokens=5/1 "]
    {
        damage(1, text);
        damage(3, text);
    }
    for sums in all {
        let mut world = World::new(texts, "x: 7/m via gcra");
        world.ask(ID, None);
        world.put_sums(sums.clone());
        let before = world.fake.keys();
        for reply in [world.ask(&id(2), None), world.settle(ID, "1"), world.renew(ID)] {
            let Reply::Error(text) = reply else { return Err(format!("{sums:?}: {reply:?}")) };
            if !text.contains("TOLLGATE the sums of the holds") {
                return Err(format!("{sums:?}: {text}"));
            }
        }
        expect("what is held", world.fake.keys(), before)?;
    }
    Ok(())
}

/// Sums with a lost part never get below zero.
pub(super) fn lost_sums(texts: &Texts) -> Result<(), Difference> {
    let charging = format!("63{:030x}", 5);
    let first = NOW_US + 2_000_000;
    for limits in ["x: 7/m via gcra", "x: 7/m via sliding_log"] {
        let mut world = World::new(texts, limits);
        for (id, open) in [(ID, 0), (ID, 1), (&charging, 1)] {
            world.fake.clear();
            world.ask(id, None);
            world.put_sums(sums_of([1, open, 0, 0, 0, NOW_US, NOW_US, first, first]));
            let settled = world.settle(id, "2").integers();
            expect("the settled", settled[..2].to_vec(), vec![2, 2])?;
            expect("the sums", world.sums()[..5].to_vec(), vec![1, 0, 0, 0, 0])?;
        }
    }
    Ok(())
}

/// How long the keys of a hold live: as long as it is open and the charge of its end counts, or as
/// its fencing number must be remembered; and the records of settled ones for a minute.
pub(super) fn lifetimes(texts: &Texts) -> Result<(), Difference> {
    let mut world = World::new(texts, "x: 6/m via gcra");
    world.ask(ID, None);
    let (open, sums) = (format!("{}@", world.key), format!("{}@sums", world.key));
    for key in [&open, &sums] {
        expect(key, world.fake.left_ms(key), Some(3_000))?;
    }
    let charging = format!("63{:030x}", 5);
    world.ask(&charging, None);
    // The debt is as much again: all is back two minutes after the end.
    for key in [&open, &sums, &world.key] {
        expect(key, world.fake.left_ms(key), Some(123_000))?;
    }
    world.settle(&charging, "0");
    world.settle(ID, "1");
    expect("what is open", world.fake.get(&open), None)?;
    expect("what was settled", world.fake.left_ms(&format!("{open}{ID}")), Some(61_000))?;
    let left = world.fake.left_ms(&sums);
    match left {
        Some(1_900..=2_100) => Ok(()),
        _ => Err(format!("the fencing number lies {left:?} ms")),
    }
}

/// Units counted under other numbers can be given back as long as their state would have lived.
pub(super) fn changed(texts: &Texts) -> Result<(), Difference> {
    for (after, marked) in [("x: 7/s via gcra", true), ("x: 7/h via gcra", false)] {
        let mut world = World::new(texts, "x: 7/m via gcra");
        for _ in 0..5 {
            world.ask("", None);
        }
        let before = world.fake.left_ms(&world.key);
        let mark = format!("{}!reset", world.key);
        expect("a mark before", world.fake.left_ms(&mark), None)?;
        world.ask(ID, None);
        expect("a mark of the same numbers", world.fake.left_ms(&mark), None)?;
        world.limits = after.to_owned();
        world.ask(&id(2), None);
        expect(&format!("the mark of {after}"), world.fake.left_ms(&mark).is_some(), marked)?;
        if marked {
            expect("how long it lies", world.fake.left_ms(&mark), before)?;
        }
    }
    Ok(())
}

/// The open holds of a count are shown by their ends, without those that are due, and as much
/// earlier as a clock stepped back; a named one with how long it lasts. Nothing is changed.
pub(super) fn shown(texts: &Texts) -> Result<(), Difference> {
    let mut world = World::new(texts, "x: 100/m via gcra");
    let named = format!("52{:030x}", 3);
    for (id, cost, ttl_us) in [(id(1), 1, 3_000_000), (id(2), 5, 1_000_000), (named, 1, 2_000_000)]
    {
        world.place(&id, cost, ttl_us);
    }
    let script = texts.script(open_holds(Clock::Server, &texts.parts));
    let row = |kind: &[u8], number: u8, cost: &[u8], after_us: u64, span: i64| {
        let id = [kind, &[0; 14], &[number], cost].concat();
        let end = (NOW_US + after_us).to_string().into_bytes();
        [Reply::Text(id), Reply::Text(end), Reply::Int(span)]
    };
    let first = row(b"r", 2, &[0, 0, 0, 0, 0, 5], 1_000_000, 0);
    let others =
        [row(b"R", 3, &[], 2_000_000, 2_000_000), row(b"r", 1, &[], 3_000_000, 0)].concat();
    let all = [&first[..], &others].concat();
    for (at_us, most, open, back, rows) in [
        (NOW_US, "9", 3, 0, &all[..]),
        (NOW_US, "2", 3, 0, &all[..6]),
        (NOW_US + 999_999, "9", 3, 0, &all[..]),
        (NOW_US + 1_000_000, "9", 2, 0, &others[..]),
        // A clock that is a little behind is that of the last operation.
        (NOW_US - 1_000_000, "9", 3, 0, &all[..]),
        (NOW_US - 5_000_000, "9", 3, 5_000_000, &all[..]),
        (NOW_US + 9_000_000, "9", 0, 0, &[]),
    ] {
        world.fake.at(at_us);
        let reply = world.fake.call(&script, &[world.key.clone()], &["7", most]);
        let judged_at = if back > 0 { at_us } else { at_us.max(NOW_US) };
        let wanted = vec![
            Reply::Text(b"7".to_vec()),
            Reply::Int(open),
            Reply::Int(back),
            Reply::Int(judged_at.cast_signed()),
            Reply::List(rows.to_vec()),
        ];
        expect(&format!("{most} at {at_us}"), reply, Reply::List(wanted))?;
        expect("it wrote", world.fake.wrote(), false)?;
    }
    Ok(())
}
