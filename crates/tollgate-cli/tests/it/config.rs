//! `config`: the examples are fine, a broken file says all that is wrong, and the schema agrees.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::Place;

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policies");
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    all.sort();
    assert_eq!(all.len(), 6);
    all
}

const BROKEN: &str = r#"version = 1
[[policies]]
name = "a"
on_failure = "alow"
limits = [{ subjct = "ip", limit = "10/s via gcr" }]
"#;

const WARNED: &str = r#"version = 1
[[policies]]
name = "a"
on_failure = "allow"
limits = [{ subject = "ip", limit = "10/s, 36000/h via sliding_log" }]
"#;

#[test]
fn the_examples_are_fine_and_explained() {
    let place = Place::new();
    for path in examples() {
        let path = path.to_str().unwrap();
        let (code, out, err) = place.run(&["config", "check", path]);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert!(out.contains("is fine: 1 policy, "), "{out}");
    }
    let api = examples().into_iter().find(|path| path.ends_with("api.toml")).unwrap();
    let (_, out, _) = place.run(&["config", "check", api.to_str().unwrap(), "--deny-warnings"]);
    for says in [
        "0 warnings",
        "to every request",
        "240/h via sliding_log: 240 at once, at most 240 in any 1h",
        "without user: skip (not limited here)",
        "field.weight, at most 50, otherwise 1",
        "local 1/4, also when the store takes over 500ms",
        "never: not for a cluster",
    ] {
        assert!(out.contains(says), "{says}: {out}");
    }
}

/// The limits that people copy also hold while the store is away.
#[test]
fn no_shipped_policy_lets_everything_pass_without_the_store() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = examples();
    files.extend(
        [
            "examples/kubernetes/tollgate.yaml",
            "packages/helm/tollgate/values.yaml",
            "packages/kustomize/base/policies.toml",
            "crates/tollgate-service/README.md",
            "crates/tollgate-policy/README.md",
            "README.md",
        ]
        .map(|file| root.join(file)),
    );
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut rules = text.lines().filter(|line| line.trim_start().starts_with("on_failure"));
        let passes = rules.find(|rule| rule.contains("allow"));
        assert_eq!(passes, None, "{}", file.display());
    }
}

#[test]
fn exit_codes_tell_errors_from_warnings() {
    let place = Place::new();
    let (broken, warned) = (place.path().join("broken.toml"), place.path().join("warned.toml"));
    std::fs::write(&broken, BROKEN).unwrap();
    std::fs::write(&warned, WARNED).unwrap();
    let (broken, warned) = (broken.to_str().unwrap(), warned.to_str().unwrap());
    let (code, out, _) = place.run(&["config", "check", warned]);
    assert_eq!(code, 0);
    assert!(out.contains("warning: `36000/h via sliding_log` never binds"), "{out}");
    assert!(out.contains("warned.toml is fine: 1 policy, 1 warning, "), "{out}");
    let (code, out, _) = place.run(&["config", "check", warned, "--deny-warnings"]);
    assert_eq!(code, 1);
    assert!(out.contains("warned.toml has warnings: 1 policy, 1 warning, "), "{out}");
    let (code, out, _) = place.run(&["config", "check", warned, broken, "--deny-warnings"]);
    assert_eq!(code, 2);
    for says in [
        "broken.toml:4:14",
        "`on_failure` is neither `allow`, `deny` nor `local`",
        "unknown key `subjct`",
        "did you mean `subject`?",
        "unknown strategy `gcr`",
        "did you mean `gcra`?",
        "broken.toml is broken: 4 errors",
    ] {
        assert!(out.contains(says), "{says}: {out}");
    }
    assert_eq!(place.run(&["config", "check", "nowhere.toml"]).0, 2);
    assert_eq!(place.run(&["config", "check"]).0, 2);
}

#[test]
fn slots_that_nothing_can_take_cause_a_warning() {
    let place = Place::new();
    let file = place.path().join("slots.toml");
    for (lines, says) in [
        ("", Some("`jobs` applies to every request, and denies those that are only checked")),
        ("shadow = true\n", Some("`jobs` is in shadow, where `2 at once hold 30s` is never asked")),
        ("when = { field.kind = \"job\" }\n", None),
    ] {
        let text = format!(
            "version = 1\n[[policies]]\nname = \"jobs\"\non_failure = \"deny\"\n{lines}\
             limits = [{{ subject = \"ip\", limit = \"2 at once\" }}]\n"
        );
        std::fs::write(&file, text).unwrap();
        let args = ["config", "check", file.to_str().unwrap()];
        let (code, out, _) = place.run(&args);
        let warnings = if says.is_some() { "1 warning" } else { "0 warnings" };
        assert!(code == 0 && out.contains(warnings), "{lines}: {out}");
        assert!(out.contains(says.unwrap_or_default()), "{lines}: {out}");
        let code = place.code(&[&args[..], &["--deny-warnings"]].concat());
        assert_eq!(code, i32::from(says.is_some()), "{lines}");
    }
}

const CLUSTER: &str = "redis+cluster://10.0.0.1,10.0.0.2";

#[test]
fn what_crosses_slots_is_no_fault_but_on_a_cluster() {
    let place = Place::new();
    let file = place.path().join("two.toml");
    let two = "version = 1\n[[policies]]\nname = \"a\"\non_failure = \"allow\"\n\
               limits = [{ subject = \"ip\", limit = \"10/s\" }, \
               { subject = \"pool=all\", limit = \"99/s\" }]\n";
    std::fs::write(&file, two).unwrap();
    let file = file.to_str().unwrap();
    let (code, out, _) = place.run(&["config", "check", file, "--deny-warnings"]);
    assert!(code == 0 && !out.contains("cluster") && out.contains("0 warnings"), "{out}");
    let (code, out, _) =
        place.run(&["config", "check", file, "--deny-warnings", "--store", CLUSTER]);
    assert!(code == 1 && out.contains("a check of `a` may cross slots on a cluster"), "{out}");
    assert!(out.contains("1 policy, 1 warning"), "{out}");
    for store in ["redis://10.0.0.1", "redis+sentinel://10.0.0.1/main", "memory://"] {
        let (code, out, _) =
            place.run(&["config", "check", file, "--deny-warnings", "--store", store]);
        assert!(code == 0 && !out.contains("cluster"), "{out}");
    }
    let (code, _, err) = place.run(&["config", "check", file, "--store", "redis+cluster://"]);
    assert!(code == 2 && err.contains("the host is missing"), "{err}");
    let (_, out, _) = place.run(&["config", "check", file, "--json", "--store", CLUSTER]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json[0]["problems"][0]["level"], "warning");
}

#[test]
fn values_of_a_file_do_nothing_to_a_terminal() {
    let place = Place::new();
    let file = place.path().join("hostile.toml");
    let text = WARNED.replace("limits", "when.user = \"a\\u001b[2J\\u202e\\nb\"\nlimits");
    std::fs::write(&file, text).unwrap();
    let (code, out, _) = place.run(&["config", "check", file.to_str().unwrap()]);
    assert_eq!(code, 0);
    assert!(out.contains("user = a\\u{1b}[2J\\u{202e}\\nb"), "{out}");
    let (code, out, _) = place.run(&["config", "check", "a\u{1b}[2J.toml"]);
    assert_eq!(code, 2);
    assert!(!out.contains('\u{1b}') && out.contains("a\\u{1b}[2J.toml is broken"), "{out}");
}

#[test]
fn what_is_shown_can_be_written() {
    let place = Place::new();
    let file = place.path().join("p.toml");
    for deadline in ["1ms", "1500us", "20ms", "1s", "1m"] {
        let text = WARNED.replace("limits", &format!("deadline = \"{deadline}\"\nlimits"));
        std::fs::write(&file, text).unwrap();
        let (_, out, _) = place.run(&["config", "check", file.to_str().unwrap()]);
        assert!(out.contains(&format!("takes over {deadline}\n")), "{out}");
    }
}

#[test]
fn machines_read_the_same() {
    let place = Place::new();
    let broken = place.path().join("broken.toml");
    std::fs::write(&broken, BROKEN).unwrap();
    let api = examples().into_iter().find(|path| path.ends_with("api.yaml")).unwrap();
    let args = ["config", "check", api.to_str().unwrap(), broken.to_str().unwrap(), "--json"];
    let (code, out, _) = place.run(&args);
    assert_eq!(code, 2);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json[0]["fine"], true);
    assert_eq!(json[0]["policies"][0]["deadline"], "500ms");
    assert_eq!(json[0]["policies"][0]["limits"][1]["absent"]["user"], "skip");
    assert_eq!(json[0]["policies"][0]["limits"][0]["limits"][2]["worst_window"], 240);
    assert_eq!(json[1]["fine"], false);
    let problems = json[1]["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 4, "{problems:?}");
    assert_eq!((&problems[0]["line"], &problems[0]["column"]), (&4.into(), &14.into()));
}

#[test]
fn the_schema_takes_the_examples_and_no_broken_file() {
    let place = Place::new();
    let (code, out, _) = place.run(&["config", "schema"]);
    assert_eq!(code, 0);
    let schema: Value = serde_json::from_str(&out).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let json = |text: &str| -> Value { toml::from_str(text).unwrap() };
    let mut seen = 0;
    for path in examples().iter().filter(|path| path.extension().unwrap() == "toml") {
        let file = json(&std::fs::read_to_string(path).unwrap());
        let wrong: Vec<String> = validator.iter_errors(&file).map(|e| e.to_string()).collect();
        assert!(wrong.is_empty(), "{}: {wrong:?}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 5);
    assert!(validator.is_valid(&json(WARNED)));
    let two = format!("match = \"all\"\n{WARNED}{}", WARNED.replace("version = 1", ""));
    assert!(validator.is_valid(&json(&two)));
    let mut nothing = json(WARNED);
    nothing["policies"][0]["deadline"] = Value::Null;
    assert!(!validator.is_valid(&nothing));
    for broken in [
        BROKEN.to_owned(),
        WARNED.replace("version = 1", "version = 2"),
        WARNED.replace("subject", "subjct"),
        WARNED.replace("\"ip\"", "[]"),
        WARNED.replace("name = \"a\"", "name = \"a b\""),
        WARNED.replace("name = \"a\"", ""),
        WARNED.replace("name", "cost = { from = \"field.x\" }\nname"),
        WARNED.replace("\"allow\"", "\"maybe\""),
        WARNED.replace("name", "deadline = \"soon\"\nname"),
        WARNED.replace("name", "cost = 1099511627777\nname"),
        WARNED.replace("name", "when = {}\nname"),
        WARNED.replace("name", "limits = []\nname").replace("limits = [{", "x = [{"),
        WARNED.replace(" }]", ", overrides = [] }]"),
        // Two policies say which of them count.
        format!("{WARNED}{}", WARNED.replace("version = 1", "")),
    ] {
        assert!(!validator.is_valid(&json(&broken)), "{broken}");
    }
}

/// Times are shown with their zone, gaps are warned of, and the schema knows both keys.
#[test]
fn times_are_shown_with_their_zone_and_checked() {
    let place = Place::new();
    let file = place.path().join("times.toml");
    let policy = |name: &str, when: &str| {
        format!(
            "[[policies]]\nname = \"{name}\"\non_failure = \"deny\"\nwhen = {{ {when} }}\n\
             limits = [{{ subject = \"ip\", limit = \"9/h\" }}]\n"
        )
    };
    let two = |first: &str, other: &str| {
        let (first, other) = (policy("night", first), policy("day", other));
        format!("version = 1\nmatch = \"first\"\n{first}{other}")
    };
    let text = two("time = \"22:00-06:00\", day = \"Mon-Fri\"", "time = \"07:00-22:00\"");
    std::fs::write(&file, &text).unwrap();
    let (code, out, err) = place.run(&["config", "check", file.to_str().unwrap()]);
    assert_eq!(code, 0, "{out}{err}");
    let said = format!("{out}{err}").split_whitespace().collect::<Vec<_>>().join(" ");
    for says in [
        "time = 22:00-06:00 UTC and day = Mon-Fri UTC",
        "none of the policies `night` and `day` applies in 1380 minutes of the week: Mon \
         06:00-07:00, Tue 06:00-07:00, Wed 06:00-07:00, and 5 more",
    ] {
        assert!(said.contains(says), "{says}: {said}");
    }
    let (_, schema, _) = place.run(&["config", "schema"]);
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let is_valid = |text: &str| validator.is_valid(&toml::from_str::<Value>(text).unwrap());
    assert!(is_valid(&text));
    assert!(is_valid(&two("day = [\"Sat\", \"Mon UTC\"], user = \"a\"", "time = \"00:00-12:00\"")));
    for broken in ["time = \"22:00-24:00\"", "day = \"Mon-Foo\"", "time = 5", "day = []"] {
        assert!(!is_valid(&two(broken, "time = \"07:00-22:00\"")), "{broken}");
    }
}

/// A policy without limits, a list and tiers are shown as what they are.
#[test]
fn files_beside_policies_and_unlimited_ones_are_shown() {
    let place = Place::new();
    let write = |name: &str, text: &str| std::fs::write(place.path().join(name), text).unwrap();
    let text = "version = 1\nmatch = \"first\"\n[[policies]]\nname = \"staff\"\n\
                when = { user = { file = \"staff.txt\" } }\nlimits = \"unlimited\"\n\
                [[policies]]\nname = \"api\"\non_failure = \"deny\"\n\
                tiers = { file = \"tiers.csv\", by = \"field.tenant\", otherwise = \"free\" }\n\
                limits = [{ subject = \"ip\", limit = \"2/h\", overrides = [{ when = { tier = \
                \"gold\" }, limit = \"9/h\" }] }]\n";
    write("p.toml", text);
    write("staff.txt", "ann\nbob\n");
    write("tiers.csv", "key,tier\nacme,gold\n");
    let file = place.path().join("p.toml");
    let file = file.to_str().unwrap();
    let (code, out, err) = place.run(&["config", "check", file, "--deny-warnings"]);
    let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(code, 0, "{out}{err}");
    for says in [
        "applies user = staff.txt (2 values) counts nothing: unlimited policy api",
        "tiers tiers.csv (1 key) by field.tenant, otherwise free counts ip",
        "where tier = gold: 9/h via sliding_log",
    ] {
        assert!(out.contains(says), "{says}: {out}");
    }
    let (_, json, _) = place.run(&["config", "check", file, "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let policies = &json[0]["policies"];
    assert_eq!(
        (&policies[0]["unlimited"], &policies[1]["unlimited"]),
        (&true.into(), &false.into())
    );
    assert_eq!(policies[1]["tiers"], "tiers.csv (1 key) by field.tenant, otherwise free");
    let (_, schema, _) = place.run(&["config", "schema"]);
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let is_valid = |text: &str| validator.is_valid(&toml::from_str::<Value>(text).unwrap());
    assert!(is_valid(text));
    for (right, wrong) in [
        ("\"unlimited\"", "\"banned\""),
        ("limits = \"unlimited\"", "limits = \"unlimited\"\ncost = 2"),
        ("on_failure = \"deny\"\n", ""),
        ("by = ", "be = "),
    ] {
        assert!(!is_valid(&text.replacen(right, wrong, 1)), "{wrong}");
    }
}

/// The bound of a share is shown where it is checked, and where a limit is explained.
#[test]
fn shares_are_explained_with_their_bound_for_all_nodes() {
    let place = Place::new();
    let file = place.path().join("shares.toml");
    let text = "version = 1\nnodes = 4\n[[policies]]\nname = \"a\"\non_failure = \"local\"\n\
                limits = [{ subject = \"ip\", limit = \"100/s via gcra, 2/h\", overrides = \
                [{ when = { user = \"ann\" }, limit = \"8/s\" }] }]\n";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let (code, out, _) = place.run(&["config", "check", file]);
    let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(code, 0, "{out}");
    for says in [
        "a share of 1/4 is 25/s burst 25 via gcra: at most 49 in any 1s, and 196 by 4 nodes together",
        "a share of 1/4 is 1/2h via sliding_log: at most 1 in any 2h, and 4 by 4 nodes together",
        "a share of 1/4 is 2/s via sliding_log: at most 2 in any 1s, and 8 by 4 nodes together",
        "local 1/4, also when the store takes over 500ms",
    ] {
        assert!(out.contains(says), "{says}: {out}");
    }
    let (_, json, _) = place.run(&["config", "check", file, "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let policy = &json[0]["policies"][0];
    assert_eq!(policy["on_failure"], "local 1/4");
    let local = &policy["limits"][0]["limits"][0]["local"];
    assert_eq!((&local["limit"], &local["nodes"]), (&"25/s burst 25 via gcra".into(), &4.into()));
    assert_eq!(local["worst_window_of_nodes"], 196);

    let explained = |args: &[&str]| {
        let (code, out, err) = place.run(&[&["explain", "100/s via gcra"][..], args].concat());
        (code, out.split_whitespace().collect::<Vec<_>>().join(" "), err)
    };
    for (args, says) in [
        (
            &["--local", "12.5 %"][..],
            "store away a share of 1/8 is 12/s burst 12 via gcra: at most \
         23 in any 1s, and as many by each other node",
        ),
        (
            &["--nodes", "200"],
            "a share of 1/200 is 1/2s burst 1 via gcra: at most 1 in any 2s, and \
         200 by 200 nodes together",
        ),
        (&["--local", "1/2", "--nodes", "3"], "at most 99 in any 1s, and 297 by 3 nodes together"),
    ] {
        let (code, out, _) = explained(args);
        assert!(code == 0 && out.contains(says), "{args:?}: {out}");
    }
    assert!(!explained(&[]).1.contains("store away"));
    // A limit that is not a rate has no bound over a time.
    for (limit, says) in [
        ("3 at once hold 1m", "takes no slot: an acquire is denied"),
        ("9/m, ban 1h after 3 denials in 1m", "each node counts the denials of its own share"),
    ] {
        let (code, out, error) = place.run(&["explain", limit, "--local", "1/4"]);
        let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!((code, &*error), (0, ""), "{limit}");
        assert!(out.contains(says) && !out.contains("18446744073709551615"), "{limit}: {out}");
    }
    for (args, says) in [
        (["--local", "0"], "`0` is not a share"),
        (["--local", "101%"], "more than the whole"),
        (["--nodes", "0"], "0 is not in 1..=1000000"),
    ] {
        let (code, _, err) = explained(&args);
        assert!(code == 2 && err.contains(says), "{args:?}: {err}");
    }
}

/// The rules of envoyproxy/ratelimit are found by themselves, and read as the service reads them.
#[test]
fn rules_of_envoy_are_checked_too() {
    let place = Place::new();
    let folder = place.path().join("rules");
    std::fs::create_dir(&folder).unwrap();
    let rule = |domain: &str, key: &str| {
        format!(
            "domain: {domain}\ndescriptors:\n  - key: {key}\n    shadow_mode: true\n    \
             rate_limit: {{ unit: minute, requests_per_unit: 5 }}\n"
        )
    };
    std::fs::write(folder.join("shop.yaml"), rule("shop", "user")).unwrap();
    std::fs::write(folder.join("key-of-a-map"), rule("other", "path")).unwrap();
    std::fs::write(folder.join("notes.txt"), "no rules").unwrap();
    let path = folder.to_str().unwrap();
    let (code, out, err) = place.run(&["config", "check", path]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(err.contains("notes.txt is not read"), "{err}");
    for says in [
        "key-of-a-map is fine: 1 rule, 0 warnings",
        "shop.yaml is fine: 1 rule, 0 warnings",
        "domain        shop, in the meaning envoy",
        "shop.user: 5 per minute (shadow mode: counts, but denies nobody)",
    ] {
        assert!(out.contains(says), "{says}: {out}");
    }
    let (code, out, _) = place.run(&["config", "check", "--json", path]);
    let said: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &said[1]["domain"]), (0, &"shop".into()));
    assert_eq!(said[1]["rules"][0]["path"], "shop.user");
    // One domain in two files, and a mistake with its line; policies beside them.
    std::fs::write(folder.join("twice.yaml"), rule("shop", "key")).unwrap();
    let (code, out, _) = place.run(&["config", "check", path]);
    assert!(code == 2 && out.contains("duplicate domain 'shop' in config file"), "{out}");
    let (code, out, _) = place.run(&["config", "check", "--merge-domains", path]);
    assert!(code == 0 && out.contains("2 rules, 0 warnings"), "{out}");
    let broken = place.path().join("broken.yaml");
    std::fs::write(&broken, "domain: shop\ndescriptors:\n  - kez: a\n").unwrap();
    let policies = place.path().join("warned.toml");
    std::fs::write(&policies, WARNED).unwrap();
    let both = [broken.to_str().unwrap(), policies.to_str().unwrap()];
    let (code, out, _) = place.run(&[&["config", "check"], &both[..]].concat());
    assert_eq!(code, 2, "{out}");
    assert!(out.contains("broken.yaml:3:5") && out.contains("warned.toml is fine"), "{out}");
    let (code, out, _) = place.run(&["config", "check", "--envoy", both[1]]);
    assert!(code == 2 && out.contains("error loading config file"), "{out}");
}
