//! Broken files: each is refused, with the words of the reference where it has some, the line and
//! the column, and the correction.

use tollgate_envoy::Config;

/// The file is refused with one error, which has this first line, at this place.
fn refuses(text: &str, says: &str, place: &str) {
    let broken = Config::read([("rules.yaml", text)]).err().unwrap_or_else(|| panic!("{text}"));
    let told = broken.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert_eq!(told.matches("error: ").count(), 1, "{told}");
    assert!(told.contains(&format!("error: {says}\n")), "{told}\nis not: {says}");
    assert!(told.contains(&format!("--> rules.yaml:{place}\n")), "{told}\nis not at {place}");
    assert!(told.contains("= help: "), "{told}");
}

const HEAD: &str = "domain: shop\ndescriptors:\n";

/// The error about a misspelled key names the one that may be meant.
#[test]
fn a_misspelled_key_names_the_likely_one() {
    let text = "domain: shop\ndescriptors:\n  - key: a\n    rate_limit: { unit: day, requestsperunit: 5 }\n";
    let problems = Config::read([("rules.yaml", text)]).unwrap_err().remove(0).to_string();
    assert!(problems.contains("did you mean `requests_per_unit`? A rate_limit has"), "{problems}");
    assert!(problems.contains("warning: without `requests_per_unit`"), "{problems}");
}

#[test]
fn what_the_reference_refuses_is_refused_in_its_words() {
    for (rest, says, place) in [
        (
            "  - key: a\n    rate_limit: { unit: foo, requests_per_unit: 5 }\n",
            "invalid rate limit unit 'foo'",
            "4:19",
        ),
        (
            "  - key: a\n    value: b\n  - key: a\n    value: b\n",
            "duplicate descriptor composite key 'shop.a_b'",
            "5:5",
        ),
        ("  - value: a\n", "descriptor has empty key", "3:5"),
        ("  - key: ''\n", "descriptor has empty key", "3:5"),
        (
            "  - key: a\n    ratelimit: { unit: day, requests_per_unit: 5 }\n",
            "config error, unknown key 'ratelimit'",
            "4:5",
        ),
        (
            "  - key: a\n    rate_limit: { unit: day, requestsperunit: 5, requests_per_unit: 5 }\n",
            "config error, unknown key 'requestsperunit'",
            "4:30",
        ),
        ("  - a\n", "config error, yaml file contains list of type other than map: a", "3:5"),
        (
            "  - key: a\n    rate_limit:\n      name: own\n      replaces:\n        - name:\n      \
             unit: second\n      requests_per_unit: 5\n",
            "should not have an empty replaces entry",
            "7:11",
        ),
        (
            "  - key: a\n    rate_limit:\n      name: own\n      replaces:\n        - name: own\n      \
             unit: second\n      requests_per_unit: 5\n",
            "replaces should not contain name of same descriptor",
            "7:11",
        ),
        (
            "  - key: a\n    value: b\n    share_threshold: true\n    rate_limit: { unit: day, \
             requests_per_unit: 1 }\n",
            "share_threshold can only be used with wildcard values (containing '*'), but found key \
             'a_b'",
            "5:5",
        ),
        (
            "  - key: a\n    rate_limit: { unlimited: true, unit: day }\n",
            "should not specify rate limit unit when unlimited",
            "4:36",
        ),
    ] {
        refuses(&format!("{HEAD}{rest}"), says, place);
    }
    refuses("descriptors:\n", "config file cannot have empty domain", "1:1");
    refuses("domain: ''\n", "config file cannot have empty domain", "1:9");
    refuses("", "config file cannot have empty domain", "1:1");
    refuses("0.25: shop\ndomain: shop\n", "config error, key is not of type string: 0.25", "1:1");
}

/// Envoy's units are of UTC and of one length, and its hits are requests.
#[test]
fn calendars_and_other_units_are_told_where_they_belong() {
    for (rest, says, remedy) in [
        (
            "rate_limit: { unit: month in Europe/Berlin, requests_per_unit: 5 }",
            "invalid rate limit unit 'month in Europe/Berlin'",
            "a calendar is a limit of ours: `limit: 5/month in Europe/Berlin`",
        ),
        (
            "limit: 5/day in Europe/Berln",
            "`limit`: there is no time zone `Europe/Berln`",
            "did you mean `Europe/Berlin`?",
        ),
        (
            "limit: 9/m via gcra, 5/m of tokens via gcra",
            "`limit`: `5/m of tokens burst 5 via gcra` counts no requests, and a hit is one",
            "leave its unit out, or write a policy, whose costs have an amount of each unit",
        ),
    ] {
        let text = format!("{HEAD}  - key: a\n    {rest}\n");
        let told = Config::read([("rules.yaml", &*text)]).unwrap_err()[0].to_string();
        assert!(told.contains(&format!("error: {says}\n")), "{told}\nis not: {says}");
        assert!(told.contains(remedy) && told.contains("rules.yaml:4:"), "{told}");
    }
}

#[test]
fn what_is_no_yaml_is_refused() {
    for text in ["'''", "domain: [", "domain: a\n\tb: c\n", "- a", "domain: a\n---\ndomain: b\n"] {
        let broken = Config::read([("rules.yaml", text)]).err().unwrap_or_else(|| panic!("{text}"));
        let told = broken[0].to_string();
        assert!(told.contains("error loading config file: "), "{told}");
        assert!(told.contains("--> rules.yaml:"), "{told}");
    }
}

/// The same in another file.
#[test]
fn a_domain_has_one_file() {
    let file = "domain: shop\n";
    let broken = Config::read([("a.yaml", file), ("b.yaml", "domain: other\n"), ("c.yaml", file)]);
    let broken = broken.unwrap_err();
    assert_eq!(broken.len(), 1, "{broken:?}");
    let told = broken[0].to_string();
    assert!(told.contains("duplicate domain 'shop' in config file"), "{told}");
    assert!(told.contains("c.yaml:1:9"), "{told}");
}

#[test]
fn wrong_types_and_numbers_are_refused() {
    let limit = |what: &str| format!("  - key: a\n    rate_limit: {{ unit: day, {what} }}\n");
    for (rest, says) in [
        (limit("requests_per_unit: -1"), "error loading config file: `requests_per_unit` is -1"),
        (
            limit("requests_per_unit: 4294967296"),
            "error loading config file: `requests_per_unit` is 4294967296",
        ),
        (
            limit("requests_per_unit: 1.5"),
            "error loading config file: `requests_per_unit` is a fraction",
        ),
        (
            limit("requests_per_unit: '5'"),
            "error loading config file: `requests_per_unit` is a text",
        ),
        (
            limit("requests_per_unit: 5, unlimited: perhaps"),
            "error loading config file: `unlimited` is a text",
        ),
        (
            limit("requests_per_unit: 5, replaces: other"),
            "error loading config file: `replaces` is a text",
        ),
        (
            limit("requests_per_unit: 5, replaces: [other]"),
            "config error, yaml file contains list of type other than map: other",
        ),
        ("  - key: 1.5\n".into(), "error checking config: `key` is a fraction"),
        ("  - key: [a]\n".into(), "error loading config file: `key` is a list"),
        (
            "  - key: a\n    rate_limit: 5/day\n".into(),
            "error loading config file: a rate_limit is a text",
        ),
        (
            "  - key: a\n    shadow_mode: 'true'\n".into(),
            "error loading config file: `shadow_mode` is a text",
        ),
        ("  - key: a\n    key: b\n".into(), "the key `key` is given twice"),
        ("  - key: a\n    limit: 10/s via nothing\n".into(), "`limit`: unknown strategy `nothing`"),
        (
            "  - key: a\n    limit: 10/s via gcra\n    rate_limit: { unlimited: true }\n".into(),
            "`limit` beside `unlimited`",
        ),
        (
            "  - key: a\n    rate_limit: { requests_per_unit: 5 }\n".into(),
            "invalid rate limit unit ''",
        ),
        (
            "  - key: a\n    limit: 1/s via gcra\n    metadata: 5\n".into(),
            "error loading config file: `metadata` is a whole number",
        ),
    ] {
        let text = format!("{HEAD}{rest}");
        let broken =
            Config::read([("rules.yaml", &*text)]).err().unwrap_or_else(|| panic!("{text}"));
        let told = broken[0].to_string();
        assert!(told.contains(says), "{told}\nis not: {says}");
        assert_eq!(told.matches("error: ").count(), 1, "{told}");
    }
    for (text, says) in [
        ("domain: a\ndescriptors: { key: a }\n", "`descriptors` is a table"),
        ("domain: a\nmeaning: ours\n", "`ours` is not a `meaning`"),
        ("domain: a\non_failure: open\n", "write `error` or `allow` or `deny`"),
        ("domain: a\non_failure: local\n", "`local` needs a share"),
        ("domain: a\non_failure: { local: 0 % }\n", "a share of nothing"),
        ("domain: a\non_failure: { local: 5/4 }\n", "more than the whole"),
        ("domain: a\non_failure: { local: 25 }\n", "`25` is not a share"),
        ("domain: a\non_failure: {}\n", "`local` is missing"),
        ("domain: a\non_failure: { locl: 25 % }\n", "unknown key 'locl'"),
        (
            "domain: a\non_failure: { local: 1/4 }\ndescriptors:\n  - key: b\n    limit: 1/366d\n",
            "a.b: the share 1/4 of `1/366d via sliding_log` cannot be counted",
        ),
    ] {
        let told = Config::read([("rules.yaml", text)]).unwrap_err()[0].to_string();
        assert!(told.contains(says), "{told}");
    }
}

/// Every mistake of a file is reported in one run.
#[test]
fn all_mistakes_are_said() {
    let text =
        "descriptors:\n  - value: a\n  - key: b\n    rate_limit: { unit: foo }\n    other: 1\n";
    let told = Config::read([("rules.yaml", text)]).unwrap_err()[0].to_string();
    for says in ["empty domain", "empty key", "unit 'foo'", "unknown key 'other'"] {
        assert!(told.contains(says), "{told}");
    }
}

/// Fields that the reference takes and leaves without effect.
#[test]
fn what_has_no_effect_is_a_warning() {
    let text = "
domain: shop
descriptors:
  - key: a
    unit: day
    rate_limit: { unit: day, requests_per_unit: 5, shadow_mode: true }
  - key: b
    quota_mode: true
  - key: c
    rate_limit: { unit: day }
  - key: d
    rate_limit: { unlimited: true, requests_per_unit: 5 }
";
    let config = Config::read([("rules.yaml", text)]).unwrap();
    let [warnings] = config.warnings() else { panic!("{:?}", config.warnings()) };
    let told: Vec<_> = warnings.iter().map(|warning| warning.what().to_owned()).collect();
    assert_eq!(
        told,
        [
            "`unit` has no effect here",
            "`shadow_mode` has no effect here",
            "`quota_mode` has no effect without a limit",
            "without `requests_per_unit`, nobody is admitted",
            "`requests_per_unit` has no effect beside `unlimited`",
        ]
    );
    let rule = config.domain("shop").unwrap().find([("a", "1")].into_iter()).unwrap();
    assert!(!rule.rule().is_shadow());
}
