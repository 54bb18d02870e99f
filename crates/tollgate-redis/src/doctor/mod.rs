//! Examines whether a server is fit to store counts: gathers facts, then judges them.
//!
//! [`gather`] leaves nothing on the server but two short scripts in its cache. [`diagnose`] is a
//! pure function, so every finding can be tested without a faulty server.

mod commands;
mod connection;
mod facts;

pub use commands::{COMMANDS, KEY_PATTERN};
pub use connection::{ConnectError, Connection};
pub use facts::{CommandReply, Commands, ConnectionLost, Facts, Rights, gather};

use std::time::Duration;

/// The oldest version whose scripts behave as ours require.
const OLDEST: (u32, u32) = (7, 0);

/// The smallest clock difference that is reported.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(1);

/// A round trip above this makes every check slow.
const SLOW: Duration = Duration::from_millis(5);

/// The severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(clippy::exhaustive_enums, reason = "fit, fit with a price, unfit: there is no fourth")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It works, with a disadvantage that the finding names.
    Warning,
    /// Limits would be wrong, or no check would work.
    Failure,
}

impl Level {
    /// `ok`, `warning`, `failure`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }
}

/// The result of one examination.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// A stable name for scripts: `eviction`.
    pub id: &'static str,
    /// The severity.
    pub level: Level,
    /// What was found, and what it means.
    pub what: String,
    /// What to do about it, or what would be better still.
    pub remedy: Option<String>,
}

impl Finding {
    fn new(id: &'static str, level: Level, what: impl Into<String>) -> Self {
        Self { id, level, what: what.into(), remedy: None }
    }

    fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }
}

/// Judges the facts: one finding for each topic, in a fixed order.
#[must_use]
pub fn diagnose(facts: &Facts) -> Vec<Finding> {
    if let Some(refused) = &facts.login_refused {
        let what = format!("the server lets this user do nothing: {refused}");
        let remedy = "give user and password in the URL: redis://USER:PASSWORD@HOST:PORT";
        return vec![Finding::new("login", Level::Failure, what).remedy(remedy)];
    }
    let mut findings = Vec::new();
    if facts.info.is_empty() {
        let what = "INFO is refused, so version, memory, role and persistence cannot be seen";
        let remedy = "ACL SETUSER USER +info";
        findings.push(Finding::new("info", Level::Warning, what).remedy(remedy));
    } else {
        findings.push(version(facts));
        findings.extend(loading(facts));
    }
    findings.extend(lua(facts));
    findings.push(rights(facts));
    if !facts.info.is_empty() {
        findings.push(role(facts));
        findings.push(cluster(facts));
        findings.push(eviction(facts));
        findings.extend(evicted(facts));
        findings.extend(scripts(facts));
        findings.push(persistence(facts));
        findings.extend(writes(facts));
    }
    findings.extend(clock(facts));
    findings.extend(latency(facts));
    findings
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
    let known = COMMANDS.iter().filter(|(name, _)| !unknown.contains(name));
    let commands: String = known.map(|(name, _)| format!(" +{name}")).collect();
    format!(
        "ACL SETUSER tollgate on >PASSWORD resetkeys ~{KEY_PATTERN} resetchannels -@all{commands}"
    )
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
                KEY_PATTERN.trim_end_matches('*')
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
    if facts.info("cluster_enabled") == Some("1") {
        let what = "a node of a cluster: subjects whose slot lies on another node get errors";
        return Finding::new("cluster", Level::Failure, what)
            .remedy("use a server that is not in cluster mode");
    }
    Finding::new("cluster", Level::Ok, "not a cluster")
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

fn scripts(facts: &Facts) -> Option<Finding> {
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

fn clock(facts: &Facts) -> Option<Finding> {
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

fn latency(facts: &Facts) -> Option<Finding> {
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
mod tests {
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
        let all =
            ["version", "lua", "rights", "role", "cluster", "eviction", "scripts", "persistence"];
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
}
