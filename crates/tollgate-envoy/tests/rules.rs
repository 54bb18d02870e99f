//! The rule of a descriptor, and its count.

use tollgate_envoy::{Config, Counting, Meaning, OnFailure, SameDomain, Unit};

const RULES: &str = "
domain: shop
descriptors:
  - key: key1
    value: value1
    descriptors:
      - key: sub
        rate_limit: { unit: second, requests_per_unit: 5 }
      - key: sub
        value: own
        rate_limit: { unit: SECOND, requests_per_unit: 10 }
  - key: key2
    rate_limit: { unit: minute, requests_per_unit: 20 }
  - key: key2
    value: value2
    rate_limit: { unit: Minute, requests_per_unit: 30 }
  - key: key2
    value: free
  - key: both
    rate_limit: { unit: day, requests_per_unit: 15 }
    descriptors:
      - key: sub
        rate_limit: { unit: day, requests_per_unit: 25 }
  - key: path
    value: /a*
    rate_limit: { unit: hour, requests_per_unit: 1 }
  - key: path
    value: /a*b
    rate_limit: { unit: hour, requests_per_unit: 2 }
  - key: path
    value: '*z*'
    rate_limit: { unit: hour, requests_per_unit: 3 }
  - key: path
    value: /ab
    rate_limit: { unit: hour, requests_per_unit: 4 }
  - key: path
    rate_limit: { unit: hour, requests_per_unit: 5 }
  - key: free
    rate_limit: { unlimited: true }
  - key: banned
    rate_limit: { unit: week, requests_per_unit: 0 }
  - key: 8080
    value: yes
    rate_limit: { unit: month, requests_per_unit: 7 }
  - key: flags
    shadow_mode: yes
    quota_mode: true
    detailed_metric: true
    rate_limit: { unit: year, requests_per_unit: 8, name: one, replaces: [{ name: two }] }
    metadata: { of: { name: x, list: [1, 2.5, true, null] } }
";

/// The quota of the rule that these entries meet.
fn quota(config: &Config, entries: &[(&str, &str)]) -> Option<u32> {
    let found = config.domain("shop")?.find(entries.iter().copied())?;
    Some(found.rule().requests_per_unit())
}

#[test]
fn the_most_specific_rule_is_met() {
    let config = Config::read([("rules.yaml", RULES)]).unwrap();
    for (entries, expected) in [
        (&[("key1", "value1"), ("sub", "any")][..], Some(5)),
        (&[("key1", "value1"), ("sub", "own")], Some(10)),
        (&[("key1", "value1")], None),
        (&[("key1", "other"), ("sub", "own")], None),
        (&[("key1", "value1"), ("other", "own")], None),
        (&[("key1", "value1"), ("sub", "own"), ("more", "x")], None),
        (&[("key2", "any")], Some(20)),
        (&[("key2", "")], Some(20)),
        (&[("key2", "value2")], Some(30)),
        (&[("key2", "free")], None),
        (&[("KEY2", "any")], None),
        (&[("both", "1")], Some(15)),
        (&[("both", "1"), ("sub", "1")], Some(25)),
        (&[("path", "/ab")], Some(4)),
        (&[("path", "/axb")], Some(1)),
        (&[("path", "/z")], Some(3)),
        (&[("path", "/x")], Some(5)),
        (&[("8080", "yes")], Some(7)),
        // Joined with `_`, these are the same as others.
        (&[("key2_value2", "")], None),
        (&[("key2_value2", "x")], None),
        (&[], None),
    ] {
        assert_eq!(quota(&config, entries), expected, "{entries:?}");
    }
    assert!(config.domain("other").is_none());
    assert_eq!(config.domains().collect::<Vec<_>>(), ["shop"]);
    assert_eq!(config.rules().count(), 15);
    let mut numbers: Vec<_> = config.rules().map(|(_, rule)| rule.number()).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..15));
}

#[test]
fn a_rule_counts_in_fixed_windows() {
    let config = Config::read([("rules.yaml", RULES)]).unwrap();
    let domain = config.domain("shop").unwrap();
    assert_eq!((domain.meaning(), domain.on_failure()), (Meaning::Envoy, OnFailure::Error));
    let rule = |key, value| domain.find([(key, value)].into_iter()).unwrap().rule();
    let text = |key, value| match rule(key, value).counting() {
        Counting::Limits(limits) => limits.to_string(),
        other => format!("{other:?}"),
    };
    assert_eq!(text("key2", "x"), "20/m anchor epoch via fixed_window");
    assert_eq!(text("8080", "yes"), "7/30d anchor epoch via fixed_window");
    assert_eq!(text("flags", "x"), "8/365d anchor epoch via fixed_window");
    assert_eq!(text("free", "x"), "Unlimited");
    assert_eq!(text("banned", "x"), "Ban");
    let flags = rule("flags", "x");
    assert!(flags.is_shadow() && flags.is_quota());
    assert_eq!((flags.name(), flags.unit()), ("one", Some(Unit::Year)));
    assert_eq!(flags.replaces().collect::<Vec<_>>(), ["two"]);
    assert_eq!(flags.path(), "shop.flags");
    let metadata = serde_json::to_string(flags.metadata()).unwrap();
    assert_eq!(metadata, r#"{"of":{"list":[1,2.5,true,null],"name":"x"}}"#);
}

#[test]
fn a_share_stands_for_the_store_and_is_imported_as_one() {
    let text = "domain: a\non_failure: { local: 25 % }\ndescriptors:\n  - key: b\n    limit: 8/h\n";
    let config = Config::read([("rules.yaml", text)]).unwrap();
    let share = "1/4".parse().unwrap();
    assert_eq!(config.domain("a").unwrap().on_failure(), OnFailure::Local(share));
    let made = tollgate_envoy::import::rules(&config, "rules.yaml");
    assert!(made.policies.contains("on_failure = { local = \"1/4\" }"), "{}", made.policies);
}

#[test]
fn our_words_stand_beside_theirs() {
    let text = "
domain: shop
meaning: tollgate
on_failure: deny
descriptors:
  - key: both
    limit: 10/s burst 20 via gcra
    rate_limit: { unit: minute, requests_per_unit: 60 }
  - key: ours
    limit: '10/s burst 20 via gcra, 240/h via sliding_window'
  - key: named
    limit: 5/10s via sliding_log
    rate_limit: { name: five }
  - key: day
    limit: 5/day in Europe/Berlin
  - key: banned
    limit: 5/10s via sliding_log
    rate_limit: { unit: minute, requests_per_unit: 0 }
";
    let config = Config::read([("rules.yaml", text)]).unwrap();
    assert!(config.warnings().is_empty(), "{:?}", config.warnings());
    let domain = config.domain("shop").unwrap();
    assert_eq!((domain.meaning(), domain.on_failure()), (Meaning::Tollgate, OnFailure::Deny));
    for (key, limits, reported) in [
        (
            "both",
            "60/m anchor epoch via fixed_window, 10/s burst 20 via gcra",
            (60, Some(Unit::Minute)),
        ),
        ("ours", "10/s burst 20 via gcra, 240/h via sliding_window", (10, Some(Unit::Second))),
        ("named", "5/10s via sliding_log", (5, None)),
        // Envoy's day is one of UTC.
        ("day", "5/day in Europe/Berlin via fixed_window", (5, None)),
        ("banned", "ban", (0, Some(Unit::Minute))),
    ] {
        let rule = domain.find([(key, "x")].into_iter()).unwrap().rule();
        let text = match rule.counting() {
            Counting::Limits(all) => {
                let all: Vec<_> = all.limits().iter().map(ToString::to_string).collect();
                all.join(", ").replace(" precision 6m rounding conservative", "")
            }
            _ => "ban".to_owned(),
        };
        assert!(text.starts_with(limits), "{text} is not {limits}");
        assert_eq!((rule.requests_per_unit(), rule.unit()), reported, "{key}");
    }
}

#[test]
fn values_share_a_count_only_where_that_is_said() {
    let text = "
domain: shop
descriptors:
  - key: files
    value: a/*
    share_threshold: true
    descriptors:
      - key: files
        value: b/*
        rate_limit: { unit: minute, requests_per_unit: 1 }
      - key: files
        value: c/*
        share_threshold: true
        rate_limit: { unit: minute, requests_per_unit: 2 }
";
    let config = Config::read([("rules.yaml", text)]).unwrap();
    let domain = config.domain("shop").unwrap();
    let subject = |one, other| {
        let entries = [("files", one), ("files", other)];
        let found = domain.find(entries.into_iter()).unwrap();
        found.subject("shop", entries.into_iter()).unwrap().to_string()
    };
    assert_eq!(subject("a/1", "b/1"), "envoy:shop|files=a/*|files=b/1");
    assert_eq!(subject("a/2", "b/2"), "envoy:shop|files=a/*|files=b/2");
    assert_eq!(subject("a/1", "c/1"), "envoy:shop|files=a/*|files=c/*");
    assert_eq!(subject("a/2", "c/2"), "envoy:shop|files=a/*|files=c/*");
}

/// As the tables of the reference have them, for each of its two words.
#[test]
fn metrics_have_the_values_that_the_file_asks_for() {
    let text = "
domain: shop
descriptors:
  - key: plain
    descriptors:
      - key: detailed
        detailed_metric: true
        rate_limit: { unit: day, requests_per_unit: 1 }
      - key: own
        value_to_metric: true
        rate_limit: { unit: day, requests_per_unit: 1 }
      - key: bare
        rate_limit: { unit: day, requests_per_unit: 1 }
  - key: valued
    value_to_metric: true
    descriptors:
      - key: in
        rate_limit: { unit: day, requests_per_unit: 1 }
  - key: path
    value: /a*
    value_to_metric: true
    rate_limit: { unit: day, requests_per_unit: 1 }
  - key: path
    value: /b*
    rate_limit: { unit: day, requests_per_unit: 1 }
  - key: path
    value: /s*
    share_threshold: true
    detailed_metric: true
    rate_limit: { unit: day, requests_per_unit: 1 }
";
    let config = Config::read([("rules.yaml", text)]).unwrap();
    let steps = |entries: &[(&str, &str)]| {
        let found = config.domain("shop").unwrap().find(entries.iter().copied()).unwrap();
        found.steps(entries.iter().copied()).map(|steps| steps.join("."))
    };
    let of = |text: &str| Some(text.to_owned());
    for (entries, path) in [
        (&[("plain", "x"), ("detailed", "y")][..], of("shop.plain_x.detailed_y")),
        (&[("plain", "x"), ("detailed", "")], of("shop.plain_x.detailed")),
        (&[("plain", "x"), ("own", "y")], of("shop.plain.own_y")),
        (&[("plain", "x"), ("bare", "y")], None),
        (&[("valued", "x"), ("in", "y")], of("shop.valued_x.in")),
        (&[("path", "/a1")], of("shop.path_/a1")),
        (&[("path", "/b1")], None),
        (&[("path", "/s1")], of("shop.path_/s*")),
    ] {
        assert_eq!(steps(entries), path, "{entries:?}");
    }
}

#[test]
fn keys_are_merged_and_a_mark_at_the_end_is_no_document() {
    let text = "---
domain: shop
descriptors:
  - &one
    key: one
    rate_limit: &limit { unit: day, requests_per_unit: 5 }
  - <<: *one
    key: two
  - key: three
    rate_limit: { <<: [*limit, { unit: hour, name: n }], requests_per_unit: 7 }
---
# The end.
";
    let config = Config::read([("rules.yaml", text)]).unwrap();
    for (key, number, unit) in
        [("one", 5, Unit::Day), ("two", 5, Unit::Day), ("three", 7, Unit::Day)]
    {
        let found = config.domain("shop").unwrap().find([(key, "x")].into_iter()).unwrap();
        assert_eq!(found.rule().requests_per_unit(), number, "{key}");
        assert_eq!(found.rule().unit(), Some(unit), "{key}");
        assert_eq!(found.rule().name(), if key == "three" { "n" } else { "" });
    }
    // yaml.v2, with which the reference reads, takes the merged value then.
    let late = text.replace(
        "{ <<: [*limit, { unit: hour, name: n }], requests_per_unit: 7 }",
        "{ unit: hour, <<: *limit }",
    );
    let told = Config::read([("rules.yaml", &*late)]).unwrap_err()[0].to_string();
    assert!(told.contains("`<<` has `unit` too, and comes after it"), "{told}");
    assert!(told.contains("rules.yaml:10:31"), "{told}");
}

#[test]
fn files_of_one_domain_are_merged_where_that_is_wanted() {
    let rule = |key: &str| {
        format!(
            "domain: shop\ndescriptors:\n  - key: {key}\n    rate_limit: {{ unit: day, requests_per_unit: 1 }}\n"
        )
    };
    let (one, other) = (rule("one"), format!("{}on_failure: deny\n", rule("other")));
    let files = [("a.yaml", &*other), ("b.yaml", &*one)];
    let told = Config::read(files).unwrap_err()[0].to_string();
    assert!(told.contains("duplicate domain 'shop' in config file"), "{told}");
    let swapped = Config::read_with(SameDomain::Merged, [files[1], files[0]]).unwrap();
    assert_eq!(swapped.domain("shop").unwrap().on_failure(), OnFailure::Deny, "in any order");
    let config = Config::read_with(SameDomain::Merged, files).unwrap();
    let domain = config.domain("shop").unwrap();
    assert_eq!(domain.on_failure(), OnFailure::Deny);
    let numbers =
        ["one", "other"].map(|key| domain.find([(key, "x")].into_iter()).unwrap().rule().number());
    assert_eq!(numbers, [1, 0]);
    for (more, says) in [
        (one.clone(), "duplicate descriptor composite key 'shop.one'"),
        (
            format!("{}on_failure: allow\n", rule("new")),
            "`on_failure` is not that of an earlier file",
        ),
    ] {
        let files = [("a.yaml", &*other), ("b.yaml", &*one), ("c.yaml", &*more)];
        let told = Config::read_with(SameDomain::Merged, files).unwrap_err()[0].to_string();
        assert!(told.contains(says) && told.contains("--> c.yaml:"), "{told}");
    }
}

/// yaml.v2 keeps the text of a scalar, wherever an alias or a merge takes it.
#[test]
fn an_alias_reads_as_its_anchor() {
    let text = "
domain: shop
descriptors:
  - &d { key: a, value: 0x10, shadow_mode: yes, rate_limit: { unit: day, requests_per_unit: 5 }, metadata: { ratio: 0.5 } }
  - { <<: *d, key: b }
  - key: c
    value: &v 0123
    rate_limit: { unit: day, requests_per_unit: 5 }
  - { key: d, value: *v, rate_limit: { unit: day, requests_per_unit: 5 } }
";
    let config = Config::read([("rules.yaml", text)]).unwrap_or_else(|all| panic!("{}", all[0]));
    let found = |key: &str, value: &str| {
        config.domain("shop").unwrap().find([(key, value)].into_iter()).unwrap().rule().clone()
    };
    for key in ["a", "b"] {
        let rule = found(key, "0x10");
        assert!(rule.is_shadow() && rule.metadata()["ratio"] == 0.5, "{key}");
    }
    for key in ["c", "d"] {
        assert_eq!(found(key, "0123").requests_per_unit(), 5, "{key}");
    }
    let twice = "rate_limit: { <<: { unit: second, unit: day, requests_per_unit: 5 } }";
    let text = format!("domain: shop\ndescriptors:\n  - key: a\n    {twice}\n");
    let told = Config::read([("rules.yaml", &*text)]).unwrap_err()[0].to_string();
    assert!(told.contains("`unit` is given twice"), "{told}");
}
