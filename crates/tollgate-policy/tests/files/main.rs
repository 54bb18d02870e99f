//! Policy files: the examples, every kind of problem with its place, in both TOML and YAML, hostile
//! files.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests may

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tollgate_policy::{Format, Level, Policies, Problems};

mod bounds;
mod problems;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policies")
}

fn toml(text: &str) -> Result<Policies, Problems> {
    Policies::parse_named("p.toml", text, Format::Toml)
}

fn yaml(text: &str) -> Result<Policies, Problems> {
    Policies::parse_named("p.yaml", text, Format::Yaml)
}

/// `LINE:COLUMN LEVEL WHAT` of each problem.
fn said(problems: &Problems) -> Vec<String> {
    let line = |problem| {
        let (line, column) = problems.place(problem).expect("every problem of a file has a place");
        format!("{line}:{column} {} {}", problem.level().name(), problem.what())
    };
    problems.iter().map(line).collect()
}

fn wrong(text: &str) -> Vec<String> {
    match toml(text) {
        Ok(policies) => [policies.warnings(), policies.cluster_warnings()].map(said).concat(),
        Err(problems) => said(&problems),
    }
}

/// A file of one policy with these lines in it.
fn policy(lines: &str) -> String {
    format!("version = 1\n[[policies]]\nname = \"p\"\non_failure = \"allow\"\n{lines}\n")
}

/// A file of one policy whose entry has these keys.
fn entry(keys: &str) -> String {
    policy(&format!("limits = [{{ {keys} }}]"))
}

#[test]
fn the_examples_are_sound_and_say_what_the_documents_say() {
    let mut seen = 0;
    for file in std::fs::read_dir(examples()).unwrap() {
        let path = file.unwrap().path();
        let policies = Policies::load(&path).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(policies.policies().len(), 1, "{}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 6);
    let load = |name: &str| Policies::load(examples().join(name)).unwrap();
    for name in ["api.toml", "api.yaml", "resource-and-consumers.toml", "1000-per-hour.toml"] {
        assert!(name.starts_with("resource") || load(name).warnings().is_empty(), "{name}");
    }
    let api = load("api.toml");
    let texts: Vec<String> = api.policies()[0]
        .entries
        .iter()
        .map(|entry| format!("{} {}", entry.subject[0], entry.limits))
        .collect();
    let limits = "10/s via sliding_log, 120/m via sliding_log, 240/h via sliding_log";
    assert_eq!(texts, [format!("ip {limits}"), format!("user {limits}")]);
}

#[test]
fn toml_and_yaml_of_the_same_mean_the_same() {
    let load = |name: &str| Policies::load(examples().join(name)).unwrap();
    let (toml, yaml) = (load("api.toml"), load("api.yaml"));
    assert_eq!(toml.policies(), yaml.policies());
    assert_eq!(toml.combine(), yaml.combine());
    assert_ne!(toml.hash(), yaml.hash());
}

#[test]
fn conditions_overrides_and_costs_are_the_same_in_both() {
    let one = toml(
        r#"
        version = 1
        match = "first"
        [[policies]]
        name = "a"
        on_failure = "deny"
        deadline = "20ms"
        shadow = true
        cost = 7
        [policies.when]
        host = "*.Example.com"
        method = ["GET", "POST"]
        header.X-Tier = "gold*"
        field.a.b = "x"
        [[policies.limits]]
        subject = ["user", "pool=all"]
        limit = ["10/s", "x: 99/h via gcra"]
        absent = { user = "api_key", api_key = "deny" }
        [[policies.limits.overrides]]
        when.field.plan = "pro"
        limit = "100/s"
        [[policies.limits.overrides]]
        when = { user = ["a", "b"] }
        limit = "unlimited"
        [[policies]]
        name = "b"
        on_failure = "allow"
        limits = [{ subject = "ip", limit = "1/s" }]
        "#,
    )
    .unwrap();
    let other = yaml(
        r#"
version: 1
match: first
policies:
  - name: a
    on_failure: deny
    deadline: 20ms
    shadow: true
    cost: 7
    when: { host: "*.Example.com", method: [GET, POST], header.X-Tier: gold*, field: {a.b: x} }
    limits:
      - subject: [user, pool=all]
        limit: [10/s, "x: 99/h via gcra"]
        absent: { user: api_key, api_key: deny }
        overrides:
          - when: { field.plan: pro }
            limit: 100/s
          - when: { user: [a, b] }
            limit: unlimited
  - name: b
    on_failure: allow
    limits: [{ subject: ip, limit: 1/s }]
"#,
    )
    .unwrap();
    assert_eq!(format!("{:#?}", one.policies()), format!("{:#?}", other.policies()));
}

#[test]
fn shards_are_in_every_subject() {
    let shard = |shard: &str, entries: &str| {
        wrong(&policy(&format!("shard = \"{shard}\"\nlimits = [{entries}]")))
    };
    let two = "{ subject = [\"user\", \"field.r\"], limit = \"1/s\", absent = \"deny\" }, \
               { subject = \"field.r\", limit = \"1/s\", absent = \"deny\" }";
    assert!(shard("field.r", two).is_empty());
    assert!(shard("user", two)[0].contains("has no `user`, by which"));
    let other = "{ subject = \"field.r\", limit = \"1/s\", absent = \"ip\" }";
    assert!(shard("field.r", other)[0].contains("stands in for `field.r`"));
    let unsaid = policy(&format!("limits = [{two}]"));
    assert_eq!(wrong(&unsaid), ["3:8 warning a check of `p` may cross slots on a cluster"]);
}

fn file(combine: &str, policies: &[(&str, &str, &str)]) -> String {
    let mut text = format!("version = 1\nmatch = \"{combine}\"\n");
    for (name, when, more) in policies {
        text.push_str(&format!(
            "[[policies]]\nname = \"{name}\"\non_failure = \"allow\"\nshard = \"never\"\n{more}\n\
             {when}\nlimits = [{{ subject = \"ip\", limit = \"9/s\" }}]\n"
        ));
    }
    text
}

#[test]
fn policies_that_are_never_reached_are_told() {
    let first = |policies: &[(&str, &str, &str)]| wrong(&file("first", policies));
    let api = "when = { path = \"/api/*\", method = [\"GET\", \"PUT\"] }";
    let inner = "when = { path = \"/api/v1\", method = \"GET\", host = \"a.com\" }";
    assert_eq!(first(&[("a", api, ""), ("b", inner, "")]).len(), 1);
    assert!(first(&[("b", inner, ""), ("a", api, "")]).is_empty());
    assert_eq!(first(&[("a", "", ""), ("b", inner, "")]).len(), 1);
    // One in shadow takes no request from another.
    assert!(first(&[("a", "", "shadow = true"), ("b", inner, "")]).is_empty());
    assert!(wrong(&file("all", &[("a", api, ""), ("b", inner, "")])).is_empty());
}

#[test]
fn policies_of_one_check_have_one_cost() {
    let get = "when = { method = \"GET\" }";
    let put = "when = { method = \"PUT\" }";
    let apart = file("all", &[("a", get, "cost = 1"), ("b", put, "cost = 2")]);
    assert!(wrong(&apart).is_empty());
    let together = file("all", &[("a", get, "cost = 1"), ("b", "", "cost = 2")]);
    assert!(wrong(&together)[0].contains("`a` and `b` can apply together and differ in cost"));
    let shadow = file("all", &[("a", get, "cost = 1"), ("b", "", "cost = 2\nshadow = true")]);
    assert!(wrong(&shadow).is_empty());
    let first = file("first", &[("a", get, "cost = 1"), ("b", "", "cost = 2")]);
    assert!(wrong(&first).is_empty());
}

#[test]
fn values_match_in_the_form_in_which_fronts_give_them() {
    let matches = |field: &str, pattern: &str, value: &str| {
        let limits = "limits = [{ subject = \"ip\", limit = \"1/s\" }]";
        let text = policy(&format!("when = {{ {field} = \"{pattern}\" }}\n{limits}"));
        let policies = toml(&text).unwrap_or_else(|error| panic!("{error}"));
        !policies.matching(&[(field, value)]).is_empty()
    };
    for (field, pattern, value, holds) in [
        ("ip", "::ffff:10.0.0.1", "10.0.0.1", true),
        ("ip", "2001:DB8:0::1", "2001:db8::1", true),
        ("ip", "2001:DB8::/64", "2001:db8::/64", true),
        ("ip", "2001:DB8:*", "2001:db8::1", true),
        ("ip", "10.0.*", "10.0.9.1", true),
        ("ip", "10.0.*", "10.1.0.1", false),
        ("host", "*.Example.com", "a.EXAMPLE.com", true),
        ("host", "*.example.com", "example.com", false),
        ("host", "*.example.com", ".example.com", false),
        ("host", "Example.*", "EXAMPLE.org", true),
        ("user", "Alice", "alice", false),
        ("user", "a*", "a", true),
        ("user", "*", "", false),
        ("path", "/api/*", "/api", true),
        ("path", "/api/*", "/apis", false),
        ("path", "/api*", "/apis", true),
        ("path", "/api/*", "/api/", true),
        ("method", "get", "GET", false),
        ("header.X-Tier", "gold", "gold", true),
        ("header.x-tier", "gold", "Gold", false),
    ] {
        assert_eq!(matches(field, pattern, value), holds, "{field} = {pattern}: {value}");
    }
}

#[test]
fn problems_are_shown_with_the_line_and_a_caret() {
    let error = toml(&entry("subject = \"ip\", limit = \"10/s via gcr\"")).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("error: unknown strategy `gcr`"), "{text}");
    assert!(text.contains("p.toml:5:47"), "{text}");
    assert!(
        text.contains("5 | limits = [{ subject = \"ip\", limit = \"10/s via gcr\" }]"),
        "{text}"
    );
    assert!(text.lines().any(|line| line.trim_end().ends_with("^^^")), "{text}");
    assert!(text.contains("help: did you mean `gcra`?"), "{text}");
    // Told without a word to point at.
    let text = toml("").unwrap_err().to_string();
    assert!(text.contains("p.toml:1:1") && text.contains("version = 1"), "{text}");
}

#[test]
fn yaml_has_places_too() {
    let text = "version: 1\npolicies:\n  - name: p\n    on_failure: allow\n    limits:\n      - subject: ip\n        limit: 10/s via gcr\n        limt: 5\n";
    let error = yaml(text).unwrap_err();
    assert_eq!(said(&error), ["7:25 error unknown strategy `gcr`", "8:9 error unknown key `limt`"]);
    let twice = yaml("version: 1\nversion: 1\npolicies: []\n").unwrap_err();
    assert_eq!(
        said(&twice),
        ["2:1 error `version` is given twice", "3:11 error there is no policy"]
    );
    for broken in ["version: 1\n  bad: [\n", "\t", "a: *b", "{", "- - -\n x"] {
        let error = yaml(broken).unwrap_err();
        assert!(error.has_errors() && !said(&error).is_empty(), "{broken}");
    }
    for empty in ["", "# only words\n", "---\n", "~"] {
        assert_eq!(said(&yaml(empty).unwrap_err()).len(), 1, "{empty}");
    }
}

/// Text that is nearly a policy file.
fn nearly() -> impl Strategy<Value = String> {
    let words = prop_oneof![
        Just("version = 1\n"),
        Just("version: 1\n"),
        Just("match = \"all\"\n"),
        Just("[[policies]]\n"),
        Just("policies:\n  - "),
        Just("name = \"a\"\n"),
        Just("name: a\n    "),
        Just("on_failure = \"allow\"\n"),
        Just("on_failure: deny\n    "),
        Just("limits = [{ subject = \"ip\", limit = \"10/s\" }]\n"),
        Just("limits: [{subject: user, limit: 5/m, absent: ip}]\n"),
        Just("[[policies.limits]]\n"),
        Just("subject = [\"user\", \"é=1\"]\n"),
        Just("absent = { user = \"api_key\" }\n"),
        Just("when = { host = \"*.x*\", header.a = [] }\n"),
        Just("cost = { from = \"field.x\", max = 9 }\n"),
        Just("overrides = [{}]\n"),
        Just("\"\"\""),
        Just("= "),
        Just("{ "),
        Just("] "),
        Just("\u{feff}"),
        Just("é\r\n"),
        Just("&a *a "),
        Just("<<: *a\n"),
        Just("!!binary x"),
        Just("- "),
        Just("\t"),
        Just("1e400"),
        Just("99999999999999999999999999999999999999999"),
        Just("? "),
        Just("--- "),
    ];
    prop::collection::vec(words, 0..20).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn no_file_panics_and_every_problem_has_a_place(
        text in prop_oneof![nearly(), any::<String>()],
    ) {
        for format in [Format::Toml, Format::Yaml] {
            let problems = match Policies::parse(&text, format) {
                Ok(policies) => policies.warnings().clone(),
                Err(problems) => {
                    prop_assert!(problems.has_errors());
                    problems
                }
            };
            for problem in problems.iter() {
                prop_assert!(problems.place(problem).is_some());
                let span = problem.span().unwrap();
                prop_assert!(text.get(span).is_some());
                prop_assert!(!problem.what().is_empty() && !problem.remedy().is_empty());
                prop_assert!(matches!(problem.level(), Level::Error | Level::Warning));
            }
            let _ = problems.to_string();
        }
    }

    #[test]
    fn files_of_any_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.toml", "a.yaml"] {
            let path = folder.path().join(name);
            std::fs::write(&path, &bytes).unwrap();
            if let Err(problems) = Policies::load(&path) {
                prop_assert!(problems.iter().all(|problem| problems.place(problem).is_some()));
            }
        }
    }
}

#[test]
fn a_heading_that_adds_to_a_list_in_brackets_is_told_in_words() {
    let text = policy("limits = [{ subject = \"ip\", limit = \"10/s\" }]")
        + "[[policies.limits.overrides]]\nwhen = { ip = \"10.0.0.1\" }\nlimit = \"unlimited\"\n";
    let problems = toml(&text).unwrap_err();
    let [problem] = &problems.iter().collect::<Vec<_>>()[..] else { panic!("{problems}") };
    assert_eq!(
        problem.what(),
        "`limits` is a list in brackets above, and a heading adds nothing to it"
    );
    assert!(
        problem
            .remedy()
            .starts_with("write its tables under headings too, e.g. `[[policies.limits]]`")
    );
    // The remedy's text is accepted.
    let right = "limits = [{ subject = \"ip\", limit = \"10/s\", overrides = [{ when = { ip = \
                 \"10.0.0.1\" }, limit = \"unlimited\" }] }]";
    assert!(toml(&policy(right)).is_ok());
}
