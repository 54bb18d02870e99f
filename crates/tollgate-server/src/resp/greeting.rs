//! What clients and tools send when they connect: who they are, and questions about the server.

use core::fmt::Write as _;

use tollgate_stores::AnyStore;

use super::arguments::Argument;
use super::auth::DEFAULT_USER;
use super::codec::{Words, whole_number};
use super::commands::{self, Command, SINCE, shown};
use super::reply::{Replies, Version};
use super::session::{Session, Shared};

/// The version of Redis whose commands for clients these are.
const REDIS_VERSION: &str = "7.2.0";

const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// The values of `CONFIG GET`. redis-benchmark asks for them.
const CONFIG: [(&str, &str); 2] = [("save", ""), ("appendonly", "no")];

impl Session {
    pub(super) async fn hello(&mut self, words: &Words<'_>, replies: &mut Replies) {
        let mut rest = words.get(1..).unwrap_or_default();
        let mut version = replies.version;
        if let [number, after @ ..] = rest {
            version = match whole_number(number) {
                Some(2) => Version::Two,
                Some(3) => Version::Three,
                Some(_) => return replies.error("NOPROTO unsupported protocol version"),
                None => {
                    let why = "ERR Protocol version is not an integer or out of range";
                    return replies.error(why);
                }
            };
            rest = after;
        }
        let (mut login, mut name) = (None, None);
        while let [option, after @ ..] = rest {
            if option.eq_ignore_ascii_case(b"AUTH")
                && let [user, password, after @ ..] = after
            {
                (login, rest) = (Some((*user, *password)), after);
            } else if option.eq_ignore_ascii_case(b"SETNAME")
                && let [said, after @ ..] = after
            {
                (name, rest) = (Some(*said), after);
            } else {
                let option = shown(option);
                return replies.error(format_args!("ERR Syntax error in HELLO option '{option}'"));
            }
        }
        if let Some((user, password)) = login
            && let Err(why) = self.login(user, password).await
        {
            return replies.error(why);
        }
        if self.user.is_none() {
            return replies.error(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
                 HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client \
                 and select the RESP protocol version at the same time",
            );
        }
        if let Some(name) = name {
            if !is_plain(name) {
                return replies.error(bad_name("Client names"));
            }
            self.name = name.to_vec();
        }
        replies.version = version;
        replies.map(7);
        for (key, value) in [("server", "tollgate"), ("version", REDIS_VERSION)] {
            replies.text(key);
            replies.text(value);
        }
        for (key, value) in [("proto", version.number()), ("id", self.id)] {
            replies.text(key);
            replies.integer(value);
        }
        for (key, value) in [("mode", "standalone"), ("role", "master")] {
            replies.text(key);
            replies.text(value);
        }
        replies.text("modules");
        replies.array(0);
    }

    pub(super) async fn auth(&mut self, words: &Words<'_>, replies: &mut Replies) {
        let (user, password) = match words.get(1..) {
            Some([_]) if self.shared.users.anybody().is_some() => {
                return replies.error(
                    "ERR AUTH <password> called without any password configured for the default \
                     user. Are you sure your configuration is correct?",
                );
            }
            Some([password]) => (DEFAULT_USER.as_bytes(), *password),
            Some([user, password]) => (*user, *password),
            _ => return replies.error("ERR syntax error"),
        };
        match self.login(user, password).await {
            Ok(()) => replies.status("OK"),
            Err(why) => replies.error(why),
        }
    }

    async fn login(&mut self, user: &[u8], password: &[u8]) -> Result<(), &'static str> {
        let known = self.shared.users.login(user, password, self.peer).await;
        self.user = Some(known.ok_or(WRONG)?);
        Ok(())
    }

    pub(super) fn select(index: &[u8], replies: &mut Replies) {
        match whole_number(index) {
            Some(0) => replies.status("OK"),
            Some(_) => replies.error("ERR DB index is out of range"),
            None => replies.error("ERR value is not an integer or out of range"),
        }
    }

    pub(super) fn set_name(&mut self, name: &[u8], replies: &mut Replies) {
        if !is_plain(name) {
            return replies.error(bad_name("Client names"));
        }
        self.name = name.to_vec();
        replies.status("OK");
    }

    /// Takes what a client says of its library. Nothing asks for it, so nothing is kept.
    pub(super) fn set_info(what: &[u8], value: &[u8], replies: &mut Replies) {
        let known = [&b"lib-name"[..], b"lib-ver"];
        match known.into_iter().find(|known| known.eq_ignore_ascii_case(what)) {
            None => replies.error(format_args!("ERR Unrecognized option '{}'", shown(what))),
            Some(known) if !is_plain(value) => replies.error(bad_name(&shown(known))),
            Some(_) => replies.status("OK"),
        }
    }

    pub(super) fn info(&self, words: &Words<'_>, replies: &mut Replies) {
        let Shared { service, counts, connections, started, .. } = &*self.shared;
        let uptime = started.elapsed().as_secs();
        // What another store holds is not asked for: this answers at once.
        let (memory, subjects) = match service.gate.store() {
            AnyStore::Memory(store) => (store.bytes(), store.subjects()),
            _ => (0, 0),
        };
        let sections = [
            (
                "Server",
                format!(
                    "redis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\n\
                     tollgate_version:{}\r\nprocess_id:{}\r\nuptime_in_seconds:{uptime}\r\n",
                    env!("CARGO_PKG_VERSION"),
                    std::process::id()
                ),
            ),
            (
                "Clients",
                format!("connected_clients:{}\r\nblocked_clients:0\r\n", connections.open()),
            ),
            ("Memory", format!("used_memory:{memory}\r\nused_memory_human:{memory}B\r\n")),
            (
                "Persistence",
                "loading:0\r\nrdb_bgsave_in_progress:0\r\naof_rewrite_in_progress:0\r\n".to_owned(),
            ),
            (
                "Stats",
                format!(
                    "total_connections_received:{}\r\ntotal_commands_processed:{}\r\n",
                    connections.accepted(),
                    counts.total()
                ),
            ),
            ("Replication", "role:master\r\nconnected_slaves:0\r\n".to_owned()),
            ("Cluster", "cluster_enabled:0\r\n".to_owned()),
            ("Keyspace", format!("db0:keys={subjects},expires={subjects},avg_ttl=0\r\n")),
        ];
        let asked = words.get(1..).unwrap_or_default();
        let all = [&b"all"[..], b"everything", b"default"];
        let is_asked = |name: &str| {
            let is_it = |word: &&[u8]| {
                word.eq_ignore_ascii_case(name.as_bytes())
                    || all.iter().any(|all| all.eq_ignore_ascii_case(word))
            };
            asked.is_empty() || asked.iter().any(is_it)
        };
        let mut text = String::new();
        for (name, lines) in sections.iter().filter(|(name, _)| is_asked(name)) {
            let between = if text.is_empty() { "" } else { "\r\n" };
            // Writing to a string cannot fail.
            let _ = write!(text, "{between}# {name}\r\n{lines}");
        }
        replies.text(text);
    }

    pub(super) fn config(words: &Words<'_>, replies: &mut Replies) {
        let asked = words.get(2..).unwrap_or_default();
        let is_asked =
            |name: &str| asked.iter().any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        let found = CONFIG.iter().filter(|(name, _)| is_asked(name));
        replies.map(found.clone().count());
        for (name, value) in found {
            replies.text(name);
            replies.text(value);
        }
    }

    pub(super) fn help(container: &[u8], replies: &mut Replies) {
        let Some(container) = commands::named(container) else { return replies.null() };
        replies.array(container.subcommands().count());
        for command in container.subcommands() {
            let name = command.name.replace('|', " ").to_ascii_uppercase();
            replies.status(&format!("{name}: {}", command.summary));
        }
    }

    pub(super) fn count(replies: &mut Replies) {
        replies.integer(i64::try_from(commands::top().count()).unwrap_or(i64::MAX));
    }

    pub(super) fn all_commands(replies: &mut Replies) {
        replies.array(commands::top().count());
        for command in commands::top() {
            describe(command, replies);
        }
    }

    pub(super) fn command_list(replies: &mut Replies) {
        replies.array(commands::top().count());
        for command in commands::top() {
            replies.text(command.name);
        }
    }

    pub(super) fn command_info(words: &Words<'_>, replies: &mut Replies) {
        let names = words.get(2..).unwrap_or_default();
        if names.is_empty() {
            return Self::all_commands(replies);
        }
        replies.array(names.len());
        for name in names {
            match commands::named(name) {
                Some(command) => describe(command, replies),
                None => replies.null(),
            }
        }
    }

    pub(super) fn docs(words: &Words<'_>, replies: &mut Replies) {
        let names = words.get(2..).unwrap_or_default();
        let found: Vec<&Command> = match names {
            [] => commands::top().collect(),
            names => names.iter().filter_map(|name| commands::named(name)).collect(),
        };
        replies.map(found.len());
        for command in found {
            document(command, replies);
        }
    }
}

/// Whether a name can stand in a line of words.
fn is_plain(name: &[u8]) -> bool {
    name.iter().all(u8::is_ascii_graphic)
}

fn bad_name(what: &str) -> String {
    format!("ERR {what} cannot contain spaces, newlines or special characters.")
}

/// A command as `COMMAND` tells it.
fn describe(command: &Command, replies: &mut Replies) {
    let key = command.key();
    replies.array(10);
    replies.text(command.name);
    replies.integer(command.arity());
    replies.set(command.flags.len());
    for flag in command.flags {
        replies.status(flag);
    }
    for number in [key, key, key] {
        replies.integer(number);
    }
    // The categories of access, the tips and the key specifications.
    replies.set(0);
    replies.array(0);
    replies.array(0);
    replies.array(command.subcommands().count());
    for command in command.subcommands() {
        describe(command, replies);
    }
}

/// A command as `COMMAND DOCS` tells it, with its name before.
fn document(command: &Command, replies: &mut Replies) {
    let subcommands = command.subcommands().count();
    replies.text(command.name);
    replies.map(3 + usize::from(!command.arguments.is_empty()) + usize::from(subcommands > 0));
    for (key, value) in [("summary", command.summary), ("since", SINCE), ("group", command.group)] {
        replies.text(key);
        replies.text(value);
    }
    if !command.arguments.is_empty() {
        arguments(command.arguments, replies);
    }
    if subcommands > 0 {
        replies.text("subcommands");
        replies.map(subcommands);
        for command in command.subcommands() {
            document(command, replies);
        }
    }
}

fn arguments(all: &[Argument], replies: &mut Replies) {
    replies.text("arguments");
    replies.array(all.len());
    for Argument { name, kind, token, flags, arguments: within } in all {
        let more = [token.is_some(), !flags.is_empty(), !within.is_empty()];
        replies.map(2 + more.into_iter().filter(|is_there| *is_there).count());
        for (key, value) in [("name", Some(*name)), ("type", Some(*kind)), ("token", *token)] {
            if let Some(value) = value {
                replies.text(key);
                replies.text(value);
            }
        }
        if !flags.is_empty() {
            replies.text("flags");
            replies.set(flags.len());
            for flag in *flags {
                replies.status(flag);
            }
        }
        if !within.is_empty() {
            arguments(within, replies);
        }
    }
}
