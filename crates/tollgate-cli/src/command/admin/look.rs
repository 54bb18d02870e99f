//! The parts of `admin` that only show a service's state: decisions, hashes, requests, reloads.

use serde_json::Value;

use super::json::{list, text_of};
use crate::input::shown;
use crate::show;

/// The decision in words, and each limit.
pub(super) fn peeked(answer: &Value) -> String {
    let (text, answer) = (&answer["text"], &answer["answer"]);
    let mut lines = match text.as_str() {
        Some(text) => format!("{}\n", shown(text)),
        None => format!("{}\n", text_of(&answer["outcome"])),
    };
    for limit in list(&answer["limits"]) {
        let sign = if limit["admits"] == true { "ok" } else { "deny" };
        if limit["limit"] == "unlimited" {
            lines.push_str(&format!("  {sign:<5} {}: unlimited\n", text_of(&limit["identity"])));
            continue;
        }
        lines.push_str(&format!(
            "  {sign:<5} {}  {} of {} left, full again in {}\n",
            text_of(&limit["limit"]),
            text_of(&limit["remaining"]),
            text_of(&limit["capacity"]),
            text_of(&limit["reset_after"]["text"])
        ));
    }
    lines
}

/// The key behind a hash.
pub(super) fn found(hash: &str, found: &Value) -> String {
    if list(found).is_empty() {
        return format!("{} is not counted now\n", shown(hash));
    }
    let each = list(found).iter().map(|one| {
        let policy = one["policy"].as_str();
        let policy = policy.map_or(String::new(), |policy| format!(" in {}", shown(policy)));
        format!("{}{policy}\n", text_of(&one["subject"]))
    });
    each.collect()
}

/// The answer that a request would get, and the policies that apply to it.
pub(super) fn explained(answer: &Value) -> String {
    let (answer, policies) = (&answer["answer"], list(&answer["policies"]));
    let policy = answer["policy"].as_str();
    let policy = policy.map_or(String::new(), |policy| format!(" by {}", shown(policy)));
    let retry = answer["retry_after"]["text"].as_str();
    let retry = retry.map_or(String::new(), |wait| format!(", retry in {wait}"));
    let mut text = format!("{}{policy}{retry}\n", text_of(&answer["outcome"]));
    if policies.is_empty() {
        return text;
    }
    let mut table = show::texts(["policy", "applies", "why"]);
    for one in policies {
        let shadow = if one["shadow"] == true { " (shadow)" } else { "" };
        table.add_row([
            format!("{}{shadow}", text_of(&one["policy"])),
            if one["applies"] == true { "yes" } else { "no" }.to_owned(),
            text_of(&one["why"]),
        ]);
    }
    text.push_str(&format!("{table}\n"));
    text
}

/// The last reloads, the newest first, each with its changes.
pub(super) fn reloads(answer: &Value) -> String {
    let counts = &answer["counts"];
    let [taken, unchanged, broken] =
        ["taken", "unchanged", "broken"].map(|result| text_of(&counts[result]));
    let mut text = format!("{taken} taken, {unchanged} unchanged, {broken} broken\n");
    for reload in list(&answer["last"]) {
        let at = show::time(reload["at_s"].as_u64().unwrap_or(0).saturating_mul(1_000_000));
        let revision = text_of(&reload["revision"]);
        text.push_str(&match reload["error"].as_str() {
            None => format!("\n{at}  revision {revision}\n"),
            Some(error) => {
                format!("\n{at}  broken: revision {revision} stays in force\n{}\n", indented(error))
            }
        });
        for change in list(&reload["changes"]) {
            let name = change["policy"].as_str().map_or_else(|| "the file".to_owned(), shown);
            text.push_str(&format!("  {name}: {}\n", text_of(&change["what"])));
            for line in list(&change["lines"]) {
                text.push_str(&format!("    {}\n", text_of(line)));
            }
        }
        if let Some(further @ 1..) = reload["further"].as_u64() {
            text.push_str(&format!("  and {further} more policies\n"));
        }
    }
    text
}

/// Several lines, each without what a terminal would interpret.
fn indented(text: &str) -> String {
    let each: Vec<_> = text.lines().map(|line| format!("  {}", shown(line))).collect();
    each.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reload_is_shown_with_its_lines() {
        let change = json!({ "policy": "login", "what": "changed", "lines": ["- a: 1", "+ a: 2"] });
        let file = json!({ "policy": null, "what": "changed", "lines": ["+ match: all"] });
        let answer = json!({
            "counts": { "taken": 1, "unchanged": 0, "broken": 1 },
            "last": [
                { "at_s": 1, "result": "broken", "revision": "2-b", "error": "x\n\u{1b}[2Jy",
                  "changes": [], "further": 0 },
                { "at_s": 0, "result": "taken", "revision": "2-b", "changes": [file, change],
                  "further": 3 },
            ],
        });
        let text = reloads(&answer);
        let expected = "1 taken, 0 unchanged, 1 broken\n\n\
            1970-01-01T00:00:01Z  broken: revision 2-b stays in force\n  x\n";
        assert!(text.starts_with(expected) && !text.contains('\u{1b}'), "{text}");
        let expected = "\n1970-01-01T00:00:00Z  revision 2-b\n  the file: changed\n    \
            + match: all\n  login: changed\n    - a: 1\n    + a: 2\n  and 3 more policies\n";
        assert!(text.ends_with(expected), "{text}");
    }
}
