//! `CONFIG GET`: the settings that redis-benchmark asks for.

use super::help::{container, help};
use crate::resp::arguments::several;
use crate::resp::command::{ABOUT, Call, Command, MANY, Run};

/// The settings with their values.
const SETTINGS: [(&str, &str); 2] = [("save", ""), ("appendonly", "no")];

pub(super) const CONFIG: Command =
    container("config", "server", "Contains the command about settings.");

pub(super) const GET: Command = Command {
    name: "config|get",
    words: (3, MANY),
    summary: "Answers the questions of redis-benchmark: `save` and `appendonly`.",
    arguments: &[several("parameter", "string")],
    run: Run::Now(get),
    ..ABOUT
};

pub(super) const HELP: Command = help("config|help", "server");

fn get(call: Call<'_>) {
    let (asked, replies) = (call.words_from(2), call.replies);
    let is_asked = |name: &str| asked.iter().any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
    let found = SETTINGS.iter().filter(|(name, _)| is_asked(name));
    replies.map(found.clone().count());
    for (name, value) in found {
        replies.text(name);
        replies.text(value);
    }
}
