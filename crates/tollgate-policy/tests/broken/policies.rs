//! Policies that can be read, and the problems between them.

use std::time::Duration;

use tollgate_policy::{Amount, Commit, CostRule, Estimate, Reserve};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn reserved(estimate: Estimate, hold: Duration) -> CostRule {
    CostRule::from(Amount::Reserve(Reserve::new(estimate, 5, hold)))
}

#[test]
fn policies_of_one_check_share_one_shard_or_are_warned_of() {
    let said_of = |one: &str, other: &str| {
        let policy = |name: &str, shard: &str| {
            format!(
                "[[policies]]\nname = \"{name}\"\non_failure = \"allow\"\n{shard}limits = [{{ subject = \
                 [\"ip\", \"host\"], limit = \"1/s\" }}]\n"
            )
        };
        let text =
            format!("version = 1\nmatch = \"all\"\n{}{}", policy("a", one), policy("b", other));
        said(&text, Format::Toml)
    };
    let (ip, host) = ("shard = \"ip\"\n", "shard = \"host\"\n");
    assert_eq!(said_of(ip, ip), Vec::<String>::new());
    assert_eq!(said_of(ip, "shard = \"never\"\n"), Vec::<String>::new());
    assert_eq!(
        said_of(ip, host),
        ["9:8 warning <\"b\"> a check of `a` and `b` may cross slots on a cluster"]
    );
    assert!(said_of("", "")[0].ends_with("a check of `a` and `b` may cross slots on a cluster"));
    assert_eq!(said_of("shadow = true\n", ""), Vec::<String>::new());
}

#[test]
fn what_is_just_within_its_bounds_is_fine() {
    let name = format!("version = 1\n[[policies]]\nname = \"{}\"\n", "p".repeat(64));
    let text = format!("{name}on_failure = \"allow\"\n{TOML_LIMITS}");
    assert_eq!(said(&text, Format::Toml), Vec::<String>::new());
    // Names of fields, texts of patterns, names and values of constants.
    for (most, key) in [
        (64, "subject = \"header.NAME\", limit = \"1/s\", absent = \"skip\""),
        (64, "subject = \"NAME=a\", limit = \"1/s\""),
        (256, "subject = \"a=NAME\", limit = \"1/s\""),
        (
            1_024,
            "subject = \"ip\", limit = \"1/s\", overrides = [{ when.user = \"NAME\", limit = \"9/s\" }]",
        ),
        (
            1_023,
            "subject = \"ip\", limit = \"1/s\", overrides = [{ when.user = \"NAME*\", limit = \"9/s\" }]",
        ),
    ] {
        let of = |length: usize| {
            said(
                &file("entry", &key.replace("NAME", &"x".repeat(length)), Format::Toml),
                Format::Toml,
            )
        };
        assert_eq!(of(most), Vec::<String>::new(), "{key}");
        assert_eq!(of(most + 1).len(), 1, "{key}");
    }
    // Each of them is broken, and none is one too many.
    let count = |policies: usize| {
        let text = format!("version: 1\nmatch: all\npolicies: [{}]\n", "5,".repeat(policies));
        said(&text, Format::Yaml)[0].clone()
    };
    assert_eq!(count(20_000), "3:12 error <5> a policy is a whole number");
    assert_eq!(count(20_001), "3:11 error <[> there are 20001 policies");
}

/// The tables of TOML have no order, so neither have conditions.
#[test]
fn conditions_in_another_order_are_the_same() {
    let of = |when: &str| {
        let text = file("policy", &format!("when = {{ {when} }}\n"), Format::Toml);
        Policies::parse(&text, Format::Toml).unwrap()
    };
    let (one, other) = (
        of("path = \"/a\", host = \"a.com\", header.x = \"a\", user = \"b\""),
        of("user = \"b\", header.x = \"a\", host = \"a.com\", path = \"/a\""),
    );
    assert_eq!(one.policies(), other.policies());
}

#[test]
fn the_first_policy_that_hides_another_is_named() {
    let policy = |name: &str| {
        format!("[[policies]]\nname = \"{name}\"\non_failure = \"allow\"\n{TOML_LIMITS}")
    };
    let text =
        format!("version = 1\nmatch = \"first\"\n{}{}{}", policy("a"), policy("b"), policy("c"));
    let said = remedies(&text);
    assert_eq!(said.len(), 2);
    assert!(said.iter().all(|remedy| remedy.starts_with("`a` applies whenever")), "{said:?}");
}

/// A program's policies are held to the rules of a file.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn policies_of_a_program_mean_what_they_would_if_written() {
    let entry = || Entry::new(["ip"], "1/s").unwrap();
    let policy = || Policy::new("p", OnFailure::Allow).entry(entry());
    let said = |policy: Policy| match Policies::new(Combine::First, vec![policy]) {
        Ok(_) => Vec::new(),
        Err(problems) => {
            assert!(problems.iter().all(|problem| problem.span().is_none()));
            assert!(!problems.to_string().is_empty());
            problems.iter().map(|problem| problem.what().to_owned()).collect::<Vec<_>>()
        }
    };
    let with = |change: &dyn Fn(&mut Policy)| {
        let mut policy = policy();
        change(&mut policy);
        said(policy)
    };
    let constant =
        |name: &str, value: &str| Dimension::Constant { name: name.into(), value: value.into() };
    let condition = |field: Field, pattern: Pattern| Condition::new(field, vec![pattern]);
    assert_eq!(said(policy()), Vec::<String>::new());
    type Change<'c> = &'c dyn Fn(&mut Policy);
    let changes: &[(&str, Change<'_>)] = &[
        ("not the name", &|p| p.name = "a b".to_owned()),
        ("limits nothing", &|p| p.entries.clear()),
        ("has 17 entries", &|p| p.entries = vec![entry(); 17]),
        ("deadline", &|p| p.deadline = Some(std::time::Duration::ZERO)),
        ("deadline", &|p| p.deadline = Some(std::time::Duration::from_micros(60_000_001))),
        ("cost", &|p| p.cost = Amount::Fixed(0).into()),
        ("cost", &|p| p.cost = reserved(Estimate::Units(6), SECOND)),
        ("cost", &|p| p.cost = reserved(Estimate::Units(5), Duration::ZERO)),
        ("cost", &|p| {
            let sum = Field::User.into();
            p.cost = reserved(Estimate::From { sum, otherwise: Some(1) }, SECOND);
        }),
        ("cost", &|p| {
            let reserve = Reserve::new(Estimate::Units(1), 5, SECOND);
            let header = std::sync::Arc::<str>::from("X-Used");
            p.cost = Amount::Reserve(reserve.commit(Commit::Headers(header.into()))).into();
        }),
        ("cost", &|p| p.cost = Amount::Fixed((1 << 40) + 1).into()),
        ("cost", &|p| {
            p.cost = Amount::From { sum: Field::User.into(), max: 5, otherwise: None }.into();
        }),
        ("cost", &|p| {
            let sum = Field::parse("field.x").unwrap().into();
            p.cost = Amount::From { sum, max: 5, otherwise: Some(6) }.into();
        }),
        ("not a field as it", &|p| {
            let sum = Field::Header("X-Cost".into()).into();
            p.cost = Amount::From { sum, max: 5, otherwise: None }.into();
        }),
        ("not a field as it", &|p| p.shard = Shard::By(Field::Custom("a b".into()))),
        ("cannot be made", &|p| p.entries[0].subject.clear()),
        ("cannot be made", &|p| p.entries[0].subject.push(Dimension::Field(Field::Ip))),
        ("`path` cannot be a subject", &|p| {
            p.entries[0].subject.push(Dimension::Field(Field::Path));
        }),
        ("holds a secret", &|p| {
            p.entries[0].subject.push(Dimension::Field(Field::Header("cookie".into())));
        }),
        ("holds a secret", &|p| {
            p.entries[0].subject.push(Dimension::Field(Field::User));
            let cookie = Dimension::Field(Field::Header("cookie".into()));
            p.entries[0].absent.insert(Field::User, Absent::Instead(cookie));
        }),
        ("not a dimension as it", &|p| {
            p.entries[0].subject.push(Dimension::Field(Field::Header("X-A".into())));
        }),
        ("named as the field `user`", &|p| p.entries[0].subject.push(constant("user", "a"))),
        ("1 to 256 bytes", &|p| p.entries[0].subject.push(constant("a", ""))),
        ("not a condition as it", &|p| {
            p.when.push(condition(Field::Host, Pattern::Exact("A.com".into())));
        }),
        ("not a condition as it", &|p| {
            p.when.push(condition(Field::User, Pattern::Exact("*".into())));
        }),
        ("not a condition as it", &|p| {
            p.when.push(condition(Field::User, Pattern::Below(".a".into())));
        }),
        ("not a field as it", &|p| {
            p.when.push(condition(Field::Header("X-A".into()), Pattern::Any));
        }),
        ("can never hold", &|p| p.when.push(Condition::new(Field::User, Vec::new()))),
        ("has no condition", &|p| {
            p.entries[0] = entry().overridden(Vec::new(), Rule::Banned);
        }),
        ("not a condition as it", &|p| {
            let when = vec![condition(Field::User, Pattern::Exact("".into()))];
            p.entries[0] = entry().overridden(when, Rule::Banned);
        }),
        ("`absent` names 65 fields", &|p| {
            p.entries[0].absent =
                (0..65).map(|i| (Field::Custom(format!("a{i}").into()), Absent::Skip)).collect();
        }),
    ];
    for (says, change) in changes {
        let all = with(change);
        assert!(all.iter().any(|what| what.contains(says)), "{says}: {all:?}");
    }
    let none = Policies::new(Combine::First, Vec::new()).unwrap_err();
    assert!(none.to_string().contains("there are 0 policies"));
    let many = vec![policy(); 20_001];
    let many = Policies::new(Combine::First, many).unwrap_err();
    assert!(many.to_string().contains("there are 20001 policies"));
}
