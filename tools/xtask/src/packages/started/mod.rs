//! The programs of manifests, started as a cluster would start them: with their arguments, volumes,
//! variables and probes. Addresses, secrets and the store are a test's.

mod front;
mod volumes;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use self::front::{Envoy, Redis};
use self::volumes::Volumes;
use super::manifests::{Manifests, Pod};
use super::service::Service;
use super::sheet::Shown;
use super::stage::{Stage, fresh};
use crate::process;

/// The replacement of a secret.
const TOKEN: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// How long a changed config map may take to be read.
const READ_WITHIN: Duration = Duration::from_secs(20);

/// How long after SIGTERM it may be ready: a part of the least `--linger`.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// Addresses of our program, which become free ports of this machine.
const LISTENS: [&str; 4] = ["listen", "admin", "grpc", "resp"];

/// Rules and a policy that a check adds, to see them taken.
const MORE_RULES: (&str, &str) = (
    "zz-check.yaml",
    "domain: zz-check\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 77}}]\n",
);
const MORE_POLICIES: &str = "
[[policies]]
name = \"zz-check\"
limits = [{ subject = \"ip\", limit = \"77/d\" }]
on_failure = \"deny\"
";

/// Asks the standard health service of gRPC, over TLS where a folder of certificates is named.
const HEALTH: &str = "\
import sys, grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
address, folder = sys.argv[1:]
if folder:
    read = lambda name: open(f'{folder}/{name}', 'rb').read()
    keys = grpc.ssl_channel_credentials(read('ca.pem'), read('tls.key'), read('tls.crt'))
    channel = grpc.secure_channel(address, keys)
else:
    channel = grpc.insecure_channel(address)
answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
print(answer.status)
";

/// The programs of others that take part; the reason where one is absent.
#[derive(Debug)]
pub(crate) struct Others {
    pub(crate) redis: Result<(), String>,
    /// A Python that has gRPC.
    pub(crate) grpc: Result<PathBuf, String>,
    pub(crate) envoy: Result<PathBuf, String>,
}

/// Starts all that the manifests run, asks what the probes ask, and every door.
pub(crate) fn starts(manifests: &Manifests, stage: &Stage, others: &Others) -> Result<Shown> {
    let ours = manifests.ours()?;
    let needs = [
        (
            manifests.pod("redis")?.is_some() || ours.option("resp")?.is_some(),
            others.redis.as_ref().err(),
        ),
        (ours.option("grpc")?.is_some(), others.grpc.as_ref().err()),
        (manifests.pod("envoy")?.is_some(), others.envoy.as_ref().err()),
    ];
    if let Some((_, Some(why))) = needs.iter().find(|(needed, why)| *needed && why.is_some()) {
        return Ok(Shown::Skipped((*why).clone()));
    }
    let home = stage.home.join("started");
    fresh(&home)?;
    volumes::make_keys(&home)?;
    let redis = manifests.pod("redis")?.map(|pod| Redis::start(manifests, &pod, &home));
    let redis = redis.transpose()?;
    let volumes = Volumes::fill(manifests, &ours, &home.join("ours"), &home)?;
    let mut started =
        Started { service: start(&ours, stage, &volumes, redis.as_ref(), &home)?, home };
    let mut shown = vec![started.probes(&ours, stage)?, started.doors(&ours, others)?];
    shown.extend(started.reloads(&ours, &volumes)?);
    if let Some(pod) = manifests.pod("envoy")? {
        let program = others.envoy.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?;
        let second = start(&ours, stage, &volumes, redis.as_ref(), &started.home)?;
        let both = [&started.service, &second].map(|one| one.said("grpc"));
        let [Some(one), Some(two)] = both else { bail!("Envoy without gRPC") };
        let envoy = Envoy::start(program, manifests, &pod, &[one, two], &started.home)?;
        shown.push(envoy.denies()?);
        shown.push(envoy.outlives(&second, ours.option("linger")?.context("no --linger")?)?);
    }
    if let Some(redis) = redis {
        shown.push(redis.keeps()?);
    }
    shown.push(started.ends(&ours, others)?);
    Ok(Shown::Held(shown.join(", ")))
}

/// Starts our program.
fn start(
    ours: &Pod<'_>,
    stage: &Stage,
    volumes: &Volumes,
    redis: Option<&Redis>,
    home: &Path,
) -> Result<Service> {
    let mut command = Command::new(stage.program());
    command.current_dir(home).arg("serve").env_clear();
    for word in ours.arguments()? {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let name_alone = name.trim_start_matches("--");
        match (name_alone, redis) {
            (one, _) if LISTENS.contains(&one) => command.arg(format!("{name}=127.0.0.1:0")),
            ("store", Some(redis)) => command.arg(format!("{name}={}", redis.url())),
            _ if value.starts_with('/') => {
                command.arg(format!("{name}={}", volumes.path(value)?.display()))
            }
            _ => command.arg(word),
        };
    }
    if ours.option("admin")?.is_none() {
        // The usual one may be in use here.
        command.arg("--admin=127.0.0.1:0");
    }
    for (name, variable) in ours.env() {
        let value = match (name, variable["value"].as_str()) {
            ("TOLLGATE_STORE", _) => format!("sqlite://{}", home.join("c.db").display()),
            ("TOLLGATE_RESP_USERS", _) => format!("web:ask:{TOKEN}"),
            (_, Some(path)) if path.starts_with('/') => volumes.path(path)?.display().to_string(),
            (_, Some(value)) => value.to_owned(),
            (_, None) => TOKEN.to_owned(),
        };
        command.env(name, value);
    }
    let mut service = Service::start(&mut command)?;
    if ours.option("tls-cert")?.is_some() {
        for (option, file) in [("--cacert", "ca.pem"), ("--cert", "tls.crt"), ("--key", "tls.key")]
        {
            service.options.push(option.to_owned());
            service.options.push(home.join("keys").join(file).display().to_string());
        }
    }
    Ok(service)
}

/// Our program while it runs.
struct Started {
    service: Service,
    home: PathBuf,
}

impl Started {
    /// Its probes hold, as the kubelet makes them: without a certificate of its own.
    fn probes(&mut self, ours: &Pod<'_>, stage: &Stage) -> Result<String> {
        let tls = ours.option("tls-cert")?.is_some();
        let kept = std::mem::replace(&mut self.service.options, vec!["--insecure".to_owned()]);
        for name in ["startupProbe", "readinessProbe", "livenessProbe"] {
            let probe = &ours.container[name];
            let asked =
                match (probe["httpGet"]["path"].as_str(), probe["exec"]["command"].as_array()) {
                    (Some(path), None) if (probe["httpGet"]["scheme"] == "HTTPS") == tls => {
                        self.service.get(path)
                    }
                    (None, Some(words)) => self.command(words, ours, stage),
                    _ => bail!("{name} does not ask as it is answered: {probe}"),
                };
            asked.with_context(|| name.to_owned())?;
        }
        self.service.options = kept;
        if let Some(path) = ours.scraped()?
            && !self.service.get(path)?.contains("tollgate_")
        {
            bail!("{path} has no metrics");
        }
        Ok("3 probes hold".to_owned())
    }

    /// A probe that is a command, at the administrators' address of this run.
    fn command(&self, words: &[Value], ours: &Pod<'_>, stage: &Stage) -> Result<String> {
        let words: Vec<&str> = words.iter().flat_map(Value::as_str).collect();
        let (program, words) = words.split_first().context("a probe without a command")?;
        if *program != "/usr/bin/tollgate" {
            bail!("the image has no {program}");
        }
        let admin = ours.option("admin")?.context("no --admin")?;
        let here = self.service.said("admin").context("no administrators' address")?;
        let here = here.rsplit('/').next().unwrap_or_default();
        if !words.contains(&admin) {
            bail!("it does not ask {admin}: {words:?}");
        }
        let words = words.iter().map(|word| if *word == admin { here } else { word });
        process::read(Command::new(stage.program()).args(words).env_clear())
    }

    /// It counts over HTTP, the Redis protocol and gRPC, where it has them.
    fn doors(&self, ours: &Pod<'_>, others: &Others) -> Result<String> {
        let mut doors = Vec::new();
        // Without limits of callers HTTP has nothing to count by.
        if ours.option("caller-limits")? != Some("off") {
            self.service.counts()?;
            doors.push("HTTP");
        }
        let tls = ours.option("tls-cert")?.is_some();
        let keys = self.home.join("keys");
        if ours.option("resp")?.is_some() {
            let address =
                self.service.said("redis").context("no address for the Redis protocol")?;
            let (_, port) = address.rsplit_once(':').context("an address without a port")?;
            let mut client = Command::new("redis-cli");
            client.args(["-e", "-h", "127.0.0.1", "-p", port, "--no-auth-warning", "-a", TOKEN]);
            if ours.env().iter().all(|(name, _)| *name != "TOLLGATE_RESP_PASSWORD") {
                client.args(["--user", "web"]);
            }
            if tls {
                client.arg("--tls");
                for (option, file) in
                    [("--cacert", "ca.pem"), ("--cert", "tls.crt"), ("--key", "tls.key")]
                {
                    client.arg(option).arg(keys.join(file));
                }
            }
            // Over HTTP the same count is used up.
            let said = process::read(client.args(["TOLLGATE.CHECK", "user:42", "1/h"]))?;
            if !said.contains("denied") {
                bail!("it does not count over the Redis protocol: {said}");
            }
            doors.push("RESP");
        }
        if ours.option("grpc")?.is_some() {
            self.has_health("1", ours, others)?;
            doors.push("gRPC");
        }
        Ok(format!("counts over {}", doors.join(", ")))
    }

    /// The health service of gRPC answers 1 while it serves, else 2.
    fn has_health(&self, wanted: &str, ours: &Pod<'_>, others: &Others) -> Result<()> {
        let address = self.service.said("grpc").context("no address for gRPC")?;
        let python = others.grpc.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?;
        let folder = match ours.option("tls-cert")? {
            Some(_) => self.home.join("keys").display().to_string(),
            None => String::new(),
        };
        let found = process::read(Command::new(python).args(["-c", HEALTH, address, &folder]))?;
        match found.trim() == wanted {
            true => Ok(()),
            false => bail!("the health of gRPC is {found}, not {wanted}"),
        }
    }

    /// From the signal on it is not ready, and takes requests.
    fn ends(&self, ours: &Pod<'_>, others: &Others) -> Result<String> {
        self.service.terminate()?;
        let started = Instant::now();
        while self.service.get("/readyz").is_ok() {
            if started.elapsed() > ENDS_WITHIN {
                bail!("it is ready after SIGTERM");
            }
        }
        if ours.option("grpc")?.is_some() {
            self.has_health("2", ours, others)?;
        }
        self.service.get("/metrics").context("it takes no requests while it lingers")?;
        Ok("lingers".to_owned())
    }

    /// Changed config maps are taken without a restart: policies and rules of Envoy.
    fn reloads(&self, ours: &Pod<'_>, volumes: &Volumes) -> Result<Vec<String>> {
        let mut shown = Vec::new();
        if let Some(config) = ours.option("config")? {
            let (folder, file) = config.rsplit_once('/').context("no folder of policies")?;
            let text = std::fs::read_to_string(volumes.path(config)?)?;
            volumes.change(folder, file, &format!("{text}{MORE_POLICIES}"))?;
            let question = r#"{"policy": "zz-check", "fields": {"ip": "192.0.2.7"}}"#;
            self.until("/v1/check", question, r#""limit":77"#)?;
            shown.push("takes new policies".to_owned());
        }
        if let Some(folder) = ours.option("envoy-config")? {
            volumes.change(folder, MORE_RULES.0, MORE_RULES.1)?;
            let question = r#"{"domain": "zz-check", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]}"#;
            self.until("/json", question, r#""requestsPerUnit":77"#)?;
            shown.push("takes new rules".to_owned());
        }
        if let Some(path) = ours.option("tls-cert")? {
            let (folder, file) = path.rsplit_once('/').context("no folder of certificates")?;
            let (text, number) = volumes::renewed(&self.home)?;
            volumes.change(folder, file, &text)?;
            self.repeatedly(number, || self.service.certificate())?;
            shown.push("takes a new certificate".to_owned());
        }
        Ok(shown)
    }

    /// Asks until the answer has this part.
    fn until(&self, path: &str, question: &str, part: &str) -> Result<()> {
        self.repeatedly(part, || self.service.post(path, question))
    }

    fn repeatedly(&self, part: &str, ask: impl Fn() -> Result<String>) -> Result<()> {
        let started = Instant::now();
        loop {
            let found = ask();
            match &found {
                Ok(found) if found.contains(part) => return Ok(()),
                _ if started.elapsed() > READ_WITHIN => {
                    bail!("a changed volume is not read: no `{part}` in {found:?}")
                }
                _ => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }
}
