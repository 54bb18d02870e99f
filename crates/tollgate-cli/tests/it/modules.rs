//! The modules for Go and Java, `bindings/go` and `bindings/java`: their tests, with this program.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::Place;
use crate::clients::folder;
use crate::languages::{GO_SOURCES, NO_JAVAC};
use crate::serving::Serving;

/// Sources of Debian's packages that the interceptor for gRPC needs.
const GRPC: &str = "/usr/share/gocode/src/google.golang.org/grpc";

/// The APIs of servlets, under both of their names, and the packages that have them.
const SERVLETS: [(&str, &str); 2] = [
    ("/usr/share/java/servlet-api.jar", "libservlet-api-java"),
    ("/usr/share/java/jakarta-servlet-api.jar", "libjakarta-servlet-api-java"),
];

/// A folder in which compilers keep what they built, from one run to the next.
fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Go in this folder; none where there is no Go.
fn go(at: &Path) -> Option<Command> {
    if Command::new("go").arg("version").output().is_err() {
        println!("SKIPPED: go is not installed: apt-get install golang-go");
        return None;
    }
    let mut go = Command::new("go");
    go.current_dir(at).env("GOCACHE", kept("go")).env("TOLLGATE_BIN", program());
    // Nothing is fetched: the module has no dependency.
    go.envs([("GO111MODULE", "on"), ("GOFLAGS", ""), ("GOPROXY", "off"), ("GOWORK", "off")]);
    Some(go)
}

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_tollgate")
}

/// The whole output of a command that succeeds.
fn succeeds(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let all = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{all}");
    all
}

#[test]
fn the_module_for_go_holds() {
    let module = folder("../../bindings/go");
    let Some(mut test) = go(&module) else { return };
    let mut format = Command::new("gofmt");
    assert_eq!(succeeds(format.arg("-l").arg(&module).arg(folder("../../examples/go"))), "");
    succeeds(go(&module).unwrap().args(["vet", "./..."]));
    let said = succeeds(test.args(["test", "-v", "-count=1", "./..."]));
    let passed = said.lines().filter(|line| line.starts_with("--- PASS: ")).count();
    assert!(passed > 20 && !said.contains("--- SKIP"), "{said}");
    println!("{passed} tests of Go passed");
}

/// The interceptor is a file to copy, since the module has no dependency. It is compiled with
/// Debian's gRPC, and run.
#[test]
fn the_interceptor_for_grpc_limits_calls() {
    if !Path::new(GRPC).exists() {
        println!("SKIPPED: gRPC for Go is missing: apt-get install golang-google-grpc-dev");
        return;
    }
    let place = Place::new();
    let sources = place.path().join("src/tollgate.example");
    std::fs::create_dir_all(&sources).unwrap();
    let module = folder("../../bindings/go").canonicalize().unwrap();
    std::os::unix::fs::symlink(module, sources.join("tollgate")).unwrap();
    let path = format!("{}:{GO_SOURCES}", place.path().display());
    let serving = Serving::start(&place, &[]);
    for words in [&["vet", "."][..], &["test", "-v", "-count=1", "."]] {
        let Some(mut go) = go(&folder("../../examples/go/grpc")) else { return };
        go.args(words).envs([("GO111MODULE", "off"), ("GOPATH", &path)]);
        let said = succeeds(go.env("TOLLGATE_URL", format!("http://{}", serving.address())));
        assert!(!said.contains("--- SKIP"), "{said}");
    }
}

#[test]
fn the_package_for_java_holds() {
    if Command::new("javac").arg("--version").output().is_err() {
        println!("{NO_JAVAC}");
        return;
    }
    for (jar, package) in SERVLETS {
        if !Path::new(jar).exists() {
            println!("SKIPPED: there is no {jar}: apt-get install {package}");
            return;
        }
    }
    let mut test = Command::new("sh");
    test.arg(folder("../../bindings/java/test.sh")).arg(kept("java"));
    let said = succeeds(test.env("TOLLGATE_BIN", program()));
    assert!(said.contains(" passed, 0 failed") && !said.contains("left out"), "{said}");
    println!("{}", said.lines().rfind(|line| line.contains(" passed, ")).unwrap_or_default());
}
