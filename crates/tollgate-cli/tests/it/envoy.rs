//! `serve --grpc`: the page's examples, a client of another language, and errors.

use std::process::Command;

use crate::Place;
use crate::clients::{code_and_output, folder};
use crate::serving::Serving;

const PAGE: &str = include_str!("../../../../docs/envoy.md");

/// A service under the rules of the example, and its address for gRPC.
fn serve(place: &Place, more: &[&str]) -> (Serving, String) {
    let rules = folder("../../examples/envoy/limits.yaml").display().to_string();
    let args = ["--store", "memory://", "--grpc", "127.0.0.1:0", "--envoy-config", &rules];
    let serving = Serving::start(place, &[&args[..], more].concat());
    let address = serving.line_after("grpc       ").to_owned();
    (serving, address)
}

/// grpcio has its own HTTP/2, and the script knows no message before it asks.
#[test]
fn a_client_of_another_language_asks_health_reflection_and_limits() {
    let program = folder("../../target/tools/grpcio/bin/python");
    if !program.exists() {
        println!("SKIPPED: grpcio is not installed: cargo xtask test installs it");
        return;
    }
    let place = Place::new();
    let (serving, address) = serve(&place, &[]);
    let mut python = Command::new(program);
    python.arg(folder("tests/it/grpc_client.py")).arg(address).current_dir(place.path());
    // The folder of the stubs goes with the place.
    python.arg(folder("../tollgate-envoy/proto")).env("TMPDIR", place.path());
    let (code, out) =
        code_and_output(&python.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap());
    let name = "envoy.service.ratelimit.v3.RateLimitService";
    let kuadrant = "kuadrant.service.ratelimit.v1.RateLimitService";
    let services =
        ["v1", "v1alpha"].map(|version| format!("grpc.reflection.{version}.ServerReflection"));
    let services = format!("{name} grpc.health.v1.Health {} {kuadrant}", services.join(" "));
    let expected = format!(
        "health - SERVING\nhealth ratelimit SERVING\nhealth {name} SERVING\n\
         health {kuadrant} SERVING\nwatch 1\nservices {services}\nasked 1 2\nasked 1 1\nasked 1 0\nasked 2 0\n\
         error UNKNOWN rate limit domain must not be empty\n\
         checked 1\nreserved 1 True\ndenied 2\ncommitted True\nunknown False\nchecked 1\n\
         reported 1\nchecked 2\n"
    );
    assert_eq!((code, out.as_str()), (Some(0), expected.as_str()));
    serving.end();
}

/// The rules, the line and the answer of the page.
#[test]
fn the_page_is_what_happens() {
    let part = |begin: &str| {
        let from = PAGE.split(begin).nth(1).unwrap_or_else(|| panic!("no {begin}"));
        from.split("```").next().unwrap().to_owned()
    };
    let place = Place::new();
    let rules = place.path().join("limits.yaml");
    std::fs::write(&rules, part("```yaml\n")).unwrap();
    let path = rules.display().to_string();
    let args = ["--store", "memory://", "--grpc", "127.0.0.1:0", "--envoy-config", &path];
    let serving = Serving::start(&place, &args);
    assert_eq!(serving.line_after("envoy      "), path);
    let lines = part("```sh\n");
    let question = lines.split("-d '").nth(1).unwrap().split('\'').next().unwrap();
    let url = format!("http://{}/json", serving.address());
    let output = Command::new("curl").args(["-s", &url, "-d", question]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let (before, after) = said.split_once(r#""durationUntilReset":""#).unwrap();
    let expected = part("```json\n");
    assert!(expected.starts_with(before), "{said}");
    assert!(after.split_once('s').unwrap().0.parse::<u32>().unwrap() <= 60, "{said}");
}

/// A shell takes the line as it is, also with a domain that has its quotes.
#[test]
fn the_line_that_is_printed_answers() {
    let place = Place::new();
    let (serving, _) = serve(&place, &[]);
    let paste = |serving: &Serving| {
        let line = format!("curl -s http://{}/json ", serving.address());
        let line = format!("{line}{}", serving.line_after(&format!("  {line}")));
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for remaining in [4, 3] {
        let said = paste(&serving);
        assert!(said.starts_with(r#"{"overallCode":"OK","#), "{said}");
        assert!(said.contains(&format!(r#""limitRemaining":{remaining},"#)), "{said}");
    }
    let rules = place.path().join("limits.yaml");
    let text = "domain: it's\ndescriptors:\n  - key: remote_address\n    limit: 7/d\n";
    std::fs::write(&rules, text).unwrap();
    let serving = Serving::start(&place, &["--envoy-config", rules.to_str().unwrap()]);
    assert!(paste(&serving).contains(r#""limitRemaining":6,"#), "without gRPC, too");
    // Nobody's domain is answered, too.
    let serving = Serving::start(&place, &["--grpc", "127.0.0.1:0"]);
    assert_eq!(paste(&serving), r#"{"overallCode":"OK","statuses":[{"code":"OK"}]}"#);
}

#[test]
fn what_is_wrong_with_the_rules_is_said_with_its_place() {
    let place = Place::new();
    let rules = place.path().join("limits.yaml");
    std::fs::write(&rules, "domain: shop\ndescriptors:\n  - kez: a\n").unwrap();
    let path = rules.display().to_string();
    let (code, out, err) = place.run(&["serve", "--envoy-config", &path]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("config error, unknown key 'kez'"), "{err}");
    assert!(err.contains(&format!("{path}:3:5")), "{err}");
    let misspelled = "- key: a\n    rate_limit: { unit: day, requestsperunit: 5 }\n";
    std::fs::write(&rules, format!("domain: shop\ndescriptors:\n  {misspelled}")).unwrap();
    let (code, _, err) = place.run(&["serve", "--envoy-config", &path]);
    assert!(code == 2 && err.starts_with("warning: without `requests_per_unit`"), "{err}");
    assert!(err.contains("\nerror: config error, unknown key 'requestsperunit'"), "{err}");
    assert!(err.contains("did you mean `requests_per_unit`?"), "{err}");
    let (code, _, err) = place.run(&["serve", "--grpc", "nowhere"]);
    assert!(code == 2 && err.contains("the port is missing"), "{err}");
}

/// The service starts, and says what of the files has no effect.
#[test]
fn what_has_no_effect_is_warned_of() {
    let place = Place::new();
    let rules = place.path().join("rules");
    std::fs::create_dir(&rules).unwrap();
    let text = "domain: shop\ndescriptors:\n  - { key: a, limit: 5/d, metadata: { team: b } }\n";
    std::fs::write(rules.join("shop"), text).unwrap();
    std::fs::write(rules.join("README.md"), "domain: other\n").unwrap();
    let rules = rules.to_str().unwrap();
    let warned = |more: &[&str]| {
        let log = Serving::start(&place, &[&["--envoy-config", rules], more].concat()).end();
        assert!(log.contains("README.md is not read: rules are in files named `.yaml`"), "{log}");
        log.contains("shop.a: its `metadata` is not sent to Envoy: set `--envoy-metadata`")
    };
    assert!(warned(&[]));
    assert!(!warned(&["--envoy-metadata"]));
}

/// The output is a policy file, and settings without an equal are reported apart.
#[test]
fn rules_of_others_are_imported() {
    let place = Place::new();
    let rules = folder("../../examples/envoy/limits.yaml").display().to_string();
    let (code, out, err) = place.run(&["config", "import", "envoy", &rules]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("shop.user_vip: left out: it is unlimited"), "{err}");
    let made = place.path().join("policies.toml");
    std::fs::write(&made, &out).unwrap();
    let (code, out, err) = place.run(&["config", "check", &made.display().to_string()]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("is fine") && out.contains("shop.user"), "{out}");
    let other = place.path().join("limits.yaml");
    std::fs::write(&other, "- namespace: a\n  max_value: 5\n  seconds: 60\n").unwrap();
    let other = other.display().to_string();
    let (code, out, _) = place.run(&["config", "import", "limitador", &other]);
    assert!(code == 0 && out.contains("5/m anchor first-hit via fixed_window"), "{out}");
    let (code, out, err) = place.run(&["config", "import", "limitador", &rules]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("a list of limits") && err.contains("limits.yaml:"), "{err}");
    let (code, _, err) = place.run(&["config", "import", "envoy", &other]);
    assert!(code == 2 && err.contains("error loading config file"), "{err}");
    let (code, _, err) = place.run(&["config", "import", "envoy", "absent.yaml"]);
    assert!(code == 2 && err.contains("absent.yaml"), "{err}");
}
