//! Policy files: a parsed file is one that a program could have built, and the same in both
//! formats.

use tollgate_policy::{Field, Fields, Format, MAX_PROBLEMS, Policies, Problems};

use std::borrow::Cow;
use std::net::IpAddr;

use super::text;

/// A file, read as TOML and as YAML.
pub(crate) fn file(data: &[u8]) {
    let text = text(data);
    for format in [Format::Toml, Format::Yaml] {
        match Policies::parse(text, format) {
            Ok(policies) => {
                problems(policies.warnings());
                reads_the_same(&policies, text, format);
                // A request that has every field there is.
                assert_eq!(policies.count_matching(&Every), policies.matching(&Every).len());
            }
            Err(found) => {
                assert!(found.has_errors());
                problems(&found);
            }
        }
    }
}

fn problems(found: &Problems) {
    assert!(found.iter().count() <= MAX_PROBLEMS);
    for problem in found.iter() {
        assert!(!problem.what().is_empty() && !problem.remedy().is_empty());
    }
    assert!(found.is_empty() || !found.to_string().is_empty());
}

fn reads_the_same(policies: &Policies, text: &str, format: Format) {
    let again = Policies::parse(text, format).expect("it was read before");
    assert_eq!(again.hash(), policies.hash());
    assert_eq!(again.policies(), policies.policies());
    let said = Policies::new(policies.combine(), policies.policies().to_vec());
    let said = said.expect("a program may say what a file says");
    assert_eq!(said.policies(), policies.policies());
    // JSON is YAML: what TOML says, YAML says as well.
    if format == Format::Toml {
        let tree: toml::Table = toml::from_str(text).expect("it was read as TOML");
        let yaml = serde_json::to_string(&tree).expect("TOML is a tree");
        let yaml = Policies::parse(&yaml, Format::Yaml).expect("YAML can say it, too");
        assert_eq!(yaml.combine(), policies.combine());
        assert_eq!(yaml.policies(), policies.policies());
    }
}

struct Every;

impl Fields for Every {
    fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
        match field {
            Field::Ip => Some("192.0.2.7".into()),
            Field::Path => Some("/login".into()),
            _ => Some("a".into()),
        }
    }

    fn address(&self) -> Option<IpAddr> {
        "192.0.2.7".parse().ok()
    }
}
