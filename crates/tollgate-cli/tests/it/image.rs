//! The image's recipe and the manifest for Kubernetes: their programs are started here, with the
//! addresses, files and secrets of a test in place of theirs.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Value;

use crate::Place;
use crate::serving::{LONG, Serving};

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All instructions: a word and its arguments, continued lines joined.
fn recipe() -> Vec<(String, String)> {
    let recipe = file("packages/image/Dockerfile").replace("\\\n", " ");
    let lines = recipe.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| line.split_once(' ').unwrap())
        .map(|(word, rest)| (word.to_owned(), rest.to_owned()))
        .collect()
}

/// Those of the last stage, which is the image.
fn image() -> Vec<(String, String)> {
    let all = recipe();
    let last = all.iter().rposition(|(word, _)| word == "FROM").unwrap();
    all[last..].to_vec()
}

fn instruction<'a>(image: &'a [(String, String)], word: &str) -> &'a str {
    let found: Vec<_> = image.iter().filter(|(found, _)| found == word).collect();
    let [(_, rest)] = &found[..] else { panic!("{word}: {found:?}") };
    rest
}

/// The words of a command in the form that needs no shell.
fn words(text: &str) -> Vec<String> {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The program is copied without its debug information, which has a separate stage.
#[test]
fn debug_information_is_apart() {
    let all = recipe();
    let built = all.iter().find(|(word, rest)| word == "RUN" && rest.contains("cargo build"));
    let (_, built) = built.unwrap();
    for step in ["objcopy --only-keep-debug tollgate tollgate.debug", "objcopy --strip-all"] {
        assert!(built.contains(step), "{built}");
    }
    let debug = all.iter().position(|(_, rest)| rest.ends_with(" AS debug")).unwrap();
    let (word, copied) = &all[debug + 1];
    assert!(word == "COPY" && copied.contains("tollgate.debug"), "{copied}");
    assert!(image().iter().all(|(_, rest)| !rest.contains("tollgate.debug")));
}

#[test]
fn the_image_serves_its_policies_and_its_health_check_sees_that() {
    let image = image();
    let entry = words(instruction(&image, "ENTRYPOINT"));
    let [program, serve] = &entry[..] else { panic!("{entry:?}") };
    assert_eq!((&**program, &**serve), ("/usr/bin/tollgate", "serve"));
    let copied = |to: &str| {
        let ends = |(word, rest): &&(String, String)| word == "COPY" && rest.ends_with(to);
        let (_, rest) = image.iter().find(ends).unwrap_or_else(|| panic!("{to} is not copied"));
        rest.split(' ').rev().nth(1).unwrap().to_owned()
    };
    copied(program);

    let mut args = words(instruction(&image, "CMD"));
    let port = instruction(&image, "EXPOSE");
    let listen = args.iter_mut().find(|arg| **arg == format!("0.0.0.0:{port}")).unwrap();
    "127.0.0.1:0".clone_into(listen);
    let config = args.iter_mut().find(|arg| arg.ends_with(".toml")).unwrap();
    let policies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(copied(config));
    policies.to_str().unwrap().clone_into(config);
    let place = Place::new();
    let serving = Serving::start(&place, &args.iter().map(String::as_str).collect::<Vec<_>>());

    let (options, check) = instruction(&image, "HEALTHCHECK").split_once("CMD ").unwrap();
    assert!(options.contains("--timeout=3s"), "longer than the check's own 2 s: {options}");
    let check = words(check);
    assert_eq!(check, [program, "health"], "it asks the default address");
    assert!(place.run(&["health", "--help"]).1.contains(&format!("127.0.0.1:{port}")));
    let address = serving.address().to_string();
    assert_eq!(place.code(&[&check[1], &address]), 0);
    serving.end();
    assert_eq!(place.code(&[&check[1], &address]), 1);
}

#[test]
fn the_image_trusts_authorities_and_is_nobody_known() {
    let image = image();
    let installs =
        |(word, rest): &(String, String)| word == "RUN" && rest.contains("ca-certificates");
    assert!(image.iter().any(installs), "{image:?}");
    let user = instruction(&image, "USER");
    let (user, group) = user.split_once(':').unwrap();
    let by_number = |id: &str| id.parse::<u32>().is_ok_and(|id| id > 0);
    assert!(by_number(user) && by_number(group), "`runAsNonRoot` needs numbers: {user}:{group}");
    assert!(image.iter().any(|(_, rest)| rest.contains(&format!("--uid {user} "))), "{image:?}");

    // The reports where they are not installed.
    let place = Place::new();
    let mut command =
        place.std(&["check", "a", "--limit", "1/s", "--store", "rediss://127.0.0.1:1"]);
    command.env("SSL_CERT_FILE", "/nowhere").env("SSL_CERT_DIR", "/nowhere");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("install `ca-certificates`"), "{error}");
}

/// The documents of the manifest: its policies, its deployment, its service.
fn manifest() -> [Value; 3] {
    let text = file("examples/kubernetes/tollgate.yaml");
    let all: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let all: [Value; 3] = all.try_into().unwrap();
    assert_eq!(
        all.each_ref().map(|one| one["kind"].as_str().unwrap()),
        ["ConfigMap", "Deployment", "Service"]
    );
    all
}

fn seconds(text: &str) -> u64 {
    text.strip_suffix('s').unwrap().parse().unwrap()
}

#[test]
fn the_manifest_for_kubernetes_serves_and_its_probes_are_true() {
    let [policies, deployment, service] = manifest();
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(service["spec"]["selector"], deployment["spec"]["selector"]["matchLabels"]);
    assert_eq!(container["ports"][0]["name"], service["spec"]["ports"][0]["targetPort"]);

    let place = Place::new();
    let written = |name: &str| -> PathBuf { place.path().join(name) };
    let mut config = std::fs::File::create(written("policies.toml")).unwrap();
    config.write_all(policies["data"]["policies.toml"].as_str().unwrap().as_bytes()).unwrap();
    let folder = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
    let listen = format!("--listen=0.0.0.0:{}", container["ports"][0]["containerPort"]);
    let args = container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
    let args: Vec<String> = args.map(str::to_owned).collect();
    assert!(args.contains(&listen), "{args:?}");
    let option = |name: &str| {
        let found = args.iter().find_map(|arg| arg.strip_prefix(&format!("--{name}=")));
        found.unwrap_or_else(|| panic!("--{name}: {args:?}")).to_owned()
    };
    let read = option("config");
    let read = read.strip_prefix(folder).unwrap_or_else(|| panic!("{read} is not in {folder}"));
    let config = format!("--config={}", written(read.trim_start_matches('/')).display());

    // A signal's first seconds are the orchestrator's to notice, and the last ones to end in.
    let (linger, grace) = (seconds(&option("linger")), seconds(&option("grace")));
    let readiness = &container["readinessProbe"];
    let number = |value: &Value| value.as_u64().unwrap();
    let noticed = number(&readiness["periodSeconds"]) * number(&readiness["failureThreshold"]);
    assert!(noticed < linger, "noticed after {noticed} s, refused after {linger} s");
    assert!(number(&pod["terminationGracePeriodSeconds"]) > linger + grace);

    let mut all = vec!["--listen", "127.0.0.1:0", "--linger=1h", &config];
    let rest = args.iter().map(String::as_str);
    let kept =
        |arg: &&str| !["--listen", "--config", "--linger"].iter().any(|a| arg.starts_with(a));
    all.extend(rest.filter(kept));
    let mut command = Serving::command(&place, &all);
    let names: Vec<_> = container["env"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["TOLLGATE_STORE", "TOLLGATE_RECEIPT_KEY"]);
    command.env("TOLLGATE_STORE", place.store()).env("TOLLGATE_RECEIPT_KEY", "0".repeat(64));
    let serving = Serving::start_command(command);

    let path = |probe: &str| container[probe]["httpGet"]["path"].as_str().unwrap().to_owned();
    let (starts, ready, lives) =
        (path("startupProbe"), path("readinessProbe"), path("livenessProbe"));
    // Each probe comes over a new connection.
    let status = |path: &str| serving.client().ask("GET", path, "").unwrap().0;
    assert_eq!([status(&starts), status(&ready), status(&lives)], [200; 3]);
    // Ending is seen by the one probe that takes it out of service, and by no other.
    serving.terminate();
    let start = Instant::now();
    while status(&ready) != 503 {
        assert!(start.elapsed() < LONG, "it stays ready");
    }
    assert_eq!(status(&lives), 200);
    let answer = serving.client().check(r#"{"subject": "a", "limit": "1/h"}"#);
    assert_eq!(answer.unwrap()["allowed"], true);
}

#[test]
fn the_page_on_probes_shows_the_manifest_as_it_is() {
    let page = file("docs/probes.md");
    let shown = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(file("examples/kubernetes/tollgate.yaml").contains(shown), "{shown}");
}
