//! Files that are too large, and those that are just not.

use super::*;

#[test]
fn aliases_that_explode_are_refused() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let inner = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }
    assert!(yaml(&bomb).unwrap_err().has_errors());
    // A large text that is repeated is memory too.
    let large = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), "*a, ".repeat(100_000));
    assert!(yaml(&large).unwrap_err().has_errors());
    // And a few are fine.
    let few = "version: 1\npolicies:\n  - name: p\n    on_failure: allow\n    limits: [{subject: ip, limit: &l 5/s}, {subject: host, limit: *l}]\n";
    assert!(yaml(few).is_ok());
}

#[test]
fn files_that_are_too_large_or_too_deep_are_refused() {
    let large = "#".repeat(tollgate_policy::MAX_FILE_BYTES + 1);
    for format in [Format::Toml, Format::Yaml] {
        let error = Policies::parse(&large, format).unwrap_err();
        assert!(error.to_string().contains("bytes"), "{error}");
        let deep = format!("a = {}", "[".repeat(100_000));
        assert!(Policies::parse(&deep, format).unwrap_err().has_errors());
        let deep = format!("a: {}", "{a: ".repeat(100_000));
        assert!(Policies::parse(&deep, format).unwrap_err().has_errors());
    }
    let line = format!("{} = 1 {}", "x".repeat(100_000), "\u{1b}[31m");
    assert!(toml(&line).unwrap_err().to_string().len() < 100_000);
}

#[test]
fn ten_thousand_policies_are_read_and_found() {
    let mut text = "version = 1\nmatch = \"first\"\n".to_owned();
    for i in 0..10_000 {
        text.push_str(&format!(
            "[[policies]]\nname = \"p{i}\"\non_failure = \"allow\"\nwhen = {{ host = \
             \"a.com\", path = \"/p{i}/*\" }}\nlimits = [{{ subject = \"ip\", limit = \"9/s\" }}]\n"
        ));
    }
    let policies = toml(&text).unwrap_or_else(|error| panic!("{error}"));
    for i in [0, 77, 9_999] {
        let path = format!("/p{i}/x");
        let found = policies.matching(&[("host", "A.com"), ("path", path.as_str())]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, format!("p{i}"));
    }
    assert!(policies.matching(&[("host", "b.com"), ("path", "/p7/x")]).is_empty());
}

#[test]
fn too_many_policies_are_refused() {
    let text = format!("version: 1\npolicies: [{}]\n", "a,".repeat(20_001));
    let error = yaml(&text).unwrap_err();
    assert!(error.to_string().contains("20001 policies"), "{error}");
    // Many problems are bounded, too.
    let text = format!("version: 1\nmatch: all\npolicies: [{}]\n", "a,".repeat(5_000));
    let error = yaml(&text).unwrap_err();
    assert_eq!((error.iter().count(), error.more()), (200, 4_800));
    assert!(error.to_string().ends_with("and 4800 more"));
}
