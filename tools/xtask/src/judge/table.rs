//! The table of judgements.

use serde_json::Value;

use super::limiter::Limiter;
use super::{Judged, Row};

/// A row for each limiter.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| limiter | its documentation promises | held to | the most in one period | seen | ours, for \
         the same |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for Row { limiter, seen } in rows {
        let [most, seen, ours] = match seen {
            Err(why) => [String::new(), format!("**not judged**: {why}"), String::new()],
            Ok(Judged { theirs, ours }) => {
                let ours = format!("{}; {}", most(ours), self::seen(ours));
                [most(theirs), self::seen(theirs), ours]
            }
        };
        text.push_str(&format!("{} | {most} | {seen} | {ours} |\n", beginning(limiter)));
    }
    text
}

/// The part of a row that the list of limiters has.
fn beginning(limiter: &Limiter) -> String {
    let Limiter { promises, source, .. } = limiter;
    format!("| {} | [{promises}]({source}) | {}", limiter.title(), held(limiter))
}

/// The promise as a limit, and how it was judged where that differs.
fn held(limiter: &Limiter) -> String {
    let wait = limiter.wait.as_deref();
    let wait = wait.map(|wait| format!("waits may be {wait} too long"));
    let parts = [
        Some(format!("`{}`", limiter.limit)),
        limiter.is_bound.then(|| "its bound".to_owned()),
        limiter.is_single.then(|| "one unit at a time".to_owned()),
        wait,
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
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
        // Others are decided by hardly any driver, such as a lost reply under a request id.
        let open: Vec<&str> = verdicts()
            .filter(|one| one["verdict"] == "not decided")
            .filter_map(|one| one["promise"].as_str())
            .filter(|promise| ["waits", "remaining"].contains(promise))
            .collect();
        let open = match &open[..] {
            [] => String::new(),
            open => format!("; {} not stated", open.join(" and ")),
        };
        return format!("kept, in {checked} places{open}");
    }
    broken.join("<br>")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::judge::{PAGE, limiter};
    use crate::tree::Tree;

    #[test]
    fn the_page_has_a_row_for_each_limiter() {
        let tree = Tree::find().unwrap();
        let page = std::fs::read_to_string(tree.root.join(PAGE)).unwrap();
        for limiter in limiter::read(&tree).unwrap() {
            let row = beginning(&limiter);
            assert!(page.contains(&row), "cargo xtask judge --write: {PAGE} lacks `{row}`");
        }
    }

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
