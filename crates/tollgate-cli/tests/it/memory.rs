//! `serve --memory`: the bound of the memory store, and the report when it is reached.

use serde_json::{Value, json};

use crate::Place;
use crate::serving::{Client, Serving};

/// The number of a sample of `/metrics`.
fn sample(client: &mut Client, name: &str) -> u64 {
    let (_, page) = client.ask("GET", "/metrics", "").unwrap();
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {page}")).parse().unwrap()
}

/// Answers for 256 questions in one request.
fn many(client: &mut Client, question: impl Fn(usize) -> Value) -> Vec<Value> {
    let checks: Vec<Value> = (0..256).map(question).collect();
    let said = client.check(&json!({ "checks": checks }).to_string()).unwrap();
    said["results"].as_array().unwrap().clone()
}

#[test]
fn a_full_store_says_so_once_in_the_log_and_in_each_answer_that_it_is_about() {
    let place = Place::new();
    let serving = Serving::start(&place, &["--memory", "1MiB"]);
    let client = &mut serving.client();
    assert_eq!(sample(client, "tollgate_memory_max_bytes"), 1 << 20);
    let question = |subject: &str| json!({ "subject": subject, "limit": "3/h via gcra" });
    let first = client.check(&question("first").to_string()).unwrap();
    assert_eq!((&first["allowed"], &first["shared"]), (&true.into(), &false.into()));
    assert_eq!(sample(client, "tollgate_memory_limit_sets"), 1);
    let mut shared = 0;
    for round in 0..160 {
        for answer in many(client, |i| question(&format!("flood:{round}-{i}"))) {
            shared += u64::from(answer["shared"] == true);
        }
    }
    assert!(shared > 1_000, "{shared}");
    let first = client.check(&question("first").to_string()).unwrap();
    assert_eq!((&first["allowed"], &first["shared"]), (&true.into(), &false.into()));
    let told = sample(client, "tollgate_memory_full_decisions_total{state=\"shared\"}");
    assert!((1_000..=shared).contains(&told), "{told} of {shared}");

    // Limits that are new to it: some find room, and later ones do not.
    for round in 0..8 {
        let new = |i| json!({ "subject": "x", "limit": format!("s{round}-{i}: 3/h via gcra") });
        let _ = many(client, new);
    }
    let last = json!({ "subject": "x", "limit": "the-last: 3/h via uniform" });
    let last = client.check(&last.to_string()).unwrap();
    assert_eq!((&last["allowed"], &last["shared"]), (&false.into(), &true.into()), "{last}");
    assert_eq!(last["retry_after"]["seconds"], 1_200);
    assert!(sample(client, "tollgate_memory_full_decisions_total{state=\"none\"}") > 1_000);
    let bytes = sample(client, "tollgate_memory_bytes");
    assert!((900_000..=1 << 20).contains(&bytes), "{bytes}");
    let cache = sample(client, "tollgate_limits_cache_bytes");
    assert!((1_000_000..8 << 20).contains(&cache), "{cache}");

    let log = serving.end();
    assert_eq!(log.matches("the memory store is full").count(), 1, "{log}");
    assert!(log.contains("WARN") && log.contains("`--memory SIZE` gives it more"), "{log}");
}

#[test]
fn a_size_is_for_the_memory_store_and_one_that_is_none_says_what_would_be() {
    let place = Place::new();
    for (args, says) in [
        (
            vec!["--store", "memory://", "--memory", "1.5GiB"],
            "`--memory`: `1.5GiB` is not a size: write a whole number",
        ),
        (
            vec!["--store", "memory://", "--memory", "1KiB"],
            "`--memory`: `1KiB` is too small: the least is 1MiB",
        ),
        (vec!["--memory", "1GiB", "--store", &place.store()], "`--memory` is for the memory store"),
        (vec!["--memory", "1GiB", "--store", "redis://x"], "`--memory` is for the memory store"),
    ] {
        let (code, _, error) = place.run(&[&["serve"], &args[..]].concat());
        assert!(code == 2 && error.contains(says), "{args:?}: {code} {error}");
    }
    let path = place.path().join("counts.tgs");
    let args = ["--store", "memory://", "--memory", "64MiB", "--snapshot", path.to_str().unwrap()];
    let serving = Serving::start(&place, &args);
    let client = &mut serving.client();
    for round in 0..160 {
        let question = |i| json!({ "subject": format!("{round}:{i}"), "limit": "3/h via gcra" });
        let _ = many(client, question);
    }
    serving.end();
    let smaller = ["serve", args[0], args[1], "--memory", "1MiB", args[4], args[5]];
    let (code, _, error) = place.run(&smaller);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("does not fit into the 1048576 bytes of this store"), "{error}");
    assert!(error.contains("`serve --memory 67108864`"), "{error}");
    let serving = Serving::start(&place, &args);
    assert_eq!(sample(&mut serving.client(), "tollgate_memory_subjects"), 40_960);
}
