//! The lints of this crate, and of the one that Node loads, are the workspace's, but for one.

#![allow(clippy::unwrap_used, reason = "a test's panic is its verdict")]

use std::path::Path;

fn read(path: &str) -> toml::Table {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(file).unwrap().parse().unwrap()
}

#[test]
fn the_lints_are_those_of_the_workspace_but_one() {
    let theirs = read("../../Cargo.toml")["workspace"]["lints"].as_table().unwrap().clone();
    for manifest in ["Cargo.toml", "../node/Cargo.toml"] {
        let mut ours = read(manifest)["lints"].as_table().unwrap().clone();
        let unsafe_code = ours["rust"].as_table_mut().unwrap().get_mut("unsafe_code").unwrap();
        assert_eq!(unsafe_code.as_str(), Some("deny"), "{manifest}");
        *unsafe_code = "forbid".into();
        assert_eq!(ours, theirs, "{manifest}");
    }
}
