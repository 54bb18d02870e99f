//! Envoy's rate limit service, as a client of gRPC meets it.

mod abuse;
mod answers;
mod control_plane;
mod holds;
mod kuadrant;
mod life;
mod metrics;
mod requests;
mod xds;

use std::path::Path;

use tollgate::MemoryStore;
use tollgate_service::{AnyStore, EnvoyRules, Options, Server};

use crate::{FILE, Service, gate_of, here};

/// Rules for most of the tests. The windows are so long that none ends meanwhile.
const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 3 }
  - key: user
    value: vip
    rate_limit: { unit: year, requests_per_unit: 1000 }
  - key: path
    value: /a/*
    rate_limit: { unit: year, requests_per_unit: 2, name: paths }
  - key: shared
    value: /a/*
    share_threshold: true
    rate_limit: { unit: year, requests_per_unit: 2 }
  - key: trial
    shadow_mode: true
    rate_limit: { unit: year, requests_per_unit: 1 }
  - key: free
    rate_limit: { unlimited: true }
  - key: banned
    rate_limit: { unit: year, requests_per_unit: 0 }
  - key: instead
    rate_limit: { unit: year, requests_per_unit: 9, replaces: [{ name: paths }] }
  - key: part
    quota_mode: true
    rate_limit: { unit: year, requests_per_unit: 1 }
  - key: quick
    limit: 2/10s via sliding_log
  - key: both
    limit: 1/10s via sliding_log
    rate_limit: { unit: year, requests_per_unit: 5 }
";

/// Writes rules into a file of this folder.
fn rules(folder: &Path, text: &str) -> std::path::PathBuf {
    let path = folder.join("rules.yaml");
    std::fs::write(&path, text).unwrap();
    path
}

/// A service under these rules.
async fn service_with(text: &str, change: impl FnOnce(&mut Options)) -> Service {
    let folder = tempfile::tempdir().unwrap();
    let path = rules(folder.path(), text);
    Service::with(|options| {
        options.grpc = vec![here()];
        options.envoy.rules = EnvoyRules::Files(path);
        change(options);
    })
    .await
}

async fn service() -> Service {
    service_with(RULES, |_| {}).await
}

#[tokio::test]
async fn rules_that_are_broken_start_no_service() {
    let folder = tempfile::tempdir().unwrap();
    let start = async |path: &Path| {
        let mut options = Options::new(vec![here()]);
        options.envoy.rules = EnvoyRules::Files(path.to_owned());
        let gate = gate_of(FILE, AnyStore::Memory(MemoryStore::new()));
        Server::start(gate, options).await.err().map(|why| why.to_string()).unwrap_or_default()
    };
    let said = start(&rules(folder.path(), "domain: shop\ndescriptors: [{ kez: a }]\n")).await;
    assert!(said.contains("unknown key 'kez'") && said.contains("rules.yaml:2:17"), "{said}");
    assert!(start(&folder.path().join("absent.yaml")).await.contains("absent.yaml"));
    let empty = tempfile::tempdir().unwrap();
    let said = start(empty.path()).await;
    assert!(said.contains("no file in it is named `.yaml`, `.yml` or without a `.`"), "{said}");
    // A folder is all of its files; one of them is broken.
    std::fs::write(folder.path().join("other.yml"), "domain: other\n").unwrap();
    std::fs::write(folder.path().join(".hidden.yml"), "domain: shop\n").unwrap();
    std::fs::write(folder.path().join("notes.txt"), "no rules").unwrap();
    assert!(start(folder.path()).await.contains("unknown key 'kez'"));
    rules(folder.path(), "domain: shop\n");
    assert_eq!(start(folder.path()).await, "");
}
