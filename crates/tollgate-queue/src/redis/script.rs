//! Assembles the scripts of a queue.

use tollgate_redis::Script;

use super::layout::Layout;

/// The flags of scripts that take and settle jobs: a server out of memory must still be drained.
pub(super) const ALLOW_OOM: &str = " flags=allow-oom";

/// The flags of scripts that read from the server, and from no queue.
pub(super) const READ_ONLY: &str = " flags=no-writes";

/// A script of a queue: its flags, the library functions that it needs, then its own code.
pub(super) fn script(
    layout: Layout,
    flags: &str,
    before: &str,
    body: &str,
    has_test_clock: bool,
) -> Script {
    let (now, tail, px, id) = if has_test_clock {
        ("tonumber(ARGV[#ARGV])", "1", "3600000", "given_id()")
    } else {
        ("time[1] * 1000000 + time[2]", "0", "math.ceil(tonumber(ARGV[5]) / 1000)", "'*'")
    };
    let body = body.replace("$TAIL", tail).replace("$PX", px);
    let mut parts = vec![body];
    // Each call of a script creates all of its functions, so it contains only those that it needs.
    let library =
        [include_str!("begin.lua"), layout.storage_script(), include_str!("common.lua")].join("\n");
    for part in library.replace("$NOW", now).replace("$ID", id).rsplit("\n\n") {
        let name =
            part.lines().find_map(|line| line.strip_prefix("local function ")?.split('(').next());
        let is_called = |name: &str| parts.iter().any(|part| part.contains(&format!("{name}(")));
        if name.is_none_or(is_called) {
            parts.push(part.to_owned());
        }
    }
    // A refusal half way would leave a part of a job, so it comes before the first write. A script
    // that may have only one write looks itself.
    let mut rights = Script::RIGHTS.to_owned();
    if !parts[0].contains("refusal()") {
        rights.push_str("local lacks = refusal()\nif lacks then\n  return lacks\nend");
    }
    parts.push(format!("#!lua{flags}\n{rights}\n{before}"));
    parts.reverse();
    Script::with_rights(&parts.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::{ALLOW_OOM, Layout, script};

    #[test]
    fn the_line_in_the_docs_has_what_the_scripts_call() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/queue.md");
        let docs = std::fs::read_to_string(docs).unwrap();
        let line = docs.lines().find(|line| line.starts_with("ACL SETUSER queue")).unwrap();
        let bodies = [
            include_str!("ack.lua"),
            include_str!("change.lua"),
            include_str!("inspect.lua"),
            include_str!("offer.lua"),
            include_str!("pause.lua"),
            include_str!("remove.lua"),
            include_str!("settle.lua"),
            include_str!("take.lua"),
            include_str!("names.lua"),
            include_str!("eviction.lua"),
        ];
        for layout in [Layout::Stream, Layout::List] {
            for body in bodies {
                for name in script(layout, ALLOW_OOM, "", body, false).commands() {
                    assert!(line.split(' ').any(|word| word == format!("+{name}")), "{name}");
                }
            }
        }
    }
}
