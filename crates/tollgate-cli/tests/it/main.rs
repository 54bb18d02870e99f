//! The program as people and scripts meet it: exit codes, messages, output.

#![allow(clippy::unwrap_used)] // a test may unwrap: its panic is its verdict

mod activation;
mod admin;
mod advising;
mod all_doors;
mod applying;
mod bad_input;
mod browser;
mod clients;
mod cluster_examples;
mod coming_from;
mod config;
mod console;
mod console_acts;
mod console_limits;
mod counting;
mod crowd;
mod decisions;
mod diffing;
mod doctor;
mod envoy;
mod examples;
mod from_a_script;
mod hash_key;
mod health;
mod help;
mod holding;
mod image;
mod judging;
mod lab;
mod lab_report;
mod languages;
mod lent;
mod live;
mod log_formats;
mod manners;
mod memory;
mod model_callers;
mod modules;
mod on_cluster;
mod on_redis;
mod openapi;
mod outage;
mod page;
mod prometheus;
mod proxies;
mod queue;
mod queue_clients;
mod queue_http;
mod queue_look;
mod queue_signals;
mod queue_workers;
mod readme;
mod recipes;
mod recording;
mod redis;
mod redis_cell;
mod replaying;
mod replicas;
mod report_pages;
mod resp;
mod running;
mod scripts;
mod series;
mod serving;
mod serving_restart;
mod set_limits;
mod several_units;
mod shown;
mod store_comes;
mod thresholds;
mod timeseries;
mod top;
mod topology;
mod traces;
mod width;

use std::path::Path;

use assert_cmd::Command;
use tempfile::TempDir;

/// A separate place for the counts of one test.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn store(&self) -> String {
        format!("sqlite://{}", self.path().join("counts.db").display())
    }

    /// The program with these arguments, and nothing of the environment that it reads.
    fn tollgate(&self, args: &[&str]) -> Command {
        let mut command = Command::from_std(self.std(args));
        command.timeout(std::time::Duration::from_secs(60));
        command
    }

    /// The program as a terminal starts it: a test run in the background may have been started with
    /// signals ignored, which a program keeps.
    fn std(&self, args: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new("env");
        command.arg("--default-signal=INT,TERM,HUP");
        command.arg(assert_cmd::cargo::cargo_bin!("tollgate"));
        command.args(args).env_remove("XDG_STATE_HOME").env("HOME", self.path());
        command.env("TOLLGATE_STORE", self.store());
        // Without colours, and so wide that a sentence is one line; `width` has narrower ones.
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env("COLUMNS", "1000");
        command
    }

    /// The exit code, stdout and stderr.
    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let output = self.tollgate(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn code(&self, args: &[&str]) -> i32 {
        self.run(args).0
    }

    fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.run(args).1).unwrap()
    }
}
