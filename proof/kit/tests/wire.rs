//! The serde form of the library's decisions, to the byte: `vectors/wire/decisions.txt`.

#![allow(clippy::unwrap_used)] // a test may unwrap: its panic is its verdict

use serde::Serialize;
use tollgate::wire::{Answer, Charge, Committed, HoldAnswer};
use tollgate::{
    Ask, Hold, HoldTerms, Holding, LimitSet, Limiter, ManualClock, MemoryStore, Subject,
};
use tollgate_proof::vectors::wire::{Asked, decisions};

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

/// The answer to a question, and the hold that it placed.
fn answered(limiter: &Limiter, asked: &Asked, hold: &mut Option<Hold>) -> String {
    if asked.act == "commit" {
        let hold = hold.as_ref().unwrap();
        let settled = limiter.commit(hold, asked.cost()).now().unwrap();
        return json(&Committed::new(hold, &settled));
    }
    let subject: Subject = asked.text("subject").parse().unwrap();
    let limits: LimitSet = asked.text("limit").parse().unwrap();
    let ask = || Ask::new(&subject).under(&limits).cost(asked.cost());
    let held = |ask| {
        let Holding { decision, hold, ahead, .. } = limiter.hold(ask).now().unwrap();
        let said = hold.as_ref().map(|hold| ("HOLD".to_owned(), hold.fence, hold.end));
        (json(&HoldAnswer::new(Answer::from(&decision), said, ahead)), hold)
    };
    match asked.act {
        "check" => json(&limiter.check(ask()).now().unwrap()),
        "peek" => json(&limiter.check(ask().peek()).now().unwrap()),
        "charge" => {
            let charged = limiter.charge(ask()).now().unwrap();
            json(&Charge::new(asked.cost(), [(&subject, &limits)], &charged))
        }
        "acquire" => held(ask().acquire()).0,
        "reserve" => {
            let ttl = HoldTerms::read_ttl(asked.text("ttl")).unwrap();
            let (text, placed) = held(ask().reserve(ttl));
            *hold = placed.or(hold.take());
            text
        }
        other => panic!("{other}"),
    }
}

#[test]
fn serde_writes_what_the_file_says() {
    let clock = ManualClock::at_micros(1_000_000_000_000_000);
    let store = MemoryStore::builder().clock(clock).build();
    let limiter = Limiter::new("1/s".parse().unwrap(), store);
    let mut hold = None;
    for asked in decisions().unwrap() {
        let said = answered(&limiter, &asked, &mut hold);
        assert_eq!(said, asked.text, "{}\n{said}", asked.about);
    }
}
