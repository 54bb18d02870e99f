//! The programs of `examples/redis` for a cluster, and the lines of `docs/clients.md`, run
//! unchanged on a real cluster.

use std::process::{Command, Output};
use std::time::Duration;

use tollgate_testbed::{Proxy, RedisCluster, SlotMove, Trick, key_slot};

use crate::Place;
use crate::clients::{self, code_and_output, example, make};
use crate::lent::lent_cluster_or_skip;
use crate::scripts::{printed, sh_with};

const PAGE: &str = include_str!("../../docs/clients.md");

/// How long one check may take, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(20);

/// Checks a value of `user` once, by the cluster that is found at an address.
type Ask<'a> = &'a mut dyn FnMut(&str, &str) -> Output;

/// Whether the command line finds that this remains.
fn remains(cluster: &RedisCluster, value: &str, expected: u64) {
    let (subject, url) = (format!("user:{value}"), cluster.url());
    let peek = ["peek", &subject, "--limit", "2/h via gcra", "--store", &url, "--json"];
    assert_eq!(Place::new().json(&peek)["remaining"], expected, "{subject}");
}

fn keeps_its_promises(cluster: &RedisCluster, name: &str, ask: Ask<'_>) {
    admits_twice_on_every_node(cluster, name, ask);
    follows_ask(cluster, name, ask);
    sends_nothing_again(cluster, name, ask);
}

/// On every node: none of them knows the script, though only the first is named.
fn admits_twice_on_every_node(cluster: &RedisCluster, name: &str, ask: Ask<'_>) {
    let first = cluster.address(0).to_string();
    for node in 0..3 {
        let value = value_on(cluster, node, name);
        let codes = if node == 1 { &[0, 0, 1][..] } else { &[0] };
        for code in codes {
            let (seen, out) = code_and_output(&ask(&first, &value));
            assert_eq!(seen, Some(*code), "{out}");
            assert!(out.starts_with(if *code == 0 { "allow" } else { "deny" }), "{out}");
        }
        remains(cluster, &value, if node == 1 { 0 } else { 1 });
    }
}

/// While a slot moves, a subject that is new is counted at the node that gets the slot.
fn follows_ask(cluster: &RedisCluster, name: &str, ask: Ask<'_>) {
    let value = value_on(cluster, 0, &format!("{name}-ask"));
    let slot = key_slot(format!("user:{value}").as_bytes());
    let movement = SlotMove { slot, from: 0, to: 2 };
    cluster.begin_migration(movement);
    let before = cluster.count_keys(2);
    let (code, out) = code_and_output(&ask(&cluster.address(0).to_string(), &value));
    let after = cluster.count_keys(2);
    cluster.move_keys(movement);
    cluster.finish_migration(movement);
    assert_eq!((code, after - before), (Some(0), 1), "{out}");
    remains(cluster, &value, 1);
}

/// A client that gets no reply reports that, and has charged once.
fn sends_nothing_again(cluster: &RedisCluster, name: &str, ask: Ask<'_>) {
    let (first, value) =
        (value_on(cluster, 0, &format!("{name}-1")), value_on(cluster, 0, &format!("{name}-2")));
    let proxy = Proxy::start(cluster.address(0));
    let address = proxy.address().to_string();
    announce(cluster, proxy.address().port());
    // After this check the script is known.
    assert_eq!(code_and_output(&ask(&address, &first)).0, Some(0));
    proxy.only(&["EVALSHA", "EVAL"]);
    proxy.next(1, Trick::LoseReply);
    let lost = ask(&address, &value);
    announce(cluster, 0);
    cluster.wait_until_healthy(PATIENCE);
    assert_eq!((lost.status.code(), proxy.seen().tricks), (Some(2), 1), "{lost:?}");
    assert!(String::from_utf8_lossy(&lost.stderr).contains("no answer"), "{lost:?}");
    remains(cluster, &value, 1);
}

/// Has the first node tell clients this port; 0 for its own.
fn announce(cluster: &RedisCluster, port: u16) {
    let port = port.to_string();
    let set = cluster.command(0, &[b"CONFIG", b"SET", b"cluster-announce-port", port.as_bytes()]);
    assert_eq!(set.text().as_deref(), Some("OK"));
}

/// A value of `user` whose key lies on this node.
fn value_on(cluster: &RedisCluster, node: usize, name: &str) -> String {
    // The slot is that of the text between the braces.
    cluster.key_of(node, &format!("user:{name}-")).replacen("user:", "", 1)
}

#[test]
fn a_shell_asks_a_cluster() {
    let cluster = lent_cluster_or_skip!();
    let place = Place::new();
    make(&place);
    keeps_its_promises(&cluster, "sh", &mut |node, value| {
        let mut shell = Command::new("sh");
        shell.arg(example("cluster.sh")).arg(format!("user:{value}"));
        shell.env("REDIS_NODES", node).current_dir(place.path()).output().unwrap()
    });
}

#[test]
fn python_asks_a_cluster() {
    let place = Place::new();
    let Some(python) = clients::python(&place, "cluster.py") else { return };
    asks(&place, "py", &python);
}

#[test]
fn node_redis_asks_a_cluster() {
    let place = Place::new();
    let Some(node) = clients::node(&place, "redis", "cluster.mjs") else { return };
    asks(&place, "node", &node);
}

#[test]
fn ioredis_asks_a_cluster() {
    let place = Place::new();
    let Some(node) = clients::node(&place, "ioredis", "cluster-ioredis.mjs") else { return };
    asks(&place, "io", &node);
}

fn asks(place: &Place, name: &str, program: &Command) {
    let cluster = lent_cluster_or_skip!();
    make(place);
    let args: Vec<_> = program.get_args().map(ToOwned::to_owned).collect();
    keeps_its_promises(&cluster, name, &mut |node, value| {
        let mut once = Command::new(program.get_program());
        once.args(&args).args(["user", value]).env("REDIS_NODES", node).current_dir(place.path());
        // A client that never gives up fails the test by its exit code.
        assert_cmd::Command::from_std(once).timeout(PATIENCE).output().unwrap()
    });
}

/// The output of `scripts` for several subjects is one call in a shard, and refused without one.
#[test]
fn several_subjects_need_a_shard_as_the_page_says() {
    let cluster = lent_cluster_or_skip!();
    let place = Place::new();
    let node = cluster.address(0);
    let redis_cli = format!("redis-cli -c -h {} -p {}", node.ip(), node.port());
    let ask = |more: &[&str], said: &str| {
        let pair = ["--on", "resource:12=5/10s", "--on", "consumer:1=3/10s", "--answer", "boolean"];
        let text = printed(&place, &[&pair[..], more].concat());
        assert!(text.contains(said), "{text}");
        std::fs::write(place.path().join("limit.lua"), lua(&place, &pair, more)).unwrap();
        let line = text.lines().last().unwrap().strip_prefix("# ").unwrap();
        sh_with(&place, &redis_cli, line)
    };
    let said = |output: &Output| String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let answers: Vec<_> =
        (0..4).map(|_| said(&ask(&["--shard", "12"], "loaded into every node"))).collect();
    assert_eq!(answers, ["1", "1", "1", "0"]);
    let output = ask(&[], "lie in several slots");
    let all = format!("{}{}", said(&output), String::from_utf8_lossy(&output.stderr));
    assert!(all.contains("CROSSSLOT"), "{all}");
    assert!(PAGE.contains("CROSSSLOT") && PAGE.contains("--shard 12"));
}

/// The page's line that loads a script into every node, under the name that is called.
#[test]
fn a_script_is_loaded_into_every_node() {
    let cluster = lent_cluster_or_skip!();
    let place = Place::new();
    make(&place);
    let line = "for port in 7001 7002 7003; do redis-cli -p $port -x SCRIPT LOAD < limit.lua; done";
    assert!(PAGE.contains(line), "the page has this line: {line}");
    let ports: Vec<_> = (0..3).map(|node| cluster.address(node).port().to_string()).collect();
    let loaded = sh_with(&place, "redis-cli", &line.replace("7001 7002 7003", &ports.join(" ")));
    let json = place.json(&["scripts", "2/h via gcra", "--answer", "boolean", "--format", "json"]);
    let sha = json["sha1"].as_str().unwrap();
    assert_eq!(code_and_output(&loaded).1, format!("{sha}\n").repeat(3));
    for node in 0..3 {
        let known = cluster.command(node, &[b"SCRIPT", b"EXISTS", sha.as_bytes()]);
        assert_eq!(known.items()[0].int(), Some(1));
    }
}

/// The script alone.
fn lua(place: &Place, args: &[&str], more: &[&str]) -> String {
    printed(place, &[args, more, &["--format", "lua"]].concat())
}
