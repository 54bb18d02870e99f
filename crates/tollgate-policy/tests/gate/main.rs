//! The gate: its answer and its authority in each case, refunds, charges afterwards, reloads.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests may

use std::collections::HashMap;
use std::path::Path;

use futures_executor::block_on;
use tollgate::{ManualClock, MemoryStore, Store};
use tollgate_policy::{Answer, Format, Gate, Outcome, Policies};

mod at_once;
mod bounds;
mod failing;
mod failures;
mod holds;
mod limits;
mod local;
mod replacing;
mod reserves;
mod thresholds;
mod together;
mod units;

use failing::Failing;

fn parse(text: &str) -> Policies {
    Policies::parse(text, Format::Toml).unwrap_or_else(|problems| panic!("{problems}"))
}

fn gate_of(policies: Policies) -> (Gate<MemoryStore>, ManualClock) {
    let clock = ManualClock::at_micros(1_700_000_000_000_000);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (Gate::new(policies, store).unwrap(), clock)
}

fn gate(text: &str) -> (Gate<MemoryStore>, ManualClock) {
    gate_of(parse(text))
}

fn example(name: &str) -> (Gate<MemoryStore>, ManualClock) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policies");
    gate_of(Policies::load(folder.join(name)).unwrap())
}

fn ask<S: Store>(gate: &Gate<S>, fields: &[(&str, &str)]) -> Answer<'static> {
    let fields: HashMap<String, String> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    block_on(gate.check(&fields))
}

/// The outcomes of the same request, asked so often.
fn asked<S: Store>(gate: &Gate<S>, times: usize, fields: &[(&str, &str)]) -> Vec<Outcome> {
    (0..times).map(|_| ask(gate, fields).outcome()).collect()
}

fn admitted(outcomes: &[Outcome]) -> usize {
    outcomes.iter().filter(|outcome| outcome.admits()).count()
}

/// One policy with these lines.
fn one(lines: &str) -> String {
    format!("version = 1\n[[policies]]\nname = \"p\"\non_failure = \"allow\"\n{lines}\n")
}

const SEVERAL: &str = r#"
version = 1
match = "MATCH"
[[policies]]
name = "narrow"
on_failure = "allow"
deadline = "20ms"
when = { path = "/api/*" }
limits = [{ subject = "ip", limit = "2/h" }]
[[policies]]
name = "trial"
on_failure = "allow"
shadow = true
when = { path = "/api/*" }
limits = [{ subject = "ip", limit = "1/h" }]
[[policies]]
name = "wide"
on_failure = "deny"
when = { ip = "*" }
limits = [{ subject = "ip", limit = "3/h" }]
"#;

fn hourly(units: u64) -> String {
    one(&format!("limits = [{{ subject = \"ip\", limit = \"{units}/h\" }}]"))
}
