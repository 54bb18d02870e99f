//! Assembles the scripts of a queue.

use tollgate_redis::Script;

use super::layout::Layout;

/// The flags of scripts that take and settle jobs: a server out of memory must still be drained.
pub(super) const ALLOW_OOM: &str = " flags=allow-oom";

/// The flags of scripts that read from the server, and from no queue.
pub(super) const READ_ONLY: &str = " flags=no-writes";

/// The end of a stage of a script, on a line of its own.
const THEN: &str = "$THEN\n";

/// A script of a queue: its flags, the library functions that it needs, then its own code. Each
/// call of a script makes its functions when it comes to them, so a script has only those that it
/// needs, and each of its stages only those that it needs besides.
pub(super) fn script(
    layout: Layout,
    flags: &str,
    before: &str,
    body: &str,
    has_test_clock: bool,
) -> Script {
    let mut library = Library::new(layout, has_test_clock);
    let body = library.filled(body).replace("$UNTIL_ROOM\n", &library.until_room());
    let mut text = format!("#!lua{flags}\n");
    let mut stages = body.split(THEN).peekable();
    while let Some(stage) = stages.next() {
        let is_last = stages.peek().is_none();
        if is_last {
            text.push_str(&rights(stage));
            text.push_str(before);
        }
        text.push_str(&library.needed(stage));
        text.push_str(stage);
    }
    Script::with_rights(&text)
}

/// The script for several offers in one call, each as one of `offer`.
pub(super) fn offers_script(layout: Layout, offer: &Script, has_test_clock: bool) -> Script {
    let mut library = Library::new(layout, has_test_clock);
    let body = library.filled(include_str!("offers.lua"));
    let text = format!("#!lua\n{}{}{body}", Script::FAILURE, library.needed(&body));
    Script::new(text.replace("$OFFER\n", &offer.function("offer")))
}

/// A refusal half way would leave a part of a job, so it comes before the first write. A script
/// whose stages before may have only one write looks itself, after them.
fn rights(stage: &str) -> String {
    let mut rights = format!("{}\n", Script::RIGHTS);
    if !stage.contains("refusal()") {
        rights.push_str("local lacks = refusal()\nif lacks then\n  return lacks\nend\n");
    }
    rights
}

/// The paragraphs of the library that a script does not have yet.
struct Library {
    paragraphs: Vec<String>,
    fill: [(&'static str, &'static str); 7],
}

impl Library {
    fn new(layout: Layout, has_test_clock: bool) -> Self {
        let [now, tail, px, id] = if has_test_clock {
            ["tonumber(ARGV[#ARGV])", "1", "3600000", "given_id()"]
        } else {
            ["is[1] * 1000000 + is[2]", "0", "math.ceil(tonumber(ARGV[5]) / 1000)", "'*'"]
        };
        let [jobs, made, depth] = layout.fill();
        let fill = [
            ("$NOW", now),
            ("$TAIL", tail),
            ("$PX", px),
            ("$ID", id),
            ("$JOBS", jobs),
            ("$MADE", made),
            ("$DEPTH", depth),
        ];
        let empty = Self { paragraphs: Vec::new(), fill };
        let texts =
            [include_str!("begin.lua"), layout.storage_script(), include_str!("common.lua")];
        let text = empty.filled(&texts.join("\n"));
        Self { paragraphs: text.split("\n\n").map(|it| format!("{it}\n\n")).collect(), fill }
    }

    /// The functions by which a refusal says how long to wait. A stage may have them for itself.
    fn until_room(&self) -> String {
        let names = ["local time\n", "local function drain(", "local function until_room("];
        let is_one = |it: &&String| names.iter().any(|name| it.contains(name));
        self.paragraphs.iter().filter(is_one).map(String::as_str).collect()
    }

    fn filled(&self, text: &str) -> String {
        self.fill.iter().fold(text.to_owned(), |text, (name, with)| text.replace(name, with))
    }

    /// Takes out the paragraphs that this code needs: those without a function, those of the
    /// functions that it calls, and what these need.
    fn needed(&mut self, code: &str) -> String {
        let mut parts = vec![code.to_owned()];
        let mut left = Vec::new();
        for part in self.paragraphs.drain(..).rev() {
            let name = part
                .lines()
                .find_map(|line| line.strip_prefix("local function ")?.split('(').next());
            let is_called =
                |name: &str| parts.iter().any(|part| part.contains(&format!("{name}(")));
            let is_needed = name.is_none_or(is_called);
            if is_needed { parts.push(part) } else { left.push(part) }
        }
        self.paragraphs.extend(left.into_iter().rev());
        parts.iter().skip(1).rev().map(String::as_str).collect()
    }
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
