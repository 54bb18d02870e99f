//! Decisions as lines for people.

use anstyle::{AnsiColor, Style};
use tollgate::{Anchor, Carried, Decision, Report, Verdict};

use super::duration;

/// The exit code of a decision: 0 allow, 1 not yet, 3 never.
pub(crate) fn exit_code(decision: &Decision<'_>) -> u8 {
    match decision.verdict() {
        Verdict::Allow => 0,
        Verdict::NotYet(_) => 1,
        Verdict::Never => 3,
    }
}

/// A decision as text: one line, and one per limit if there are several.
pub(crate) fn lines(decision: &Decision<'_>, peek: bool) -> String {
    let mut text = headline(decision, peek);
    text.push('\n');
    let reports: Vec<_> = decision.reports().collect();
    if let [only] = &reports[..] {
        text.push_str(&carried(only, "  "));
        return text;
    }
    let wide = |part: fn(&Report<'_>) -> String| {
        reports.iter().map(|report| part(report).chars().count()).max().unwrap_or(0)
    };
    let subject_width = wide(|report| report.subject().to_string());
    let limit_width = wide(|report| report.limit().to_string());
    for report in &reports {
        let (word, style) = match report.retry_after() {
            _ if report.admits() => ("ok   ", good()),
            Some(_) => ("deny ", bad()),
            None => ("never", bad()),
        };
        text.push_str(&format!(
            "  {style}{word}{style:#} {:<subject_width$}  {:<limit_width$}  {}\n",
            report.subject().to_string(),
            report.limit().to_string(),
            fields(report),
        ));
        text.push_str(&carried(report, "        "));
    }
    text
}

fn headline(decision: &Decision<'_>, peek: bool) -> String {
    let binding = decision.binding();
    let (subject, limit) = (binding.subject(), binding.limit());
    let would = if peek { "would " } else { "" };
    let style = if decision.is_allowed() { good() } else { bad() };
    match decision.verdict() {
        Verdict::Allow => format!(
            "{style}{would}allow{style:#} {subject}: {} of {} left{} ({limit})",
            decision.remaining(),
            decision.limit(),
            full_again(&binding),
        ),
        Verdict::NotYet(wait) => format!(
            "{style}{would}deny{style:#} {subject}: {} of {} left, retry in {} ({limit})",
            decision.remaining(),
            decision.limit(),
            duration(wait),
        ),
        Verdict::Never => format!(
            "{style}{would}deny{style:#} {subject}: never, {} ({limit})",
            decision.unit().beyond(decision.limit()),
        ),
    }
}

/// The remaining and the used units of one limit.
pub(crate) fn used(report: &Report<'_>) -> String {
    let (left, capacity) = (report.remaining(), report.limit().capacity());
    match report.limit().has_capacity() {
        // Credits stand behind it, and how much of it is used is not known.
        true if left > capacity => format!("{left} left with credits, the limit is {capacity}"),
        true => format!("{left} of {capacity} left, {} used", capacity - left),
        false if left > 0 => "no ban".to_owned(),
        false => "banned".to_owned(),
    }
}

/// The values of one limit, without its name.
fn fields(report: &Report<'_>) -> String {
    let (remaining, limit) = (report.remaining(), report.limit().capacity());
    if !report.limit().has_capacity() {
        return match report.retry_after() {
            Some(wait) if !report.admits() => format!("banned, for {}", duration(wait)),
            _ if report.reset_after().is_zero() => "no ban".to_owned(),
            _ => format!("no ban, all forgotten in {}", duration(report.reset_after())),
        };
    }
    match report.retry_after() {
        _ if report.admits() => format!("{remaining} of {limit} left{}", full_again(report)),
        Some(wait) => format!("{remaining} of {limit} left, retry in {}", duration(wait)),
        None => format!("never, {}", report.limit().unit().beyond(limit)),
    }
}

fn full_again(report: &Report<'_>) -> String {
    if report.reset_after().is_zero() {
        return String::new();
    }
    format!(", full again in {}", duration(report.reset_after()))
}

/// A line on a limit whose numbers were changed while it counted.
fn carried(report: &Report<'_>, indent: &str) -> String {
    match report.carried() {
        Carried::Over => {
            let over = format!("{indent}its numbers have changed: the count was carried over\n");
            over + &both_anchors(report, indent)
        }
        Carried::Fresh => {
            format!("{indent}this limit counts in another way: it started fresh\n")
        }
        _ => String::new(),
    }
}

/// The warning of a window that opens with a request: where the other anchor is asked in between,
/// it begins again each time, with all that was counted. The earlier numbers are not known here.
fn both_anchors(report: &Report<'_>, indent: &str) -> String {
    if report.limit().quota().anchor != Some(Anchor::FirstHit) {
        return String::new();
    }
    format!(
        "{indent}asked under both anchors in turn, a subject may starve: `tollgate help notation`\n"
    )
}

fn good() -> Style {
    AnsiColor::Green.on_default()
}

fn bad() -> Style {
    AnsiColor::Red.on_default()
}

#[cfg(test)]
mod tests {
    use tollgate::{Ask, LimitSet, Limiter, ManualClock, MemoryStore};

    use super::*;

    /// The lines without colours, and the JSON.
    fn shown(decision: &Decision<'_>, peek: bool) -> (String, serde_json::Value) {
        let plain = anstream::adapter::strip_str(&lines(decision, peek)).to_string();
        let json = serde_json::to_value(decision).unwrap();
        (plain, json)
    }

    fn limiter(limits: &str) -> Limiter {
        let clock = ManualClock::at_micros(1_000_000_000_000_000);
        let store = MemoryStore::builder().clock(clock).build();
        Limiter::new(limits.parse().unwrap(), store)
    }

    #[test]
    fn one_limit_is_one_line() {
        let limiter = limiter("3/60s via sliding_log");
        let (text, json) = shown(&limiter.check("zoo").now().unwrap(), false);
        assert_eq!(text, "allow zoo: 2 of 3 left, full again in 1m (3/m via sliding_log)\n");
        assert_eq!(json["outcome"], "allowed");
        assert_eq!(json["retry_after"], serde_json::Value::Null);
        assert_eq!(json["reset_after"]["seconds"], 60);
        assert_eq!(json["at_us"], 1_000_000_000_000_000_u64);
        let decision = limiter.check(Ask::new("zoo").cost(3).peek()).now().unwrap();
        let (text, json) = shown(&decision, true);
        assert_eq!(text, "would deny zoo: 2 of 3 left, retry in 1m (3/m via sliding_log)\n");
        assert_eq!((exit_code(&decision), &json["outcome"]), (1, &"denied".into()));
        let decision = limiter.check(Ask::new("zoo").cost(4)).now().unwrap();
        let (text, json) = shown(&decision, false);
        assert_eq!(text, "deny zoo: never, the cost is above 3 (3/m via sliding_log)\n");
        assert_eq!((exit_code(&decision), &json["outcome"]), (3, &"never".into()));
        assert_eq!(json["retry_after"], serde_json::Value::Null);
    }

    #[test]
    fn several_limits_say_which_refused() {
        let limiter = limiter("1/h");
        let shared: LimitSet = "5/10s".parse().unwrap();
        let own: LimitSet = "1/10s".parse().unwrap();
        let ask = || Ask::from([("resource:12", &shared), ("consumer:1", &own)]);
        assert_eq!(exit_code(&limiter.check(ask()).now().unwrap()), 0);
        let (text, json) = shown(&limiter.check(ask()).now().unwrap(), false);
        let expected = "\
deny consumer:1: 0 of 1 left, retry in 10s (1/10s via sliding_log)
  ok    resource:12  5/10s via sliding_log  4 of 5 left, full again in 10s
  deny  consumer:1   1/10s via sliding_log  0 of 1 left, retry in 10s
";
        assert_eq!(text, expected);
        assert_eq!(json["limits"][0]["admits"], true);
        assert_eq!(json["limits"][1]["admits"], false);
        assert_eq!(json["limits"][1]["subject"], "consumer:1");
        assert_eq!(json["limits"][1]["limit"], "1/10s via sliding_log");
        assert_eq!(json["binding"], 1);
    }

    #[test]
    fn changed_numbers_are_told() {
        let limiter = limiter("1/h");
        let (old, new): (LimitSet, LimitSet) =
            ("api: 5/10s".parse().unwrap(), "api: 9/10s".parse().unwrap());
        let other: LimitSet = "api: 9/10s via gcra".parse().unwrap();
        for (limits, says) in [(&old, ""), (&new, "carried over"), (&other, "started fresh")] {
            let decision = limiter.check(Ask::new("bob").under(limits)).now().unwrap();
            let (text, _) = shown(&decision, false);
            assert!(text.contains(says), "{text}");
            assert_eq!(text.lines().count(), 1 + usize::from(!says.is_empty()), "{text}");
        }
    }

    #[test]
    fn both_anchors_of_a_window_are_warned_of() {
        let limiter = limiter("1/h");
        let epoch: LimitSet = "5/10s via fixed_window".parse().unwrap();
        let first: LimitSet = "5/10s anchor first-hit via fixed_window".parse().unwrap();
        for (limits, is_warned) in
            [(&first, false), (&first, false), (&epoch, false), (&first, true), (&first, false)]
        {
            let decision = limiter.check(Ask::new("bob").under(limits)).now().unwrap();
            let (text, _) = shown(&decision, false);
            assert_eq!(text.contains("both anchors in turn"), is_warned, "{text}");
        }
    }
}
