//! The programs that are measured, each started for it and ended with it.

use std::env::consts::EXE_SUFFIX;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use tollgate_testbed::{self as testbed, free_port};

/// The peer: throttlecrab-server, a GCRA over HTTP.
pub(crate) const PEER: &str = "TOLLGATE_PEER_THROTTLECRAB";

/// How long a program may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The protocols that a service may speak beside HTTP.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Door {
    Redis,
    Grpc,
}

/// The program `tollgate`, as users have it.
pub(crate) struct Tollgate(PathBuf);

impl Tollgate {
    /// The program that was named, else the one beside this program.
    pub(crate) fn find(named: Option<&Path>) -> Result<Self> {
        match named {
            Some(named) => Ok(Self(named.to_owned())),
            None => Self::beside(&std::env::current_exe()?),
        }
    }

    /// The program that cargo puts beside `this` one.
    fn beside(this: &Path) -> Result<Self> {
        let program = this.with_file_name(format!("tollgate{EXE_SUFFIX}"));
        if !program.is_file() {
            bail!(
                "the program to measure is missing ({}): build it with `cargo build --profile dist \
                 -p tollgate-cli`, or name another with `--program PATH`",
                program.display()
            );
        }
        Ok(Self(program))
    }

    /// Starts it as a service.
    pub(crate) fn serve(&self, args: &[&str]) -> Result<Program> {
        self.start(args).map(|(program, _)| program)
    }

    /// The same, with another door open, and the address of that.
    pub(crate) fn serve_also(&self, door: Door, args: &[&str]) -> Result<(Program, String)> {
        let (option, name) = match door {
            Door::Redis => ("--resp", "redis      "),
            Door::Grpc => ("--grpc", "grpc       "),
        };
        let (program, lines) = self.start(&[&[option, "127.0.0.1:0"], args].concat())?;
        let address = lines.iter().find_map(|line| line.strip_prefix(name));
        let address = address.with_context(|| format!("the service has no {option}"))?.to_owned();
        Ok((program, address))
    }

    /// Starts it with an admin listener, and the address of that.
    pub(crate) fn serve_with_admin(&self) -> Result<(Program, SocketAddr)> {
        let (program, lines) = self.start_with_admin("127.0.0.1:0", &[])?;
        let address = lines.iter().find_map(|line| line.strip_prefix("admin      http://"));
        let address = address.context("the service has no admin listener")?.parse()?;
        Ok((program, address))
    }

    /// Starts it, with the first lines that it prints.
    fn start(&self, args: &[&str]) -> Result<(Program, Vec<String>)> {
        self.start_with_admin("off", args)
    }

    fn start_with_admin(&self, admin: &str, args: &[&str]) -> Result<(Program, Vec<String>)> {
        let mut command = Command::new(&self.0);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--admin", admin])
            .args(args)
            .env_remove("TOLLGATE_STORE")
            .env_remove("TOLLGATE_ADMIN_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        let mut program = testbed::Program::start(&mut command)
            .with_context(|| format!("{} cannot be started", self.0.display()))?;
        let mut left = 2;
        let lines = program.lines(|_| {
            left -= 1;
            left == 0
        })?;
        let address = lines.iter().find_map(|line| line.strip_prefix("listening  http://"));
        let Some(address) = address.map(str::to_owned) else {
            bail!("the service did not start: {}", lines.concat());
        };
        Ok((Program { program, address }, lines))
    }
}

/// A program that serves, ended with this.
pub(crate) struct Program {
    program: testbed::Program,
    pub(crate) address: String,
}

impl Program {
    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.program.child.id()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The peer, when it is named, with one of its protocols: `http` or `redis`.
    pub(crate) fn peer(protocol: &str) -> Result<Option<Self>> {
        let Some(path) = std::env::var_os(PEER) else { return Ok(None) };
        let port = free_port().port();
        let [protocol, at, on] = ["", "-host", "-port"].map(|of| format!("--{protocol}{of}"));
        let (text, host) = (port.to_string(), Ipv4Addr::LOCALHOST.to_string());
        let args = [&*protocol, &at, &host, &on, &text, "--log-level", "error"];
        Self::start(path, &args, port).map(Some)
    }

    pub(crate) fn start(program: OsString, args: &[&str], port: u16) -> Result<Self> {
        Self::start_with(program, args, &[], port)
    }

    /// The same with more of an environment.
    pub(crate) fn start_with(
        program: OsString,
        args: &[&str],
        environment: &[(&str, &str)],
        port: u16,
    ) -> Result<Self> {
        let mut command = Command::new(&program);
        command
            .args(args)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let mut started = testbed::Program::start(&mut command)
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listens = started.listens(address, PATIENCE);
        listens.map_err(|why| anyhow!("{} {why}", program.display()))?;
        Ok(Self { program: started, address: address.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_lies_beside_this_one() {
        let dir = tempfile::tempdir().unwrap();
        let this = dir.path().join("tollgate-bench");
        let error = Tollgate::beside(&this).err().unwrap().to_string();
        assert!(error.contains("`cargo build --profile dist -p tollgate-cli`"), "{error}");
        let program = dir.path().join(format!("tollgate{EXE_SUFFIX}"));
        std::fs::write(&program, "").unwrap();
        assert_eq!(Tollgate::beside(&this).unwrap().0, program);
        let named = Path::new("elsewhere/tollgate");
        assert_eq!(Tollgate::find(Some(named)).unwrap().0, named);
    }
}
