//! Judges one server by its facts.

use std::time::Duration;

use super::commands::key_pattern;
use super::facts::{self, Facts, Rights};
use super::finding::{Finding, Level};
use super::slots::Slots;

/// A question about one server. There is no answer where the server does not say enough.
pub(super) type Topic = fn(&Facts) -> Option<Finding>;

/// The checks of a server wherever it is, in the order in which they are reported.
pub(super) const EVERYWHERE: [Topic; 9] = [
    info,
    |facts| seen(facts).map(version),
    loading,
    lua,
    |facts| Some(rights(facts)),
    |facts| seen(facts).map(eviction),
    evicted,
    |facts| seen(facts).map(persistence),
    writes,
];

/// The same with the checks of a single server.
const OF_ONE: [Topic; 14] = [
    info,
    |facts| seen(facts).map(version),
    loading,
    lua,
    |facts| Some(rights(facts)),
    |facts| seen(facts).map(role),
    |facts| seen(facts).map(cluster),
    |facts| seen(facts).map(eviction),
    evicted,
    scripts,
    |facts| seen(facts).map(persistence),
    writes,
    clock,
    latency,
];

/// The oldest version whose scripts behave as ours require.
const OLDEST: (u32, u32) = (7, 0);

/// The most nodes of a cluster in a URL that is suggested.
const MAX_SEEDS: usize = 3;

/// The smallest clock difference that is reported.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(1);

/// A round trip above this makes every check slow.
pub(super) const SLOW: Duration = Duration::from_millis(5);

/// Judges the facts: one finding for each topic, in a fixed order.
#[must_use]
pub fn diagnose(facts: &Facts) -> Vec<Finding> {
    if let Some(refused) = &facts.login_refused {
        let what = format!("the server lets this user do nothing: {refused}");
        let remedy = "give user and password in the URL: redis://USER:PASSWORD@HOST:PORT";
        return vec![Finding::new("login", Level::Failure, what).remedy(remedy)];
    }
    OF_ONE.iter().filter_map(|topic| topic(facts)).collect()
}

/// The facts, where the server shows INFO.
fn seen(facts: &Facts) -> Option<&Facts> {
    (!facts.info.is_empty()).then_some(facts)
}

fn info(facts: &Facts) -> Option<Finding> {
    facts.info.is_empty().then(|| {
        let what = "INFO is refused, so version, memory, role and persistence cannot be seen";
        Finding::warning("info", what).remedy("ACL SETUSER USER +info")
    })
}

/// The ACL command for a user with the fewest sufficient permissions. It omits commands that this
/// server does not know, since the server would refuse the whole command.
#[must_use]
pub fn acl_line(facts: &Facts) -> String {
    let unknown = match &facts.rights {
        Rights::Known { unknown, .. } => unknown.as_slice(),
        // Redis 7.0 does not know it, and clients work without it.
        Rights::Unknown(_) => &["client|setinfo"],
    };
    let known = facts.commands().filter(|(name, _)| !unknown.contains(name));
    let commands: String = known.map(|(name, _)| format!(" +{name}")).collect();
    let keys = key_pattern(&facts.prefix);
    format!("ACL SETUSER tollgate on >PASSWORD resetkeys ~{keys} resetchannels -@all{commands}")
}

fn version(facts: &Facts) -> Finding {
    let name = facts.server_name();
    let Some((major, minor)) = facts.version() else {
        let what = format!("{name} does not say its version");
        return Finding::new("version", Level::Warning, what).remedy("it must be 7.0 or newer");
    };
    let what = format!("{name} {}", facts.version_text());
    if (major, minor) < OLDEST && name == "Redis" {
        let what = format!("{what}: scripts of this version cannot do what ours need");
        return Finding::new("version", Level::Failure, what).remedy("use 7.0 or newer");
    }
    Finding::new("version", Level::Ok, what).remedy(
        "keep it patched: a distribution's security fixes do not show in the version (Debian 12 \
         has them in 5:7.0.15-1~deb12u10 and later)",
    )
}

fn loading(facts: &Facts) -> Option<Finding> {
    (facts.info("loading") == Some("1")).then(|| {
        Finding::new("loading", Level::Failure, "the server is reading its data from disk")
            .remedy("wait until it has: INFO persistence, loading:0")
    })
}

fn lua(facts: &Facts) -> Option<Finding> {
    let Some(refused) = &facts.script_refused else {
        return Some(Finding::new("lua", Level::Ok, "scripts can be loaded"));
    };
    // A missing permission is a separate finding.
    (!refused.starts_with("NOPERM")).then(|| {
        let what = format!("scripts cannot be loaded, and every check is one: {refused}");
        Finding::new("lua", Level::Failure, what)
            .remedy("Valkey 9.1 and later have Lua in a module of its own: install and load it")
    })
}

fn rights(facts: &Facts) -> Finding {
    let user = facts.user.as_deref().map_or_else(|| "this user".into(), |name| format!("`{name}`"));
    let line = acl_line(facts);
    match &facts.rights {
        Rights::Unknown(why) => {
            let what = format!("what {user} may do cannot be seen: {why}");
            // A server without Lua is reported elsewhere.
            let level = if why.starts_with("NOPERM") { Level::Failure } else { Level::Warning };
            Finding::new("rights", level, what).remedy(line)
        }
        Rights::Known { denied, .. } if !denied.is_empty() => {
            let what = format!(
                "{user} lacks the right to {}, on keys that begin with `{}`",
                denied.join(", "),
                key_pattern(&facts.prefix).trim_end_matches('*')
            );
            Finding::new("rights", Level::Failure, what).remedy(line)
        }
        Rights::Known { all: true, .. } => {
            let what = format!("{user} has every right that is needed, and all others too");
            Finding::new("rights", Level::Ok, what).remedy(format!("a user with no more: {line}"))
        }
        Rights::Known { .. } => {
            Finding::new("rights", Level::Ok, format!("{user} has every right that is needed"))
        }
    }
}

fn role(facts: &Facts) -> Finding {
    match facts.info("role") {
        Some("master") => Finding::new("role", Level::Ok, "a primary"),
        Some("slave") => {
            let part = |name| facts.info(name).unwrap_or("?");
            let what = "a replica: it refuses to write, so no check would be admitted";
            Finding::new("role", Level::Failure, what).remedy(format!(
                "use the primary, which it says is {}:{}",
                part("master_host"),
                part("master_port")
            ))
        }
        other => {
            let what = format!("neither a primary nor a replica: {}", other.unwrap_or("no role"));
            Finding::new("role", Level::Failure, what).remedy("use the URL of a primary")
        }
    }
}

fn cluster(facts: &Facts) -> Finding {
    if !facts.is_cluster_node() {
        return Finding::ok("cluster", "not a cluster");
    }
    let primaries = facts.slots.as_ref().map(Slots::primaries).unwrap_or_default();
    let url = match primaries.as_slice() {
        [] => "redis+cluster://HOST:PORT,HOST:PORT".to_owned(),
        primaries => {
            let hosts = primaries.iter().take(MAX_SEEDS).map(|node| node.address("HOST"));
            let hosts: Vec<String> = hosts.collect();
            format!("redis+cluster://{}", hosts.join(","))
        }
    };
    let covers_all = facts.slots.as_ref().is_some_and(Slots::covers_all);
    if covers_all && primaries.len() == 1 && facts.info("role") == Some("master") {
        let what = "a cluster of one node: once slots move to another, their subjects get errors";
        return Finding::warning("cluster", what).remedy(format!("write {url}"));
    }
    let what = "a node of a cluster: subjects whose slot lies on another node get errors";
    Finding::failure("cluster", what).remedy(format!("write {url}"))
}

fn eviction(facts: &Facts) -> Finding {
    let policy = facts.info("maxmemory_policy").unwrap_or("unknown");
    let bounded = facts.number("maxmemory").is_some_and(|bytes| bytes > 0);
    match (policy, bounded) {
        ("noeviction", true) => {
            let what = "maxmemory is set and nothing is evicted: a full server is an error, and \
                        no count is forgotten";
            Finding::new("eviction", Level::Ok, what)
        }
        ("noeviction", false) => {
            let what = "nothing is evicted, but memory has no bound: the system may kill the \
                        server, and all counts start fresh";
            Finding::new("eviction", Level::Warning, what).remedy("CONFIG SET maxmemory BYTES")
        }
        (policy, true) => {
            // Jobs have no expiry, so `volatile-*` does not evict them.
            let of_queues = if policy.starts_with("allkeys") {
                "jobs of queues are lost"
            } else {
                "so are the ids that jobs are accepted once under"
            };
            let what = format!(
                "maxmemory-policy is {policy}: a full server forgets counts, and who fills it can \
                 have their own forgotten; {of_queues}"
            );
            Finding::new("eviction", Level::Failure, what).remedy(NOEVICTION)
        }
        (policy, false) => {
            let lost = if policy.starts_with("allkeys") { "counts and jobs" } else { "counts" };
            let what =
                format!("maxmemory-policy is {policy}: with maxmemory set, {lost} would be lost");
            Finding::new("eviction", Level::Warning, what).remedy(NOEVICTION)
        }
    }
}

/// More bytes of scripts than this suggest that a client generates scripts at run time.
const MAX_SCRIPT_BYTES: u64 = 64 * 1_024 * 1_024;

/// The remedy for every policy that evicts.
const NOEVICTION: &str = "CONFIG SET maxmemory-policy noeviction, and the same in its file";

fn evicted(facts: &Facts) -> Option<Finding> {
    let count = facts.number("evicted_keys").filter(|count| *count > 0)?;
    let what = format!(
        "{count} keys were evicted since it started; counts and jobs of queues may have been \
             among them"
    );
    let remedy = "noeviction as above; CONFIG RESETSTAT sets this number to 0";
    Some(Finding::new("evicted", Level::Warning, what).remedy(remedy))
}

pub(super) fn scripts(facts: &Facts) -> Option<Finding> {
    let (count, bytes) =
        (facts.number("number_of_cached_scripts")?, facts.number("used_memory_scripts")?);
    let what = format!("{count} scripts are held, in {} KiB", bytes.div_ceil(1_024));
    let finding = Finding::new("scripts", Level::Ok, what);
    if bytes <= MAX_SCRIPT_BYTES {
        return Some(finding);
    }
    Some(Finding { level: Level::Warning, ..finding }.remedy(
        "SCRIPT FLUSH frees them, and those in use are loaded again unseen. Ours are bounded for \
         each program (`scripts=1000` in its URL): look for a client that writes values into EVAL",
    ))
}

fn persistence(facts: &Facts) -> Finding {
    if facts.info("aof_enabled") == Some("1") {
        let what = "an append-only file: a crash loses about the last second (appendfsync \
                    everysec)";
        return Finding::new("persistence", Level::Ok, what);
    }
    let (what, remedy) = match facts.snapshots {
        Some(true) => (
            "snapshots only: after a crash, counts are those of the last one",
            "CONFIG SET appendonly yes, where limits are long",
        ),
        Some(false) => (
            "nothing is kept on disk: after a restart every subject starts fresh, so at most one \
             more capacity each",
            "CONFIG SET appendonly yes, where limits are long",
        ),
        None => (
            "no append-only file; whether snapshots are taken cannot be seen",
            "CONFIG SET appendonly yes, where limits are long",
        ),
    };
    Finding::new("persistence", Level::Warning, what).remedy(remedy)
}

fn writes(facts: &Facts) -> Option<Finding> {
    let failed = ["rdb_last_bgsave_status", "aof_last_write_status"];
    let name =
        failed.into_iter().find(|name| facts.info(name).is_some_and(|state| state != "ok"))?;
    let what = format!("{name} is not ok: by default the server then refuses to write (MISCONF)");
    let remedy = "look for the reason in its log: most often a full disk, or no right to write";
    Some(Finding::new("writes", Level::Failure, what).remedy(remedy))
}

pub(super) fn clock(facts: &Facts) -> Option<Finding> {
    let apart_us = facts.clock_apart_us?;
    let apart = Duration::from_micros(apart_us.unsigned_abs());
    if facts.clock_stepped {
        let what = "the server's clock went back while it was looked at";
        let remedy = "let NTP slew its clock and not step it";
        return Some(Finding::new("clock", Level::Warning, what).remedy(remedy));
    }
    if apart > MAX_CLOCK_SKEW {
        let side = if apart_us > 0 { "ahead of" } else { "behind" };
        let what = format!(
            "the server's clock is {} s {side} ours; limits go by the server's, so only times that \
             are shown differ, until one of them is set right",
            apart.as_secs()
        );
        return Some(
            Finding::new("clock", Level::Warning, what).remedy("run NTP on both machines"),
        );
    }
    Some(Finding::new("clock", Level::Ok, "its clock and ours are less than 1 s apart"))
}

pub(super) fn latency(facts: &Facts) -> Option<Finding> {
    let median = facts.ping?;
    let what = format!(
        "a round trip takes {} us, the median of {}",
        median.as_micros(),
        facts::ROUND_TRIPS
    );
    let finding = Finding::new("latency", Level::Ok, what);
    Some(if median > SLOW {
        let remedy = "every check waits for one round trip: put the server nearer";
        Finding { level: Level::Warning, ..finding }.remedy(remedy)
    } else {
        finding
    })
}

#[cfg(test)]
mod tests;
