//! YAML in a build without it: an error that explains what to do.

use super::node::Node;
use crate::problem::{Problem, Span};

pub(super) fn tree(_: &str, problems: &mut Vec<Problem>) -> Option<Node> {
    problems.push(Problem::error(
        Some(Span::new(0, 0)),
        "this program was built without YAML",
        "write the file as TOML (`.toml`), or have the program built with the feature `yaml` of \
         the crate `tollgate-policy`",
    ));
    None
}

#[cfg(test)]
mod tests {
    use crate::{Format, Policies};

    #[test]
    fn a_file_in_yaml_names_the_feature() {
        for text in ["version: 1\npolicies: []\n", ""] {
            let problems = Policies::parse_named("p.yaml", text, Format::Yaml).unwrap_err();
            assert_eq!(problems.iter().count(), 1, "{problems}");
            let told = problems.to_string();
            assert!(told.contains("built without YAML"), "{told}");
            assert!(told.contains("p.yaml:1:1") && told.contains("feature `yaml`"), "{told}");
        }
    }
}
