//! `INFO`: the server's description.

use core::fmt::Write as _;

use tollgate_stores::Figures;

use super::hello::REDIS_VERSION;
use crate::resp::arguments::several;
use crate::resp::command::{ABOUT, Call, Command, MANY, Run};
use crate::resp::session::Shared;

pub(super) const COMMAND: Command = Command {
    name: "info",
    words: (1, MANY),
    summary: "Describes the server.",
    arguments: &[several("section", "string")],
    run: Run::Now(answer),
    ..ABOUT
};

fn answer(call: Call<'_>) {
    let Shared { service, counts, connections, started, .. } = &*call.session.shared;
    let uptime = started.elapsed().as_secs();
    // Counts of another store are not asked for: this command answers immediately.
    let (memory, subjects) = match service.gate.store().figures() {
        Figures::Memory { bytes, subjects, .. } => (bytes, subjects),
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
        ("Clients", format!("connected_clients:{}\r\nblocked_clients:0\r\n", connections.open())),
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
    let asked = call.words_from(1);
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
    call.replies.text(text);
}
