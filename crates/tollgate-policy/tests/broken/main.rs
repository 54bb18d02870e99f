//! Broken files, as data in `broken/`: the message for each, its place, and the text above the
//! caret.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests may

use std::path::Path;

use tollgate_policy::{
    Absent, Combine, Condition, Dimension, Entry, Field, Format, Level, MAX_FILE_BYTES,
    MAX_PROBLEMS, OnFailure, Pattern, Policies, Policy, Problem, Problems, Rule, Shard,
};

mod policies;

/// `LINE:COLUMN LEVEL <WHAT THE CARET IS UNDER> WHAT` of each problem.
fn said(text: &str, format: Format) -> Vec<String> {
    let all = match Policies::parse(text, format) {
        Ok(policies) => vec![policies.warnings().clone(), policies.cluster_warnings().clone()],
        Err(problems) => vec![problems],
    };
    let line = |problems: &Problems, problem: &Problem| {
        let (line, column) = problems.place(problem).expect("every problem of a file has a place");
        let under = text.get(problem.span().unwrap()).unwrap().lines().next().unwrap_or_default();
        format!("{line}:{column} {} <{under}> {}", problem.level().name(), problem.what())
    };
    all.iter().flat_map(|list| list.iter().map(|one| line(list, one))).collect()
}

const TOML: &str = "version = 1\n[[policies]]\nname = \"p\"\non_failure = \"allow\"\n";
const TOML_LIMITS: &str = "limits = [{ subject = \"ip\", limit = \"1/s\" }]\n";
const YAML: &str = "version: 1\npolicies:\n  - name: p\n    on_failure: allow\n";
const YAML_LIMITS: &str = "    limits:\n      - subject: ip\n        limit: 1/s\n";

/// A file of one policy with these lines, an entry with these keys, or the whole file.
fn file(kind: &str, text: &str, format: Format) -> String {
    match (kind, format) {
        ("policy", Format::Toml) => format!("{TOML}{text}{TOML_LIMITS}"),
        ("entry", Format::Toml) => format!("{TOML}limits = [{{ {} }}]\n", text.trim_end()),
        ("policy", _) => {
            let lines: String = text.lines().map(|line| format!("    {line}\n")).collect();
            format!("{YAML}{lines}{YAML_LIMITS}")
        }
        _ => text.to_owned(),
    }
}

/// Each case is a kind, the text, `=>`, and the message; cases are parted by a line of dashes.
fn run(name: &str, format: Format) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let mut wrong = String::new();
    let mut cases = 0;
    for case in text.split("----\n").filter(|case| !case.starts_with('#')) {
        let (kind, rest) = case.split_once('\n').unwrap();
        let (input, expected) = rest.split_once("=>\n").unwrap();
        let said: String =
            said(&file(kind, input, format), format).iter().map(|s| format!("{s}\n")).collect();
        if said != expected {
            wrong.push_str(&format!("{kind}\n{input}=>\n{said}----\n"));
        }
        cases += 1;
    }
    assert!(wrong.is_empty(), "other things are said now:\n{wrong}");
    cases
}

#[test]
fn broken_toml_is_told_at_the_right_place() {
    assert!(run("toml.txt", Format::Toml) > 100);
}

#[test]
fn broken_yaml_is_told_at_the_right_place() {
    assert!(run("yaml.txt", Format::Yaml) > 80);
}

fn broken(text: &str) -> Problems {
    Policies::parse_named("p.toml", text, Format::Toml).unwrap_err()
}

/// The correction of each problem.
fn remedies(text: &str) -> Vec<String> {
    match Policies::parse(text, Format::Toml) {
        Ok(policies) => policies.warnings().iter().map(|p| p.remedy().to_owned()).collect(),
        Err(problems) => problems.iter().map(|p| p.remedy().to_owned()).collect(),
    }
}

#[test]
fn remedies_name_what_was_likely_meant() {
    let entry = |keys: &str| file("entry", keys, Format::Toml);
    for (text, says) in [
        (entry("subject = \"IP\", limit = \"1/s\""), "did you mean `ip`? The fields are"),
        (entry("subject = \"usr\", limit = \"1/s\""), "did you mean `user`? The fields are"),
        (entry("subject = \"zzz\", limit = \"1/s\""), "the fields are ip, host"),
        (entry("subject = \"header\", limit = \"1/s\""), "e.g. `header.NAME`"),
        (entry("subject = \"ip,user\", limit = \"1/s\""), "as a list"),
        (entry("subject = \"user\", limit = \"1/s\", absent = \"dney\""), "mean `deny`? It is"),
        (entry("subject = \"ip\", limit = \"unlimited\""), "leave the entry out"),
        (entry("subject = \"header.cookie\", limit = \"1/s\""), "use `api_key`"),
        (file("policy", "shard = \"nevr\"\n", Format::Toml), "did you mean `never`?"),
        (file("policy", "when.path = \"/a/\"\n", Format::Toml), "write `/a`"),
        (file("policy", "when.api_key = \"k-*\"\n", Format::Toml), "write each key whole"),
        (file("policy", "when.api_key = \"hash:12\"\n", Format::Toml), "32 hexadecimal digits"),
        (file("policy", "when.host = \"a.com:80\"\n", Format::Toml), "write `a.com`"),
        (file("policy", "limts = 5\n", Format::Toml), "did you mean `limits`? The keys here"),
        (file("policy", "qqqq = 5\n", Format::Toml), "the keys here are name"),
        (
            entry("subject = \"user\", limit = \"1/s\", absent = \"api_key\""),
            "it stands in, and can be absent too: write a table, e.g. `absent = { user = \"api_key\"",
        ),
        (entry("subject = \"user\", limit = \"1/s\""), "write `absent = \"skip\"` (this limit"),
        ("version = \"1\"\npolicies = 5".to_owned(), "without quotes: `version = 1`"),
        ("version = 2\npolicies = 5".to_owned(), "this program reads version 1"),
    ] {
        let said = remedies(&text);
        assert!(said.iter().any(|remedy| remedy.contains(says)), "{text}\n{said:#?}");
    }
    // The value of a secret is in no message; that it is in the line cannot be helped.
    let text = file("policy", "when.header.cookie = \"s3cret\"\n", Format::Toml);
    let policies = Policies::parse(&text, Format::Toml).unwrap();
    let all: Vec<_> = policies.warnings().iter().collect();
    assert_eq!((all.len(), all[0].level()), (1, Level::Warning));
    assert!(!all[0].what().contains("s3cret") && !all[0].remedy().contains("s3cret"));
}

#[test]
fn yaml_remedies_speak_of_yaml() {
    let remedy = |text: &str| {
        let problems = Policies::parse(text, Format::Yaml).unwrap_err();
        let first = problems.iter().next().unwrap();
        assert!(!first.what().contains(" at line "), "{}", first.what());
        first.remedy().to_owned()
    };
    for (text, says) in [
        ("a: *.example.com", "in quotes, e.g. `\"*.example.com\"`"),
        ("a: b: c", "keys of one table at one column"),
        ("a: @b", "special character in quotes"),
        ("a: !secret b", "leave the tag out"),
        ("a: 1\n---\nb: 1", "one document"),
        ("a: &a [*a]", "write the value itself"),
        ("a: b\n\tc: d", "indent with blanks"),
        ("a: {b", "write it as YAML 1.2"),
        ("version: 1\n<<: {version: 1}", "put `<<` first"),
        ("<<: 5\nversion: 1", "a list of tables, e.g. `<<: *defaults`"),
        ("<<: [{version: 1}, x]", "a list of tables"),
    ] {
        let problems = Policies::parse(text, Format::Yaml).unwrap_err();
        let mut all = problems.iter().map(tollgate_policy::Problem::remedy);
        assert!(all.any(|remedy| remedy.contains(says)), "{text}: {}", remedy(text));
    }
}

#[test]
fn marks_and_ends_of_lines_move_no_column() {
    let text = format!("{TOML}limits = [{{ subject = \"usr\", limit = \"1/s\" }}]\n");
    let said_of = |text: &str| said(text, Format::Toml);
    let usual = vec!["5:24 error <usr> `usr` is not a field".to_owned()];
    assert_eq!(said_of(&text), usual);
    assert_eq!(said_of(&text.replace('\n', "\r\n")), usual);
    assert_eq!(said_of(&format!("\u{feff}{text}")), usual);
    let marked = "\u{feff}version = 2\npolicies = 5";
    assert_eq!(said_of(marked)[0], "1:11 error <2> this is not a version of a policy file");
    assert!(broken(marked).to_string().contains("\n1 | version = 2\n  |           ^\n"));
    // A tab is one column, and shown as some blanks.
    let tabs = text.replace(" = [{", "\t=\t[{");
    assert_eq!(said_of(&tabs), usual);
    let shown = broken(&tabs).to_string();
    let line = |start: &str| shown.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    assert_eq!(line("5 |").find("usr"), line("  |    ").find("^^^"), "{shown}");
    let yaml = format!("{YAML}{}", YAML_LIMITS.replace("ip", "usr"));
    let usual = vec!["6:18 error <usr> `usr` is not a field".to_owned()];
    for ends in ["\n", "\r\n", "\r"] {
        assert_eq!(said(&yaml.replace('\n', ends), Format::Yaml), usual, "{ends:?}");
        let marked = format!("\u{feff}{}", yaml.replace('\n', ends));
        assert_eq!(said(&marked, Format::Yaml), usual, "{ends:?}");
    }
}

#[test]
fn a_long_line_is_cut_and_its_column_is_not() {
    let user = "x".repeat(500);
    let text = format!(
        "{{\"version\": 1, \"policies\": [{{\"name\": \"p\", \"on_failure\": \"allow\", \"when\": \
         {{\"user\": \"{user}\"}}, \"limits\": [{{\"subject\": \"usr\", \"limit\": \"1/s\"}}]}}]}}"
    );
    let column = text.find("usr").unwrap() + 1;
    let problems = Policies::parse_named("p.yaml", &text, Format::Yaml).unwrap_err();
    let problem = problems.iter().next().unwrap();
    assert_eq!(problems.place(problem), Some((1, column)));
    let shown = problems.to_string();
    assert!(shown.contains(&format!("--> p.yaml:1:{column}\n")), "{shown}");
    assert!(shown.len() < 1_000, "{shown}");
    let line = |with: &str| shown.lines().find(|line| line.contains(with)).unwrap();
    assert_eq!(line("\"subject\"").find("usr"), line("^").find("^^^"), "{shown}");
}

#[test]
fn what_others_wrote_moves_no_cursor_and_fills_no_log() {
    let hostile = "a\\u001b[31m\\nerror: \\u202e\\u2028x\\u0000";
    for text in [
        file("entry", &format!("subject = \"{hostile}\", limit = \"1/s\""), Format::Toml),
        file("entry", &format!("subject = \"ip\", limit = \"{hostile}\""), Format::Toml),
        file(
            "entry",
            &format!("subject = \"user\", limit = \"1/s\", absent = \"{hostile}\""),
            Format::Toml,
        ),
        file("policy", &format!("\"{hostile}\" = 1\n"), Format::Toml),
        file("policy", &format!("when = {{ \"{hostile}\" = \"a\" }}\n"), Format::Toml),
        file("policy", &format!("when = {{ path = \"{hostile}\" }}\n"), Format::Toml),
        file("policy", &format!("deadline = \"{hostile}\"\n"), Format::Toml),
        file("policy", &format!("shard = \"{hostile}\"\n"), Format::Toml),
        file("policy", "name = \"\u{1b}[31m\"\n", Format::Toml),
        "version = 1 # \u{1b}[31m\n".to_owned(),
    ] {
        let problems = match Policies::parse(&text, Format::Toml) {
            Ok(policies) => policies.warnings().clone(),
            Err(problems) => problems,
        };
        assert!(!problems.is_empty(), "{text}");
        let bad = |c: char| matches!(c, '\u{202e}' | '\u{2028}') || c.is_control() && c != '\n';
        for problem in problems.iter() {
            assert!(!problem.what().contains(['\n', '\u{1b}']), "{:?}", problem.what());
            assert!(!problem.remedy().contains(bad), "{:?}", problem.remedy());
            assert!(!problem.what().contains(bad), "{:?}", problem.what());
        }
        let shown = problems.named("a\u{1b}[2J\n.toml").to_string();
        assert!(!shown.contains(bad) && shown.contains("a\\u{1b}[2J\\n.toml"), "{shown:?}");
    }
    for long in [
        file(
            "entry",
            &format!("subject = \"{}\", limit = \"1/s\"", "é".repeat(9_999)),
            Format::Toml,
        ),
        file("policy", &format!("{} = 1\n", "x".repeat(9_999)), Format::Toml),
        file(
            "policy",
            &format!("when = {{ host = \"{}:80\" }}\n", "x".repeat(1_000)),
            Format::Toml,
        ),
    ] {
        let problems = Policies::parse(&long, Format::Toml);
        let problems = problems.map_or_else(|problems| problems, |p| p.warnings().clone());
        let problem = problems.iter().next().unwrap();
        assert!(problem.what().chars().count() <= 303, "{}", problem.what());
        assert!(problem.remedy().chars().count() <= 2_003);
        assert!(problems.to_string().chars().count() < 3_500);
    }
    // The invalid part is behind the name, and is still there.
    let long =
        file("entry", &format!("subject = \"{}\", limit = \"1/s\"", "x".repeat(999)), Format::Toml);
    assert!(broken(&long).iter().next().unwrap().what().ends_with("xxx` is not a field"));
}

#[test]
fn what_is_no_file_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("folder.toml")).unwrap();
    std::fs::write(at("p.txt"), TOML).unwrap();
    std::fs::write(at("p"), TOML).unwrap();
    std::fs::write(at("latin.toml"), b"version = 1\n# \xe9\n").unwrap();
    std::fs::write(at("wide.yaml"), b"\xff\xfev\0e\0").unwrap();
    let full = "#".repeat(MAX_FILE_BYTES);
    std::fs::write(at("full.toml"), &full).unwrap();
    std::fs::write(at("over.toml"), format!("{full}#")).unwrap();
    for (name, place, says) in [
        ("folder.toml", (1, 1), "this is a folder"),
        ("missing.toml", (1, 1), "the file cannot be read: "),
        ("p.txt", (1, 1), "the name of the file does not say how it is written"),
        ("p", (1, 1), "the name of the file does not say how it is written"),
        ("latin.toml", (2, 3), "from here on this is not UTF-8"),
        ("wide.yaml", (1, 1), "from here on this is not UTF-8"),
        ("full.toml", (1, 1), "the file says nothing"),
        ("over.toml", (1, 1), "the file has over 4194304 bytes"),
    ] {
        let problems = Policies::load(at(name)).unwrap_err();
        let all: Vec<_> = problems.iter().collect();
        assert_eq!(all.len(), 1, "{problems}");
        assert_eq!(problems.place(all[0]), Some(place), "{problems}");
        assert!(all[0].what().starts_with(says), "{problems}");
        assert!(problems.to_string().contains(name), "{problems}");
    }
    // The bound is the same for a text that no file holds.
    assert!(broken(&full).to_string().contains("says nothing"));
    assert!(broken(&format!("{full}#")).to_string().contains("the file has 4194305 bytes"));
}

/// Files of a few megabytes that took minutes, or gigabytes, or the stack, where each part was
/// compared with each other, or followed to its end.
#[test]
fn bounds_hold_before_the_work_begins() {
    let many = |from: usize, to: usize, one: &dyn Fn(usize) -> String, between: &str| {
        (from..to).map(one).collect::<Vec<_>>().join(between)
    };
    let entries = many(0, 17, &|i| format!("{{subject=\"a=a{i}\",limit=\"1/s\"}}"), ",");
    let conditions = many(0, 65, &|i| format!("field.a{i}=\"x\""), ",");
    let chain = many(0, 65, &|i| format!("\"field.a{i}\"=\"field.a{}\"", i + 1), ",");
    let overrides = many(0, 10_001, &|i| format!("{{when.user=\"{i}\",limit=\"banned\"}}"), ",");
    let patterns = many(0, 10_001, &|i| format!("\"{i}\""), ",");
    let dimensions = many(0, 17, &|i| format!("\"field.a{i}\""), ",");
    for (text, says) in [
        (format!("{TOML}limits=[{entries}]"), "5:8 error there are 17 entries of limits"),
        (
            file("policy", &format!("when={{{conditions}}}\n"), Format::Toml),
            "5:6 error `when` has 65 conditions",
        ),
        (
            file(
                "entry",
                &format!("subject=\"field.a0\",limit=\"1/s\",absent={{{chain}}}"),
                Format::Toml,
            ),
            "5:51 error `absent` names 65 fields",
        ),
        (
            file(
                "entry",
                &format!("subject=\"ip\",limit=\"1/s\",overrides=[{overrides}]"),
                Format::Toml,
            ),
            "5:48 error there are 10001 overrides",
        ),
        (
            file("policy", &format!("when.user=[{patterns}]\n"), Format::Toml),
            "5:11 error there are 10001 values of `user`",
        ),
        (
            file("entry", &format!("subject=[{dimensions}],limit=\"1/s\""), Format::Toml),
            "5:21 error a subject has at most 16 dimensions",
        ),
    ] {
        let problems = broken(&text);
        let problem = problems.iter().next().unwrap();
        let (line, column) = problems.place(problem).unwrap();
        assert_eq!(format!("{line}:{column} {} {}", problem.level().name(), problem.what()), says);
    }
    // One less of each is fine.
    let entries = many(0, 16, &|i| format!("{{subject=\"a=a{i}\",limit=\"1/s\"}}"), ",");
    let conditions = many(0, 64, &|i| format!("field.a{i}=\"x\""), ",");
    let text = format!("{TOML}shard=\"never\"\nwhen={{{conditions}}}\nlimits=[{entries}]");
    assert_eq!(said(&text, Format::Toml), Vec::<String>::new());
    let chain = many(0, 63, &|i| format!("\"field.a{i}\"=\"field.a{}\"", i + 1), ",");
    let keys =
        format!("subject=\"field.a0\",limit=\"1/s\",absent={{{chain},\"field.a63\"=\"ip\"}}");
    assert_eq!(said(&file("entry", &keys, Format::Toml), Format::Toml), Vec::<String>::new());
    // Long lists of keys are compared by looking them up.
    let mut text = "version=1\nmatch=\"all\"\n".to_owned();
    for policy in 0..40 {
        let keys = many(0, 7_000, &|i| format!("\"{policy}k{i}\""), ",");
        text.push_str(&format!(
            "[[policies]]\nname=\"p{policy}\"\non_failure=\"allow\"\nshard=\"never\"\ncost={}\n\
             when.api_key=[{keys}]\nlimits=[{{subject=\"ip\",limit=\"99/s\"}}]\n",
            policy + 1
        ));
    }
    assert_eq!(said(&text, Format::Toml), Vec::<String>::new());
    // A name of megabytes is near none.
    let text = format!("{TOML}{} = 5\n{TOML_LIMITS}", "x".repeat(4_000_000));
    assert!(broken(&text).to_string().len() < 2_000);
}

#[test]
fn of_many_problems_errors_are_kept_and_in_order() {
    let mut text = "version = 1\nmatch = \"all\"\n".to_owned();
    for i in 0..300 {
        let method = if i == 299 { "5" } else { "\"get\"" };
        text.push_str(&format!(
            "[[policies]]\nname = \"p{i}\"\non_failure = \"allow\"\nshard = \"never\"\nwhen.method = \
             {method}\nlimits = [{{ subject = \"ip\", limit = \"1/s\" }}]\n"
        ));
    }
    let problems = broken(&text);
    let lines: Vec<usize> =
        problems.iter().map(|problem| problems.place(problem).unwrap().0).collect();
    assert_eq!((lines.len(), problems.more()), (MAX_PROBLEMS, 300 - MAX_PROBLEMS));
    assert!(lines.is_sorted(), "{lines:?}");
    assert_eq!(problems.iter().filter(|problem| problem.level() == Level::Error).count(), 1);
}

/// The page shows what is shown.
#[test]
fn the_page_has_a_problem_as_it_is_shown() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policies.md");
    let page = std::fs::read_to_string(page).unwrap();
    let head = "version = 1\n[[policies]]\nname = \"p\"\n\n\non_failure = \"allow\"\n";
    let limits = "limits = [{ subjct = \"ip\", limit = \"1000/1h via token_bucket\" }]\n";
    let problems = Policies::parse_named("policies.toml", &format!("{head}{limits}"), Format::Toml);
    let shown = problems.unwrap_err().to_string();
    let example = page.split("```\nerror:").nth(1).unwrap().split("\n```").next().unwrap();
    assert!(shown.contains(&format!("error:{example}")), "{shown}\nbut the page has\n{example}");
}
