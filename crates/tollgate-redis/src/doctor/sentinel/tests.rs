//! Faults that sentinels would have to be broken for: replies, and the judgement of them.

use std::collections::BTreeMap;

use super::*;
use crate::doctor::facts::Facts;
use crate::doctor::finding::{Finding, Level};
use crate::doctor::nodes::Node;

/// A sentinel's reply about a primary at this port, with these fields changed.
fn monitored(port: &str, changed: &[(&str, &str)]) -> Monitored {
    let usual = [
        ("ip", "10.0.0.1"),
        ("port", port),
        ("flags", "master"),
        ("config-epoch", "3"),
        ("quorum", "2"),
        ("num-other-sentinels", "2"),
        ("down-after-milliseconds", "5000"),
    ];
    let all = usual.iter().chain(changed);
    let fields: BTreeMap<_, _> =
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Monitored::read(&fields).unwrap()
}

/// The sentinels' replies are seen together; the server has this role.
fn watch(said: &[Monitored], role: &str) -> Watch {
    let answers: Vec<AddressAnswer> =
        said.iter().map(|one| AddressAnswer::Knows(Box::new(one.clone()))).collect();
    let seen = |watched: Watched| {
        let mut facts = Facts::default();
        facts.info.insert("role".to_owned(), role.to_owned());
        let node = Node { name: watched.endpoint.to_string(), seen: Ok(Box::new(facts)) };
        (watched, node)
    };
    let servers = servers(&answers).into_iter().map(seen).collect();
    let names = (0..answers.len()).map(|number| format!("s{number}"));
    Watch { name: "main".to_owned(), sentinels: names.zip(answers).collect(), servers }
}

fn found(watch: &Watch, id: &str) -> Finding {
    findings::diagnose(watch).into_iter().find(|finding| finding.id == id).unwrap()
}

#[test]
fn the_latest_failover_counts_and_equal_ones_are_two_primaries() {
    let one = monitored("1", &[]);
    for (epoch, level, named) in [("3", Level::Failure, "1"), ("4", Level::Warning, "2")] {
        let other = monitored("2", &[("config-epoch", epoch)]);
        let watch = watch(&[one.clone(), other], "master");
        let agreement = found(&watch, "agreement");
        assert_eq!(agreement.level, level, "{agreement:?}");
        assert_eq!(agreement.nodes, [if epoch == "3" { "s1" } else { "s0" }]);
        assert_eq!(found(&watch, "primary").nodes, [format!("10.0.0.1:{named}")]);
    }
    let watch = watch(&[one.clone(), one], "slave");
    assert_eq!(found(&watch, "agreement").level, Level::Ok);
    let primary = found(&watch, "primary");
    assert_eq!(primary.level, Level::Failure);
    assert_eq!(primary.what, "it is named as the primary, and its role is slave");
    let down = monitored("1", &[("flags", "master,s_down")]);
    assert_eq!(found(&self::watch(&[down], "master"), "primary").level, Level::Warning);
}

#[test]
fn sentinels_without_a_quorum_and_with_other_timeouts_are_reported() {
    let usual = || monitored("1", &[]);
    let none = Monitored { no_quorum: Some("1 usable Sentinels".to_owned()), ..usual() };
    let failure = found(&watch(&[usual(), none], "master"), "quorum");
    assert_eq!((failure.level, &failure.nodes[..]), (Level::Failure, &["s1".to_owned()][..]));
    // The URL names one of three sentinels, so the others may be up.
    assert_eq!(found(&watch(&[usual()], "master"), "quorum").level, Level::Ok);
    let two = monitored("1", &[("num-other-sentinels", "1")]);
    assert_eq!(found(&watch(&[two.clone(), two], "master"), "quorum").level, Level::Warning);

    let slow = monitored("1", &[("down-after-milliseconds", "30000")]);
    let timeout = found(&watch(&[usual(), slow.clone()], "master"), "timeout");
    assert!(timeout.what.ends_with("differs between the sentinels: 5000, 30000"), "{timeout:?}");
    let timeout = found(&watch(&[slow], "master"), "timeout");
    assert!(timeout.what.contains("is 30000 ms") && timeout.level == Level::Warning);
    assert_eq!(found(&watch(&[usual()], "master"), "timeout").level, Level::Ok);
}

#[test]
fn replicas_that_may_not_take_over_do_not_count() {
    let replica = |port: u16, is_down: bool, is_eligible: bool| Watched {
        endpoint: Endpoint::new("10.0.0.1", port),
        is_down,
        is_eligible,
    };
    let replicas = vec![replica(2, true, true), replica(3, false, false)];
    let mut said = monitored("1", &[]);
    said.replicas = replicas;
    assert_eq!(found(&watch(&[said.clone()], "master"), "replicas").level, Level::Warning);
    said.replicas.push(replica(4, false, true));
    let all = watch(&[said.clone(), said], "master");
    assert_eq!(all.servers.len(), 4);
    assert_eq!(found(&all, "replicas").what, "replicas that can take over: 1");
}

#[test]
fn fields_are_pairs_and_a_server_has_an_address() {
    let list = |words: &[&str]| {
        CommandReply::List(words.iter().map(|word| CommandReply::Text((*word).into())).collect())
    };
    let read = |words: &[&str]| watched(&fields(&list(words)));
    let fit = read(&["ip", "::1", "port", "7", "flags", "slave", "slave-priority", "100"]).unwrap();
    assert_eq!(
        (fit.endpoint.to_string(), fit.is_down, fit.is_eligible),
        ("[::1]:7".into(), false, true)
    );
    let unfit = ["ip", "h", "port", "7", "flags", "s_down,slave", "slave-priority", "0"];
    let unfit = read(&unfit).unwrap();
    assert!(unfit.is_down && !unfit.is_eligible);
    for words in [&["ip", "h"][..], &["ip", "h", "port", "0"], &["port", "7"], &[]] {
        assert_eq!(read(words), None, "{words:?}");
    }
}
