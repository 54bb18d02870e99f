//! Files beside policies: lists of values, tiers of keys; and policies that limit nothing.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests may

use std::fs;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use futures_executor::block_on;
use tempfile::TempDir;
use tollgate::MemoryStore;
use tollgate_policy::{
    Answer, Combine, Entry, Format, Gate, OnFailure, Outcome, Policies, Policy, Problems, Reload,
    Watch,
};

/// Files in a folder of their own, of which `p.toml` has the policies.
struct Files(TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        files.iter().for_each(|(name, text)| folder.write(name, text));
        folder
    }

    fn write(&self, name: &str, text: &str) {
        // Renamed into its place, so that no half of it is read.
        let new = self.0.path().join("new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, self.0.path().join(name)).unwrap();
    }

    fn load(&self) -> Result<Policies, Problems> {
        Policies::load(self.0.path().join("p.toml"))
    }

    fn gate(&self) -> Gate<MemoryStore> {
        let policies = self.load().unwrap_or_else(|problems| panic!("{problems}"));
        Gate::new(policies, MemoryStore::new()).unwrap()
    }
}

fn one(lines: &str) -> String {
    format!("version = 1\n[[policies]]\nname = \"p\"\non_failure = \"allow\"\n{lines}\n")
}

fn of_list(when: &str) -> String {
    one(&format!("when = {{ {when} }}\nlimits = [{{ subject = \"ip\", limit = \"1/s\" }}]"))
}

#[test]
fn a_list_of_any_field_is_a_condition() {
    let digits = "ba7816bf8f01cfea414140de5dae2223";
    for (when, list, inside, outside) in [
        ("user = FILE", "ann\n# bob\n", ("user", "ann"), ("user", "# bob")),
        ("user = [\"x*\", FILE]", "ann\n", ("user", "ann"), ("user", "bob")),
        ("user = [\"x*\", FILE]", "ann\n", ("user", "xy"), ("user", "bob")),
        ("field.plan = FILE", "gold\n", ("field.plan", "gold"), ("field.plan", "free")),
        ("header.x-a = FILE", "a;b\n", ("header.x-a", "a;b"), ("header.x-a", "a")),
        ("host = FILE", "A.com\n", ("host", "a.COM"), ("host", "b.a.com")),
        ("path = FILE", "/a/b\n", ("path", "/a/b"), ("path", "/a")),
        ("ip = FILE", "10.0.0.0/8\n", ("ip", "10.1.2.3"), ("ip", "11.1.2.3")),
        (
            "api_key = FILE",
            "hash:BA7816bf8f01cfea414140de5dae2223\n",
            ("api_key", digits),
            ("api_key", "b"),
        ),
        // A condition that the policy is not filed under.
        ("user = FILE, method = \"GET\"", "ann\n", ("user", "ann"), ("user", "bob")),
    ] {
        let text = of_list(&when.replace("FILE", "{ file = \"list.txt\" }"));
        let files = Files::new(&[("p.toml", &text), ("list.txt", list)]);
        let policies = files.load().unwrap_or_else(|problems| panic!("{problems}"));
        let found = |one: (&str, &str)| {
            let request = [one, ("method", "GET")];
            !policies.matching(&request).is_empty()
        };
        assert!(found(inside) && !found(outside), "{when}");
        let shown = policies.policies()[0].when.iter().map(ToString::to_string);
        assert!(shown.collect::<String>().contains("list.txt (1 "), "{when}");
        // The content of the list is part of the revision, and a program may say the same.
        files.write("list.txt", &format!("{list}\n{list}"));
        assert_ne!(files.load().unwrap().hash() == policies.hash(), !when.starts_with("ip"));
        let said = Policies::new(policies.combine(), policies.policies().to_vec()).unwrap();
        assert_eq!(said.policies(), policies.policies());
    }
}

/// Which policy a request has: the first of these, else none.
#[test]
fn globs_and_what_must_not_match_choose_the_policy() {
    let policy = |name: &str, when: &str| {
        let limits = "limits = [{ subject = \"ip\", limit = \"9/s\" }]";
        format!("[[policies]]\nname = \"{name}\"\non_failure = \"deny\"\nwhen = {when}\n{limits}\n")
    };
    let text = [
        "version = 1\nmatch = \"first\"\n".to_owned(),
        policy("orders", r#"{ path = "/users/*/orders", not = { user = "robot*" } }"#),
        policy(
            "users",
            r#"{ path = "/users/*", not = [{ path = "/users/*/health" }, { method = "HEAD" }] }"#,
        ),
        policy("rest", r#"{ not = { path = ["/users/*", "/healthz"] } }"#),
    ]
    .concat();
    for (format, text) in [
        (Format::Toml, text.clone()),
        (
            Format::Yaml,
            "version: 1
match: first
policies:
  - &p
    name: orders
    on_failure: deny
    when: { path: /users/*/orders, not: { user: robot* } }
    limits: [{ subject: ip, limit: 9/s }]
  - <<: *p
    name: users
    when: { path: /users/*, not: [{ path: /users/*/health }, { method: HEAD }] }
  - <<: *p
    name: rest
    when: { not: { path: [/users/*, /healthz] } }
"
            .to_owned(),
        ),
    ] {
        let policies = Policies::parse(&text, format).unwrap_or_else(|why| panic!("{why}"));
        assert!(policies.warnings().is_empty(), "{}", policies.warnings());
        let gate = Gate::new(policies, MemoryStore::new()).unwrap();
        for (path, method, user, name) in [
            ("/users/7/orders", "GET", "ann", "orders"),
            ("/users/7/orders", "GET", "robot-1", "users"),
            ("/users/7/orders/2", "GET", "", "users"),
            ("/users/7/health", "GET", "", ""),
            ("/users/7", "HEAD", "", ""),
            ("/users", "GET", "", "users"),
            ("/healthz", "GET", "", ""),
            ("/", "HEAD", "", "rest"),
        ] {
            let fields = [("ip", "192.0.2.7"), ("path", path), ("method", method), ("user", user)];
            let answer = block_on(gate.check(&&fields[..]));
            let found: Vec<_> = answer.parts().iter().map(|part| part.policy).collect();
            let names = ["orders", "users", "rest"];
            let found: Vec<_> = found.into_iter().map(|at| names[at]).collect();
            assert_eq!(found.join(" "), name, "{method} {path} {user}");
        }
    }
}

#[test]
fn a_bad_list_is_an_error_with_its_line() {
    for (when, list, says) in [
        ("user = FILE", "ann\nb*\n", "list.txt, line 2: `b*` is not a whole value of `user`"),
        ("ip = FILE", "ann\n", "list.txt, line 1: `ann` is not an address or a network"),
        ("api_key = FILE", "k-17\n", "list.txt, line 1: this is not a whole value of `api_key`"),
        ("user = { file = \"none.txt\" }", "", "none.txt: the file cannot be read"),
        ("user = { flie = \"list.txt\" }", "", "`{ file = \"list.txt\" }`"),
        ("user = { file = \"\" }", "", "an empty path is not a file"),
        ("time = FILE", "", "`time` is a table"),
    ] {
        let text = of_list(&when.replace("FILE", "{ file = \"list.txt\" }"));
        let problems = Files::new(&[("p.toml", &text), ("list.txt", list)]).load().unwrap_err();
        assert!(problems.to_string().contains(says), "{problems}");
        assert!(!problems.to_string().contains("k-17"), "{problems}");
    }
    let beside = Policies::parse(&of_list("user = { file = \"list.txt\" }"), Format::Toml);
    assert!(beside.unwrap_err().to_string().contains("must be beside a policy file"));
}

const TIERS: &str = r#"
version = 1
[[policies]]
name = "api"
on_failure = "allow"
tiers = { file = "tiers.csv", by = "field.tenant" }
[[policies.limits]]
subject = "field.tenant"
limit = "1/h"
absent = "skip"
[[policies.limits.overrides]]
when = { tier = "gold", method = "GET" }
limit = "3/h"
[[policies.limits.overrides]]
when = { tier = "staff" }
limit = "unlimited"
[[policies.limits.overrides]]
when = { tier = "abuser" }
limit = "banned"
"#;

const KEYS: &str = "key,tier\nacme,gold\nours,staff\nmallory,abuser\n";

fn ask(gate: &Gate<MemoryStore>, tenant: &str, method: &str) -> Answer<'static> {
    block_on(gate.check(&[("field.tenant", tenant), ("method", method)]))
}

fn admitted(gate: &Gate<MemoryStore>, tenant: &str, method: &str) -> usize {
    (0..9).filter(|_| ask(gate, tenant, method).is_allowed()).count()
}

#[test]
fn a_key_has_the_limits_of_its_tier_and_others_the_default() {
    let files = Files::new(&[("p.toml", TIERS), ("tiers.csv", KEYS)]);
    let gate = files.gate();
    assert_eq!(admitted(&gate, "acme", "GET"), 3);
    assert_eq!(admitted(&gate, "other", "GET"), 1);
    assert_eq!(ask(&gate, "ours", "GET").outcome(), Outcome::Unlimited);
    assert_eq!(ask(&gate, "mallory", "GET").outcome(), Outcome::Banned);
    // Another condition of the override counts as well, and the count goes on.
    assert!(!ask(&gate, "acme", "POST").is_allowed());
    assert!(gate.current().policies().fields().iter().any(|it| it.to_string() == "field.tenant"));
    assert!(gate.current().policies().fields().iter().all(|it| it.to_string() != "tier"));
    // Keys that the file lacks, and requests without one, can have a tier of their own.
    let text = TIERS.replace("by = \"field.tenant\"", "by = \"user\", otherwise = \"staff\"");
    let gate = Files::new(&[("p.toml", &text), ("tiers.csv", KEYS)]).gate();
    assert_eq!(ask(&gate, "acme", "GET").outcome(), Outcome::Unlimited);
    let shown = gate.current().policies().policies()[0].tiers.as_ref().unwrap().to_string();
    assert_eq!(shown, "tiers.csv (3 keys) by user, otherwise staff");
    // A program may say the same.
    let policies = gate.current().policies().clone();
    let said = Policies::new(policies.combine(), policies.policies().to_vec()).unwrap();
    assert_eq!(said.policies(), policies.policies());
}

#[test]
fn tiers_that_nobody_can_have_are_errors() {
    for (text, keys, says) in [
        (
            TIERS.to_owned(),
            "key,tier\nacme,gold\n\nb,stuff\n",
            &[
                "tiers.csv, line 4: no override of `api` is for the tier `stuff`",
                "did you mean `staff`? The tiers here are abuser, gold and staff",
            ][..],
        ),
        (TIERS.to_owned(), "key,tier\nacme\n", &["tiers.csv, line 2: 1 column:", "--> "]),
        (TIERS.replace("tiers.csv", "none.csv"), KEYS, &["none.csv: the file cannot be read"]),
        (TIERS.replace("field.tenant\" }", "time\" }"), KEYS, &["`time` is not a field"]),
        (
            TIERS.replace("field.tenant\" }", "header.cookie\" }"),
            KEYS,
            &["cannot have tiers: it holds a secret"],
        ),
        (TIERS.replace(", by = \"field.tenant\"", ""), KEYS, &["`by` is missing"]),
        (TIERS.replace("tiers = ", "# "), KEYS, &["condition on `tier`, and there are no tiers"]),
        (
            TIERS.replace("tier = \"", "user = \""),
            KEYS,
            &["no override of `api` has a condition on `tier`"],
        ),
        (
            TIERS.replace("tiers = ", "when = { tier = \"gold\" }\ntiers = "),
            KEYS,
            &["which only overrides can have"],
        ),
    ] {
        let files = Files::new(&[("p.toml", &text), ("tiers.csv", keys)]);
        let problems = files.load().expect_err(says[0]).to_string();
        let problems = problems.split_whitespace().collect::<Vec<_>>().join(" ");
        for says in says {
            assert!(problems.contains(says), "{says}: {problems}");
        }
    }
}

fn next(reloads: &Receiver<String>) -> String {
    reloads.recv_timeout(Duration::from_secs(60)).expect("a reload")
}

#[test]
fn tiers_are_followed_and_a_bad_line_keeps_the_old_ones() {
    let files = Files::new(&[("p.toml", TIERS), ("tiers.csv", KEYS)]);
    let gate = files.gate();
    let (told, reloads) = channel();
    let watch = Watch::new(files.0.path().join("p.toml")).poll(Duration::from_millis(50));
    let watch = watch.debounce(Duration::from_millis(5));
    let watcher = watch.start(&gate, move |reload: &Reload| drop(told.send(reload.to_string())));
    let watcher = watcher.unwrap();
    files.write("tiers.csv", "key,tier\nacme,staff\nother,staff\nthird,stuff\n");
    let broken = next(&reloads);
    assert!(
        broken.contains("policies not replaced") && broken.contains("tiers.csv, line 4"),
        "{broken}"
    );
    assert_eq!(admitted(&gate, "acme", "GET"), 3, "the old tiers count");
    files.write("tiers.csv", "key,tier\nacme,staff\nother,staff\n");
    assert!(next(&reloads).contains("policies replaced: revision 2-"));
    assert_eq!(ask(&gate, "acme", "GET").outcome(), Outcome::Unlimited);
    assert_eq!(ask(&gate, "other", "GET").outcome(), Outcome::Unlimited);
    drop(watcher);
}

const UNLIMITED: &str = r#"
version = 1
match = "MATCH"
[[policies]]
name = "staff"
when = { user = "ann" }
limits = "unlimited"
[[policies]]
name = "all"
on_failure = "deny"
deadline = "1ms"
cost = 2
limits = [{ subject = "ip", limit = "2/h" }]
"#;

#[test]
fn an_unlimited_policy_applies_and_limits_nothing() {
    let gate = |combine: &str| {
        let policies = Policies::parse(&UNLIMITED.replace("MATCH", combine), Format::Toml);
        let policies = policies.unwrap_or_else(|problems| panic!("{problems}"));
        assert!(policies.warnings().is_empty() && policies.cluster_warnings().is_empty());
        Gate::new(policies, MemoryStore::new()).unwrap()
    };
    let request = [("ip", "192.0.2.7"), ("user", "ann")];
    let first = gate("first");
    for _ in 0..3 {
        let answer = block_on(first.check(&request));
        assert_eq!(answer.outcome(), Outcome::Unlimited);
        assert_eq!(answer.policy().map(|policy| policy.name.as_str()), Some("staff"));
    }
    let of = |gate: &Gate<MemoryStore>, policy: &str, outcome: Outcome| {
        let counters = gate.counters();
        counters
            .policies()
            .iter()
            .find(|(name, _)| *name == policy)
            .map(|(_, it)| it.total(outcome))
    };
    assert_eq!(of(&first, "staff", Outcome::Unlimited), Some(3));
    assert_eq!(of(&first, "all", Outcome::Allowed), Some(0));
    // With all, the other policies count as if it were not there.
    let all = gate("all");
    let outcomes: Vec<Outcome> = (0..2).map(|_| block_on(all.check(&request)).outcome()).collect();
    assert_eq!(outcomes, [Outcome::Allowed, Outcome::Denied]);
    assert_eq!(of(&all, "staff", Outcome::Unlimited), Some(1));
    assert_eq!(of(&all, "staff", Outcome::Withheld), Some(1));
    let one = Policies::new(Combine::First, vec![Policy::unlimited("free")]).unwrap();
    let answer = block_on(Gate::new(one, MemoryStore::new()).unwrap().check(&request));
    assert_eq!(answer.outcome(), Outcome::Unlimited);
}

#[test]
fn what_says_nothing_beside_unlimited_is_an_error() {
    for (key, line) in [
        ("on_failure", "on_failure = \"allow\""),
        ("cost", "cost = 2"),
        ("deadline", "deadline = \"2ms\""),
        ("shard", "shard = \"never\""),
    ] {
        let text =
            UNLIMITED.replace("MATCH", "all").replacen("limits", &format!("{line}\nlimits"), 1);
        let problems = Policies::parse(&text, Format::Toml).unwrap_err().to_string();
        let says = format!("`{key}` says nothing here: the policy is `unlimited`");
        assert!(problems.contains(&says) && problems.contains(":7:"), "{problems}");
    }
    let other = UNLIMITED.replace("\"unlimited\"", "\"banned\"").replace("MATCH", "all");
    let problems = Policies::parse(&other, Format::Toml).unwrap_err().to_string();
    assert!(problems.contains("`limits` is a text"), "{problems}");
    let both = Policy::unlimited("p").entry(Entry::new(["ip"], "1/s").unwrap());
    let problems = Policies::new(Combine::First, vec![both]).unwrap_err().to_string();
    assert!(problems.contains("`p` is unlimited, and has limits"), "{problems}");
    let none = Policy::new("p", OnFailure::Allow);
    assert!(Policies::new(Combine::First, vec![none]).is_err());
}
