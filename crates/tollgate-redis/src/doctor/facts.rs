//! A server's facts about itself, read without touching any key.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::time::{Duration, Instant, SystemTime};

use super::commands::{self, key_pattern};
use super::slots::Slots;
use crate::command_reply::CommandReply;
use crate::key::KeyPrefix;

/// The number of round trips that are measured.
pub(super) const ROUND_TRIPS: usize = 20;

/// The settings of servers beside each other, as patterns of CONFIG GET.
const SETTINGS: [&str; 2] = ["min-replicas-*", "cluster-*"];

/// The end of the key in questions about permissions, which belongs to no count. It is never
/// written.
const KEY: &str = "doctor";

/// Asks the server which commands this user may run, without running them (7.0 and later). Its
/// arguments are the key, then each command's name with an example call. Running the commands
/// themselves would write. The key is not a key of the script, for a node of a cluster may not own
/// its slot.
const RIGHTS: &str = "\
local denied, unknown = {}, {}
for at = 2, #ARGV, 2 do
  local words = {}
  for word in string.gmatch(ARGV[at + 1], '%S+') do
    words[#words + 1] = word == 'KEY' and ARGV[1] or word
  end
  local known, may = pcall(redis.acl_check_cmd, unpack(words))
  if not known then
    unknown[#unknown + 1] = ARGV[at]
  elseif not may then
    denied[#denied + 1] = ARGV[at]
  end
end
local _, all = pcall(redis.acl_check_cmd, 'flushall')
return {denied, unknown, all == true and 1 or 0}";

/// The connection ended, or timed out.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConnectionLost(pub String);

impl fmt::Display for ConnectionLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the connection was lost: {}", self.0)
    }
}

impl std::error::Error for ConnectionLost {}

impl ConnectionLost {
    /// A connection that was lost for this reason.
    #[must_use]
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// The interface that the doctor needs of a connection.
pub trait Commands {
    /// Sends one command and waits for its reply. A server error is returned as
    /// [`CommandReply::Error`].
    fn command(
        &mut self,
        words: &[&str],
    ) -> impl Future<Output = Result<CommandReply, ConnectionLost>>;
}

/// Which commands the user may run.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Rights {
    /// The server did not report it, for this reason.
    Unknown(String),
    /// As the server reported it.
    #[non_exhaustive]
    Known {
        /// The needed commands that are refused.
        denied: Vec<&'static str>,
        /// The needed commands that the server does not have.
        unknown: Vec<&'static str>,
        /// Whether the user may do far more, such as delete all data.
        all: bool,
    },
}

/// The facts about a server.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Facts {
    /// Why the login was refused.
    pub login_refused: Option<String>,
    /// The fields of INFO; empty when it is refused.
    pub info: BTreeMap<String, String>,
    /// Why a script cannot be loaded.
    pub script_refused: Option<String>,
    /// The user's name, if the server reports it.
    pub user: Option<String>,
    /// The user's permissions.
    pub rights: Rights,
    /// Whether snapshots are enabled; `None` when CONFIG is refused.
    pub snapshots: Option<bool>,
    /// The server's clock minus the local one, in microseconds; `None` when TIME is refused.
    pub clock_apart_us: Option<i64>,
    /// By how much that may be wrong: half a round trip, in microseconds.
    pub clock_error_us: u64,
    /// Whether the server's clock went backwards during the examination.
    pub clock_stepped: bool,
    /// The median round trip of PING.
    pub ping: Option<Duration>,
    /// Of a node of a cluster: who owns the slots. `None` when CLUSTER SLOTS is refused.
    pub(super) slots: Option<Slots>,
    /// Of a node of a cluster: its identity.
    pub(super) id: Option<String>,
    /// Settings by their names, where there are several servers; empty when CONFIG is refused.
    pub(super) settings: BTreeMap<String, String>,
    /// The prefix of the keys that were asked about.
    pub(super) prefix: KeyPrefix,
    /// The commands beyond those of one server that were asked about.
    pub(super) more_commands: &'static [(&'static str, &'static str)],
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            login_refused: None,
            info: BTreeMap::new(),
            script_refused: None,
            user: None,
            rights: Rights::Unknown("not asked".into()),
            snapshots: None,
            clock_apart_us: None,
            clock_error_us: 0,
            clock_stepped: false,
            ping: None,
            slots: None,
            id: None,
            settings: BTreeMap::new(),
            prefix: KeyPrefix::default(),
            more_commands: &[],
        }
    }
}

impl Facts {
    /// The facts about a server that refused the login for this reason.
    #[must_use]
    pub fn refused(why: impl Into<String>) -> Self {
        Self { login_refused: Some(why.into()), ..Self::default() }
    }

    /// `Redis` or `Valkey`.
    #[must_use]
    pub fn server_name(&self) -> &'static str {
        if self.info("server_name") == Some("valkey") { "Valkey" } else { "Redis" }
    }

    /// The version in the server's own words; empty if it reports none.
    #[must_use]
    pub fn version_text(&self) -> &str {
        // For old clients, Valkey also reports a compatible Redis version.
        let own = if self.server_name() == "Valkey" { "valkey_version" } else { "redis_version" };
        self.info(own).unwrap_or_default()
    }

    /// The commands that were asked about: names and example calls.
    pub(super) fn commands(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        commands::commands().iter().chain(self.more_commands).copied()
    }

    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    pub(super) fn is_cluster_node(&self) -> bool {
        self.info("cluster_enabled") == Some("1")
    }

    pub(super) fn version(&self) -> Option<(u32, u32)> {
        let mut parts = self.version_text().split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }

    pub(super) fn info(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.info(name)?.parse().ok()
    }
}

/// Reads all facts that are judged. A refusal is a fact as well.
///
/// # Errors
///
/// The connection was lost.
pub async fn gather<C: Commands>(connection: &mut C) -> Result<Facts, ConnectionLost> {
    gather_for(connection, &KeyPrefix::default(), &[]).await
}

/// The same for keys with this prefix, where the user needs more commands than on one server.
pub(super) async fn gather_for<C: Commands>(
    connection: &mut C,
    prefix: &KeyPrefix,
    more_commands: &'static [(&'static str, &'static str)],
) -> Result<Facts, ConnectionLost> {
    let info = match connection.command(&["INFO"]).await? {
        CommandReply::Text(text) => parse_info(&text),
        CommandReply::Error(why) if why.starts_with("NOAUTH") => return Ok(Facts::refused(why)),
        _ => BTreeMap::new(),
    };
    let script_refused = match connection.command(&["SCRIPT", "LOAD", "return 1"]).await? {
        CommandReply::Error(why) => Some(why),
        _ => None,
    };
    let user = match connection.command(&["ACL", "WHOAMI"]).await? {
        CommandReply::Text(name) => Some(name),
        _ => None,
    };
    let snapshots = match connection.command(&["CONFIG", "GET", "save"]).await? {
        // The reply is `save` and its value, which is empty when snapshots are disabled.
        answer @ CommandReply::List(_) => {
            Some(answer.texts().get(1).is_some_and(|save| !save.is_empty()))
        }
        _ => None,
    };
    let prefix = prefix.clone();
    let facts =
        Facts { info, script_refused, user, snapshots, prefix, more_commands, ..Facts::default() };
    let rights = rights(connection, &facts).await?;
    let slots = match facts.is_cluster_node() {
        true => Slots::read(&connection.command(&["CLUSTER", "SLOTS"]).await?),
        false => None,
    };
    let id = match facts.is_cluster_node() {
        true => connection.command(&["CLUSTER", "MYID"]).await?.text(),
        false => None,
    };
    let mut settings = BTreeMap::new();
    let patterns: &[&str] = if more_commands.is_empty() { &[] } else { &SETTINGS };
    for pattern in patterns {
        let reply = connection.command(&["CONFIG", "GET", pattern]).await?;
        let pairs = reply.texts();
        let pairs = pairs.chunks_exact(2).filter_map(|pair| pair.first().zip(pair.get(1)));
        settings.extend(pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    }
    let before = time(connection).await?;
    let ping = ping(connection).await?;
    let after = time(connection).await?;
    let best = before.iter().chain(&after).min_by_key(|reading| reading.error_us);
    Ok(Facts {
        rights,
        slots,
        id,
        settings,
        clock_apart_us: best.map(|reading| reading.server_us.saturating_sub(reading.ours_us)),
        clock_error_us: best.map_or(0, |reading| reading.error_us),
        clock_stepped: before
            .as_ref()
            .zip(after.as_ref())
            .is_some_and(|(before, after)| after.server_us < before.server_us),
        ping,
        ..facts
    })
}

async fn rights<C: Commands>(connection: &mut C, facts: &Facts) -> Result<Rights, ConnectionLost> {
    let key = key_pattern(&facts.prefix).replace('*', KEY);
    let calls = facts.commands().flat_map(|(name, call)| [name, call]);
    let words: Vec<&str> = ["EVAL", RIGHTS, "0", &key].into_iter().chain(calls).collect();
    let answer = connection.command(&words).await?;
    let items = match &answer {
        CommandReply::Error(why) => return Ok(Rights::Unknown(why.clone())),
        CommandReply::List(items) => items.as_slice(),
        _ => &[],
    };
    let [denied, unknown, CommandReply::Int(all)] = items else {
        return Ok(Rights::Unknown("the script that asks for it answers something else".into()));
    };
    let ours = |answer: &CommandReply| {
        let said = answer.texts();
        facts.commands().map(|(name, _)| name).filter(|name| said.contains(name)).collect()
    };
    Ok(Rights::Known { denied: ours(denied), unknown: ours(unknown), all: *all == 1 })
}

/// Two clocks at one moment, in microseconds since the epoch.
struct Reading {
    server_us: i64,
    ours_us: i64,
    /// Half of the round trip: the server may have read its clock that much earlier or later.
    error_us: u64,
}

/// Reads the server's clock and the local one; `None` when TIME is refused.
async fn time<C: Commands>(connection: &mut C) -> Result<Option<Reading>, ConnectionLost> {
    let begun = Instant::now();
    let answer = connection.command(&["TIME"]).await?;
    // The server read its clock during the round trip; the middle is the best estimate.
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let error = begun.elapsed() / 2;
    let texts = answer.texts();
    let [seconds, micros] = texts.as_slice() else { return Ok(None) };
    let server = seconds.parse::<i64>().ok().zip(micros.parse::<i64>().ok());
    let server = server.and_then(|(s, us)| s.checked_mul(1_000_000)?.checked_add(us));
    let ours = i64::try_from(since.saturating_sub(error).as_micros()).ok();
    let error_us = u64::try_from(error.as_micros()).unwrap_or(u64::MAX);
    Ok(server.zip(ours).map(|(server_us, ours_us)| Reading { server_us, ours_us, error_us }))
}

async fn ping<C: Commands>(connection: &mut C) -> Result<Option<Duration>, ConnectionLost> {
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let begun = Instant::now();
        connection.command(&["PING"]).await?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(times.get(ROUND_TRIPS / 2).copied())
}

/// Parses the lines `name:value` of INFO.
pub(super) fn parse_info(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.trim_end().split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
