//! The one-shot commands on a Redis Cluster and under sentinels: as on one server.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tollgate_testbed::{RedisServer, sentinels_or_skip};

use crate::Place;
use crate::lent::{lent_cluster_or_skip, lent_sentinels_or_skip};
use crate::replaying::BUNDLED;

/// How many calls of scripts each server has seen.
fn calls(servers: &[RedisServer]) -> Vec<u64> {
    let of = |server: &RedisServer| {
        let stats = server.command(&[b"INFO", b"commandstats"]).text().unwrap();
        let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
    };
    servers.iter().map(of).collect()
}

#[test]
fn counts_last_from_one_command_to_the_next_on_any_node() {
    let cluster = lent_cluster_or_skip!();
    let (place, url) = (Place::new(), cluster.url());
    for subject in ["a", "b", "c", "d", "e", "f"] {
        let of = |command: &str| {
            place.run(&[command, subject, "--limit", "2/30d via gcra", "--store", &url])
        };
        for left in ["1", "0"] {
            let (code, out, err) = of("check");
            assert_eq!((code, err.as_str()), (0, ""), "{out}");
            assert!(out.starts_with(&format!("allow {subject}: {left} of 2 left")), "{out}");
        }
        assert_eq!(of("check").0, 1);
        assert_eq!(of("peek").0, 1);
        assert_eq!(of("inspect").0, 0);
        assert!(of("reset").1.starts_with(&format!("reset {subject}")));
        assert_eq!(of("check").0, 0);
    }
    let held: Vec<usize> = (0..3).map(|node| cluster.count_keys(node)).collect();
    assert!(held.iter().all(|held| *held > 0), "{held:?}");
}

#[test]
fn several_subjects_are_one_call_in_a_shard_and_work_without() {
    let cluster = lent_cluster_or_skip!();
    let (place, url) = (Place::new(), cluster.url());
    let check = |more: &[&str]| {
        let pair = ["check", "--on", "resource:12=5/30d", "--on", "consumer:1=3/30d"];
        place.run(&[&pair[..], &["--store", &url], more].concat())
    };
    // The first check loads the script.
    for left in ["2", "1"] {
        let before = calls(cluster.servers());
        let (code, out, err) = check(&["--shard", "12"]);
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(out.contains(&format!("{left} of 3 left")), "{out}");
        if left == "1" {
            let seen: Vec<u64> =
                calls(cluster.servers()).iter().zip(before).map(|(now, then)| now - then).collect();
            let mut sorted = seen.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 0, 1], "{seen:?}");
        }
    }
    for (left, code) in [("2", 0), ("1", 0), ("0", 0), ("0", 1)] {
        let (seen, out, err) = check(&[]);
        assert_eq!((seen, err.as_str()), (code, ""), "{out}");
        assert!(out.contains(&format!("{left} of 3 left")), "{out}");
    }
    let (_, out, _) = place.run(&["peek", "resource:12", "--limit", "5/30d", "--store", &url]);
    assert!(out.contains("2 of 5 left"), "the denial was not given back: {out}");
}

/// A replay on a cluster, and under sentinels, prints what it prints in memory.
#[test]
fn a_replay_says_what_memory_says_line_for_line() {
    let cluster = lent_cluster_or_skip!();
    let sentinels = lent_sentinels_or_skip!();
    let place = Place::new();
    let replay = |more: &[&str]| {
        let limits = ["-l", "5/10s", "-l", "100/1h"];
        let args = ["replay", BUNDLED, "--by", "ip", "--strategy", "all", "--json"];
        let (code, out, err) = place.run(&[&args[..], &limits, more].concat());
        assert_eq!(code, 0, "{err}");
        out
    };
    let memory = replay(&[]);
    assert_eq!(replay(&["--store", &cluster.url()]), memory);
    assert_eq!(replay(&["--store", &sentinels.url()]), memory);
    for node in 0..3 {
        assert_eq!(cluster.count_keys(node), 0, "the keys of the run are left");
    }
}

/// A failover under sentinels between two commands.
#[test]
fn the_next_command_finds_the_new_primary() {
    let sentinels = sentinels_or_skip!();
    let (place, url) = (Place::new(), sentinels.url());
    let check = || place.run(&["check", "zoo", "--limit", "9/30d via gcra", "--store", &url]);
    assert!(check().1.starts_with("allow zoo: 8 of 9 left"));
    // A failover loses what the replicas have not heard of.
    let begin = Instant::now();
    for server in sentinels.servers() {
        while server.keys().is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(30), "a replica never hears of it");
            std::thread::yield_now();
        }
    }
    let new = sentinels.failover();
    assert_ne!(new, 0);
    let (code, out, err) = check();
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with("allow zoo: 7 of 9 left"), "{out}");
}

/// A queue lies in one slot, wherever that is; and time series are refused at the start.
#[test]
fn queues_work_on_both_and_time_series_say_that_they_need_one_server() {
    let cluster = lent_cluster_or_skip!();
    let sentinels = lent_sentinels_or_skip!();
    let place = Place::new();
    for url in [cluster.url(), sentinels.url()] {
        for queue in ["mail", "print", "scan"] {
            let of = |command: &str, more: &[&str]| {
                place.run(&[&["queue", command, queue, "--store", &url], more].concat())
            };
            for code in [0, 0, 1] {
                let (seen, out, err) = of("push", &["to=ann", "--bound", "2"]);
                assert_eq!((seen, err.as_str()), (code, ""), "{out}");
            }
            let (code, out, err) = of("work", &["--exec", "cat", "--max-jobs", "2"]);
            assert_eq!((code, err.as_str()), (0, "2 done\n"), "{out}");
            let (_, stats, _) = of("stats", &["--json"]);
            let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
            assert_eq!((&stats["waiting"], &stats["done"]), (&0.into(), &2.into()));
        }
    }
    let url = cluster.url();
    let (code, _, err) = place.run(&["serve", "--store", "memory://", "--timeseries", &url]);
    assert_eq!(code, 2);
    assert!(err.contains("time series lie on one server, and this is a cluster"), "{err}");
}

/// A name for a slot goes over several slots of the cluster, which may deny it before.
#[test]
fn a_command_waits_for_slots_that_lie_on_several_nodes() {
    let cluster = lent_cluster_or_skip!();
    let (place, url) = (Place::new(), cluster.url());
    let others: Vec<String> = (0..6).map(|n| format!("w{n}=1 at once hold 1h")).collect();
    let on: Vec<&str> = others.iter().flat_map(|other| ["--on", other]).collect();
    let run = |wait: &str, command: &str| {
        let args = ["run", "x", "--at-once", "1", "--hold", "1h", "--store", &url, "-w", wait];
        place.run(&[&args[..], &on, &["--", "sh", "-c", command]].concat())
    };
    // The last of them is taken for a while, and the command waits for it.
    let held = ["run", "--on", &others[5], "--store", &url, "--", "sh", "-c", "echo; read line"];
    let mut holder = place.std(&held);
    let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    assert_eq!(run("300ms", "true").0, 124);
    drop(holder.stdin.take());
    let (code, out, err) = run("20s", "echo ran");
    assert_eq!((code, out.as_str(), err.as_str()), (0, "ran\n", ""));
    assert!(holder.wait().unwrap().code().is_some());
    assert_eq!(run("0", "exit 7").0, 7, "all of them were given back");
}
