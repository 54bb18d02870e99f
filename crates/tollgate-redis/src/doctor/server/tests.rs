//! Each fault of a server, without a faulty server.

use super::*;

/// The facts about a fit server.
fn fit() -> Facts {
    let info = "redis_version:7.0.15\r\nrole:master\r\nloading:0\r\ncluster_enabled:0\r\n\
                maxmemory:1000000\r\nmaxmemory_policy:noeviction\r\nevicted_keys:0\r\n\
                number_of_cached_scripts:2\r\nused_memory_scripts:600\r\n\
                aof_enabled:1\r\nrdb_last_bgsave_status:ok\r\naof_last_write_status:ok\r\n";
    Facts {
        info: facts::parse_info(info),
        user: Some("tollgate".into()),
        rights: Rights::Known { denied: vec![], unknown: vec![], all: false },
        clock_apart_us: Some(-500),
        ping: Some(Duration::from_micros(80)),
        ..Facts::default()
    }
}

fn with(name: &str, value: &str) -> Facts {
    let mut facts = fit();
    facts.info.insert(name.into(), value.into());
    facts
}

/// The findings above `Ok`: their ids and severities.
fn bad(facts: &Facts) -> Vec<(&'static str, Level)> {
    let found = diagnose(facts).into_iter().filter(|finding| finding.level > Level::Ok);
    found
        .map(|finding| {
            assert!(finding.remedy.is_some(), "{finding:?}");
            (finding.id, finding.level)
        })
        .collect()
}

#[test]
fn a_fit_server_has_nothing_against_it() {
    assert_eq!(bad(&fit()), []);
    let ids: Vec<_> = diagnose(&fit()).iter().map(|finding| finding.id).collect();
    let all = ["version", "lua", "rights", "role", "cluster", "eviction", "scripts", "persistence"];
    assert_eq!(ids, [&all[..], &["clock", "latency"]].concat());
}

#[test]
fn each_fault_is_found() {
    let (warning, failure) = (Level::Warning, Level::Failure);
    for (name, value, id, level) in [
        ("redis_version", "6.2.14", "version", failure),
        ("redis_version", "unknown", "version", warning),
        ("role", "slave", "role", failure),
        ("role", "sentinel", "role", failure),
        ("loading", "1", "loading", failure),
        ("cluster_enabled", "1", "cluster", failure),
        ("maxmemory_policy", "allkeys-lru", "eviction", failure),
        ("maxmemory", "0", "eviction", warning),
        ("evicted_keys", "3", "evicted", warning),
        ("used_memory_scripts", "604918344", "scripts", warning),
        ("aof_enabled", "0", "persistence", warning),
        ("rdb_last_bgsave_status", "err", "writes", failure),
    ] {
        assert_eq!(bad(&with(name, value)), [(id, level)], "{name}:{value}");
    }
    let mut unbounded = with("maxmemory", "0");
    unbounded.info.insert("maxmemory_policy".into(), "volatile-ttl".into());
    assert_eq!(bad(&unbounded), [("eviction", warning)]);
    let denied = Rights::Known { denied: vec!["rpush"], unknown: vec![], all: false };
    for (facts, id, level) in [
        (Facts { rights: denied, ..fit() }, "rights", failure),
        (Facts { rights: Rights::Unknown("NOPERM no".into()), ..fit() }, "rights", failure),
        (Facts { script_refused: Some("ERR unknown".into()), ..fit() }, "lua", failure),
        (Facts { clock_apart_us: Some(2_000_000), ..fit() }, "clock", warning),
        (Facts { clock_stepped: true, ..fit() }, "clock", warning),
        (Facts { ping: Some(Duration::from_millis(6)), ..fit() }, "latency", warning),
        (Facts { info: Default::default(), ..fit() }, "info", warning),
        (Facts::refused("WRONGPASS"), "login", failure),
    ] {
        assert_eq!(bad(&facts), [(id, level)], "{facts:?}");
    }
}

#[test]
fn valkey_is_judged_by_its_own_version() {
    let mut facts = with("server_name", "valkey");
    facts.info.insert("valkey_version".into(), "8.1.4".into());
    facts.info.insert("redis_version".into(), "7.2.4".into());
    assert_eq!(diagnose(&facts)[0].what, "Valkey 8.1.4");
}

#[test]
fn the_line_leaves_out_what_the_server_does_not_know() {
    let line = acl_line(&fit());
    assert!(line.starts_with("ACL SETUSER tollgate on >PASSWORD resetkeys ~tg1:* "), "{line}");
    assert!(line.contains(" -@all +evalsha +eval +script|load "), "{line}");
    let unknown = vec!["client|setinfo"];
    let rights = Rights::Known { denied: vec![], unknown, all: false };
    let shorter = acl_line(&Facts { rights, ..fit() });
    assert_eq!(line.replace(" +client|setinfo", ""), shorter);
}
