//! Policies from the rules of others: Tollgate reads the written file, and decides the same.

use tollgate_envoy::{Config, import};
use tollgate_policy::{Format, Gate, Policies};

/// Asks whether this request goes on, and charges it.
fn admits(gate: &Gate<tollgate::MemoryStore>, fields: &[(&str, &str)]) -> bool {
    futures_executor::block_on(gate.check(&fields)).is_allowed()
}

#[test]
fn rules_become_policies_that_count_the_same() {
    let text = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 2 }
  - key: user
    value: vip
    rate_limit: { unit: day, requests_per_unit: 4, name: vips }
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        rate_limit: { unit: hour, requests_per_unit: 1 }
  - key: files
    value: a/*
    share_threshold: true
    rate_limit: { unit: day, requests_per_unit: 1 }
  - key: banned
    rate_limit: { unit: day, requests_per_unit: 0 }
  - key: trial
    shadow_mode: true
    rate_limit: { unit: day, requests_per_unit: 1 }
  - key: path
    rate_limit: { unit: day, requests_per_unit: 1 }
  - key: midst
    value: a*b
    rate_limit: { unit: day, requests_per_unit: 1 }
  - key: path
    value: files/*
    share_threshold: true
    rate_limit: { unit: day, requests_per_unit: 1 }
  - key: free
    rate_limit: { unlimited: true }
  - key: month
    limit: 1/month in Europe/Berlin from 15th
  - key: part
    quota_mode: true
    rate_limit: { unit: day, requests_per_unit: 1 }
    metadata: { a: b }
";
    let config = Config::read([("rules.yaml", text)]).unwrap();
    let made = import::rules(&config, "rules.yaml");
    let policies = Policies::parse(&made.policies, Format::Toml);
    let policies = policies.unwrap_or_else(|why| panic!("{why}\n{}", made.policies));
    assert!(policies.warnings().is_empty(), "{}", policies.warnings());
    let calendar = "limit = \"1/month in Europe/Berlin from 15th via fixed_window\"";
    assert!(made.policies.contains(calendar), "{}", made.policies);
    let gate = Gate::new(policies, tollgate::MemoryStore::new()).unwrap();
    let ask = |fields: &[(&str, &str)]| {
        admits(&gate, &[&[("field.domain", "shop"), ("ip", "192.0.2.7")], fields].concat())
    };
    for (fields, expected) in [
        (&[("field.user", "ann")][..], &[true, true, false][..]),
        (&[("field.user", "bob")], &[true]),
        (&[("user", "vip")], &[true, true, true, true, false]),
        (&[("path", "/login")], &[true, false]),
        (&[("field.files", "a/1")], &[true]),
        (&[("field.files", "a/2")], &[false]),
        (&[("field.files", "b/2")], &[true, true]),
        (&[("field.banned", "x")], &[false]),
        (&[("field.trial", "x")], &[true, true]),
        (&[("field.free", "x")], &[true, true]),
    ] {
        // `user` is a separate field.
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (if *name == "field.user" { "user" } else { name }, *value))
            .collect();
        for (turn, expected) in expected.iter().enumerate() {
            assert_eq!(ask(&fields), *expected, "{fields:?} {turn}\n{}", made.policies);
        }
    }
    let notes = made.notes.join("\n");
    for says in [
        "shop: denied requests charge nothing",
        "shop: on_failure is \"allow\"",
        "shop.path: left out: a policy does not count by `path`",
        "shop.midst_a*b: left out: `a*b` has a `*` that is not its end",
        "shop.path_files/*: left out: no path is ever like `files/*`",
        "shop.free: left out: it is unlimited",
        "shop.part: quota_mode has no equal",
        "shop.part: metadata has no equal",
    ] {
        assert!(notes.contains(says), "{notes}\nhas no: {says}");
    }
    assert_eq!(made.notes.len(), 8, "{notes}");
}

#[test]
fn limits_of_limitador_become_policies() {
    let text = r#"
- namespace: shop
  max_value: 2
  seconds: 3600
  conditions: ["descriptors[0]['req.method'] == 'GET'"]
  variables: ["descriptors[0].user_id"]
- name: all of it
  namespace: shop
  max_value: 3
  seconds: 3600
  conditions: ['req.method == "GET"']
  variables:
- namespace: shop
  max_value: 10
  seconds: 60
  conditions: ["descriptors[0].size > 5"]
  variables: []
- namespace: shop
  max_value: 10
  seconds: 60
  conditions: []
  variables: ["descriptors[1].user_id"]
"#;
    let made = import::limitador("limits.yaml", text).unwrap();
    let policies = Policies::parse(&made.policies, Format::Toml);
    let policies = policies.unwrap_or_else(|why| panic!("{why}\n{}", made.policies));
    let gate = Gate::new(policies, tollgate::MemoryStore::new()).unwrap();
    let ask = |user, method| {
        let fields = [
            ("field.domain", "shop"),
            ("ip", "192.0.2.7"),
            ("field.user_id", user),
            ("field.req.method", method),
        ];
        admits(&gate, &fields)
    };
    for (user, method, expected) in [
        ("ann", "GET", true),
        ("ann", "GET", true),
        ("ann", "GET", false),
        ("bob", "GET", true),
        ("bob", "GET", false),
        ("bob", "POST", true),
    ] {
        assert_eq!(ask(user, method), expected, "{user} {method}\n{}", made.policies);
    }
    let notes = made.notes.join("\n");
    for left_out in [
        "limit 3: left out: the condition `descriptors[0].size > 5`",
        "limit 4: left out: the variable `descriptors[1].user_id`",
    ] {
        assert!(notes.contains(left_out), "{notes}");
    }
    for (text, says) in [
        ("a: 1\n", "a list of limits"),
        ("- namespace: a\n  max_value: 0\n  seconds: 1\n", "`max_value` is a whole number"),
        ("- namespace: a\n  max_value: 1\n", "the limit has no `seconds`"),
        ("- namespace: a\n  max_valu: 1\n", "unknown key `max_valu`"),
        ("- namespace:\n  max_value: 1\n  seconds: 1\n", "`namespace` is nothing"),
        ("- namespace: a\n  max_value: 1\n  seconds: 1\n  variables: b\n", "`variables` is a text"),
        ("- 5\n", "a limit is a whole number"),
    ] {
        let told = import::limitador("limits.yaml", text).unwrap_err().to_string();
        assert!(told.contains(says) && told.contains("limits.yaml:"), "{told}");
    }
}
