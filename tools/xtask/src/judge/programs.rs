//! The programs of a judgement: the judge, and a driver for each language.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::JUDGED;
use super::limiter::{From, Limiter, UNITS};
use super::peers::Server;
use crate::tools::cargo;
use crate::tree::Tree;
use crate::{node, process, python};

/// The drivers, which the project has.
const PYTHON: &str = "proof/field/python/driver.py";
const NODE: &str = "proof/field/node/driver.mjs";
const RUST: &str = "proof/field/rust/Cargo.toml";

/// The folder of the packages, under `target/tools`.
const FOLDER: &str = "field";

pub(super) struct Programs {
    root: PathBuf,
    judge: PathBuf,
    rust: PathBuf,
    python: PathBuf,
    /// The driver of Node beside its packages, where Node looks for them.
    node: PathBuf,
}

impl Programs {
    /// Builds the judge and the driver of Rust, and installs the packages of the others.
    pub(super) fn provide(tree: &Tree, limiters: &[Limiter]) -> Result<Self> {
        let root = &tree.root;
        let of = |from: From| {
            let those = limiters.iter().filter(move |limiter| limiter.from == from);
            those.map(|limiter| (&*limiter.package, &*limiter.version)).collect::<Vec<_>>()
        };
        let mut build = cargo(tree);
        build.args(["build", "--quiet", "--release", "--package", "tollgate-cli"]);
        let mut build_rust = cargo(tree);
        build_rust.args(["build", "--quiet", "--release", "--locked", "--manifest-path", RUST]);
        build_rust.arg("--target-dir").arg(root.join("target/field"));
        for command in [&mut build, &mut build_rust] {
            if !process::show(command)? {
                bail!("cargo build failed");
            }
        }
        let python = python::environment_of(tree, FOLDER, &of(From::PyPi))?;
        let folder = root.join("target/tools/field-node");
        node::install_all(&folder, &of(From::Npm))?;
        let node = folder.join("driver.mjs");
        std::fs::copy(root.join(NODE), &node).context(NODE)?;
        Ok(Self {
            root: root.clone(),
            judge: target(tree).join("release/tollgate"),
            rust: root.join("target/field/release/tollgate-field"),
            python,
            node,
        })
    }

    /// The Python of the packages.
    pub(super) fn python(&self) -> &Path {
        &self.python
    }

    /// The judgement of a limiter.
    pub(super) fn judged(&self, limiter: &Limiter) -> Result<Value> {
        let (count, period) = (UNITS.to_string(), limiter.period_s.to_string());
        let costs = if limiter.is_single { "single" } else { "costs" };
        let numbers = format!("{count} {period} {costs}");
        let driver = match limiter.from {
            From::Crates => format!("'{}' {} {numbers}", self.rust.display(), limiter.ask),
            From::PyPi => {
                let Limiter { ask, step_us, .. } = limiter;
                format!("'{}' {PYTHON} {ask} {numbers} {step_us}", self.python.display())
            }
            From::Npm => format!("node '{}' {} {numbers}", self.node.display(), limiter.ask),
            From::CratesHttp => {
                let mut server = Command::new(&self.rust);
                let server = server.arg(&limiter.ask).args([count, period]);
                let (_server, address) = started(server)?;
                let url = format!("http://{address}/");
                let words = ["--http", &url, "--header", "x-subject: {subject}"];
                return self.judge(limiter, &words);
            }
            From::Path(peer) => {
                let started = peer.start(&self.root, limiter)?;
                let words: Vec<&str> = started.words.iter().map(String::as_str).collect();
                return self.judge(limiter, &words);
            }
        };
        self.judge(limiter, &["--command", &driver])
    }

    /// The judgement of ours, asked for the same limit. No wait of ours may be too long.
    pub(super) fn ours(&self, limiter: &Limiter) -> Result<Value> {
        let driver = format!("'{}' tollgate '{}'", self.rust.display(), limiter.limit);
        let limiter = Limiter { wait: None, ..limiter.clone() };
        self.judge(&limiter, &["--command", &driver])
    }

    fn judge(&self, limiter: &Limiter, driver: &[&str]) -> Result<Value> {
        let mut judge = Command::new(&self.judge);
        judge.current_dir(&self.root);
        judge.args(["judge", "--json", "--limit", &limiter.limit]).args(driver);
        judge.args(limiter.is_bound.then_some("--promise=bound"));
        if let Some(wait) = &limiter.wait {
            judge.args(["--wait-step", wait]);
        }
        let output = judge.stderr(Stdio::piped()).output().context("cannot start the judge")?;
        if !JUDGED.contains(&output.status.code()) {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).context("the judge printed no JSON")
    }
}

/// Where cargo builds.
fn target(tree: &Tree) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| tree.root.join("target"), PathBuf::from)
}

/// Starts a server that prints its address.
fn started(command: &mut Command) -> Result<(Server, String)> {
    let mut server = Server(command.stdout(Stdio::piped()).spawn().context("cannot start it")?);
    let out = server.0.stdout.take().context("it has no output")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    Ok((server, line.trim().to_owned()))
}
