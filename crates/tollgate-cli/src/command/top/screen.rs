//! The figures as text: all that matter in a fixed width, or as many as fit a window.

use core::cmp::Reverse;
use core::time::Duration;

use serde_json::Value;

use crate::command::admin::{list, text_of};
use crate::input::shown;
use crate::show::{self, Table};

/// Rows of each table without a window.
const PLAIN: Rows = Rows { peers: 100, limits: 20, denied: 5, asked: 5, queues: 100, shadows: 20 };

/// Rows of each table in a window at first, and then in the order in which they give way to
/// limits. The last ones fit 80 columns and 10 rows.
const FITTED: [Rows; 9] = {
    let all = Rows { peers: 100, limits: 256, denied: 10, asked: 10, queues: 10, shadows: 10 };
    let some = Rows { peers: 10, limits: 20, denied: 5, asked: 5, queues: 5, shadows: 5 };
    let few = Rows { peers: 5, limits: 10, denied: 3, asked: 3, queues: 3, shadows: 3 };
    let no_shadows = Rows { shadows: 0, ..few };
    let no_asked = Rows { asked: 0, ..no_shadows };
    let no_queues = Rows { queues: 0, ..no_asked };
    let less = Rows { peers: 3, limits: 5, denied: 2, ..no_queues };
    let no_denied = Rows { limits: 3, denied: 0, ..less };
    let least = Rows { peers: 0, limits: 1, ..no_denied };
    [all, some, few, no_shadows, no_asked, no_queues, less, no_denied, least]
};

/// The longest name in a window's table, so that a row is a line.
const MAX_NAME: usize = 36;

/// By what limits are ordered, the most first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sort {
    Denied,
    DeniedHour,
    Admitted,
    AdmittedHour,
    Name,
}

/// The window that the figures fit, and the order of its limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    pub(super) sort: Sort,
    /// Columns and rows.
    pub(super) size: (u16, u16),
    pub(super) has_keys: bool,
}

/// The most rows of each table; a table without rows is left out.
#[derive(Clone, Copy, Debug)]
struct Rows {
    peers: usize,
    limits: usize,
    denied: usize,
    asked: usize,
    queues: usize,
    shadows: usize,
}

impl Sort {
    /// Each with its key and its name.
    const ALL: [(Self, char, &str); 5] = [
        (Self::Denied, 'd', "denied/s"),
        (Self::DeniedHour, 'D', "denied/h"),
        (Self::Admitted, 'a', "admitted/s"),
        (Self::AdmittedHour, 'A', "admitted/h"),
        (Self::Name, 'n', "name"),
    ];

    pub(super) fn by_key(key: char) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == key).map(|(sort, ..)| *sort)
    }

    /// Sorts limits; those with equal figures stay in the order of the service, which has those
    /// that deny first.
    fn apply(self, limits: &mut [&Value]) {
        let by = |key: &'static str| move |one: &&Value| Reverse(number(&one[key]));
        match self {
            Self::Denied => limits.sort_by_key(by("denied_now")),
            Self::DeniedHour => limits.sort_by_key(by("denied")),
            Self::Admitted => limits.sort_by_key(by("admitted_now")),
            Self::AdmittedHour => limits.sort_by_key(by("admitted")),
            Self::Name => limits.sort_by_cached_key(|one| name_of(one)),
        }
    }
}

/// The figures in a fixed width, for pipes and files.
pub(super) fn plain(figures: &Value) -> String {
    text(figures, Sort::Denied, PLAIN, None)
}

/// As many of the figures as fit a window, with the keys in its last line.
pub(super) fn fitted(figures: &Value, window: Window) -> String {
    let Window { sort, size: (columns, rows), .. } = window;
    let below = footer(window);
    let room = usize::from(rows).saturating_sub(1);
    let fits = |text: &String| text.lines().count() <= room;
    let shown = |rows: Rows| text(figures, sort, rows, Some(columns));
    let found = FITTED.into_iter().map(|rows| (rows, shown(rows))).find(|(_, text)| fits(text));
    let text = match found {
        Some((rows, text)) => {
            // The rest of the window is for more limits.
            let limits = list(&figures["limits"]).len().min(room);
            let more = (rows.limits + 1..=limits).map(|limits| shown(Rows { limits, ..rows }));
            more.take_while(fits).last().unwrap_or(text)
        }
        None => shown(FITTED[FITTED.len() - 1]),
    };
    let mut lines: Vec<&str> = text.lines().take(room).collect();
    lines.resize(room, "");
    lines.push(&below);
    lines.join("\n")
}

fn footer(Window { sort, size: (columns, _), has_keys }: Window) -> String {
    if !has_keys {
        return cut("Ctrl-C ends it", columns);
    }
    let keys = Sort::ALL
        .map(|(known, key, name)| format!("{key} {name}{}", if known == sort { "*" } else { "" }));
    cut(&format!("q quit; sort: {}", keys.join(", ")), columns)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn text(figures: &Value, sort: Sort, rows: Rows, columns: Option<u16>) -> String {
    let limits = list(&figures["limits"]);
    let (shadows, mut limits): (Vec<_>, Vec<_>) =
        limits.iter().partition(|one| one["shadow"] == true);
    sort.apply(&mut limits);
    let mut text = head(figures, columns);
    if limits.is_empty() {
        text.push_str("\nno requests in the last hour\n");
    }
    let tables = [
        peer_table(list(&figures["peers"]), rows.peers),
        limit_table(figures, &limits, rows.limits, columns),
        subjects(&figures["denied"], "denied most", rows.denied),
        subjects(&figures["asked"], "asked most", rows.asked),
        queue_table(list(&figures["queues"]), rows.queues),
        shadow_table(&shadows, rows.shadows),
    ];
    for table in tables.iter().filter(|table| !table.is_empty()) {
        let shown = columns.map_or_else(|| table.to_string(), |it| table.within(it.into()));
        text.push_str(&format!("\n{shown}\n"));
    }
    text
}

/// The service, its store, and the decisions of the last minute, those without the store first.
fn head(figures: &Value, columns: Option<u16>) -> String {
    let up = number(&figures["at_s"]).saturating_sub(number(&figures["started_s"]));
    let mut lines = vec![format!(
        "tollgate {}, up {}; {}, revision {}",
        text_of(&figures["version"]),
        show::duration(Duration::from_secs(up)),
        match number(&figures["policies"]) {
            1 => "1 policy".to_owned(),
            policies => format!("{policies} policies"),
        },
        text_of(&figures["revision"])
    )];
    let store = &figures["store"];
    let kind = text_of(&store["kind"]);
    let breaker = store["breaker"].as_str().filter(|state| *state != "closed");
    let breaker = breaker.map_or(String::new(), |state| format!(", circuit breaker {state}"));
    lines.push(match store["error"].as_str() {
        None => {
            let took = show::duration(Duration::from_micros(number(&store["took_us"])));
            format!("store {kind} counts, answered in {took}{breaker}")
        }
        Some(error) => format!("store {kind} does NOT count{breaker}: {}", shown(error)),
    });
    let reloads = &figures["reloads"];
    if reloads["last"][0]["result"] == "broken" {
        let revision = text_of(&reloads["last"][0]["revision"]);
        lines.push(format!("the policy file is BROKEN: revision {revision} stays in force"));
    }
    let by = list(&figures["durations"]["by"]);
    let (stored, others): (Vec<_>, Vec<_>) = by.iter().partition(|it| it["authority"] == "store");
    for by in others.into_iter().chain(stored) {
        let within = |value: &Value| match value.as_u64() {
            Some(us) => show::duration(Duration::from_micros(us)),
            None => "more".to_owned(),
        };
        let who = match by["authority"].as_str() {
            Some("store") => "by the store",
            Some("failure_rule") => "WITHOUT the store, by a failure rule",
            _ => "WITHOUT the store, by a local share",
        };
        lines.push(format!(
            "{} {who} in {} s: half within {}, 99 % within {}",
            number(&by["answers"]),
            number(&figures["durations"]["seconds"]),
            within(&by["p50_us"]),
            within(&by["p99_us"])
        ));
    }
    let lines = lines.iter().map(|line| match columns {
        None => format!("{line}\n"),
        Some(columns) => folded(line, columns.into()),
    });
    lines.collect()
}

/// A line in as many as it needs, broken between words.
fn folded(text: &str, columns: usize) -> String {
    let (mut lines, mut used) = (String::new(), 0);
    for word in text.split(' ') {
        let wide = word.chars().count();
        match used {
            0 => {}
            _ if used + 1 + wide > columns => {
                lines.push('\n');
                used = 0;
            }
            _ => {
                lines.push(' ');
                used += 1;
            }
        }
        lines.push_str(word);
        used += wide;
    }
    lines + "\n"
}

/// At most this many characters.
fn cut(text: &str, most: impl Into<usize>) -> String {
    let most = most.into();
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let begin: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{begin}…")
}

/// The policy and its limit, with the numbers where the policies in force have them.
fn name_of(one: &Value) -> String {
    let limit = one["numbers"].as_str().map_or_else(|| text_of(&one["limit"]), shown);
    one["policy"].as_str().map_or(limit.clone(), |policy| format!("{}: {limit}", shown(policy)))
}

/// Events in this many seconds, as events a second with a decimal.
fn rate(events: u64, seconds: u64) -> String {
    let tenths = events.saturating_mul(10) / seconds.max(1);
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn limit_table(figures: &Value, limits: &[&Value], most: usize, columns: Option<u16>) -> Table {
    let mut table =
        show::table(["policy and limit", "admitted/s", "denied/s", "admitted/h", "denied/h"]);
    let seconds = number(&figures["now_seconds"]);
    let row = |name: String, of: &dyn Fn(&str) -> u64| {
        let [admitted, denied] = ["admitted_now", "denied_now"].map(|key| rate(of(key), seconds));
        let [all_admitted, all_denied] = ["admitted", "denied"].map(|key| of(key).to_string());
        [name, admitted, denied, all_admitted, all_denied]
    };
    let (listed, rest) = limits.split_at(limits.len().min(most));
    for one in listed {
        let name = name_of(one);
        let name = if columns.is_some() { cut(&name, MAX_NAME) } else { name };
        table.add_row(row(name, &|key| number(&one[key])));
    }
    if !rest.is_empty() {
        let sum = |key: &str| rest.iter().map(|one| number(&one[key])).sum();
        let denying = rest.iter().filter(|one| number(&one["denied_now"]) > 0).count();
        let name = match denying {
            0 => format!("{} more", rest.len()),
            _ => format!("{} more, {denying} of them denying", rest.len()),
        };
        table.add_row(row(name, &sum));
    }
    table
}

/// The instances of `--peers`, side by side.
fn peer_table(peers: &[Value], most: usize) -> Table {
    let mut table =
        show::table(["instance", "admitted/s", "denied/s", "without store/m", "store", "policies"]);
    for one in peers.iter().take(most) {
        let at = text_of(&one["at"]);
        if let Some(error) = one["error"].as_str() {
            let none = || "-".to_owned();
            table.add_row([at, none(), none(), none(), shown(error), none()]);
            continue;
        }
        let rate = |key: &str| rate(number(&one[key]), number(&one["now_seconds"]));
        let counts = if one["store_counts"] == true { "counts" } else { "does NOT count" };
        table.add_row([
            at,
            rate("admitted_now"),
            rate("denied_now"),
            number(&one["without_store"]).to_string(),
            counts.to_owned(),
            text_of(&one["revision"]),
        ]);
    }
    table
}

fn shadow_table(shadows: &[&Value], most: usize) -> Table {
    let mut table = show::table(["in shadow", "would admit/h", "would deny/h"]);
    for one in shadows.iter().take(most) {
        let [admitted, denied] = ["admitted", "denied"].map(|key| number(&one[key]).to_string());
        table.add_row([name_of(one), admitted, denied]);
    }
    table
}

/// The first subjects of a list, as far as there are any.
fn subjects(top: &Value, verb: &str, most: usize) -> Table {
    let mut table = show::table([verb, "policy", "times"]);
    for one in list(&top["subjects"]).iter().take(most) {
        let error = number(&one["error"]);
        let least = number(&one["count"]).saturating_sub(error);
        let about = if error > 0 { "at least " } else { "" };
        table.add_row([
            text_of(&one["subject"]),
            one["policy"].as_str().map_or_else(|| "-".to_owned(), shown),
            format!("{about}{least}"),
        ]);
    }
    table
}

fn queue_table(queues: &[Value], most: usize) -> Table {
    let mut table = show::table(["queue", "waiting", "in flight", "dead", "refused"]);
    for one in queues.iter().take(most) {
        let jobs = |key: &str| one[key].as_u64().map_or("?".to_owned(), |jobs| jobs.to_string());
        table.add_row([
            text_of(&one["queue"]),
            jobs("waiting"),
            jobs("in_flight"),
            jobs("dead"),
            number(&one["offers"]["refused"]).to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn limit(policy: &str, denied_now: u64) -> Value {
        json!({ "policy": policy, "limit": "sliding_log/1h", "shadow": false,
            "numbers": "3/h via sliding_log", "admitted_now": 25, "denied_now": denied_now,
            "admitted": 100, "denied": 7 * denied_now })
    }

    /// Fifty policies, of which one denies, with every table.
    fn figures() -> Value {
        let mut limits: Vec<_> = (0..50).map(|number| limit(&format!("p{number:02}"), 0)).collect();
        limits[47] = limit("p47", 280);
        limits[0]["policy"] = json!("\u{1b}[2Jevil");
        limits.push(json!({ "policy": "trial", "limit": "gcra/1h", "shadow": true }));
        let subjects: Vec<_> = (0..10)
            .map(|it| json!({ "subject": format!("ip:{it}"), "count": 9, "error": 0 }))
            .collect();
        json!({
            "now_seconds": 10, "limits": limits, "store": { "kind": "memory", "took_us": 4 },
            "durations": { "seconds": 60, "by": [
                { "authority": "store", "answers": 812, "p50_us": 5, "p99_us": 20 },
                { "authority": "failure_rule", "answers": 3, "p50_us": 5, "p99_us": null },
            ] },
            "asked": { "subjects": subjects }, "denied": { "subjects": subjects },
            "queues": [{ "queue": "mail", "waiting": 1 }],
            "peers": (0..30).map(|it| json!({
                "at": format!("10.0.0.{it}:8701"), "denied_now": 5, "now_seconds": 10,
                "store_counts": true, "revision": "2-95c1a0b7f0a2",
            })).collect::<Vec<_>>(),
        })
    }

    fn window(columns: u16, rows: u16, sort: Sort) -> Window {
        Window { sort, size: (columns, rows), has_keys: true }
    }

    /// The lines, with one blank between words.
    fn lines(text: &str) -> Vec<String> {
        text.lines().map(|it| it.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    fn first_row(text: &str) -> String {
        let lines = lines(text);
        let head = lines.iter().position(|line| line.starts_with("policy and limit")).unwrap();
        lines[head + 2].clone()
    }

    #[test]
    fn the_limit_that_denies_is_the_first_of_fifty_and_the_rest_is_one_row() {
        let text = plain(&figures());
        let denying = "p47: 3/h via sliding_log 2.5 28.0 100 1960";
        assert_eq!(first_row(&text), denying, "{text}");
        let lines = lines(&text);
        assert!(lines.contains(&"30 more 75.0 0.0 3000 0".to_owned()), "{text}");
        assert!(!text.contains('\u{1b}') && text.contains("?[2Jevil"), "{text}");
        let without = lines.iter().position(|line| line.starts_with("3 WITHOUT the store, by a "));
        let stored = lines.iter().position(|line| line.starts_with("812 by the store in 60 s"));
        assert!(without < stored && without == Some(2), "{text}");
    }

    #[test]
    fn every_window_has_its_head_the_denying_limit_and_the_keys() {
        for (columns, rows) in [(80, 24), (80, 12), (100, 40), (200, 100), (90, 10)] {
            let text = fitted(&figures(), window(columns, rows, Sort::Denied));
            assert_eq!(text.lines().count(), usize::from(rows), "{text}");
            let wide = text.lines().map(|line| line.chars().count()).max();
            assert!(wide <= Some(usize::from(columns)), "{columns}x{rows}: {text}");
            assert!(text.starts_with("tollgate ") && text.contains("store memory"), "{text}");
            assert!(first_row(&text).starts_with("p47: "), "{columns}x{rows}: {text}");
            assert!(text.lines().last().unwrap().starts_with("q quit; sort: d denied/s*, "));
        }
        // A tall one has all, and a small one limits and who is denied.
        let tall = fitted(&figures(), window(100, 100, Sort::Denied));
        assert!(tall.contains("p49") && tall.contains("asked most") && tall.contains("trial"));
        assert!(tall.contains("10.0.0.9:8701"), "{tall}");
        let mut alone = figures();
        alone["peers"] = json!([]);
        let usual = fitted(&alone, window(80, 24, Sort::Denied));
        assert!(usual.contains("denied most") && !usual.contains("in shadow"), "{usual}");
    }

    #[test]
    fn a_key_sorts_and_what_is_cut_off_tells_that_it_denies() {
        let mut figures = figures();
        figures["limits"][30]["admitted_now"] = json!(990);
        figures["limits"][31]["admitted"] = json!(99_999);
        for (key, first) in [('d', "p47"), ('D', "p47"), ('a', "p30"), ('A', "p31"), ('n', "?[2J")]
        {
            let sort = Sort::by_key(key).unwrap();
            let text = fitted(&figures, window(100, 24, sort));
            assert!(first_row(&text).starts_with(first), "{key}: {text}");
            let is_hidden = first != "p47";
            assert_eq!(text.contains("more, 1 of them denying"), is_hidden, "{key}: {text}");
        }
        assert_eq!(Sort::by_key('x'), None);
    }

    #[test]
    fn troubles_are_in_the_head() {
        let mut figures = figures();
        figures["store"] = json!({ "kind": "redis", "error": "away", "breaker": "open" });
        figures["reloads"] = json!({ "last": [{ "result": "broken", "revision": "2-b" }] });
        let text = plain(&figures);
        assert!(
            text.contains("store redis does NOT count, circuit breaker open: away\n"),
            "{text}"
        );
        assert!(!text.contains("answered in"), "{text}");
        assert!(
            text.contains("the policy file is BROKEN: revision 2-b stays in force\n"),
            "{text}"
        );
        assert_eq!(folded("one two three", 8), "one two\nthree\n");
    }
}
