//! The programs that are measured, each started for it and ended with it.

use std::env::consts::EXE_SUFFIX;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// The peer: throttlecrab-server, a GCRA over HTTP.
pub(crate) const PEER: &str = "TOLLGATE_PEER_THROTTLECRAB";

/// How long a program may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a service may speak beside HTTP.
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
        let mut child = Command::new(&self.0)
            .args(["serve", "--listen", "127.0.0.1:0", "--admin", admin])
            .args(args)
            .env_remove("TOLLGATE_STORE")
            .env_remove("TOLLGATE_ADMIN_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("{} cannot be started", self.0.display()))?;
        let mut lines = Vec::new();
        if let Some(out) = child.stdout.take() {
            let mut out = BufReader::new(out);
            for _ in 0..2 {
                let mut line = String::new();
                out.read_line(&mut line)?;
                lines.push(line.trim_end().to_owned());
            }
            // What it prints later is read, so that it is never held up.
            std::thread::spawn(move || out.read_to_string(&mut String::new()));
        }
        let address = lines.iter().find_map(|line| line.strip_prefix("listening  http://"));
        let Some(address) = address.map(str::to_owned) else {
            let _ = child.kill();
            bail!("the service did not start: {}", lines.concat());
        };
        Ok((Program { child, address }, lines))
    }
}

/// A program that serves, ended with this.
pub(crate) struct Program {
    child: Child,
    pub(crate) address: String,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The peer, when it is named, with one of its protocols: `http` or `redis`.
    pub(crate) fn peer(protocol: &str) -> Result<Option<Self>> {
        let Some(path) = std::env::var_os(PEER) else { return Ok(None) };
        let port = free_port()?;
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
        let child = Command::new(&program)
            .args(args)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let mut started = Self { child, address: format!("127.0.0.1:{port}") };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(&started.address).is_err() {
            if let Some(status) = started.child.try_wait()? {
                bail!("{} ended at once: {status}", program.display());
            }
            if Instant::now() > deadline {
                bail!("{} does not answer", program.display());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(started)
    }
}

/// A port that is free now.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
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
