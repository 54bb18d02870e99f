//! The console of a running service in a browser: its figures, corrections by keyboard, and pages
//! of other origins. Without a browser the tests skip themselves, with a message.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::Place;
use crate::browser::{Browser, DESK, Screen, axe};
use crate::serving::{Client, Serving};

pub(crate) const TOKEN: &str = "0123456789abcdef";

/// With deadlines that a busy machine keeps.
const POLICIES: &str = r#"
version = 1
match = "all"
[[policies]]
name = "login"
on_failure = "deny"
deadline = "30s"
when = { path = "/login" }
limits = [{ subject = "ip", limit = "3/h" }]
[[policies]]
name = "pages"
on_failure = "allow"
deadline = "30s"
limits = [{ subject = "ip", limit = "100/h via gcra" }]
[[policies]]
name = "stricter"
on_failure = "allow"
deadline = "30s"
shadow = true
limits = [{ subject = "ip", limit = "2/h" }]
"#;

/// A service with a token, a queue and a file of policies.
fn serve(place: &Place) -> (Serving, PathBuf) {
    let path = place.path().join("p.toml");
    std::fs::write(&path, POLICIES).unwrap();
    let file = place.path().join("counts.db");
    let store = format!("sqlite://{}?deadline=30s", file.display());
    // Beside an instance that is gone.
    let args = ["--peers", "127.0.0.1:9", "--queue", "mail=10", "--store", &store];
    let args = [&["--config", path.to_str().unwrap()], &args[..]].concat();
    let mut command = Serving::command(place, &args);
    command.env("TOLLGATE_ADMIN_TOKEN", TOKEN);
    (Serving::start_command(command), path)
}

fn ask(client: &mut Client, policy: &str, ip: &str, times: u32) {
    let body = format!(r#"{{"policy": "{policy}", "fields": {{"ip": "{ip}"}}}}"#);
    for _ in 0..times {
        client.check(&body).unwrap();
    }
}

/// Opens the console, and signs in with this token.
pub(crate) fn sign_in(browser: &mut Browser, serving: &Serving, token: &str) {
    browser.open(&format!("http://{}/console", serving.admin_address()));
    browser.run("await until(() => document.activeElement === get(\"token\"))");
    browser.write(token);
    browser.press("Enter");
}

/// Waits until the figures have this many decisions.
pub(crate) fn until_decided(browser: &mut Browser, decisions: u32) {
    browser.run(&format!(
        "await until(() => rows(\"limits\").reduce((all, row) => \
         all + Number(row[3]) + Number(row[4]), 0) === {decisions})"
    ));
}

/// Replaces a file in one step: a write in place is first an empty file, which is a separate broken
/// reload if the service looks just then.
pub(crate) fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(&beside, path).unwrap();
}

#[test]
fn the_console_shows_what_was_asked() {
    let Some(mut browser) = Browser::start(DESK) else { return };
    let place = Place::new();
    let (serving, path) = serve(&place);
    let mut client = serving.client();
    ask(&mut client, "login", "192.0.2.1", 5);
    ask(&mut client, "pages", "192.0.2.2", 4);
    ask(&mut client, "stricter", "192.0.2.2", 6);
    client.check(r#"{"subject": "user:ann", "limit": "1/h", "deadline": "30s"}"#).unwrap();
    sign_in(&mut browser, &serving, "fedcba9876543210");
    let fault = browser.run(
        "await until(() => get(\"entry-fault\").textContent); \
         return [get(\"entry-fault\").textContent, isShown(get(\"figures\")), rows(\"limits\")]",
    );
    assert_eq!(fault, json!(["The service does not accept this token.", false, []]));
    // The browser tells of the refused request itself.
    let faults = browser.faults();
    assert!(faults.len() == 1 && faults[0].contains("401"), "{faults:?}");
    browser.write(TOKEN);
    browser.press("Enter");
    until_decided(&mut browser, 16);
    let found = browser.run(
        "return { limits: rows(\"limits\"), shadows: rows(\"shadows\"), asked: rows(\"asked\"), \
         denied: rows(\"denied\"), tiles: texts(\"#tiles dd\"), queues: rows(\"queues\"), \
         chart: document.querySelector(\".hour\").ariaLabel, kept: Object.keys(localStorage), \
         cookie: document.cookie, durations: rows(\"durations\")[0].slice(0, 2) }",
    );
    let row = |found: &Value, at: usize| -> Vec<String> {
        let cells = found[at].as_array().unwrap().iter();
        cells.map(|cell| cell.as_str().unwrap().to_owned()).collect()
    };
    let limits = &found["limits"];
    assert_eq!(row(limits, 0)[..1], ["login|3/h via sliding_log"]);
    assert_eq!(row(limits, 0)[3..5], ["3", "2"], "{found:#}");
    assert_eq!(row(limits, 1)[0], "pages|100/h burst 100 via gcra");
    assert_eq!(row(limits, 1)[3..5], ["4", "0"]);
    assert_eq!(row(limits, 2)[0], "no policy|limits given in requests");
    assert_eq!(row(limits, 2)[3..5], ["1", "0"]);
    assert_eq!(row(limits, 3)[3..5], ["6", "0"], "those that a shadow alone was about");
    assert_eq!(
        row(&found["shadows"], 0)[..4],
        ["stricter|2/h via sliding_log", "2", "4", "66.7 %"]
    );
    let denied = row(&found["denied"], 0);
    assert!(denied[0].ends_with("|login") && !denied[0].contains("192"), "{denied:?}");
    assert_eq!(denied[1..3], ["2", "100 %"]);
    assert_eq!(found["asked"].as_array().unwrap().len(), 3, "{found:#}");
    assert_eq!(found["tiles"][2], "14");
    assert_eq!(found["tiles"][3], "2 (12.5 %)");
    assert_eq!(found["tiles"][4], "counts");
    let queue = row(&found["queues"], 0);
    assert_eq!(queue[..5], ["mail", "0 of 10", "0", "0", "0"]);
    assert_eq!(queue[6..], ["none", "-"]);
    assert_eq!(found["durations"], json!(["the store", "10"]));
    let chart = found["chart"].as_str().unwrap();
    assert!(chart.contains("14 requests were admitted and 2 denied"), "{chart}");
    assert_eq!((&found["kept"], &found["cookie"]), (&json!([]), &json!("")));

    // More requests, a reload, and a broken file are seen without a new visit.
    ask(&mut client, "login", "192.0.2.1", 4);
    until_decided(&mut browser, 20);
    replace(&path, &POLICIES.replace("3/h", "9/h"));
    browser.run("await until(() => texts(\"#reloads h4\").length === 1)");
    replace(&path, "version");
    browser.run("await until(() => texts(\"#reloads li\").length === 2)");
    let lines = browser.run("return texts(\"#reloads .change span\")");
    let expected = ["- limit of ip: 3/h via sliding_log\n", "+ limit of ip: 9/h via sliding_log\n"];
    assert_eq!(lines, json!(expected));
    let counts = browser.run("return get(\"reload-counts\").textContent");
    assert_eq!(counts, "1 taken, 0 unchanged, 1 broken.");
    assert_eq!(browser.faults(), Vec::<String>::new());

    // A service that is gone is marked as gone, and the figures stay as old ones.
    drop(serving);
    let state = browser.run(
        "await until(() => document.body.classList.contains(\"stale\")); \
         return [get(\"state\").textContent, rows(\"limits\").length > 0, document.title]",
    );
    let words = "The service does not answer. The figures are old.";
    assert_eq!(state, json!([words, true, "⚠ no answer – Tollgate console"]));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a walk through the whole page")]
fn a_count_is_looked_up_and_reset_by_keyboard_after_a_confirmation() {
    let Some(mut browser) = Browser::start(DESK) else { return };
    let place = Place::new();
    let (serving, _) = serve(&place);
    let mut client = serving.client();
    ask(&mut client, "login", "192.0.2.1", 5);
    sign_in(&mut browser, &serving, TOKEN);
    until_decided(&mut browser, 5);
    // Every control is reached with the key Tab, in the order of the page.
    let wanted = browser.run(
        "get(\"pause\").focus(); \
         return [...document.querySelectorAll(\"button, input, select, summary\")].filter(isShown).map(nameOf)",
    );
    let mut reached = Vec::new();
    for _ in 0..wanted.as_array().unwrap().len() {
        reached.push(browser.run("return nameOf(document.activeElement)"));
        browser.press("Tab");
    }
    assert_eq!(json!(reached), wanted);

    // The hash of who was denied most, looked up by its button.
    browser.run("document.querySelector(\"#denied button\").focus()");
    browser.press("Enter");
    let found = browser.run(
        "await until(() => isShown(get(\"subject-answer\"))); \
         return [get(\"subject\").value, get(\"policy\").value, get(\"words\").textContent, \
         rows(\"reports\")[0][1], document.activeElement.id, get(\"held\").textContent]",
    );
    assert_eq!(found[0], "ip:192.0.2.1");
    assert_eq!(
        (&found[1], &found[3], &found[4]),
        (&json!("login"), &json!("0 of 3"), &json!("subject"))
    );
    let words = found[2].as_str().unwrap();
    assert!(words.starts_with("deny ip:192.0.2.1: retry in "), "{words}");
    assert!(found[5].as_str().unwrap().starts_with("Held under 3/h via sliding_log"), "{found}");

    let outcome = |client: &mut Client| {
        let body = r#"{"policy": "login", "fields": {"ip": "192.0.2.1"}}"#;
        client.ask("POST", "/v1/peek", body).unwrap().1.contains("\"allowed\":true")
    };
    // Cancelled, by the button that has the focus, and by Escape: nothing changes.
    for key in ["Enter", "Escape"] {
        browser.run("get(\"reset\").focus()");
        browser.press("Enter");
        let asked = browser.run(
            "return [get(\"sure\").open, document.activeElement.id, get(\"sure-words\").textContent]",
        );
        assert_eq!((&asked[0], &asked[1]), (&json!(true), &json!("sure-no")), "{key}");
        assert!(asked[2].as_str().unwrap().contains("ip:192.0.2.1 in login"), "{asked}");
        browser.press(key);
        browser.run("await until(() => !get(\"sure\").open)");
        assert_eq!(browser.run("return get(\"subject-done\").textContent"), "");
        assert!(!outcome(&mut client));
    }
    browser.run("get(\"reset\").focus()");
    browser.press("Enter");
    browser.press("Tab");
    browser.press("Enter");
    let done = browser.run(
        "await until(() => get(\"subject-done\").textContent); \
         await until(() => rows(\"reports\")[0][1] === \"3 of 3\"); \
         return get(\"subject-done\").textContent",
    );
    assert_eq!(done, "ip:192.0.2.1 in login was reset.");
    assert!(outcome(&mut client));

    // Two units are taken.
    browser.run("get(\"units\").focus(); get(\"units\").select()");
    browser.write("-2");
    browser.press("Tab");
    browser.press("Enter");
    browser.press("Tab");
    browser.press("Enter");
    browser.run("await until(() => rows(\"reports\")[0][1] === \"1 of 3\")");

    // The answer that a request would get, and the reason.
    browser.run("get(\"fields\").focus()");
    browser.write("ip=192.0.2.1 path=/pages");
    browser.press("Enter");
    let found = browser.run(
        "await until(() => rows(\"standings\").length); \
         return [get(\"explain-words\").textContent, ...rows(\"standings\")]",
    );
    assert_eq!(found[0], "It would be allowed by pages.");
    let pages = "ip: 100/h burst 100 via gcra";
    assert_eq!(found[1], json!(["pages", "yes", "every condition holds", pages]));
    assert_eq!(found[2][0], "stricter (shadow)");
    assert_eq!(found[3], json!(["login", "no", "`path` is `/pages`", ""]));
    assert_eq!(browser.faults(), Vec::<String>::new());
    let log = serving.end();
    let acts = ["lookup", "reset", "adjust"].map(|act| log.contains(&format!("act=\"{act}\"")));
    assert_eq!(acts, [true; 3], "{log}");
    assert!(!log.contains("192.0.2.1"), "{log}");
}

#[test]
fn a_page_of_another_origin_gets_and_changes_nothing() {
    let Some(mut browser) = Browser::start(DESK) else { return };
    let place = Place::new();
    let (serving, _) = serve(&place);
    let mut client = serving.client();
    ask(&mut client, "login", "192.0.2.1", 3);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let evil = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4_096]);
            let page = "<!DOCTYPE html><title>evil</title>";
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n";
            let _ = write!(stream, "{head}content-length: {}\r\n\r\n{page}", page.len());
        }
    });
    browser.open(&evil);
    // Even with the token, and with a request that a browser sends without asking first.
    let script = format!(
        r#"
        const at = "http://{}";
        const token = {{ authorization: "Bearer {TOKEN}" }};
        const body = JSON.stringify({{ policy: "login", subject: "ip:192.0.2.1" }});
        const tries = [
          ["/v1/admin/overview", {{}}],
          ["/v1/admin/overview", {{ headers: token }}],
          ["/v1/admin/reset", {{ method: "POST", headers: token, body }}],
          ["/v1/admin/reset", {{ method: "POST", mode: "no-cors", body }}],
          ["/console", {{}}],
        ];
        const found = [];
        for (const [path, options] of tries) {{
          found.push(await fetch(at + path, options).then(it => `${{it.type}} ${{it.status}}`,
            error => error.name));
        }}
        const frame = document.createElement("iframe");
        frame.src = at + "/console";
        document.body.append(frame);
        await new Promise(done => frame.addEventListener("load", done, {{ once: true }}));
        let inside = "";
        try {{ inside = frame.contentDocument?.title ?? "closed"; }} catch (error) {{ inside = error.name; }}
        found.push(inside);
        return found;
        "#,
        serving.admin_address()
    );
    let found = browser.run(&script);
    let error = "TypeError";
    assert_eq!(found, json!([error, error, error, "opaque 0", error, "closed"]));
    let denied = client.check(r#"{"policy": "login", "fields": {"ip": "192.0.2.1"}}"#).unwrap();
    assert_eq!(denied["allowed"], false, "nobody reset it");
    let log = serving.end();
    assert!(log.contains("a web page asks") && !log.contains("act="), "{log}");
}

/// The elements that a reader of this width has to scroll for, and those that cover others.
const LOOK: &str = "
  await until(() => document.documentElement.dataset.updates);
  return { width: document.documentElement.clientWidth,
    scrolls: document.documentElement.scrollWidth > document.documentElement.clientWidth,
    wide: [...document.querySelectorAll(\"section *\")].filter(it => isShown(it) &&
      it.getBoundingClientRect().right > it.closest(\"section\").getBoundingClientRect().right)
      .map(it => it.outerHTML.slice(0, 200)),
    hurdles: hurdles(), paper: getComputedStyle(document.body).backgroundColor,
    ...(window.axe ? await axeFinds() : { violations: [], passes: 99 }) };
";

/// A service of which the console shows everything that it can: a subject, a request, a ban, dead
/// jobs, faults.
fn show_everything(browser: &mut Browser, place: &Place) -> Serving {
    let (serving, path) = serve(place);
    let mut client = serving.client();
    for ip in 1..=14 {
        ask(&mut client, "login", &format!("192.0.2.{ip}"), ip % 5 + 1);
        ask(&mut client, "pages", &format!("2001:db8:0:{ip}::1"), ip);
    }
    ask(&mut client, "stricter", "192.0.2.2", 600);
    let store = format!("sqlite://{}?deadline=30s", place.path().join("counts.db").display());
    let word = format!("{}=a-word", "rather-long-".repeat(4));
    let queue = |args: &[&str]| {
        let (code, _, error) = place.run(&[&["queue"], args, &["--store", &store]].concat());
        assert_eq!(code, 0, "{error}");
    };
    queue(&["push", "mail", &word, "--bound", "10"]);
    queue(&["work", "mail", "--exec", "exit 3", "--deliveries", "1", "--until-empty"]);
    let file = POLICIES.replace("3/h", "9/h, 2/s").replace("deny", "allow");
    replace(&path, &file);
    let ban = json!({
        "when": { "ip": "2001:db8:1234:5678::/64", "path": "/a/rather/long/path/that/is/one/word" },
        "for": "1h", "reason": "<b>a reason</b> of-one-word-that-is-rather-long-for-a-phone",
    });
    let bearer = format!("authorization: Bearer {TOKEN}\r\n");
    let (status, _, body) =
        serving.admin().whole_with(&bearer, "POST", "/v1/admin/ban", &ban.to_string()).unwrap();
    assert_eq!(status, 200, "{body}");
    sign_in(browser, &serving, TOKEN);
    browser.run(
        "await until(() => texts(\"#reloads h4\").length === 1); \
         await until(() => rows(\"denied\").length === 6)",
    );
    replace(&path, "version");
    browser.run("await until(() => texts(\"#reloads li\").length === 2)");
    // Everything that it can show: a subject, a request, a fault.
    browser.run(
        "document.querySelector(\"#denied button\").click(); \
         await until(() => isShown(get(\"subject-answer\"))); \
         get(\"fields\").value = \"ip=192.0.2.1 path=/login\"; \
         get(\"explain-form\").requestSubmit(); \
         await until(() => rows(\"standings\").length); \
         get(\"chart-table\").open = true; get(\"effect\").value = \"set\"; \
         get(\"effect\").dispatchEvent(new Event(\"change\")); \
         await until(() => rows(\"bars\").length && rows(\"rulings\").length); \
         await until(() => document.querySelector(\"#queues button\")); \
         document.querySelector(\"#queues button\").click(); \
         await until(() => rows(\"dead\").length && rows(\"peers\").length === 2); \
         get(\"subject-fault\").textContent = \"An example of a fault.\"; \
         get(\"subject-done\").textContent = \"An example of a message.\"",
    );
    serving
}

#[test]
fn the_page_fits_a_phone_and_a_desk_by_day_and_by_night() {
    let Some(mut browser) = Browser::start(DESK) else { return };
    let axe = axe();
    let place = Place::new();
    let _serving = show_everything(&mut browser, &place);
    if let Some(axe) = &axe {
        browser.add(axe);
    }
    let mut papers = Vec::new();
    for width in [1_280, 390] {
        for is_dark in [false, true] {
            browser.look(Screen { width, is_dark });
            browser.run(
                "const seen = document.documentElement.dataset.updates; \
                 await until(() => document.documentElement.dataset.updates !== seen)",
            );
            let found = browser.run(LOOK);
            let seen = format!("{width} {is_dark}: {found:#}");
            assert_eq!(
                (&found["width"], &found["scrolls"]),
                (&json!(width), &json!(false)),
                "{seen}"
            );
            assert_eq!((&found["wide"], &found["hurdles"]), (&json!([]), &json!([])), "{seen}");
            assert_eq!(found["violations"], json!([]), "{seen}");
            assert!(found["passes"].as_u64().unwrap() > 15, "{seen}");
            papers.push(found["paper"].clone());
            let theme = if is_dark { "dark" } else { "light" };
            browser.picture(&format!("console-{width}-{theme}"), true);
            // The dialog is a separate page for all of this.
            browser.run("get(\"reset\").click()");
            let found = browser.run(LOOK);
            assert_eq!(found["hurdles"], json!([]), "{width} {is_dark}: {found:#}");
            assert_eq!(found["violations"], json!([]), "{width} {is_dark}: {found:#}");
            browser.picture(&format!("console-{width}-{theme}-dialog"), false);
            browser.run("get(\"sure-no\").click(); await until(() => !get(\"sure\").open)");
        }
    }
    assert_ne!(papers[0], papers[1], "the night is dark");
    assert_eq!(papers[..2], papers[2..]);
    // And so is the page before it: the form for the token.
    let has_focus = "document.activeElement === get(\"token\")";
    browser.run_to_next_page("get(\"leave\").click()", has_focus);
    for is_dark in [false, true] {
        browser.look(Screen { width: 390, is_dark });
        let found = browser.run(
            "return [isShown(get(\"figures\")), rows(\"limits\"), hurdles(), \
             Object.keys(sessionStorage)]",
        );
        assert_eq!(found, json!([false, [], [], []]));
        browser.picture(&format!("console-entry-{is_dark}"), false);
    }
}
