//! The image as it runs: by runc, as its own user, with a root that nobody can write to.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::{ARGUMENTS, ENTRYPOINT, Image, NAME, read_json};
use crate::packages::deb::provide;
use crate::packages::service::Service;
use crate::packages::sheet::{Sheet, Shown};
use crate::packages::stage::{Stage, fresh};
use crate::{process, programs};

/// Where an authority of one's own is mounted, as docs/image.md has it.
const AUTHORITY: &str = "/etc/tollgate/authority.pem";

/// Starts the image in several ways.
pub(super) fn check(
    image: &Image,
    stage: &Stage,
    sheet: &mut Sheet,
    may_install: bool,
) -> Result<()> {
    let absent = match programs::is_root() {
        true => provide("runc", "runc", may_install).err(),
        false => Some("only root may start a container with runc".to_owned()),
    };
    if let Some(why) = absent {
        sheet.note(NAME, "run, and asked over rediss://", Ok(Shown::Skipped(why)), "");
        return Ok(());
    }
    let home = stage.home.join("bundle");
    sheet.check(NAME, "serves as its user", || serves(image, &home));
    sheet.check(NAME, "refuses broken policies", || refuses(image, &home));
    let keys = stage.home.join("keys");
    let redis = match provide("redis-server", "redis-server", may_install) {
        Err(why) => Err(why),
        Ok(()) => Ok(Redis::start(&keys)?),
    };
    match redis {
        Err(why) => sheet.note(NAME, "counts over rediss://", Ok(Shown::Skipped(why)), ""),
        Ok(redis) => {
            sheet.check(NAME, "counts over rediss://", || over_tls(image, &home, &redis));
            sheet.check(NAME, "trusts no unknown authority", || untrusted(image, &home, &redis));
        }
    }
    Ok(())
}

/// A container that has not been started yet.
struct Container {
    id: String,
    bundle: PathBuf,
    config: Value,
    health: Vec<String>,
}

impl Container {
    /// The image unpacked, with its own user and without rights. It shares the network of this
    /// machine, so that it can be asked, and it takes a free port.
    fn unpack(image: &Image, bundle: &Path) -> Result<Self> {
        if bundle.exists() {
            std::fs::remove_dir_all(bundle)?;
        }
        process::read(
            Command::new("umoci").args(["unpack", "--image", &image.name()]).arg(bundle),
        )?;
        let mut config = read_json(&bundle.join("config.json"))?;
        let started: Vec<&str> = config["process"]["args"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(Value::as_str)
            .collect();
        if started != [&ENTRYPOINT[..], &ARGUMENTS[..]].concat() {
            bail!("the image starts {started:?}");
        }
        let arguments = ARGUMENTS.map(|word| word.replace("0.0.0.0:8700", "127.0.0.1:0"));
        let words = ENTRYPOINT.map(str::to_owned).into_iter().chain(arguments);
        let words: Vec<String> = words.chain(["--admin".to_owned(), "off".to_owned()]).collect();
        let process = config.get_mut("process").and_then(Value::as_object_mut);
        let process = process.context("a bundle without a process")?;
        process.insert("args".to_owned(), json!(words));
        process.insert("terminal".to_owned(), false.into());
        process.insert("noNewPrivileges".to_owned(), true.into());
        process.insert("capabilities".to_owned(), json!({}));
        let root = config.get_mut("root").and_then(Value::as_object_mut);
        root.context("a bundle without a root")?.insert("readonly".to_owned(), true.into());
        if let Some(spaces) = config.pointer_mut("/linux/namespaces").and_then(Value::as_array_mut)
        {
            spaces.retain(|space| space["type"] != "network");
        }
        if let Some(mounts) = config.get_mut("mounts").and_then(Value::as_array_mut) {
            // A system's folder may be mounted only with a separate network.
            mounts.retain(|mount| {
                !mount["destination"].as_str().is_some_and(|to| to.starts_with("/sys"))
            });
        }
        let id = format!("tollgate-packages-{}", std::process::id());
        let health = health_check(image)?;
        Ok(Self { id, bundle: bundle.to_path_buf(), config, health })
    }

    fn mount(&mut self, from: &Path, to: &str) {
        let mount = json!({
            "destination": to, "source": from, "type": "bind", "options": ["bind", "ro"],
        });
        if let Some(mounts) = self.config.get_mut("mounts").and_then(Value::as_array_mut) {
            mounts.push(mount);
        }
    }

    fn env(&mut self, variable: &str) {
        let env = self.config.pointer_mut("/process/env").and_then(Value::as_array_mut);
        if let Some(env) = env {
            env.push(variable.into());
        }
    }

    /// The command that runs it in the foreground.
    fn command(&self) -> Result<Command> {
        std::fs::write(self.bundle.join("config.json"), self.config.to_string())?;
        let mut command = Command::new("runc");
        command.args(["run", "--bundle"]).arg(&self.bundle).arg(&self.id);
        Ok(command)
    }

    /// Starts it; it ends with the returned value.
    fn start(self) -> Result<Running> {
        let service = Service::start(&mut self.command()?)?;
        Ok(Running { id: self.id, health: self.health, service })
    }
}

/// A container that runs.
struct Running {
    id: String,
    health: Vec<String>,
    service: Service,
}

impl Running {
    /// Runs a command in it, as another user if one is named.
    fn exec(&self, user: Option<&str>, words: &[&str]) -> Result<String> {
        let mut command = Command::new("runc");
        command.arg("exec");
        if let Some(user) = user {
            command.args(["--user", user]);
        }
        process::read(command.arg(&self.id).args(words))
    }

    /// Runs its own health check, with its address.
    fn is_well(&self) -> Result<()> {
        let mut words: Vec<&str> = self.health.iter().map(String::as_str).collect();
        words.push(&self.service.address);
        self.exec(None, &words).context("its health check").map(drop)
    }

    /// The kernel's report of its first process.
    fn status(&self) -> Result<String> {
        let state = process::read(Command::new("runc").args(["state", &self.id]))?;
        let state: Value = serde_json::from_str(&state)?;
        let id = state["pid"].as_u64().context("a container without a process")?;
        std::fs::read_to_string(format!("/proc/{id}/status")).context("its process has ended")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut command = Command::new("runc");
        command.args(["delete", "--force", &self.id]).stderr(Stdio::null());
        // It may have ended by itself.
        let _ = command.status();
    }
}

/// The command of the image's own health check.
fn health_check(image: &Image) -> Result<Vec<String>> {
    let index = read_json(&image.layout.join("index.json"))?;
    let manifest = read_json(&image.blob(&index["manifests"][0])?)?;
    let config = read_json(&image.blob(&manifest["config"])?)?;
    let words = config["config"]["Healthcheck"]["Test"].as_array().into_iter().flatten();
    let words: Vec<String> = words.flat_map(Value::as_str).map(str::to_owned).collect();
    match words.split_first() {
        Some((first, rest)) if first == "CMD" && !rest.is_empty() => Ok(rest.to_vec()),
        _ => bail!("the image has no health check"),
    }
}

/// It counts as user 10001, without rights, on a root that even root could not write to.
fn serves(image: &Image, home: &Path) -> Result<Shown> {
    let running = Container::unpack(image, home)?.start()?;
    running.service.counts()?;
    running.is_well()?;
    let status = running.status()?;
    for line in ["Uid:\t10001\t10001", "Gid:\t10001\t10001", "CapEff:\t0000000000000000"] {
        if !status.contains(line) {
            bail!("`{line}` is not in its status: {status}");
        }
    }
    let written = running.exec(Some("0"), &["/usr/bin/tollgate", "man", "/etc/tollgate"]);
    match written {
        Err(error) if error.to_string().contains("Read-only file system") => {}
        other => bail!("its root can be written to: {other:?}"),
    }
    let threads = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let memory = threads.unwrap_or_default().trim();
    Ok(Shown::Held(format!("user 10001, no capabilities, read-only root, healthy, {memory}")))
}

/// With policies that nobody can read it ends, and says where.
fn refuses(image: &Image, home: &Path) -> Result<Shown> {
    let mut container = Container::unpack(image, home)?;
    let broken = home.join("broken.toml");
    std::fs::write(&broken, "version = 1\nlimits = nonsense\n")?;
    container.mount(&broken, "/etc/tollgate/policies.toml");
    match container.start() {
        Ok(_) => bail!("it serves by a broken file"),
        Err(error) => {
            let said = error.to_string();
            let is_told = ["exit status: 2", "/etc/tollgate/policies.toml", "nonsense"];
            match is_told.iter().find(|word| !said.contains(**word)) {
                None => Ok(Shown::Held("exit code 2, with file and line".to_owned())),
                Some(word) => bail!("`{word}` is not in `{said}`"),
            }
        }
    }
}

/// It counts on a Redis whose certificate is of an authority that was mounted.
fn over_tls(image: &Image, home: &Path, redis: &Redis) -> Result<Shown> {
    let mut container = Container::unpack(image, home)?;
    container.env(&redis.store());
    container.env(&format!("SSL_CERT_FILE={AUTHORITY}"));
    container.mount(&redis.keys.join("ca.pem"), AUTHORITY);
    let running = container.start()?;
    running.service.get("/readyz?store=1").context("it does not reach its Redis")?;
    running.service.counts()?;
    let keys = redis.keys_held()?;
    if keys == 0 {
        bail!("the Redis has no key");
    }
    Ok(Shown::Held(format!("{keys} keys on the Redis, with {AUTHORITY}")))
}

/// Without that authority it does not start, and the error names the reason.
fn untrusted(image: &Image, home: &Path, redis: &Redis) -> Result<Shown> {
    let mut container = Container::unpack(image, home)?;
    container.env(&redis.store());
    match container.start() {
        Ok(_) => bail!("it trusts an unknown authority"),
        Err(error) => {
            let said = error.to_string();
            match said.contains("exit status: 2") && said.to_lowercase().contains("certificate") {
                true => Ok(Shown::Held("exit code 2, and it names the certificate".to_owned())),
                false => bail!("{said}"),
            }
        }
    }
}

/// A Redis that speaks TLS alone, with a certificate of a separate authority.
struct Redis {
    child: Child,
    port: u16,
    keys: PathBuf,
}

/// Makes an authority and a certificate of it for this machine.
const KEYS: &str = "\
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout ca.key -out ca.pem \
    -subj '/CN=A test authority' &&
openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost &&
printf 'subjectAltName=IP:127.0.0.1,DNS:localhost' >names &&
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
    -extfile names -out server.pem";

impl Redis {
    fn start(keys: &Path) -> Result<Self> {
        fresh(keys)?;
        process::read(process::shell(KEYS).current_dir(keys)).context("openssl")?;
        let port = free_port()?;
        let mut command = Command::new("redis-server");
        command.current_dir(keys).args(["--port", "0", "--tls-port", &port.to_string()]);
        command.args(["--bind", "127.0.0.1", "--save", "", "--tls-auth-clients", "no"]);
        command.args(["--tls-cert-file", "server.pem", "--tls-key-file", "server.key"]);
        command.args(["--tls-ca-cert-file", "ca.pem"]);
        let mut child = command.stdout(Stdio::piped()).spawn().context("redis-server")?;
        let out = child.stdout.take().context("a Redis has no output")?;
        let redis = Self { child, port, keys: keys.to_path_buf() };
        let mut lines = BufReader::new(out).lines();
        let ready =
            lines.by_ref().map_while(Result::ok).any(|line| line.contains("Ready to accept"));
        std::thread::spawn(move || lines.for_each(drop));
        match ready {
            true => Ok(redis),
            false => bail!("the Redis with TLS did not start"),
        }
    }

    /// The variable that names it.
    fn store(&self) -> String {
        format!("TOLLGATE_STORE=rediss://127.0.0.1:{}", self.port)
    }

    fn keys_held(&self) -> Result<u64> {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port.to_string(), "--tls", "--cacert"]);
        let said = process::read(command.arg(self.keys.join("ca.pem")).arg("DBSIZE"))?;
        said.trim().parse().with_context(|| format!("DBSIZE is `{said}`"))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody listens on.
pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?.port())
}
