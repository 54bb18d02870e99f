//! `admin`: counts of a running service, from another terminal.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use crate::Place;
use crate::serving::Serving;

const TOKEN: &str = "0123456789abcdef";

const POLICIES: &str = "version = 1\n[[policies]]\nname = \"login\"\non_failure = \"deny\"\n\
                        limits = [{ subject = \"ip\", limit = \"3/h\" }]\n";

/// A service under the policies, with more arguments.
fn serve(place: &Place, more: &[&str]) -> Serving {
    let path = place.path().join("p.toml");
    std::fs::write(&path, POLICIES).unwrap();
    Serving::start(place, &[&["--config", path.to_str().unwrap()], more].concat())
}

#[test]
fn counts_of_a_service_are_looked_at_and_corrected() {
    let place = Place::new();
    let serving = serve(&place, &[]);
    let at = serving.admin_address();
    let admin = |words: &[&str]| place.run(&[&["admin", "--at", &at], words].concat());
    let ask = r#"{"policy": "login", "fields": {"ip": "192.0.2.7"}}"#;
    assert_eq!(serving.client().check(ask).unwrap()["remaining"], 2);
    let of = ["ip:192.0.2.7", "--policy", "login"];
    let (code, out, error) = admin(&[&["inspect"], &of[..]].concat());
    assert_eq!(code, 0, "{error}");
    assert!(out.contains("written under 3/h via sliding_log") && out.contains("1 events"), "{out}");
    assert_eq!(
        admin(&[&["adjust"], &of[..], &["--by", "-1"]].concat()).1,
        "changed ip:192.0.2.7 by -1\n"
    );
    assert_eq!(serving.client().check(ask).unwrap()["remaining"], 0);
    assert_eq!(admin(&[&["reset"], &of[..]].concat()).1, "reset ip:192.0.2.7\n");
    assert_eq!(admin(&[&["reset"], &of[..]].concat()).1, "nothing was held for ip:192.0.2.7\n");
    let (_, out, _) = admin(&[&["inspect"], &of[..], &["--json"]].concat());
    assert_eq!(out, "{\"held\":null}\n");
    let (code, out, error) = admin(&["reload"]);
    assert!(code == 0 && out.starts_with("policies of revision 1-"), "{out}{error}");
    std::fs::write(place.path().join("p.toml"), POLICIES.replace("3/h", "4/h")).unwrap();
    let (code, out, error) = admin(&["reload"]);
    assert!(code == 0 && out.contains(" revision 2-"), "{out}{error}");
    let (code, out, error) = admin(&["series", "--last", "10s"]);
    assert!(code == 0 && (out.contains("outcome") || out.contains("no requests in")), "{error}");
}

#[test]
fn clients_are_banned_and_exempted() {
    let place = Place::new();
    let serving = serve(&place, &[]);
    let at = serving.admin_address();
    let admin = |words: &[&str]| {
        let (code, out, error) = place.run(&[&["admin", "--at", &at], words].concat());
        assert_eq!((code, error.as_str()), (0, ""), "{words:?}");
        out
    };
    let ask = r#"{"policy": "login", "fields": {"ip": "203.0.113.7"}}"#;
    let outcome = || serving.client().check(ask).unwrap()["outcome"].clone();
    assert_eq!(admin(&["rulings"]), "no bans and no exemptions\n");
    let ban = ["ban", "ip=203.0.113.0/24", "ip=10.0.0.0/8", "--for", "1h", "--reason", "a scan"];
    let begin = Instant::now();
    assert_eq!(admin(&ban), "ban ip = 10.0.0.0/8 | 203.0.113.0/24 for 1h\n");
    assert_eq!(outcome(), "banned");
    let exempt = ["exempt", "ip=203.0.113.7", "--policy", "login", "--for", "1d"];
    assert_eq!(admin(&exempt), "exempt ip = 203.0.113.7 in login for 1d\n");
    assert_eq!(outcome(), "banned", "it is banned from everything");
    let list = admin(&["rulings"]);
    // As long as the programs since took to start, and no longer.
    let is_left = |passed| list.contains(&format!("59m{}s", 59_u64.saturating_sub(passed)));
    assert!((0..=begin.elapsed().as_secs()).any(is_left), "{list}");
    assert!(list.contains("a scan") && list.contains("login"), "{list}");
    let lift = ["lift", "ip=10.0.0.0/8", "ip=203.0.113.0/24"];
    assert_eq!(admin(&lift), "lifted ip=10.0.0.0/8, ip=203.0.113.0/24\n");
    assert_eq!(outcome(), "unlimited");
    let (code, out, _) = place.run(&["admin", "--at", &at, "lift", "ip=203.0.113.7"]);
    let says = "no ruling on ip=203.0.113.7 for all policies\n  lift the existing ruling with \
                --policy login\n";
    assert_eq!((code, out.as_str()), (1, says));
    let (code, _, error) = place.run(&["admin", "--at", &at, "ban", "mallory", "--for", "1h"]);
    assert!(code == 2 && error.contains("`mallory` is not a condition"), "{error}");
}

#[test]
fn a_hash_is_looked_up_and_a_request_is_explained() {
    let place = Place::new();
    let serving = serve(&place, &[]);
    let at = serving.admin_address();
    let admin = |words: &[&str]| place.run(&[&["admin", "--at", &at], words].concat());
    let ask = r#"{"policy": "login", "fields": {"ip": "192.0.2.7"}}"#;
    for _ in 0..4 {
        serving.client().check(ask).unwrap();
    }
    let top = admin(&["top", "--json"]).1;
    let top: serde_json::Value = serde_json::from_str(&top).unwrap();
    let hash = top["subjects"][0]["subject"].as_str().unwrap();
    assert_eq!(admin(&["lookup", hash]), (0, "ip:192.0.2.7 in login\n".into(), String::new()));
    let nobody = "0000000000000000";
    assert_eq!(admin(&["lookup", nobody]).1, format!("{nobody} is not counted now\n"));
    assert_eq!(admin(&["lookup", nobody]).0, 1);
    let (code, out, error) = admin(&["peek", "ip:192.0.2.7", "--policy", "login"]);
    assert_eq!((code, error.as_str()), (0, ""));
    assert!(out.starts_with("deny ip:192.0.2.7: retry in "), "{out}");
    assert!(out.contains("\n  deny  3/h via sliding_log  0 of 3 left, full again in "), "{out}");
    let (code, out, error) = admin(&["explain", "ip=192.0.2.7", "header.x-a=b & c"]);
    assert_eq!((code, error.as_str()), (0, ""));
    assert!(out.starts_with("denied by login, retry in "), "{out}");
    assert!(out.contains("login    yes       every condition holds"), "{out}");
    let (code, _, error) = admin(&["explain", "192.0.2.7"]);
    assert!(code == 2 && error.contains("`192.0.2.7` is not a field"), "{error}");
}

#[test]
fn reloads_are_shown_with_what_they_changed() {
    let place = Place::new();
    let serving = serve(&place, &[]);
    let at = serving.admin_address();
    let admin = |words: &[&str]| place.run(&[&["admin", "--at", &at], words].concat());
    assert_eq!(admin(&["reloads"]).1, "0 taken, 0 unchanged, 0 broken\n");
    std::fs::write(place.path().join("p.toml"), POLICIES.replace("3/h", "4/h")).unwrap();
    // The watcher of the file may have been faster: it is one reload all the same.
    assert_eq!(admin(&["reload"]).0, 0);
    // The figures are a second old at most.
    let out = loop {
        let out = admin(&["reloads"]).1;
        if out.starts_with("1 taken, ") {
            break out;
        }
    };
    let lines = "  login: changed\n    - limit of ip: 3/h via sliding_log\n    \
                 + limit of ip: 4/h via sliding_log\n";
    assert!(out.ends_with(lines), "{out}");
    let json = admin(&["reloads", "--json"]).1;
    assert!(json.contains(r#""counts":{"broken":0,"#), "{json}");
}

#[test]
fn the_busiest_and_the_most_denied_are_listed() {
    let place = Place::new();
    let serving = serve(&place, &["--log-denials", "plain"]);
    let at = serving.admin_address();
    let top = |words: &[&str]| {
        let (code, out, error) = place.run(&[&["admin", "--at", &at, "top"], words].concat());
        assert_eq!((code, error.as_str()), (0, ""), "{words:?}");
        out
    };
    /// The lines, with one blank between words.
    fn lines(out: &str) -> Vec<String> {
        out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }
    let none = top(&[]);
    assert!(none.starts_with("0 decisions in the last ") && none.lines().count() == 1, "{none}");
    let mut client = serving.client();
    for (ip, times) in [(7, 5), (8, 2), (9, 1)] {
        let ask = format!(r#"{{"policy": "login", "fields": {{"ip": "192.0.2.{ip}"}}}}"#);
        for _ in 0..times {
            client.check(&ask).unwrap();
        }
    }
    let asked = lines(&top(&["-n", "2"]));
    let [sum, header, _, first, second, others] = &asked[..] else { panic!("{asked:?}") };
    assert!(sum.starts_with("8 decisions in the last "), "{sum}");
    assert_eq!(header, "rank subject policy count share");
    assert_eq!(first, "1 ip:192.0.2.7 login 5 62.5 %");
    assert_eq!(second, "2 ip:192.0.2.8 login 2 25.0 %");
    assert_eq!(others, "nobody else asked more than once");
    let denied = lines(&top(&["--by", "denied"]));
    let [sum, _, _, only] = &denied[..] else { panic!("{denied:?}") };
    assert!(sum.starts_with("2 denials in the last "), "{sum}");
    assert_eq!(only, "1 ip:192.0.2.7 login 2 100.0 %");
    let json: serde_json::Value =
        serde_json::from_str(&top(&["--by", "denied", "--json"])).unwrap();
    let row = r#"[{"subject":"ip:192.0.2.7","policy":"login","count":2,"error":0}]"#;
    let row: serde_json::Value = serde_json::from_str(row).unwrap();
    assert_eq!((&json["by"], &json["subjects"]), (&"denied".into(), &row));
    for words in [["-n", "0"], ["-n", "101"], ["--by", "admitted"]] {
        let (code, _, error) = place.run(&[&["admin", "--at", &at, "top"], &words[..]].concat());
        assert!(code == 2 && error.contains(words[1]), "{words:?}: {error}");
    }
}

#[test]
fn what_is_wrong_is_told_in_the_services_words_and_with_a_remedy() {
    let place = Place::new();
    let mut command = Serving::command(&place, &[]);
    command.env("TOLLGATE_ADMIN_TOKEN", TOKEN);
    let serving = Serving::start_command(command);
    let at = serving.admin_address();
    let reset = ["admin", "--at", &at, "reset", "user:42", "--policy", "nobody"];
    let (code, _, error) = place.run(&reset);
    let says = "set TOLLGATE_ADMIN_TOKEN in the environment of this command";
    assert!(code == 2 && error.contains("401") && error.contains(says), "{error}");
    let mut command = place.tollgate(&reset);
    let output = command.env("TOLLGATE_ADMIN_TOKEN", TOKEN).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && error.contains("`nobody`"), "{error}");
    // The data port does not serve administrators.
    let data = serving.address().to_string();
    let (code, _, error) = place.run(&["admin", "--at", &data, "reload"]);
    assert!(code == 2 && error.contains("404"), "{error}");
    let (code, _, error) = place.run(&["admin", "--at", "127.0.0.1:1", "reload"]);
    let remedy = "give the address of the service's `--admin` with --at";
    assert!(code == 2 && error.contains(remedy), "{error}");
    let (code, _, error) = place.run(&["admin", "--at", "here", "reload"]);
    assert!(code == 2 && error.contains("`here` is not an address: write HOST:PORT"), "{error}");
    let (code, _, error) = place.run(&["admin", "reset", "user:42"]);
    assert!(code == 2 && error.contains("--policy"), "{error}");
    // A web page asks through the browser of a victim.
    let mut page = TcpStream::connect(serving.address()).unwrap();
    let asked = "GET /v1/policies HTTP/1.1\r\nhost: a\r\norigin: https://evil.example\r\n\r\n";
    page.write_all(asked.as_bytes()).unwrap();
    let mut status = [0; 12];
    page.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 403");
    drop(page);
    // The operator reads that both tried.
    let log = serving.end();
    let says = "a web page was refused client=127.0.0.1 origin=\"https://evil.example\"";
    assert!(log.contains(says), "{log}");
    let says = "an administrator was refused: the token is missing or another client=\"127.0.0.1\"";
    assert!(log.contains(says), "{log}");
}

/// The service and the command line count in one file.
#[test]
fn a_slot_whose_holder_is_gone_is_given_back() {
    let place = Place::new();
    let serving = serve(&place, &["--store", &place.store()]);
    let at = serving.admin_address();
    let slots = ["job", "--limit", "1 at once hold 1h"];
    let run = || place.code(&[&["run"], &slots[..], &["--wait", "0", "--", "true"]].concat());
    let question = r#"{"subject": "job", "limit": "1 at once hold 1h"}"#;
    let (status, said) = serving.client().ask("POST", "/v1/acquire", question).unwrap();
    assert!(status == 200 && said.contains("\"allowed\":true"), "{said}");
    assert_eq!(run(), 124);
    let admin = |words: &[&str]| place.run(&[&["admin", "--at", &at], words].concat());
    let (code, out, error) = admin(&[&["inspect"], &slots[..], &["--json"]].concat());
    assert_eq!((code, error.as_str()), (0, ""));
    let held: serde_json::Value = serde_json::from_str(&out).unwrap();
    let hold = held["held"]["holds"][0]["hold"].as_str().unwrap();
    assert_eq!(admin(&["release", hold]), (0, "released the hold\n".into(), String::new()));
    assert_eq!(run(), 0);
    let (code, _, error) = admin(&["release", "tgh1"]);
    assert!(code == 2 && !error.is_empty(), "{code} {error}");
}
