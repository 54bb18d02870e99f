//! Acts of an administrator in the console: rulings, dead jobs, a broken file of policies.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::Place;
use crate::browser::{Browser, DESK};
use crate::console::{replace, until_decided};
use crate::redis;
use crate::serving::Serving;

const POLICY: &str = "version = 1\n[[policies]]\nname = \"login\"\non_failure = \"allow\"\n\
    deadline = \"30s\"\n[[policies.limits]]\nsubject = \"ip\"\nlimit = \"hourly: 3/h\"\n";

/// Opens the console of a service without a token.
fn open(browser: &mut Browser, serving: &Serving) {
    browser.open(&format!("http://{}/console", serving.admin_address()));
    browser.run("await until(() => document.documentElement.dataset.updates)");
}

/// Fills the fields of a form, and confirms the dialog that comes.
fn fill(browser: &mut Browser, fields: &[(&str, &str)]) {
    for (id, text) in fields {
        browser.run(&format!(
            "get(\"{id}\").value = {}; get(\"{id}\").dispatchEvent(new Event(\"change\"))",
            json!(text)
        ));
    }
}

fn confirm(browser: &mut Browser, says: &str) {
    let words = browser.run(
        "await until(() => get(\"sure\").open); const words = get(\"sure-words\").textContent; \
         get(\"sure-yes\").click(); await until(() => !get(\"sure\").open); return words",
    );
    assert!(words.as_str().unwrap().contains(says), "{words}");
}

/// A service with the policy in a file, and its console.
fn shown(browser: &mut Browser, place: &Place) -> (Serving, PathBuf) {
    let file = place.path().join("p.toml");
    std::fs::write(&file, POLICY).unwrap();
    let serving = Serving::start(place, &["--config", file.to_str().unwrap()]);
    open(browser, &serving);
    (serving, file)
}

fn check(serving: &Serving, ip: &str) -> Value {
    let body = format!(r#"{{"policy": "login", "fields": {{"ip": "{ip}"}}}}"#);
    serving.client().check(&body).unwrap()
}

#[test]
fn a_ban_and_a_limit_are_set_seen_and_lifted() {
    let Some(mut browser) = Browser::start(DESK) else { return };
    let place = Place::new();
    let (serving, _) = shown(&mut browser, &place);
    let hostile = "=cmd|' /C calc'!A0 <img src=x onerror=alert(1)> \u{202e}";
    // A mistake stands at the form, and rules nothing.
    fill(&mut browser, &[("when", "192.0.2.7"), ("for", "1h")]);
    browser.run("get(\"ruling-form\").requestSubmit()");
    let fault = browser.run("return get(\"ruling-fault\").textContent");
    assert_eq!(fault, "192.0.2.7 is not a field: write NAME=VALUE, e.g. ip=192.0.2.7.");
    fill(&mut browser, &[("when", "ip=192.0.2.7"), ("for", "for ever"), ("reason", hostile)]);
    browser.run("get(\"ruling-form\").requestSubmit()");
    confirm(&mut browser, "Requests with ip=192.0.2.7 are denied everywhere for for ever.");
    browser.run("await until(() => get(\"ruling-fault\").textContent.includes(\"30d\"))");
    assert_eq!(check(&serving, "192.0.2.7")["outcome"], "allowed");

    fill(&mut browser, &[("for", "1h")]);
    browser.run("get(\"ruling-form\").requestSubmit()");
    confirm(&mut browser, "are denied everywhere for 1h.");
    let found = browser.run(
        "await until(() => rows(\"rulings\").length === 1); \
         return [rows(\"rulings\")[0], document.querySelector(\"#rulings img\"), \
         get(\"ruling-done\").textContent, get(\"ruling-fault\").textContent]",
    );
    let row = &found[0];
    assert_eq!((&row[0], &row[1]), (&json!("ip=192.0.2.7"), &json!("Ban")), "{found:#}");
    let left = row[2].as_str().unwrap();
    assert!(left == "1h" || left.contains("m "), "{row}");
    assert_eq!((row[3].as_str().unwrap().trim(), &found[1]), (hostile.trim(), &Value::Null));
    assert_eq!((&found[2], &found[3]), (&json!("Ban for 1h: ip=192.0.2.7."), &json!("")));
    assert_eq!(check(&serving, "192.0.2.7")["outcome"], "banned");

    // From a subject to a limit of its own, under the policy.
    fill(&mut browser, &[("subject", "ip:192.0.2.8"), ("policy", "login")]);
    browser.run(
        "get(\"subject-form\").requestSubmit(); \
         await until(() => isShown(get(\"subject-answer\"))); get(\"rule-on\").click()",
    );
    let begun = browser.run("return [get(\"when\").value, document.activeElement.id]");
    assert_eq!(begun, json!(["ip=192.0.2.8", "when"]));
    fill(
        &mut browser,
        &[
            ("effect", "set"),
            ("ruled-policy", "login"),
            ("set-limits", "hourly=1/h"),
            ("reason", ""),
        ],
    );
    browser.run("get(\"ruling-form\").requestSubmit()");
    confirm(&mut browser, "Requests with ip=192.0.2.8 have these limits in login for 1h.");
    browser.run("await until(() => rows(\"rulings\").length === 2)");
    let set = browser.run("return rows(\"rulings\").find(row => row[0] === \"ip=192.0.2.8\")[1]");
    assert_eq!(set, "Set limits in login: hourly: 1/h via sliding_log");
    let outcomes = [(); 2].map(|()| check(&serving, "192.0.2.8")["outcome"].clone());
    assert_eq!(outcomes, ["allowed", "denied"]);

    // Both are lifted, the ban after a no.
    browser.run(
        "document.querySelector(\"[aria-label='Lift ip=192.0.2.7']\").click(); \
         await until(() => get(\"sure\").open); get(\"sure-no\").click(); \
         await until(() => !get(\"sure\").open)",
    );
    assert_eq!(check(&serving, "192.0.2.7")["outcome"], "banned");
    for ip in ["192.0.2.7", "192.0.2.8"] {
        browser.run(&format!("document.querySelector(\"[aria-label='Lift ip={ip}']\").click()"));
        confirm(&mut browser, &format!("of requests with ip={ip} ends now."));
        browser.run(&format!(
            "await until(() => get(\"ruling-done\").textContent === \"ip={ip}: lifted.\")"
        ));
    }
    browser.run("await until(() => isShown(get(\"no-rulings\")))");
    assert_eq!(check(&serving, "192.0.2.7")["outcome"], "allowed");
    // The service refused one ruling, and the browser tells of that itself.
    let faults = browser.faults();
    assert!(faults.len() == 1 && faults[0].contains("400"), "{faults:?}");
    let log = serving.end();
    let acts = ["ban", "set", "lift"].map(|act| log.contains(&format!("act=\"{act}\"")));
    assert_eq!(acts, [true; 3], "{log}");
}

#[test]
fn a_broken_file_is_readable_trouble_until_it_is_mended() {
    let Some(mut browser) = Browser::start(DESK) else { return };
    let place = Place::new();
    let (serving, file) = shown(&mut browser, &place);
    replace(&file, &POLICY.replace("3/h", "3/fortnight"));
    browser.run("get(\"reload\").click()");
    confirm(&mut browser, "A broken file changes nothing.");
    let found = browser.run(
        "await until(() => get(\"reload-fault\").textContent && document.title[0] === \"⚠\"); \
         const style = getComputedStyle(get(\"reload-fault\")); \
         return [get(\"reload-fault\").textContent, style.whiteSpaceCollapse, document.title, \
         get(\"troubles\").textContent, style.fontFamily]",
    );
    let words = found[0].as_str().unwrap();
    assert!(words.lines().count() > 2 && words.contains("fortnight"), "{words}");
    assert_eq!(found[1], "preserve");
    assert!(found[4].as_str().unwrap().contains("Mono"), "{found}");
    assert_eq!(found[2], "⚠ policy file broken – Tollgate console");
    let trouble = found[3].as_str().unwrap();
    assert!(trouble.starts_with("The policy file is broken since "), "{trouble}");
    // The same policies as before: nothing changed, and no fault is left.
    replace(&file, POLICY);
    browser.run("await until(() => document.title === \"Tollgate console\")");
    let found = browser.run(
        "return [get(\"reload-fault\").textContent, get(\"troubles\").textContent, \
         texts(\"#reloads h3\")[0]]",
    );
    assert_eq!((&found[0], &found[1]), (&json!(""), &json!("")));
    assert!(found[2].as_str().unwrap().contains(": the file is whole again, and "), "{found}");
    drop(serving);
}

#[test]
fn a_store_that_is_away_is_in_the_title_and_no_old_wait_stays() {
    let Some(mut browser) = Browser::start(DESK) else { return };
    let place = Place::new();
    let Some((store, url)) = redis::start(place.path(), &[]) else { return };
    let file = place.path().join("p.toml");
    std::fs::write(&file, POLICY.replace("30s", "200ms")).unwrap();
    let serving = Serving::start(&place, &["--config", file.to_str().unwrap(), "--store", &url]);
    for _ in 0..5 {
        check(&serving, "192.0.2.7");
    }
    open(&mut browser, &serving);
    until_decided(&mut browser, 5);
    fill(&mut browser, &[("subject", "ip:192.0.2.7"), ("policy", "login")]);
    let words = browser.run(
        "get(\"subject-form\").requestSubmit(); \
         await until(() => isShown(get(\"subject-answer\"))); \
         return [get(\"words\").textContent, texts(\"#store dt\")]",
    );
    assert!(words[0].as_str().unwrap().contains("retry in"), "{words}");
    assert!(words[1].as_array().unwrap().contains(&json!("Answered in")), "{words}");
    // It is there and does not answer.
    store.freeze();
    for _ in 0..3 {
        assert_eq!(check(&serving, "192.0.2.7")["outcome"], "failed_open");
    }
    browser.run("get(\"reset\").click()");
    confirm(&mut browser, "is forgotten");
    let found = browser.run(
        "await until(() => get(\"subject-fault\").textContent); \
         await until(() => document.title === \"⚠ store does not count – Tollgate console\"); \
         return [isShown(get(\"subject-answer\")), texts(\"#store dt\"), texts(\"#tiles dd\")[5], \
         get(\"troubles\").textContent]",
    );
    assert_eq!((&found[0], &found[2]), (&json!(false), &json!("3")), "{found:#}");
    assert!(!found[1].as_array().unwrap().contains(&json!("Answered in")), "{found:#}");
    let troubles: Vec<_> = found[3].as_str().unwrap().lines().collect();
    assert!(troubles[0].starts_with("The store cannot count: "), "{troubles:?}");
    let without = "Decided without the store in the last 60 s: 3 by a failure rule.";
    assert_eq!(troubles.last(), Some(&without));
    store.thaw();
    drop(serving);
}

#[test]
fn dead_jobs_are_offered_again_and_deleted() {
    let Some(mut browser) = Browser::start(DESK) else { return };
    let place = Place::new();
    let store = place.store();
    let push = |text: &str, more: &[&str]| {
        let args = ["queue", "push", "mail", text, "--store", &store];
        assert_eq!(place.run(&[&args[..], more].concat()).0, 0);
    };
    push("to=<b>ann</b>\u{1b}[2J", &["--bound", "9"]);
    push("to=bob", &[]);
    push("to=cem", &[]);
    let work =
        ["queue", "work", "mail", "--store", &store, "--exec", "exit 3", "--deliveries", "1"];
    let rate = ["--rate", "50/s", "--until-empty"];
    assert_eq!(place.run(&[&work[..], &rate].concat()).0, 0);
    let serving = Serving::start(&place, &["--store", &store, "--queue", "mail"]);
    open(&mut browser, &serving);
    browser.run("await until(() => document.querySelector(\"#queues button\"))");
    let row = browser.run("return rows(\"queues\")[0]");
    assert_eq!((&row[1], &row[3]), (&json!("0 of 9"), &json!("3")), "{row}");
    assert!(row[6].as_str().unwrap().starts_with("50/s"), "{row}");
    browser.run("document.querySelector(\"#queues button\").click()");
    let found = browser.run(
        "await until(() => rows(\"dead\").length === 3); \
         return [rows(\"dead\")[0], document.querySelector(\"#dead b\")]",
    );
    assert_eq!((&found[0][1], &found[0][2]), (&json!("1"), &json!("exited with 3")), "{found:#}");
    assert_eq!((&found[0][3], &found[1]), (&json!("to=<b>ann</b>\u{1b}[2J"), &Value::Null));
    // One is offered again, one is deleted, and then all that are left.
    browser.run("document.querySelectorAll(\"#dead tr\")[1].querySelector(\"button\").click()");
    confirm(&mut browser, "is offered again, at the end of the queue.");
    browser.run("await until(() => rows(\"dead\").length === 2)");
    let done = browser.run("return get(\"queue-done\").textContent");
    assert_eq!(done, "1 offered again, 2 dead.");
    browser.run("await until(() => rows(\"queues\")[0][1] === \"1 of 9\")");
    browser
        .run("document.querySelectorAll(\"#dead tr\")[1].querySelectorAll(\"button\")[1].click()");
    confirm(&mut browser, "is deleted for good.");
    browser.run("await until(() => rows(\"dead\").length === 1)");
    browser.run("get(\"dead-forget\").click()");
    confirm(&mut browser, "All dead jobs of mail are deleted for good.");
    let found = browser.run(
        "await until(() => isShown(get(\"no-dead\"))); \
         await until(() => rows(\"queues\")[0][3] === \"0\"); \
         return [get(\"queue-done\").textContent, isShown(get(\"dead-forget\"))]",
    );
    assert_eq!(found, json!(["1 deleted, 0 dead.", false]));
    assert_eq!(browser.faults(), Vec::<String>::new());
    assert!(serving.end().contains("about=\"mail: forget all\""));
}
