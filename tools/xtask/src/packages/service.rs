//! A `tollgate serve` that a check starts and asks. It ends with the check.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::process;

/// A service that listens.
#[derive(Debug)]
pub(crate) struct Service {
    child: Child,
    /// `HOST:PORT` for clients.
    pub(crate) address: String,
    /// The address with its scheme.
    url: String,
    /// The lines in which it says what it serves.
    said: Vec<String>,
    /// Options of `curl`, such as those for its certificate.
    pub(crate) options: Vec<String>,
}

impl Service {
    /// Starts it and waits until it listens. When it ends instead, the error has what it said.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start a service")?;
        let out = child.stdout.take().context("a service has no output")?;
        let mut lines = BufReader::new(out).lines();
        // Up to the empty line before the calls to try.
        let said: Vec<String> =
            lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        let Some(url) = value(&said, "listening").map(str::to_owned) else {
            let ended = child.wait_with_output()?;
            let said = String::from_utf8_lossy(&ended.stderr);
            bail!("{}: {}", ended.status, said.trim());
        };
        // Its later output must not fill a pipe.
        std::thread::spawn(move || lines.for_each(drop));
        if let Some(log) = child.stderr.take() {
            std::thread::spawn(move || BufReader::new(log).lines().for_each(drop));
        }
        let address = url.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(Self { child, address, url, said, options: Vec::new() })
    }

    /// The value that it printed at the start for `redis`, `grpc`, `admin` and the like.
    pub(crate) fn said(&self, word: &str) -> Option<&str> {
        value(&self.said, word)
    }

    /// The body of an answer with a status below 400.
    pub(crate) fn get(&self, path: &str) -> Result<String> {
        process::read(self.curl().arg(format!("{}{path}", self.url)))
    }

    /// The body of an answer with a status below 400 to a question in JSON.
    pub(crate) fn post(&self, path: &str, question: &str) -> Result<String> {
        let mut command = self.curl();
        process::read(command.arg(format!("{}{path}", self.url)).args(["--data", question]))
    }

    /// The certificate that it shows, as text.
    pub(crate) fn certificate(&self) -> Result<String> {
        let mut command = self.curl();
        command.args(["--output", "/dev/null", "--write-out", "%{certs}"]);
        process::read(command.arg(format!("{}/healthz", self.url)))
    }

    /// Asks for one unit.
    pub(crate) fn check(&self, limit: &str) -> Result<String> {
        self.post("/v1/check", &format!(r#"{{"subject": "user:42", "limit": "{limit}"}}"#))
    }

    /// Two units of a limit of one: the first is admitted, the second is not.
    pub(crate) fn counts(&self) -> Result<()> {
        let (first, second) = (self.check("1/h")?, self.check("1/h")?);
        if !first.contains(r#""allowed":true"#) || !second.contains(r#""allowed":false"#) {
            bail!("it does not count: {first} {second}");
        }
        Ok(())
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) -> Result<()> {
        let line = format!("kill -TERM {}", self.child.id());
        process::read(&mut process::shell(&line)).map(drop)
    }

    fn curl(&self) -> Command {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--fail", "--max-time", "10"]);
        command.args(&self.options);
        command
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It has ended already, or the check has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The rest of the line that begins with a word.
fn value<'a>(lines: &'a [String], word: &str) -> Option<&'a str> {
    let mut found = lines.iter().flat_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    found.next().map(str::trim)
}
