//! The service keeps what its OpenAPI document promises: schemathesis asks by the document, and
//! judges every answer by it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Place;
use crate::serving::Serving;

/// Where `cargo xtask test` puts it.
const INSTALLED: &str = "../../target/tools/schemathesis/bin/schemathesis";

#[test]
fn schemathesis_finds_nothing() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = std::env::var_os("TOLLGATE_SCHEMATHESIS").map(PathBuf::from);
    let program = named.unwrap_or_else(|| here.join(INSTALLED));
    if Command::new(&program).arg("--version").output().is_err() {
        println!("SKIPPED: schemathesis is not installed: cargo xtask test installs it");
        return;
    }
    let place = Place::new();
    let policies = here.join("../../examples/policies/api.toml");
    let (policies, store) = (policies.to_str().unwrap(), place.store());
    let rules = here.join("../../examples/envoy/limits.yaml");
    let rules = ["--envoy-config", rules.to_str().unwrap()];
    let args = ["--config", policies, "--store", &store, "--queue", "mail=100", "--queue-workers"];
    // Without the switch, a `waiting` is refused before anything else is read.
    let args = [&args[..], &rules, &["--caller-waiting", "on"]].concat();
    let serving = Serving::start(&place, &args);
    let url = format!("http://{}", serving.address());
    let output = Command::new(program)
        .current_dir(place.path())
        .env("SCHEMATHESIS_HOOKS", here.join("tests/it/schemathesis_hooks.py"))
        .arg("--config-file")
        .arg(here.join("tests/it/schemathesis.toml"))
        .args(["run", "--no-color", "--max-examples", "40", "--url", &url])
        .arg(format!("{url}/v1/openapi.yaml"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("Tested: 31"), "{said}");
    assert!(output.status.success(), "{said}");
}
