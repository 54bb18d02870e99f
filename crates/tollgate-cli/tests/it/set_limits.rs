//! `admin set` and `admin credit`: limits and credits for one client, in every process on one
//! store.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Place;
use crate::redis;
use crate::serving::{LONG, Serving};

const POLICIES: &str = "version = 1\n[[policies]]\nname = \"api\"\non_failure = \"deny\"\n\
                        limits = [{ subject = \"field.tenant\", absent = \"deny\", limit = \"month: 100/30d via gcra, 900/360d\" }]\n";

/// Four services, started at the same moment.
fn four(place: &Place, store: &str) -> [Serving; 4] {
    let path = place.path().join("p.toml");
    std::fs::write(&path, POLICIES).unwrap();
    let args = ["--config", path.to_str().unwrap(), "--store", store];
    thread::scope(|scope| {
        let all = [(); 4].map(|()| scope.spawn(|| Serving::start(place, &args)));
        all.map(|it| it.join().unwrap())
    })
}

/// The answer to tenant 12: whether it was allowed, and the capacity and the rest of what binds.
fn ask(serving: &Serving, cost: u64) -> (bool, u64, u64) {
    let body = json!({"policy": "api", "fields": {"field.tenant": "12"}, "cost": cost});
    let said = serving.client().check(&body.to_string()).unwrap();
    let number = |name: &str| said[name].as_u64().unwrap_or_else(|| panic!("{name}: {said}"));
    (said["allowed"] == true, number("limit"), number("remaining"))
}

/// Until every process is under this limit.
fn seen(all: &[Serving], limit: u64) {
    let began = Instant::now();
    for one in all {
        let peek = json!({"policy": "api", "fields": {"field.tenant": "12"}}).to_string();
        let mut client = one.client();
        loop {
            let (_, said) = client.ask("POST", "/v1/peek", &peek).unwrap();
            let said: serde_json::Value = serde_json::from_str(&said).unwrap();
            if said["limit"] == limit {
                break;
            }
            assert!(began.elapsed() < LONG, "{limit} is not seen");
        }
    }
    println!("a limit of {limit} was seen by {} after {:?}", all.len(), began.elapsed());
}

/// The answer of a service to `tollgate admin` with these words.
fn admin(place: &Place, serving: &Serving, words: &[&str]) -> String {
    let at = serving.admin_address();
    let (code, out, error) = place.run(&[&["admin", "--at", &at], words].concat());
    assert_eq!((code, error.as_str()), (0, ""), "{words:?}");
    out
}

#[test]
fn four_services_see_it_and_again_after_a_restart() {
    let place = Place::new();
    let Some((_redis, url)) = redis::start(place.path(), &[]) else { return };
    let all = four(&place, &url);
    let admin = |serving: &Serving, words: &[&str]| admin(&place, serving, words);
    assert_eq!(ask(&all[0], 100), (true, 100, 0));
    assert!(all.iter().all(|one| ask(one, 1) == (false, 100, 0)));
    let of = ["set", "field.tenant=12", "--policy", "api", "--for", "30d"];
    let set = admin(&all[1], &[&of[..], &["--limit", "month=500/30d"]].concat());
    assert_eq!(set, "set field.tenant = 12 in api: month = 500/30d burst 500 via gcra for 30d\n");
    seen(&all, 500);
    // One count over all of them, in which the first 100 are used.
    assert_eq!(
        all.each_ref().map(|one| ask(one, 100)),
        [300, 200, 100, 0].map(|left| (true, 500, left))
    );
    assert!(all.iter().all(|one| ask(one, 1) == (false, 500, 0)));
    for one in all {
        one.end();
    }
    let all = four(&place, &url);
    // Each knows it from its first answer on.
    assert!(all.iter().all(|one| ask(one, 1) == (false, 500, 0)));
    let unlimited = ["--limit", "month=unlimited", "--limit", "sliding_log/360d=1000/360d"];
    let set = admin(&all[2], &[&of[..], &unlimited].concat());
    let replaced =
        "\n  in place of set field.tenant = 12 in api: month = 500/30d burst 500 via gcra for 29d";
    assert!(set.contains(replaced), "{set}");
    seen(&all, 1_000);
    assert_eq!(
        all.each_ref().map(|one| ask(one, 50)),
        [450, 400, 350, 300].map(|left| (true, 1_000, left))
    );
    let list = admin(&all[3], &["rulings"]);
    let shown = ["set month = unlimited, ", "1000/360d via sliding_log", "field.tenant = 12"];
    assert!(shown.iter().all(|words| list.contains(words)), "{list}");
    let explained = admin(&all[3], &["explain", "field.tenant=12"]);
    assert!(
        explained.contains("every condition holds, under set limits: month = unlimited"),
        "{explained}"
    );
    let peeked = admin(&all[3], &["peek", "field.tenant:12", "--policy", "api"]);
    assert!(peeked.contains("\n  ok    month: unlimited\n"), "{peeked}");
    assert_eq!(
        admin(&all[0], &["lift", "field.tenant=12", "--policy", "api"]),
        "lifted field.tenant=12\n"
    );
    seen(&all, 100);
    assert!(all.iter().all(|one| ask(one, 1) == (false, 100, 0)));
}

/// Four services give one credit, and spend it once.
#[test]
fn four_services_spend_a_credit_once() {
    let place = Place::new();
    let Some((_redis, url)) = redis::start(place.path(), &[]) else { return };
    let all = four(&place, &url);
    let admin = |serving: &Serving, words: &[&str]| admin(&place, serving, words);
    let count = ["field.tenant:12", "--policy", "api"];
    let give = |serving: &Serving, units: &str, id: &str| {
        let what = ["--units", units, "--for", "30d", "--id", id];
        admin(serving, &[&["credit"], &count[..], &what].concat())
    };
    assert_eq!(ask(&all[0], 100), (true, 100, 0));
    assert!(!ask(&all[1], 1).0);
    for one in &all {
        let given = give(one, "40", "order-2026-11-30-0017");
        assert!(given.starts_with("field.tenant:12 has a credit of 40 for "), "{given}");
        assert!(given.contains(": 40 requests left\ntake back what is left: tollgate"), "{given}");
    }
    let admitted: usize = thread::scope(|scope| {
        let each =
            all.each_ref().map(|one| scope.spawn(|| (0..30).filter(|_| ask(one, 1).0).count()));
        each.into_iter().map(|it| it.join().unwrap()).sum()
    });
    assert_eq!(admitted, 40);
    for one in all {
        one.end();
    }
    let all = four(&place, &url);
    // It is used, and its id is not free.
    assert!(give(&all[2], "40", "order-2026-11-30-0017").contains(": 0 requests left"));
    assert!(all.iter().all(|one| !ask(one, 1).0));
    assert!(give(&all[3], "5", "order-2026-11-30-0018").contains(": 5 requests left"));
    assert_eq!(ask(&all[0], 2), (true, 100, 3));
    let shown = admin(&all[1], &[&["inspect"], &count[..]].concat());
    let hold = shown.lines().find(|line| line.contains("credit 3 until")).expect(&shown);
    let hold = hold.rsplit(": ").next().unwrap();
    assert_eq!(admin(&all[1], &["release", hold]), "released the hold\n");
    assert!(all.iter().all(|one| !ask(one, 1).0));
    for (words, says) in [
        (&["--units", "5"][..], "--for"),
        (&["--units", "5", "--for", "400d"], "1ms to 366d"),
        (&["--units", "0", "--for", "1d"], "--units"),
        (&["--units", "bytes=5", "--for", "1d"], "bytes"),
        (&["--units", "5", "--for", "1d", "--id", "short"], "16 to 256"),
    ] {
        let at = all[0].admin_address();
        let words = [&["admin", "--at", &at, "credit"], &count[..], words].concat();
        let (code, _, error) = place.run(&words);
        assert!(code == 2 && error.contains(says), "{words:?}: {error}");
    }
}

#[test]
fn it_ends_by_itself_and_bad_input_is_refused() {
    let place = Place::new();
    let path = place.path().join("p.toml");
    std::fs::write(&path, POLICIES).unwrap();
    let serving = Serving::start(&place, &["--config", path.to_str().unwrap()]);
    let at = serving.admin_address();
    let run = |words: &[&str]| {
        place.run(&[&["admin", "--at", &at, "set", "field.tenant=12"], words].concat())
    };
    let api = ["--policy", "api", "--for", "1h"];
    for (words, says) in [
        (&["--policy", "api", "--for", "1h"][..], "--limit"),
        (&["--for", "1h", "--limit", "month=5/30d"], "--policy"),
        (&["--policy", "apy", "--for", "1h", "--limit", "month=5/30d"], "did you mean `api`?"),
        (&["--policy", "api", "--for", "400d", "--limit", "month=5/30d"], "up to 366d"),
        (&[&api[..], &["--limit", "5/30d"]].concat(), "`5/30d` names no limit: write NAME=LIMIT"),
        (&[&api[..], &["--limit", "mnth=5/30d"]].concat(), "did you mean `month`?"),
        (&[&api[..], &["--limit", "month=5/1d"]].concat(), "counts as `gcra/30d`, and `5/d"),
        (&[&api[..], &["--limit", "month=lots"]].concat(), "or `unlimited`"),
        (
            &[&api[..], &["--limit", "month=5/30d", "--limit", "month=6/30d"]].concat(),
            "the limit `month` is given twice",
        ),
    ] {
        let (code, _, error) = run(words);
        assert!(code == 2 && error.contains(says), "{words:?}: {error}");
    }
    assert_eq!(ask(&serving, 1), (true, 100, 99));
    let short = ["--policy", "api", "--for", "300ms", "--limit", "month=5/30d"];
    let began = Instant::now();
    assert_eq!(run(&short).0, 0);
    if ask(&serving, 1).1 == 100 {
        assert!(began.elapsed() >= Duration::from_millis(300), "it ended early");
    }
    seen(&[serving], 100);
    assert!(began.elapsed() >= Duration::from_millis(300), "it ended early");
}
