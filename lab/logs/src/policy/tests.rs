//! Tests of policies over a log: against limiters asked one by one, and against each other.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::num::NonZeroUsize;
use std::path::Path;

use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};
use tollgate::{Ask, LimitSet, Limiter, ManualClock, MemoryStore, Time};
use tollgate_policy::{Condition, Field, Format, Rule};

use super::*;
use crate::By;
use crate::source::Lines;

/// A request of a test: second, address, path, user, weight.
type Line = (u64, u8, u8, Option<u8>, u32);

const PATHS: [&str; 4] = ["/login", "/api/a", "/api/b", "/static/x"];

fn log(lines: &[Line]) -> String {
    let line = |(at, ip, path, user, weight): &Line| {
        let path = PATHS[usize::from(*path) % PATHS.len()];
        let user = user.map_or_else(|| "null".to_owned(), |user| format!("\"u,{user}%\""));
        format!(
            "{{\"ts\":{},\"ip\":\"10.0.0.{ip}\",\"path\":\"{path}?q=1\",\"method\":\"GET\",\
             \"user\":{user},\"weight\":{weight}}}\n",
            1_000_000 + at
        )
    };
    lines.iter().map(line).collect()
}

fn lines_of(text: &str) -> Lines {
    Lines::from_reader(Cursor::new(text.as_bytes().to_vec()), Path::new("x"), None).unwrap()
}

fn policies(text: &str) -> Policies {
    Policies::parse(text, Format::Toml).unwrap()
}

const OLD: &str = r#"
    version = 1
    match = "first"
    [[policies]]
    name = "login"
    on_failure = "deny"
    when = { path = "/login" }
    limits = [{ subject = "ip", limit = "2/10s via sliding_log" }]
    [[policies]]
    name = "api"
    on_failure = "allow"
    when = { path = "/api/*" }
    cost = { from = "field.weight", max = 9, otherwise = 2 }
    limits = [
        { subject = "user", limit = "5/20s via fixed_window", absent = "ip" },
        { subject = "pool=all", limit = "30/10s via sliding_log" },
    ]
"#;

const NEW: &str = r#"
    version = 1
    match = "first"
    [[policies]]
    name = "login"
    on_failure = "deny"
    when = { path = "/login" }
    limits = [{ subject = "ip", limit = "1/5s via sliding_log" }]
    [[policies]]
    name = "api-b"
    on_failure = "allow"
    when = { path = "/api/b" }
    [[policies.limits]]
    subject = "ip"
    limit = "3/20s via gcra"
    overrides = [{ when = { ip = "10.0.0.3" }, limit = "banned" }]
"#;

fn read(text: &str, all: &[&Policies]) -> Requests {
    PolicyReading::default().read_lines(lines_of(text), all, |_| ()).unwrap()
}

/// Each line's decision: whether it was admitted, and by which policy.
fn decisions(text: &str, policies: &Policies) -> BTreeMap<u32, (bool, Option<String>)> {
    let mut all = BTreeMap::new();
    let requests = read(text, &[policies]);
    let mut each = |decided: Decided<'_>| {
        all.insert(decided.line, (decided.is_admitted, decided.policy.map(str::to_owned)));
        Ok(())
    };
    let report = replay(&requests, policies, &mut each, &mut |_| Ok(())).unwrap();
    let admitted = all.values().filter(|it| it.0).count() as u64;
    assert_eq!((report.admitted, report.events), (admitted, all.len() as u64));
    let counted: u64 = report.policies.iter().map(|it| it.admitted + it.denied).sum();
    assert_eq!(counted + report.no_policy, report.events);
    all
}

/// The old policies, written again by hand with limiters.
fn old_by_hand(lines: &[Line]) -> BTreeMap<u32, bool> {
    let clock = ManualClock::at_micros(0);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let set = |text: &str, policy: &str| -> LimitSet {
        text.parse::<LimitSet>().unwrap().in_policy(policy).unwrap()
    };
    let login = set("2/10s via sliding_log", "login");
    let (user, pool) = (set("5/20s via fixed_window", "api"), set("30/10s via sliding_log", "api"));
    let limiter = Limiter::new(login.clone(), store);
    let mut order: Vec<(usize, &Line)> = lines.iter().enumerate().collect();
    order.sort_by_key(|(_, line)| line.0);
    let decide = |(number, &(at, ip, path, name, weight)): (usize, &Line)| {
        clock.set(Time::from_micros((1_000_000 + at) * 1_000_000));
        let address = format!("ip:10.0.0.{ip}");
        let admitted = match PATHS[usize::from(path) % PATHS.len()] {
            "/login" => {
                limiter.check(Ask::new(address.as_str()).under(&login)).now().unwrap().is_allowed()
            }
            "/static/x" => true,
            _ if weight > 9 => false,
            _ => {
                let who = match name {
                    Some(name) => format!("user:u%2C{name}%25"),
                    None => address,
                };
                let cost = if weight == 0 { 2 } else { u64::from(weight) };
                let ask = Ask::new(who.as_str()).under(&user).and_under("pool:all", &pool);
                limiter.check(ask.cost(cost)).now().unwrap().is_allowed()
            }
        };
        (u32::try_from(number + 1).unwrap(), admitted)
    };
    order.into_iter().map(decide).collect()
}

#[test]
fn conditions_alone_need_no_combination_of_their_own() {
    let text: String =
        (0..50).map(|n| format!("{{\"ts\":{n},\"ip\":\"::1\",\"path\":\"/api/{n}\"}}\n")).collect();
    let rules = policies(
        "version = 1\n[[policies]]\nname = \"a\"\non_failure = \"deny\"\n\
         when = { path = \"/api/1*\" }\nlimits = [{ subject = \"ip\", limit = \"3/1h\" }]\n",
    );
    let few = PolicyReading {
        max_combinations: NonZeroUsize::new(2).unwrap(),
        ..PolicyReading::default()
    };
    let requests = few.read_lines(lines_of(&text), &[&rules], |_| ()).unwrap();
    let report = replay(&requests, &rules, &mut |_| Ok(()), &mut |_| Ok(())).unwrap();
    // /api/1 and /api/10 to /api/19.
    assert_eq!((report.policies[0].admitted, report.denied, report.no_policy), (3, 8, 39));
    let one = PolicyReading { max_combinations: NonZeroUsize::MIN, ..few };
    let error = one.read_lines(lines_of(&text), &[&rules], |_| ()).unwrap_err().to_string();
    assert!(error.contains("more than 1 different combinations"), "{error}");
}

#[test]
fn a_field_that_no_line_has_is_an_error_with_the_remedy() {
    let text = log(&[(0, 1, 0, None, 1), (1, 1, 0, None, 1)]);
    let rules = policies(
        "version = 1\n[[policies]]\nname = \"a\"\non_failure = \"deny\"\n\
         limits = [{ subject = \"route\", limit = \"1/1h\", absent = \"skip\" }]\n",
    );
    let reading = PolicyReading::default();
    let error = |reading: &PolicyReading| {
        reading.read_lines(lines_of(&text), &[&rules], |_| ()).unwrap_err().to_string()
    };
    assert!(error(&reading).contains("read route, which no line of the log has: `--field route="));
    let denied = |name: &str| {
        let given = vec![(Field::Route, name.to_owned())];
        let reading = PolicyReading { given, ..PolicyReading::default() };
        let requests = reading.read_lines(lines_of(&text), &[&rules], |_| ()).unwrap();
        replay(&requests, &rules, &mut |_| Ok(()), &mut |_| Ok(())).unwrap().denied
    };
    assert_eq!((denied("path"), denied("")), (1, 0));
    let priced = policies(
        "version = 1\n[[policies]]\nname = \"a\"\non_failure = \"deny\"\n\
         cost = { from = \"field.size\", max = 9, otherwise = 2 }\n\
         limits = [{ subject = \"ip\", limit = \"1/1h\" }]\n",
    );
    let without = reading.read_lines(lines_of(&text), &[&priced], |_| ()).unwrap_err().to_string();
    assert!(without.contains("read field.size, which no line of the log has"), "{without}");
    let unused = vec![(Field::ApiKey, "key".to_owned())];
    let reading = PolicyReading { given: unused, ..PolicyReading::default() };
    assert!(error(&reading).contains("no policy reads `api_key`"));
    let several = vec![(Field::Route, "a,b".to_owned())];
    let reading = PolicyReading { given: several, ..PolicyReading::default() };
    assert!(error(&reading).contains("from one field of the log"));
}

#[test]
fn limits_count_by_the_field_of_the_command_at_its_costs() {
    let text = log(&[(0, 1, 0, Some(1), 3), (1, 2, 0, Some(1), 3), (2, 2, 0, Some(2), 3)]);
    let (old, new) = (
        limits_as_policies("5/10s of tokens", true),
        limits_as_policies("6/10s of tokens, 99/s", true),
    );
    let (old, new) = (old.unwrap(), new.unwrap());
    let reading =
        PolicyReading { cost: Some(By::Field("weight".into())), ..PolicyReading::by(By::User) };
    let requests = reading.read_lines(lines_of(&text), &[&old, &new], |_| ()).unwrap();
    let mut changed = Vec::new();
    let mut each = |it: Changed<'_>| {
        changed.push((it.line, it.client.to_vec(), it.is_admitted));
        Ok(())
    };
    let found = diff(&requests, &old, &new, &mut each, &mut |_| Ok(())).unwrap();
    assert_eq!(changed, [(2, b"u,1%".to_vec(), true)]);
    assert_eq!(found.to_admitted.policies[0].clients_most, [("u,1%".to_owned(), 1)]);
    assert_eq!(found.to_admitted.policies[0].policy, LIMIT);
    assert_eq!((found.old.denied, found.new.denied, found.is_same()), (1, 0, false));
    let same = diff(&requests, &old, &old, &mut |_| panic!("nobody"), &mut |_| Ok(())).unwrap();
    assert!(same.is_same() && same.to_denied.policies.is_empty());
    assert!(limits_as_policies("5/10x", false).is_err());
}

/// A condition on the time holds by the times of the log, whenever it is replayed.
#[test]
fn times_of_day_are_those_of_the_log() {
    // From 1970-01-12 13:46:40 UTC: 13:59:59, 14:00:00 twice, and 14:01:00.
    let text = log(&[
        (799, 1, 0, None, 1),
        (800, 1, 0, None, 1),
        (800, 1, 2, None, 1),
        (860, 1, 2, None, 1),
    ]);
    let rules = policies(
        "version = 1\n[[policies]]\nname = \"a\"\non_failure = \"deny\"\n\
         when = { time = \"14:00-14:01\", path = \"*\" }\n\
         limits = [{ subject = \"ip\", limit = \"1/1h\" }]\n",
    );
    let requests = read(&text, &[&rules]);
    let report = replay(&requests, &rules, &mut |_| Ok(()), &mut |_| Ok(())).unwrap();
    assert_eq!((report.policies[0].admitted, report.denied, report.no_policy), (1, 1, 2));
}

/// Tiers go by the value of each line: requests with different ones are not of one class.
#[test]
fn each_request_of_a_log_has_its_tier() {
    let text = log(&[
        (0, 1, 0, Some(1), 1),
        (1, 2, 0, Some(2), 1),
        (2, 1, 0, Some(1), 1),
        (3, 2, 0, Some(2), 1),
    ]);
    let tiers = tollgate_policy::Tiers::parse(&Field::User, "t.csv", "key,tier\n\"u,1%\",gold\n");
    let gold = Condition::parse("tier", ["gold"]).unwrap();
    let entry = Entry::new(["ip"], "1/1h").unwrap();
    let entry = entry.overridden(vec![gold], Rule::Unlimited);
    let policy = Policy::new("a", OnFailure::Deny).entry(entry).tiers(tiers.unwrap());
    let rules = Policies::new(Combine::First, vec![policy]).unwrap();
    let requests = read(&text, &[&rules]);
    let report = replay(&requests, &rules, &mut |_| Ok(()), &mut |_| Ok(())).unwrap();
    assert_eq!((report.policies[0].admitted, report.denied), (3, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A replay agrees with limiters that are asked by hand; a diff is two replays, line by line.
    #[test]
    fn a_diff_is_two_replays_and_a_replay_is_the_engine(
        lines in proptest::collection::vec(
            (0..40_u64, 1..4_u8, 0..4_u8, proptest::option::of(0..3_u8), 0..11_u32), 1..120,
        ),
        sorted in any::<bool>(),
    ) {
        let mut lines = lines;
        if sorted {
            lines.sort_unstable();
        }
        // Every field is somewhere.
        lines.push((50, 1, 1, Some(1), 1));
        let text = log(&lines);
        let (old, new) = (policies(OLD), policies(NEW));
        let (before, after) = (decisions(&text, &old), decisions(&text, &new));
        let by_hand = old_by_hand(&lines);
        prop_assert_eq!(before.len(), by_hand.len());
        for (line, admitted) in &by_hand {
            prop_assert_eq!(before[line].0, *admitted, "line {}", line);
        }
        let mut changed = BTreeMap::new();
        let requests = read(&text, &[&old, &new]);
        let mut each = |it: Changed<'_>| {
            changed.insert(it.line, (it.is_admitted, it.policy.map(str::to_owned)));
            Ok(())
        };
        let found = diff(&requests, &old, &new, &mut each, &mut |_| Ok(())).unwrap();
        let expected: BTreeMap<u32, (bool, Option<String>)> = before
            .iter()
            .filter(|(line, was)| was.0 != after[*line].0)
            .map(|(line, was)| {
                let is = &after[line];
                let policy = if is.0 { &was.1 } else { &is.1 };
                (*line, (is.0, policy.clone()))
            })
            .collect();
        prop_assert_eq!(&changed, &expected);
        let of = |admitted: bool| expected.values().filter(|it| it.0 == admitted).count() as u64;
        prop_assert_eq!(found.to_admitted.requests, of(true));
        prop_assert_eq!(found.to_denied.requests, of(false));
        for (change, admitted) in [(&found.to_admitted, true), (&found.to_denied, false)] {
            let sum: u64 = change.policies.iter().map(|it| it.requests).sum();
            prop_assert_eq!(sum, change.requests);
            for policy in &change.policies {
                let count = expected
                    .values()
                    .filter(|it| it.0 == admitted && it.1.as_ref() == Some(&policy.policy))
                    .count() as u64;
                prop_assert_eq!(policy.requests, count);
                prop_assert_eq!(policy.examples.len() as u64, count.min(5));
            }
        }
    }
}
