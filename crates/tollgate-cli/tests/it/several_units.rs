//! One check of several units, in a shell on SQLite, Redis and a cluster, and over HTTP in memory:
//! the same answers.

use serde_json::{Value, json};

use crate::Place;
use crate::lent::lent_cluster_or_skip;
use crate::redis;
use crate::serving::Serving;

const LIMIT: &str =
    "60/m, 100000/m of tokens via gcra, 50000000/month of microdollars in Europe/Berlin";

/// The parts of an answer that do not depend on the moment: tokens flow back between two of them.
fn parts(said: &Value) -> Value {
    let of = |it: &Value| {
        let names = ["unit", "capacity", "remaining", "admits", "identity", "limit"];
        let is_given_back = it["unit"] == "tokens" && it["remaining"] != 99_200;
        names.map(|name| match name {
            "remaining" if is_given_back => Value::Null,
            name => it[name].clone(),
        })
    };
    let limits = said["limits"].as_array().unwrap_or_else(|| panic!("{said}"));
    let binding = ["allowed", "limit", "remaining", "unit", "granted"].map(|it| said[it].clone());
    json!([binding, limits.iter().map(of).collect::<Vec<_>>()])
}

/// The questions: their costs, and the exit codes.
const QUESTIONS: [(&str, i32); 4] = [
    ("requests=1,tokens=800,microdollars=2400", 0),
    // One more than is left.
    ("requests=60", 1),
    ("requests=1,microdollars=50000001", 3),
    ("microdollars=1,tokens=0", 0),
];

fn in_a_shell(place: &Place, store: &[&str]) -> Vec<Value> {
    let one = |(cost, code): (&str, i32)| {
        let args = ["check", "bob", "--limit", LIMIT, "--cost", cost, "--json"];
        let (exit, out, err) = place.run(&[&args[..], store].concat());
        assert_eq!((exit, err.as_str()), (code, ""), "{store:?} {cost}: {out}");
        parts(&serde_json::from_str(&out).unwrap())
    };
    QUESTIONS.map(one).to_vec()
}

#[test]
fn a_check_of_several_units_has_the_same_answer_everywhere() {
    let cluster = lent_cluster_or_skip!();
    let place = Place::new();
    let Some((_redis, url)) = redis::start(place.path(), &[]) else { return };
    let serving = Serving::start(&place, &["--store", "memory://"]);
    let over_http = QUESTIONS.map(|(cost, _)| {
        let amount = |text: &str| {
            let (unit, amount) = text.split_once('=').unwrap();
            (unit.to_owned(), Value::from(amount.parse::<u64>().unwrap()))
        };
        let cost: serde_json::Map<String, Value> = cost.split(',').map(amount).collect();
        let question = json!({ "subject": "bob", "limit": LIMIT, "cost": cost });
        parts(&serving.client().check(&question.to_string()).unwrap())
    });
    assert_eq!(over_http[0][0], json!([true, 60, 59, "requests", 1]));
    assert_eq!(over_http[0][1][1][2], 99_200);
    assert_eq!(over_http[1][0], json!([false, 60, 59, "requests", 0]));
    for store in [&[][..], &["--store", &url], &["--store", &cluster.url()]] {
        assert_eq!(in_a_shell(&place, store), over_http, "{store:?}");
    }
}
