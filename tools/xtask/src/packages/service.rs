//! A `tollgate serve` that a check starts and asks. It ends with the check.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::process;

/// The service's output before the address for clients.
const LISTENING: &str = "listening  http://";

/// A service that listens.
#[derive(Debug)]
pub(crate) struct Service {
    child: Child,
    /// `HOST:PORT` for clients.
    pub(crate) address: String,
}

impl Service {
    /// Starts it and waits until it listens. When it ends instead, the error has what it said.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start a service")?;
        let out = child.stdout.take().context("a service has no output")?;
        let mut lines = BufReader::new(out).lines();
        let address = lines.find_map(|line| {
            let line = line.ok()?;
            line.strip_prefix(LISTENING).map(|address| address.trim().to_owned())
        });
        let Some(address) = address else {
            let ended = child.wait_with_output()?;
            let said = String::from_utf8_lossy(&ended.stderr);
            bail!("{}: {}", ended.status, said.trim());
        };
        // Its later output must not fill a pipe.
        std::thread::spawn(move || lines.for_each(drop));
        if let Some(log) = child.stderr.take() {
            std::thread::spawn(move || BufReader::new(log).lines().for_each(drop));
        }
        Ok(Self { child, address })
    }

    /// The body of an answer with a status below 400.
    pub(crate) fn get(&self, path: &str) -> Result<String> {
        process::read(curl().arg(format!("http://{}{path}", self.address)))
    }

    /// Asks for one unit.
    pub(crate) fn check(&self, limit: &str) -> Result<String> {
        let question = format!(r#"{{"subject": "user:42", "limit": "{limit}"}}"#);
        let mut command = curl();
        command.arg(format!("http://{}/v1/check", self.address)).args(["--data", &question]);
        process::read(&mut command)
    }

    /// Two units of a limit of one: the first is admitted, the second is not.
    pub(crate) fn counts(&self) -> Result<()> {
        let (first, second) = (self.check("1/h")?, self.check("1/h")?);
        if !first.contains(r#""allowed":true"#) || !second.contains(r#""allowed":false"#) {
            bail!("it does not count: {first} {second}");
        }
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It has ended already, or the check has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn curl() -> Command {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--fail", "--max-time", "10"]);
    command
}
