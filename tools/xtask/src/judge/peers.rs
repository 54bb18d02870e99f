//! Limiters that no registry of packages has: started here, and asked over loopback.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::limiter::{Limiter, UNITS};
use crate::packages::free_port;
use crate::programs;

/// The module of redis-cell, and the program of envoyproxy/ratelimit.
const CELL: &str = "TOLLGATE_PEER_REDIS_CELL";
const RATELIMIT: &str = "TOLLGATE_PEER_RATELIMIT";

/// How long a server may take until it listens.
const STARTS_WITHIN: Duration = Duration::from_secs(10);

/// How often a new server is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// A module of Redis.
    RedisCell,
    /// The service of Envoy, with its counters on a Redis.
    Ratelimit,
    /// `limit_req` of nginx.
    Nginx,
}

/// Servers that end with their judgement, and how `tollgate judge` asks them.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) words: Vec<String>,
    _servers: Vec<Server>,
}

impl Peer {
    pub(super) fn of(package: &str) -> Result<Self> {
        Ok(match package {
            "redis-cell" => Self::RedisCell,
            "envoyproxy/ratelimit" => Self::Ratelimit,
            "nginx limit_req" => Self::Nginx,
            other => bail!(
                "by path there are redis-cell, envoyproxy/ratelimit and nginx limit_req, and not \
                 {other}"
            ),
        })
    }

    /// Why it cannot be judged on this machine.
    pub(super) fn absent(self) -> Option<String> {
        let (variable, program) = match self {
            Self::RedisCell => (Some(CELL), "redis-server"),
            Self::Ratelimit => (Some(RATELIMIT), "redis-server"),
            Self::Nginx => (None, "nginx"),
        };
        if let Some(variable) = variable.filter(|name| std::env::var_os(name).is_none()) {
            return Some(format!("{variable} is not set"));
        }
        programs::find(program)
            .is_none()
            .then(|| format!("{program} is not installed: apt-get install {program}"))
    }

    /// Starts it for this limit, with its files in a folder of its own.
    pub(super) fn start(self, root: &Path, limiter: &Limiter) -> Result<Started> {
        let folder = root.join("target/field-peers");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let period_s = u32::try_from(limiter.period_s)?;
        match self {
            Self::RedisCell => redis_cell(&folder, period_s),
            Self::Ratelimit => ratelimit(&folder, period_s),
            Self::Nginx => nginx(&folder, period_s),
        }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// The file that a variable names.
fn named(variable: &str) -> Result<PathBuf> {
    let path = std::env::var_os(variable).with_context(|| format!("{variable} is not set"))?;
    let path = PathBuf::from(path);
    if !path.is_file() {
        bail!("{variable} is not a file: {}", path.display());
    }
    // A server may run in another folder.
    path.canonicalize().with_context(|| variable.to_owned())
}

/// Its burst is what comes beyond the first: 9 for 10 at once.
fn redis_cell(folder: &Path, period_s: u32) -> Result<Started> {
    let module = named(CELL)?;
    let (server, port) = redis(folder, &["--loadmodule".as_ref(), module.as_os_str()])?;
    let ask = format!("CL.THROTTLE {{subject}} {} {UNITS} {period_s} {{cost}}", UNITS - 1);
    let address = format!("127.0.0.1:{port}");
    // A negative quantity gives units back there, which is no question of a check.
    let words = words(&["--resp", &address, "--ask", &ask, "--positive-costs"]);
    Ok(Started { words, _servers: vec![server] })
}

/// Its HTTP interface has the answers of its gRPC interface, with 200 or 429 beside them.
fn ratelimit(folder: &Path, period_s: u32) -> Result<Started> {
    let program = named(RATELIMIT)?;
    if period_s != 1 {
        bail!("its units are a second, a minute and longer: {UNITS}/{period_s}s has no such unit");
    }
    let (redis, redis_port) = redis(folder, &[])?;
    let config = folder.join("ratelimit/config");
    fs::create_dir_all(&config)?;
    let limit = format!(
        "domain: judge\ndescriptors:\n  - key: subject\n    rate_limit:\n      unit: second\n      \
         requests_per_unit: {UNITS}\n"
    );
    fs::write(config.join("judge.yaml"), limit)?;
    let (port, grpc, debug) = (free_port()?, free_port()?, free_port()?);
    let mut command = Command::new(program);
    command.current_dir(folder).env("RUNTIME_ROOT", folder);
    command.envs([
        ("RUNTIME_SUBDIRECTORY", "ratelimit"),
        ("RUNTIME_WATCH_ROOT", "false"),
        ("USE_STATSD", "false"),
        ("REDIS_SOCKET_TYPE", "tcp"),
        ("LOG_LEVEL", "error"),
        ("HOST", "127.0.0.1"),
        ("GRPC_HOST", "127.0.0.1"),
        ("DEBUG_HOST", "127.0.0.1"),
    ]);
    command.env("REDIS_URL", format!("127.0.0.1:{redis_port}"));
    for (name, port) in [("PORT", port), ("GRPC_PORT", grpc), ("DEBUG_PORT", debug)] {
        command.env(name, port.to_string());
    }
    let server = Server::listening(&mut command, port)?;
    let url = format!("http://127.0.0.1:{port}/json");
    let body = concat!(
        r#"{"domain": "judge", "descriptors": [{"entries": "#,
        r#"[{"key": "subject", "value": "{subject}"}]}]}"#
    );
    let remaining = "json:/statuses/0/limitRemaining";
    let words = words(&["--http", &url, "--body", body, "--remaining", remaining]);
    Ok(Started { words, _servers: vec![server, redis] })
}

/// `nodelay` admits or denies at once, as is asked here; without it nginx lets requests wait.
fn nginx(folder: &Path, period_s: u32) -> Result<Started> {
    let program = programs::find("nginx").context("nginx is not installed")?;
    if !UNITS.is_multiple_of(period_s) {
        bail!("its rates are whole numbers a second, and not {UNITS}/{period_s}s");
    }
    let (port, rate, burst) = (free_port()?, UNITS / period_s, UNITS - 1);
    // `return` would answer before `limit_req` is asked: a file is served.
    fs::write(folder.join("index.html"), "admitted\n")?;
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let paths: String =
        kinds.iter().map(|kind| format!("    {kind}_temp_path {kind};\n")).collect();
    let config = format!(
        "daemon off;\nmaster_process off;\nerror_log stderr crit;\npid nginx.pid;\nevents {{}}\n\
         http {{\n    access_log off;\n    keepalive_requests 1000000;\n{paths}    limit_req_zone \
         $http_x_subject zone=judge:10m rate={rate}r/s;\n    limit_req_status 429;\n    server \
         {{\n        listen 127.0.0.1:{port};\n        root .;\n        location / {{ limit_req \
         zone=judge burst={burst} nodelay; }}\n    }}\n}}\n"
    );
    fs::write(folder.join("nginx.conf"), config)?;
    let mut command = Command::new(program);
    command.args(["-e", "stderr", "-c", "nginx.conf", "-p"]).arg(format!("{}/", folder.display()));
    let server = Server::listening(&mut command, port)?;
    let url = format!("http://127.0.0.1:{port}/");
    // It counts in milliseconds, from a clock that it reads once for each batch of events.
    let words = words(&["--http", &url, "--header", "x-subject: {subject}", "--precision", "2ms"]);
    Ok(Started { words, _servers: vec![server] })
}

/// A Redis with nothing in it, and its port.
fn redis(folder: &Path, arguments: &[&std::ffi::OsStr]) -> Result<(Server, u16)> {
    let program = programs::find("redis-server").context("redis-server is not installed")?;
    let port = free_port()?;
    let mut command = Command::new(program);
    command.current_dir(folder).args(["--bind", "127.0.0.1", "--save", "", "--port"]);
    command.arg(port.to_string()).args(arguments);
    Ok((Server::listening(&mut command, port)?, port))
}

/// A server that is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Server(pub(super) Child);

impl Server {
    /// Starts one, and waits until it listens there.
    fn listening(command: &mut Command, port: u16) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let mut server = Self(child.with_context(|| format!("cannot start `{name}`"))?);
        let deadline = Instant::now() + STARTS_WITHIN;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if let Some(status) = server.0.try_wait()? {
                bail!("`{name}` ended at once: {status}");
            }
            if Instant::now() > deadline {
                bail!("`{name}` does not listen");
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_no_variable_names_is_absent() {
        // The variable of this one is no other test's.
        let absent = Peer::Ratelimit.absent();
        match std::env::var_os(RATELIMIT) {
            None => assert_eq!(absent.unwrap(), "TOLLGATE_PEER_RATELIMIT is not set"),
            Some(_) => assert!(absent.is_none_or(|why| why.contains("redis-server"))),
        }
    }
}
