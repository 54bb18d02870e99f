//! The console with many policies: the one that denies is found, and its figures over time.

use serde_json::json;

use crate::Place;
use crate::browser::{Browser, DESK};
use crate::console::until_decided;
use crate::serving::Serving;

/// Fifty policies of which two apply to a request of `/47`, and a service that has denied by one.
fn serve(place: &Place) -> Serving {
    let policy = |number: usize| {
        let when = if number == 3 { "" } else { "when = { path = \"/NN\" }\n" };
        let text = format!(
            "[[policies]]\nname = \"pNN\"\non_failure = \"deny\"\ndeadline = \"30s\"\n{when}\
             limits = [{{ subject = \"ip\", limit = \"2/h\" }}]\n"
        );
        text.replace("NN", &format!("{number:02}"))
    };
    let file = place.path().join("p.toml");
    let policies: String = (0..50).map(policy).collect();
    std::fs::write(&file, format!("version = 1\nmatch = \"all\"\n{policies}")).unwrap();
    let serving = Serving::start(place, &["--config", file.to_str().unwrap()]);
    let mut client = serving.client();
    for number in 0..50 {
        for _ in 0..if number == 47 { 9 } else { 1 } {
            let ask = r#"{"policy": "pNN", "fields": {"ip": "192.0.2.7"}}"#;
            client.check(&ask.replace("NN", &format!("{number:02}"))).unwrap();
        }
    }
    serving
}

#[test]
fn the_denying_one_of_fifty_policies_is_the_first_row_and_the_rest_is_found() {
    let Some(mut browser) = Browser::start(DESK) else { return };
    let place = Place::new();
    let serving = serve(&place);
    browser.open(&format!("http://{}/console", serving.admin_address()));
    browser.run("await until(() => rows(\"limits\").length && rows(\"limits\")[0][4] === \"7\")");
    let found = browser.run(
        "const all = get(\"limits-all\"); \
         return [rows(\"limits\").length, rows(\"limits\")[0], all.textContent, \
         document.title, get(\"troubles\").textContent, \
         texts(\"th[aria-sort=descending]\")]",
    );
    assert_eq!((&found[0], &found[2]), (&json!(10), &json!("All 50")));
    assert_eq!(found[1][0], "p47|2/h via sliding_log");
    assert_eq!((&found[3], &found[4]), (&json!("Tollgate console"), &json!("")), "no trouble");
    assert_eq!(found[5], json!(["Denieda second"]));
    browser.picture("console-fifty", false);
    // All, sorted by name, and filtered, by keyboard.
    browser.run("get(\"limits-all\").focus()");
    browser.press("Enter");
    browser.run("document.querySelector(\"[data-sort=name]\").focus()");
    browser.press("Enter");
    let found = browser.run(
        "return [rows(\"limits\").length, rows(\"limits\")[0][0], get(\"limits-all\").textContent, \
         document.querySelector(\"th[aria-sort=ascending]\").textContent]",
    );
    let name = "p00|2/h via sliding_log";
    assert_eq!(found, json!([50, name, "First 10", "Policy and limit"]));
    browser.run("get(\"filter\").focus()");
    browser.write("P4");
    let found = browser.run("return [rows(\"limits\").length, get(\"limits-all\").hidden]");
    assert_eq!(found, json!([10, true]));
    browser.write("<b>");
    let found = browser.run("return [rows(\"limits\"), get(\"no-limits\").textContent]");
    assert_eq!(found, json!([[], "No limit of 50 has this in its name."]));
    assert_eq!(browser.faults(), Vec::<String>::new());
    drop(serving);
}

#[test]
fn a_chart_has_its_figures_as_tooltips_and_as_a_table_over_any_time() {
    let Some(mut browser) = Browser::start(DESK) else { return };
    let place = Place::new();
    let serving = serve(&place);
    browser.open(&format!("http://{}/console", serving.admin_address()));
    browser.run("get(\"limits-all\").click()");
    until_decided(&mut browser, 58);
    browser
        .run("get(\"chart-table\").open = true; await until(() => rows(\"bars\").length === 60)");
    // Of the tooltips and of the table: all, and then the limit that denies alone.
    let sums = "const sums = () => { const sum = (texts, at) => texts.reduce((all, text) => \
         all + Number(text.match(/\\d+/g).at(at)), 0); \
         const tips = texts(\"#hour title\"); const bars = rows(\"bars\"); \
         return [sum(tips, -2), sum(tips, -1), sum(bars.map(it => it[1]), 0), \
         sum(bars.map(it => it[2]), 0), bars.length]; };";
    assert_eq!(browser.run(&format!("{sums} return sums()")), json!([51, 7, 51, 7, 60]));
    let tip = browser.run("return texts(\"#hour title\").at(-1)");
    let words = tip.as_str().unwrap();
    assert!(words.contains(" to ") && words.contains(" admitted, "), "{words}");
    browser.run("document.querySelector(\"#limits .link\").focus()");
    browser.press("Enter");
    let found = browser.run(&format!(
        "{sums} return [sums(), get(\"chart-of\").textContent, \
         document.querySelector(\".hour\").ariaLabel, texts(\"[aria-pressed=true].link\")]"
    ));
    assert_eq!(found[0], json!([2, 7, 2, 7, 60]));
    assert_eq!(found[1], "Only p47, 2/h via sliding_log.");
    let label = found[2].as_str().unwrap();
    assert!(label.contains("2 requests were admitted and 7 denied by p47, 2/h"), "{label}");
    assert_eq!(found[3], json!(["p47"]));
    // The same over ten minutes, a day and a month.
    for (range, bars, last) in
        [("10m", 60, "last 10 minutes"), ("24h", 60, "last 24 hours"), ("30d", 60, "last 30 days")]
    {
        browser.run(&format!(
            "get(\"range\").value = \"{range}\"; get(\"range\").dispatchEvent(new Event(\"change\"))"
        ));
        let found = browser.run(&format!(
            "{sums} await until(() => texts(\"#limits-head .range\")[0] === \"{last}\"); \
             await until(() => sums()[1] === 7 && rows(\"limits\").length === 50); \
             return [sums(), rows(\"limits\")[0].slice(3, 5), texts(\"#limits-head .range\")]"
        ));
        assert_eq!(found[0], json!([2, 7, 2, 7, bars]), "{range}");
        assert_eq!((&found[1], &found[2]), (&json!(["2", "7"]), &json!([last, last])), "{range}");
    }
    browser.run("get(\"chart-all\").click()");
    assert_eq!(browser.run(&format!("{sums} return sums()"))[1], 7);
    assert_eq!(browser.faults(), Vec::<String>::new());
    drop(serving);
}

#[test]
fn a_request_is_explained_by_the_policies_that_apply_first() {
    let Some(mut browser) = Browser::start(DESK) else { return };
    let place = Place::new();
    let serving = serve(&place);
    browser.open(&format!("http://{}/console", serving.admin_address()));
    browser.run("await until(() => rows(\"limits\").length); get(\"fields\").focus()");
    browser.write("ip=192.0.2.7 path=/47 header.user-agent=\"<b>two words</b>\"");
    browser.press("Enter");
    let found = browser.run(
        "await until(() => rows(\"standings\").length); \
         return [rows(\"standings\"), get(\"explain-words\").textContent, rows(\"explained\"), \
         get(\"standings-all\").textContent]",
    );
    let standings = found[0].as_array().unwrap();
    let begin: Vec<_> = standings.iter().take(3).map(|row| (&row[0], &row[1])).collect();
    let [yes, no] = [json!("yes"), json!("no")];
    let names = ["p03", "p47", "p00"].map(|name| json!(name));
    assert_eq!(begin, [(&names[0], &yes), (&names[1], &yes), (&names[2], &no)], "{found:#}");
    assert_eq!((standings.len(), &found[3]), (10, &json!("All 50")));
    assert_eq!(standings[1][3], "ip: 2/h via sliding_log");
    let words = found[1].as_str().unwrap();
    assert!(words.starts_with("It would be denied by p47, to retry in "), "{words}");
    let limits = found[2].as_array().unwrap();
    assert!(limits.iter().any(|row| row[1] == "0 of 2"), "{found:#}");
    browser.run("get(\"fields\").value = \"ip\"; get(\"explain-form\").requestSubmit()");
    let fault =
        browser.run("return [get(\"explain-fault\").textContent, isShown(get(\"standings\"))]");
    let says = "ip is not a field: write NAME=VALUE, e.g. ip=192.0.2.7.";
    assert_eq!(fault, json!([says, false]));
    assert_eq!(browser.faults(), Vec::<String>::new());
    drop(serving);
}
