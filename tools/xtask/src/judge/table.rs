//! The table of judgements.

use serde_json::Value;

use super::Row;

/// A row for each limiter.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| limiter | its documentation promises | held to | the most in one period | seen | ours, for \
         the same |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for Row { limiter, theirs, ours } in rows {
        let (name, version) = (limiter.name(), &limiter.version);
        let promises = format!("[{}]({})", limiter.promises, limiter.source);
        let held = format!("`{}`", limiter.limit);
        let ours = format!("{}; {}", most(ours), seen(ours));
        let cells = [format!("{name} {version}"), promises, held, most(theirs), seen(theirs), ours];
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

/// The most that was admitted within one period, beside the limit.
fn most(judgement: &Value) -> String {
    let rows = judgement["most_admitted"].as_array().into_iter().flatten();
    let shown: Vec<String> =
        rows.map(|row| format!("{} of {}", row["admitted"], row["units"])).collect();
    shown.join(", ")
}

/// Each broken promise with its reason, or that none is.
fn seen(judgement: &Value) -> String {
    let verdicts = || judgement["verdicts"].as_array().into_iter().flatten();
    let broken: Vec<String> = verdicts()
        .filter(|one| one["verdict"] == "broken")
        .map(|one| {
            let text = |key: &str| one[key].as_str().unwrap_or_default().replace('|', "\\|");
            format!("**{}**: {}", text("promise"), text("reason"))
        })
        .collect();
    if broken.is_empty() {
        let checked: u64 = verdicts().filter_map(|one| one["checked"].as_u64()).sum();
        return format!("kept, in {checked} places");
    }
    broken.join("<br>")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_broken_promise_has_its_reason_and_a_kept_one_how_much_was_checked() {
        let most = json!([{ "admitted": 19, "units": 10 }]);
        let kept = json!({ "verdict": "kept", "promise": "bound", "checked": 40 });
        let judgement = json!({ "most_admitted": most, "verdicts": [kept] });
        assert_eq!(
            (&*super::most(&judgement), &*seen(&judgement)),
            ("19 of 10", "kept, in 40 places")
        );
        let broken = json!({ "verdict": "broken", "promise": "waits", "reason": "2 s | too long" });
        let judgement = json!({ "verdicts": [kept, broken] });
        assert_eq!(seen(&judgement), "**waits**: 2 s \\| too long");
    }
}
