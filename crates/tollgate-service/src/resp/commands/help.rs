//! Containers of subcommands, and `HELP`, which lists these.

use crate::resp::command::{ABOUT, Call, Command, MANY, Run};

/// A container that has no meaning without a subcommand.
pub(super) const fn container(
    name: &'static str,
    group: &'static str,
    summary: &'static str,
) -> Command {
    let has_subcommands = true;
    Command {
        name,
        words: (2, MANY),
        group,
        summary,
        has_subcommands,
        run: Run::Now(answer),
        ..ABOUT
    }
}

/// The subcommand of a container that lists the others.
pub(super) const fn help(name: &'static str, group: &'static str) -> Command {
    let summary = "Lists these subcommands.";
    Command { name, words: (2, 2), group, summary, run: Run::Now(answer), ..ABOUT }
}

fn answer(call: Call<'_>) {
    let Some(container) = call.table.named(call.word(0)) else { return call.replies.null() };
    let all = || call.table.subcommands(container.name);
    call.replies.array(all().count());
    for command in all() {
        let name = command.name.replace('|', " ").to_ascii_uppercase();
        call.replies.status(&format!("{name}: {}", command.summary));
    }
}
