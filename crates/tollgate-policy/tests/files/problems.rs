//! The problems in a file, with their places.

use super::*;

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn every_problem_is_told_with_its_place() {
    let some: &[(&str, &[&str])] = &[
        ("", &["1:1 error the file says nothing"]),
        ("# nothing\n", &["1:1 error the file says nothing"]),
        ("version = 1", &["1:1 error `policies` is missing"]),
        (
            "policies = []\nversion = 2",
            &["1:12 error there is no policy", "2:11 error this is not a version of a policy file"],
        ),
        ("version = 1\npolicies = 5", &["2:12 error `policies` is a whole number"]),
        ("version = 1\npolicies = [5]", &["2:13 error a policy is a whole number"]),
        (
            &entry("subject = \"ip\", limit = \"10/s via gcr\""),
            &["5:47 error unknown strategy `gcr`"],
        ),
        (
            &entry("subjct = \"ip\", limit = \"10/s\""),
            &["5:11 error `subject` is missing", "5:13 error unknown key `subjct`"],
        ),
        (
            &entry("subject = \"path\", limit = \"10/s\""),
            &["5:24 error `path` cannot be a subject"],
        ),
        (&entry("subject = \"usr\", limit = \"10/s\""), &["5:24 error `usr` is not a field"]),
        (
            &entry("subject = \"header.a b\", limit = \"10/s\""),
            &["5:31 error this is not the name of a header"],
        ),
        (
            &entry("subject = [\"ip\", \"ip\"], limit = \"10/s\""),
            &["5:30 error `ip` is in the subject twice"],
        ),
        (
            &entry("subject = \"user=x\", limit = \"10/s\""),
            &["5:24 error a constant cannot be named as the field `user`"],
        ),
        (
            &entry("subject = \"user\", limit = \"10/s\""),
            &["5:23 error nothing says what happens when `user` is absent"],
        ),
        (
            &entry("subject = \"user\", limit = \"10/s\", absent = \"api_key\""),
            &["5:47 error nothing says what happens when `api_key` is absent"],
        ),
        (
            &entry("subject = \"user\", limit = \"10/s\", absent = \"user\""),
            &["5:47 error what stands in goes in a circle: `user`, then `user`"],
        ),
        (
            &entry(
                "subject = \"user\", limit = \"10/s\", absent = { user = \"api_key\", api_key = \
                 \"user\" }",
            ),
            &["5:47 error what stands in goes in a circle: `user`, then `api_key`, then `user`"],
        ),
        (
            &entry("subject = \"user\", limit = \"10/s\", absent = \"skp\""),
            &["5:57 error `skp` says not what happens without it"],
        ),
        (
            &entry(
                "subject = \"user\", limit = \"10/s\", absent = { user = \"skip\", route = \
                 \"deny\" }",
            ),
            &["5:47 error `route` is not in this subject"],
        ),
        (
            &entry("subject = \"host\", limit = \"10/s\", absent = \"skip\""),
            &["5:56 warning `absent` says nothing here: these dimensions are always there"],
        ),
        // An address can be absent, over a unix socket.
        (&entry("subject = \"ip\", limit = \"10/s\", absent = \"skip\""), &[]),
        (&entry("subject = \"ip\", limit = \"10/s\", absent = { ip = \"host\" }"), &[]),
        (
            &entry(
                "subject = [\"ip\", \"user\"], limit = \"10/s\", absent = { user = \"ip\", ip = \
                 \"deny\" }",
            ),
            &[],
        ),
        (
            &entry("subject = \"ip\", limit = \"10/s\", absent = \"ip\""),
            &["5:45 error what stands in goes in a circle: `ip`, then `ip`"],
        ),
        (
            &entry("subject = \"ip\", limit = \"10/s\", absent = { host = \"skip\" }"),
            &["5:45 error `host` is always there"],
        ),
        (
            &entry("subject = \"ip\", limit = [\"10/s\", \"20/s\"]"),
            &["5:37 error two limits have the identity `sliding_log/1s`"],
        ),
        (&entry("subject = \"ip\", limit = 5"), &["5:37 error `limit` is a whole number"]),
        (&entry("subject = \"ip\", limit = []"), &["5:37 error the list of `limit` is empty"]),
        (&policy("limits = []"), &["5:10 error there is no limit"]),
        (
            &policy("limits = [{ subject = \"ip\", limit = \"1/s\" }]\nname = \"q\""),
            &["6:1 error `name` is given twice"],
        ),
        (
            &policy("when = { host = \"a**b\" }\nlimits = [{ subject = \"ip\", limit = \"1/s\" }]"),
            &["5:20 error a `*` cannot stand here"],
        ),
        (
            &policy(
                "when = { host = \"*.a**\" }\nlimits = [{ subject = \"ip\", limit = \"1/s\" }]",
            ),
            &["5:22 error a `*` cannot stand here"],
        ),
        (
            &policy("when = { path = \"\" }\nlimits = [{ subject = \"ip\", limit = \"1/s\" }]"),
            &["5:17 error an empty value matches nothing"],
        ),
        (
            &policy("when = {}\nlimits = [{ subject = \"ip\", limit = \"1/s\" }]"),
            &["5:8 error `when` has no condition"],
        ),
        (
            &policy(
                "when = { method = \"get\" }\nlimits = [{ subject = \"ip\", limit = \"1/s\" }]",
            ),
            &["5:19 warning `get` is not `GET`: methods are compared exactly"],
        ),
        (
            &policy(
                "when = { method = \"get it\" }\nlimits = [{ subject = \"ip\", limit = \"1/s\" }]",
            ),
            &["5:20 error no method is ever like `get it`"],
        ),
        (
            &policy(
                "when = { method = \"POST\" }\n[[policies.limits]]\nsubject = \"ip\"\n\
                 limit = \"1/s\"\n[[policies.limits.overrides]]\n\
                 when = { method = [\"GET\", \"HEAD\"] }\nlimit = \"banned\"",
            ),
            &["9:1 error this override can never hold"],
        ),
        (
            &policy("deadline = \"2h\"\nlimits = [{ subject = \"ip\", limit = \"1/s\" }]"),
            &["5:12 error `2h` is not a deadline"],
        ),
        (
            &policy("deadline = 50\nlimits = [{ subject = \"ip\", limit = \"1/s\" }]"),
            &["5:12 error `deadline` is a whole number"],
        ),
        (
            &policy("cost = 0\nlimits = [{ subject = \"ip\", limit = \"1/s\" }]"),
            &["5:8 error this number is out of range for `cost`"],
        ),
        (
            &policy("cost = { from = \"ip\" }\nlimits = [{ subject = \"ip\", limit = \"1/s\" }]"),
            &[
                "5:8 error `max` is missing",
                "5:8 error `otherwise` is missing",
                "5:17 error `ip` is not a number",
            ],
        ),
        (
            &policy("cost = 5\nlimits = [{ subject = \"ip\", limit = \"1/s\" }]"),
            &["6:37 warning no request is ever admitted: each costs 5"],
        ),
        (
            &entry("subject = \"ip\", limit = \"1/s, 3600/h via sliding_log\""),
            &["5:37 warning `3600/h via sliding_log` never binds"],
        ),
        (&entry("subject = \"ip\", limit = \"1/s, 3599/h via sliding_log\""), &[]),
        (
            &entry("subject = \"ip\", limit = \"10/s via gcra, 19/s\""),
            &["5:37 warning `19/s via sliding_log` never binds"],
        ),
        (&entry("subject = \"ip\", limit = \"10/s via gcra, 18/s\""), &[]),
    ];
    let mut bad = Vec::new();
    for (text, says) in some {
        let said = wrong(text);
        if said != *says {
            bad.push(format!("{text}\n  said {said:#?}\n  not  {says:#?}"));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn two_policies_need_to_say_which_counts_and_names_of_their_own() {
    let two = r#"
version = 1
[[policies]]
name = "a"
on_failure = "allow"
limits = [{ subject = "ip", limit = "1/s" }]
[[policies]]
name = "a"
on_failure = "maybe"
limit = []
[[policies]]
name = "a"
on_failure = "deny"
limits = [{ subject = "ip", limit = "1/s" }]
"#;
    assert_eq!(
        wrong(two),
        [
            "7:1 error `match` is missing: there are several policies",
            "7:1 error `limits` is missing",
            "9:14 error `on_failure` is neither `allow`, `deny` nor `local`",
            "10:1 error unknown key `limit`",
            "12:8 error a policy above is named `a` too",
        ]
    );
}

#[test]
fn entries_that_would_be_one_count_are_joined_or_refused() {
    let entries = |all: &str| wrong(&policy(&format!("shard = \"never\"\nlimits = [{all}]")));
    assert!(
        entries(
            "{ subject = [\"ip\", \"host\"], limit = \"1/s\" }, { subject = [\"host\", \
                 \"ip\"], limit = \"9/m\" }"
        )
        .is_empty()
    );
    let clash =
        entries("{ subject = \"ip\", limit = \"1/s\" }, { subject = \"ip\", limit = \"2/s\" }");
    assert!(
        clash[0].contains("two limits have the identity `sliding_log/1s`: another"),
        "{clash:?}"
    );
    let clash = entries(
        "{ subject = \"ip\", limit = \"1/s\" }, { subject = \"user\", limit = \"2/s\", absent = \
         \"ip\" }",
    );
    assert!(clash[0].contains("can be the same as `ip`"), "{clash:?}");
    // Under different names they are two counts.
    let apart = entries(
        "{ subject = \"ip\", limit = \"1/s\" }, { subject = \"user\", limit = \"u: 2/s\", absent = \
         \"ip\" }",
    );
    assert!(apart.is_empty(), "{apart:?}");
    let twice = entries("{ subject = [\"user\", \"a=1\"], limit = \"1/s\", absent = \"a=2\" }");
    assert!(twice[0].contains("can have `a` twice"), "{twice:?}");
    let absent = entries(
        "{ subject = \"user\", limit = \"1/s\", absent = \"skip\" }, { subject = \"user\", limit = \
         \"9/m\", absent = \"deny\" }",
    );
    assert!(absent[0].contains("has another `absent`"), "{absent:?}");
}
