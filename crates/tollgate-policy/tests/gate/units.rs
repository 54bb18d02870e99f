//! Policies with limits of several units: each unit has an amount of its own.

use std::collections::BTreeMap;

use tollgate::{Cost, Hold, Unit};
use tollgate_policy::{Admission, CostRefused};

use super::*;

const MODELS: &str = r#"
limits = [{ subject = "ip", limit = [
  "60/m", "100000/m of tokens via gcra", "5000000/month of microdollars",
], overrides = [{ when = { field.plan = "flat" }, limit = "600/m" }] }]
[policies.cost]
requests = 1
tokens = { reserve = "header.x-max-tokens", otherwise = 500, max = 8000, hold = "2m", commit = "header.x-tokens" }
microdollars = { from = ["field.in", "field.out"], times = [3, 15], max = 200000, otherwise = 0 }
"#;

const IP: (&str, &str) = ("ip", "192.0.2.7");

fn fields(more: &[(&str, &str)]) -> HashMap<String, String> {
    let all = more.iter().chain([&IP]);
    all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn admit(gate: &Gate<MemoryStore>, more: &[(&str, &str)]) -> Admission {
    block_on(gate.admit(gate.prepare(&fields(more))))
}

fn held(gate: &Gate<MemoryStore>, more: &[(&str, &str)]) -> Hold {
    let Admission { answer, hold, .. } = admit(gate, more);
    hold.unwrap_or_else(|| panic!("{answer:?}"))
}

/// The remaining units of each limit.
fn left(gate: &Gate<MemoryStore>) -> Vec<u64> {
    let answer = block_on(gate.ask(gate.prepare(&fields(&[])).peek()));
    answer.decision().unwrap().reports().map(|report| report.remaining()).collect()
}

fn cost(text: &str) -> Cost {
    text.parse().unwrap()
}

#[test]
fn each_unit_has_its_amount_and_a_commit_charges_the_constants_too() {
    let (gate, _) = gate(&one(MODELS));
    let call = [("header.x-max-tokens", "4000"), ("field.in", "100"), ("field.out", "20")];
    let hold = held(&gate, &call);
    assert_eq!(hold.cost, cost("requests=1,microdollars=600,tokens=4000"));
    assert_eq!(left(&gate), [59, 96_000, 4_999_400]);
    // The tokens alone are an estimate.
    let settled = block_on(gate.holds().commit(&hold, cost("tokens=1312"))).unwrap();
    assert_eq!(settled.actual, cost("requests=1,microdollars=600,tokens=1312"));
    assert_eq!(left(&gate), [59, 98_688, 4_999_400]);
    // Nothing was used at all: everything comes back.
    let cancelled = held(&gate, &call);
    block_on(gate.holds().commit(&cancelled, 0)).unwrap();
    assert_eq!(left(&gate), [59, 98_688, 4_999_400]);
}

#[test]
fn an_amount_without_its_field_is_the_other_one_or_none() {
    let (gate, _) = gate(&one(MODELS));
    assert_eq!(held(&gate, &[]).cost, cost("requests=1,tokens=500"));
    let call = [("header.x-max-tokens", "0"), ("field.in", "7"), ("field.out", "many")];
    assert_eq!(held(&gate, &call).cost, 1);
    let Admission { answer, hold, .. } = admit(&gate, &[("header.x-max-tokens", "8001")]);
    assert_eq!((answer.outcome(), hold), (Outcome::Never, None));
    let (unit, most) = answer.too_costly().unwrap();
    assert_eq!((unit.name(), most), ("tokens", 8_000));
    assert!(answer.error().unwrap().to_string().contains("at most 8000 tokens"));
    // A request that takes nothing of any unit.
    let lines = MODELS.replace("requests = 1\n", "").replace("= 500", "= 0");
    let (gate, _) = super::gate(&one(&lines));
    let answer = admit(&gate, &[("field.in", "0"), ("field.out", "0")]).answer;
    assert_eq!(answer.outcome(), Outcome::Missing);
    assert_eq!(answer.missing().unwrap().to_string(), "field.in");
}

#[test]
fn an_override_without_a_unit_leaves_its_amount_out() {
    let (gate, _) = gate(&one(MODELS));
    let hold = held(&gate, &[("field.plan", "flat"), ("header.x-max-tokens", "4000")]);
    assert_eq!(hold.cost, 1);
    let answer = block_on(gate.ask(gate.prepare(&fields(&[("field.plan", "flat")])).peek()));
    assert_eq!(answer.decision().unwrap().remaining(), 599);
}

#[test]
fn a_caller_replaces_estimates_and_ones_unit_by_unit() {
    let (gate, _) = gate(&one(MODELS));
    let asked = |given: &str, more: &[(&str, &str)]| {
        let mut prepared = gate.prepare(&fields(more));
        prepared.cost(cost(given)).map(|()| block_on(gate.admit(prepared)))
    };
    let placed = asked("tokens=20", &[("field.in", "1"), ("field.out", "1")]).unwrap();
    assert_eq!(placed.hold.unwrap().cost, cost("requests=1,microdollars=18,tokens=20"));
    let placed = asked("requests=5,tokens=20", &[]).unwrap();
    assert_eq!(placed.hold.unwrap().cost, cost("requests=5,tokens=20"));
    assert_eq!(asked("tokens=8001", &[]).unwrap().answer.outcome(), Outcome::Never);
    let sets = asked("microdollars=5", &[]).unwrap_err();
    assert!(matches!(&sets, CostRefused::Sets(policy) if policy.name == "p"), "{sets:?}");
    let CostRefused::Unknown(error) = asked("tokns=5", &[]).unwrap_err() else { panic!() };
    let text = error.to_string();
    assert!(text.contains("`tokns`") && text.contains("microdollars, requests, tokens"), "{text}");
    // An override may not count a unit.
    let flat = asked("tokens=5", &[("field.plan", "flat")]).unwrap_err();
    assert!(matches!(flat, CostRefused::Unknown(_)), "{flat:?}");
}

#[test]
fn a_commit_is_cut_by_unit_and_headers_say_what_was_used() {
    let lines = MODELS.replace(
        "from = [\"field.in\", \"field.out\"], times = [3, 15], max = 200000, otherwise = 0",
        "reserve = 600, times = [3, 15], commit = [\"header.x-in\", \"header.x-out\"], max = 9000, hold = \"2m\"",
    );
    let (gate, _) = gate(&one(&lines));
    let placed = admit(&gate, &[("header.x-max-tokens", "10")]);
    let headers: Vec<&str> = placed.commits.headers().map(|name| &**name).collect();
    assert_eq!(headers, ["x-in", "x-out", "x-tokens"]);
    let said = |pairs: &'static [(&str, u64)]| {
        move |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
    };
    let used =
        placed.commits.used(said(&[("x-in", 100), ("x-out", 2_000), ("x-tokens", 9_000)]), 0);
    assert_eq!(used, Some(cost("microdollars=30300,tokens=9000")));
    // One of two numbers is no sum.
    let part = placed.commits.used(said(&[("x-in", 100), ("x-tokens", 9)]), 0);
    assert_eq!(part, Some(cost("tokens=9")));
    assert_eq!(placed.commits.used(said(&[]), 77), None);
    let settled = block_on(gate.holds().commit(&placed.hold.unwrap(), used.unwrap())).unwrap();
    assert_eq!(settled.actual, cost("requests=1,microdollars=9000,tokens=8000"));
    let of = |unit: &str| unit.parse::<Unit>().unwrap();
    let cut = BTreeMap::from([(of("microdollars"), 21_300), (of("tokens"), 1_000)]);
    assert_eq!(gate.counters().holds.units_cut(), cut);
    let over = BTreeMap::from([(of("microdollars"), 8_400), (of("tokens"), 7_990)]);
    assert_eq!((gate.counters().holds.units_over(), gate.counters().holds.over()), (over, 1));
}

#[test]
fn each_unit_has_its_own_quantile() {
    let quantile = "{ reserve = \"p50\", otherwise = 500, max = 8000, hold = \"2m\" }";
    let lines = format!(
        "limits = [{{ subject = \"ip\", limit = [\"9000000/m of tokens via gcra\", \"300/m of images\"] }}]\n\
         [policies.cost]\ntokens = {quantile}\nimages = {quantile}\n"
    );
    let (gate, _) = gate(&one(&lines));
    for _ in 0..20 {
        let hold = held(&gate, &[]);
        // At most a tenth of 300.
        assert_eq!(hold.cost, cost("images=30,tokens=500"));
        block_on(gate.holds().commit(&hold, cost("images=2,tokens=900"))).unwrap();
    }
    assert_eq!(held(&gate, &[]).cost, cost("images=2,tokens=900"));
}

const TOGETHER: &str = r#"
version = 1
match = "all"
[[policies]]
name = "calls"
on_failure = "allow"
limits = [{ subject = "everyone=all", limit = "100/h" }]
[[policies]]
name = "models"
on_failure = "allow"
when = { path = "/v1/*" }
cost = { tokens = { from = "field.tokens", max = 8000, otherwise = "deny" } }
limits = [{ subject = "ip", limit = "10000/h of tokens via sliding_log" }]
"#;

#[test]
fn policies_that_apply_together_add_their_units() {
    let (gate, _) = gate(TOGETHER);
    let asked = |more: &[(&str, &str)]| block_on(gate.ask(gate.prepare(&fields(more))));
    let model = |tokens| asked(&[("path", "/v1/chat"), ("field.tokens", tokens)]);
    assert_eq!(model("6000").outcome(), Outcome::Allowed);
    // Nothing is charged of either on a denial.
    let denied = model("6000");
    assert_eq!(denied.outcome(), Outcome::Denied);
    assert_eq!(denied.decision().unwrap().unit().name(), "tokens");
    assert_eq!(asked(&[("path", "/v1/chat")]).outcome(), Outcome::Missing);
    let other = asked(&[("path", "/")]);
    assert_eq!(other.decision().unwrap().remaining(), 98);
    assert_eq!(block_on(gate.refund(&other)).unwrap().map(|it| it.left), Some(Cost::from(0)));
    let last = model("4000");
    let left: Vec<u64> = last.decision().unwrap().reports().map(|it| it.remaining()).collect();
    assert_eq!(left, [98, 0]);
}

#[test]
fn a_charge_afterwards_is_of_each_unit_alone() {
    let (gate, _) = gate(TOGETHER);
    let request = fields(&[("path", "/v1/chat"), ("field.tokens", "9")]);
    let _ = block_on(gate.ask(gate.prepare(&request)));
    let request = fields(&[("path", "/v1/chat"), ("field.tokens", "1")]);
    let answer = block_on(gate.ask(gate.prepare(&request)));
    let more = block_on(gate.charge_extra(&answer, cost("requests=3,tokens=20000"))).unwrap();
    // As many as remain.
    assert_eq!(more.unwrap().granted(), 9_990);
    let answer = block_on(gate.ask(gate.prepare(&fields(&[("path", "/")]))));
    assert_eq!(answer.decision().unwrap().remaining(), 94);
}

/// A price is that of each policy that applies, also where it counts nothing itself.
#[test]
fn a_policy_that_counts_nothing_for_a_request_still_brings_its_price() {
    let (gate, _) = gate(
        r#"
version = 1
match = "all"
[[policies]]
name = "budget"
on_failure = "allow"
cost = { requests = 1 }
limits = [{ subject = "everyone=all", limit = ["9/h", "100/h of cents via sliding_log"] }]
[[policies]]
name = "large"
on_failure = "allow"
cost = { requests = 1, cents = 40 }
limits = [{ subject = "ip", absent = "skip", limit = "9/m", overrides = [
  { when = { field.plan = "pro" }, limit = "unlimited" },
] }]
"#,
    );
    for _ in 0..2 {
        let answer = block_on(gate.ask(gate.prepare(&fields(&[("field.plan", "pro")]))));
        assert_eq!(answer.outcome(), Outcome::Allowed);
    }
    let denied = block_on(gate.ask(gate.prepare(&fields(&[("field.plan", "pro")]))));
    assert_eq!(denied.decision().unwrap().unit().name(), "cents");
}

/// Both policies read the same header, which is used once.
#[test]
fn policies_that_share_an_estimate_commit_it_once() {
    let policy = |name: &str, subject: &str| {
        format!(
            "[[policies]]\nname = \"{name}\"\non_failure = \"deny\"\n\
             cost = {{ reserve = 5, commit = \"header.x-used\", max = 90, hold = \"2m\" }}\n\
             limits = [{{ subject = \"{subject}\", limit = \"100/h via gcra\" }}]\n"
        )
    };
    let (one, two) = (policy("one", "ip"), policy("two", "everyone=all"));
    let (gate, _) = gate(&format!("version = 1\nmatch = \"all\"\n{one}{two}"));
    let placed = admit(&gate, &[]);
    assert_eq!(placed.commits.used(|_| Some(7), 0), Some(Cost::from(7)));
}

/// A policy that only brings its price estimates, is read and is learned from as one that counts.
#[test]
fn a_price_alone_has_its_quantile_its_headers_and_its_max() {
    let (gate, _) = gate(
        r#"
version = 1
match = "all"
[[policies]]
name = "budget"
on_failure = "deny"
limits = [{ subject = "everyone=all", limit = ["900/h", "900000/h of tokens via gcra"] }]
[[policies]]
name = "price"
on_failure = "deny"
cost = { tokens = { reserve = "p50", otherwise = 500, max = 8000, hold = "2m", commit = "header.x-tokens" } }
limits = [{ subject = "user", absent = "skip", limit = "900/h of tokens" }]
"#,
    );
    for _ in 0..20 {
        let placed = admit(&gate, &[]);
        assert_eq!(placed.commits.used(|_| Some(40), 0), Some(cost("tokens=40")));
        let hold = placed.hold.unwrap();
        assert_eq!(hold.cost, cost("requests=1,tokens=500"));
        block_on(gate.holds().commit(&hold, cost("tokens=40"))).unwrap();
    }
    let hold = held(&gate, &[]);
    assert_eq!(hold.cost, cost("requests=1,tokens=40"));
    let settled = block_on(gate.holds().commit(&hold, cost("tokens=9000"))).unwrap();
    assert_eq!(settled.actual.amounts().named(&"tokens".parse().unwrap()), Some(8_000));
    let mut prepared = gate.prepare(&fields(&[]));
    prepared.cost(cost("tokens=8001")).unwrap();
    assert_eq!(block_on(gate.admit(prepared)).answer.outcome(), Outcome::Never);
}
