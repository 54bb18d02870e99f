//! Nodes against what their leases and rules promise.

use tollgate::Strategy;

use crate::experiment::results::{CaseResult, NodesResult, Results};
use crate::experiment::{Experiment, run};
use tollgate_logs::InMemory;

/// One hot key, and a case under these limits with these nodes.
fn file(rate: &str, limit: &str, nodes: &str) -> String {
    format!(
        "version = 1\nname = \"hot\"\nduration = \"3s\"\n\
         workload = [{{ name = \"hot\", arrivals = \"poisson\", rate = \"{rate}\" }}]\n\
         case = [{{ name = \"a\", limits = [{{ per = \"resource\", limit = \"{limit}\" }}], \
         nodes = {{ {nodes} }} }}]\n"
    )
}

fn results(text: &str) -> Results {
    let experiment = Experiment::parse("test.toml", text).unwrap();
    run(&experiment, &mut InMemory::default(), |_| ()).unwrap()
}

fn only(text: &str) -> (CaseResult, NodesResult) {
    let case = results(text).cases.remove(0);
    let nodes = case.nodes.clone().unwrap();
    (case, nodes)
}

/// The decisions of all authorities, and the units of leases, add up.
fn adds_up(case: &CaseResult, nodes: &NodesResult) {
    let NodesResult { by_store, by_lease, by_deny_cache, by_local_share, .. } = nodes;
    let by_rule = nodes.by_failure_rule;
    let decided = by_store + by_lease + by_deny_cache + by_local_share + by_rule;
    assert_eq!(decided, case.attempts, "{nodes:?}");
    assert_eq!(nodes.answered_us.is_some(), case.attempts > 0);
}

#[test]
fn without_delay_and_leases_nodes_admit_what_one_count_admits() {
    for strategy in Strategy::RATES {
        let limit = format!("100/s via {}", strategy.name());
        let nodes = "number = 7, round_trip = \"0s\"";
        let (case, nodes) = only(&file("300/s", &limit, nodes));
        adds_up(&case, &nodes);
        assert_eq!(Some(case.admitted), nodes.admitted_alone, "{limit}");
        assert_eq!((nodes.questions, nodes.difference), (case.attempts, Some(0.0)));
        assert!(case.limits[0].holds && nodes.beyond == 0);
    }
}

#[test]
fn leases_ask_less_and_stay_within_their_bound() {
    for limit in [
        "2000/s via gcra lease 40 for 100ms",
        "2000/s burst 500 via token_bucket lease auto",
        "2000/s via sliding_log lease 100 for 50ms",
        "2000/s via sliding_window lease 100 for 200ms",
        "2000/s via fixed_window lease 40 for 1s",
    ] {
        let nodes = "number = [1, 3, 10], clock_error = \"0.1%\"";
        let results = results(&file("4000/s", limit, nodes));
        let names: Vec<&str> = results.cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["a, 1 node", "a, 3 nodes", "a, 10 nodes"]);
        for case in &results.cases {
            let nodes = case.nodes.as_ref().unwrap();
            adds_up(case, nodes);
            let [of] = &case.limits[..] else { panic!("one limit") };
            assert!(of.holds, "{limit}: {of:?}");
            assert!(nodes.per_question.unwrap() > 1.5, "{limit}: {nodes:?}");
            assert!(nodes.difference.unwrap().abs() < 0.2, "{limit}: {nodes:?}");
            let unspent = nodes.returned + nodes.wasted;
            assert!(unspent <= nodes.charged, "{limit}: {nodes:?}");
        }
        let asked = |at: usize| results.cases[at].nodes.as_ref().unwrap().per_question.unwrap();
        assert!(asked(0) > asked(2), "{limit}: more nodes ask more often");
    }
}

/// The same file and seed give the same results, and another seed gives others.
#[test]
fn a_run_is_the_same_each_time() {
    let nodes = "number = 20, deny_cache = \"1s\", on_failure = \"local 1/4\", \
                 away = [{ from = \"1s\", until = \"2s\", number = 9 }]";
    let text = file("3000/s", "1000/s via gcra lease 20 for 50ms", nodes);
    let first = results(&text);
    assert_eq!(first, results(&text));
    assert_ne!(first.cases, results(&format!("seed = 2\n{text}")).cases);
}

#[test]
fn while_the_store_is_away_the_rule_decides() {
    let limit = "100/s via gcra";
    let away = "away = [{ from = \"1s\", until = \"2s\" }]";
    let case = |rule: &str| {
        let nodes = format!("number = 4, on_failure = \"{rule}\", {away}");
        only(&file("400/s", limit, &nodes))
    };
    let (deny, of_deny) = case("deny");
    adds_up(&deny, &of_deny);
    // An attempt that is under way when the outage begins or ends is lost as well.
    assert!((350..500).contains(&of_deny.by_failure_rule), "{of_deny:?}");
    assert!(deny.limits[0].holds && of_deny.by_local_share == 0);

    let (allow, of_allow) = case("allow");
    adds_up(&allow, &of_allow);
    assert_eq!(allow.admitted, deny.admitted + of_allow.by_failure_rule);
    // A rule that allows counts nothing, so no limit is exceeded by it.
    assert!(allow.limits[0].holds && allow.limits[0].peak < 210, "{allow:?}");

    let (local, of_local) = case("local 1/4");
    adds_up(&local, &of_local);
    let by_shares = local.admitted - deny.admitted;
    // A share of 25/s on each of four nodes, for a second, with a burst of each at most.
    assert!((60..=2 * 4 * 25).contains(&by_shares), "{by_shares} of {of_local:?}");
    assert_eq!(of_local.by_failure_rule, 0);
    assert!(local.limits[0].holds);
    // Answers wait for the deadline, and are then given by the node.
    let p99 = of_local.answered_us.unwrap().p99;
    assert!((50_000..60_000).contains(&p99), "{p99}");
}

#[test]
fn a_lease_outlives_a_short_outage() {
    let limit = "2000/s via gcra lease 400 for 500ms";
    let nodes = "number = 1, away = [{ from = \"1s\", until = \"1100ms\" }]";
    let (case, nodes) = only(&file("1000/s", limit, nodes));
    adds_up(&case, &nodes);
    assert!(nodes.by_failure_rule < 60, "most of 100 were admitted: {nodes:?}");
}

#[test]
fn denials_are_remembered() {
    let (case, without) = only(&file("3000/s", "100/s via gcra burst 1", "number = 2"));
    let cached = "number = 2, deny_cache = \"1s\"";
    let (other, with) = only(&file("3000/s", "100/s via gcra burst 1", cached));
    adds_up(&other, &with);
    assert!(with.questions * 3 < without.questions, "{with:?}");
    assert!(with.by_deny_cache > 5_000 && without.by_deny_cache == 0);
    assert!(case.admitted.abs_diff(other.admitted) < 30, "{} {}", case.admitted, other.admitted);
}

#[test]
fn clients_that_retry_and_clients_of_one_node_are_served() {
    let text = "version = 1\nduration = \"5s\"\n\
        workload = [{ name = \"some\", clients = 5, arrivals = \"poisson\", rate = \"20/s\", \
        retry = \"obey\" }]\n\
        case = [{ limits = [{ per = \"client\", limit = \"3/s via gcra\" }], \
        nodes = { number = 3, spread = \"client\" } }]\n";
    let (case, nodes) = only(text);
    adds_up(&case, &nodes);
    assert!(case.retries > 20 && case.never_served < case.requests / 2, "{case:?}");
    assert_eq!(nodes.questions, case.attempts);
}

#[test]
fn findings_say_what_nodes_did() {
    let nodes =
        "number = 4, on_failure = \"local 1/4\", away = [{ from = \"1s\", until = \"2s\" }]";
    let results = results(&file("3000/s", "1000/s via gcra lease 20 for 100ms", nodes));
    let findings = results.findings.join("\n");
    for part in ["decisions for each question to the store; ", "a: without the store local shares"]
    {
        assert!(findings.contains(part), "{findings}");
    }
    let text = crate::report::text(&results, 100);
    for part in [
        "4 nodes, 1 ms from the store and back, each with a lease of 20 for 100ms; without the",
        "decisions a question",
        "by local shares",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let html = crate::report::html(&results);
    assert!(html.contains("Decisions for each question to the store"));
    assert!(html.contains("<h2>Nodes</h2>"));
}

#[test]
fn bad_nodes_are_refused_with_the_place_and_what_would_be_right() {
    for (nodes, what) in [
        ("number = 0", "a: `number` is 1 to 10000 nodes, not 0"),
        ("number = []", "a: `number` has none: 10, or [1, 10, 100]"),
        ("number = [3, 3]", "a: `number` has 3 twice"),
        ("number = 1, round_trip = \"x\"", "`round_trip`: `x` is not a duration"),
        ("number = 1, clock_error = \"1%\"", "`clock_error` is at most 0.1%"),
        ("number = 1, clock_error = \"fast\"", "`clock_error` is a share, e.g. 0.1%, not `fast`"),
        ("number = 1, deadline = \"0s\"", "`deadline` is more than 0"),
        ("number = 1, on_failure = \"panic\"", "`panic` is not a failure rule"),
        ("number = 1, on_failure = \"local 2\"", "`on_failure`: "),
        ("number = 1, spread = \"turn\"", "`spread` is \"random\" or \"client\", not \"turn\""),
        (
            "number = 2, away = [{ number = 3, from = \"1s\", until = \"2s\" }]",
            "`away` cuts off 3 of 2 nodes: 1 to all of them",
        ),
        ("number = 2, away = [{ from = \"2s\", until = \"2s\" }]", "`away` ends before it begins"),
        ("number = 2, many = 3", "many"),
    ] {
        let error = Experiment::parse("x", &file("1/s", "10/s via gcra", nodes)).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(what), "{nodes}: {said}");
        assert!(said.starts_with("x:5: "), "{nodes}: {said}");
    }
    let queue = "version = 1\nduration = \"1s\"\n\
        workload = [{ arrivals = \"steady\", rate = \"1/s\" }]\n\
        case = [{ queue = { bound = 1, work = \"1s\" }, nodes = { number = 1 } }]\n";
    let said = Experiment::parse("x", queue).unwrap_err().to_string();
    assert!(said.contains("leave `nodes` out"), "{said}");
}
