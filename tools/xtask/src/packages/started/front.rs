//! The programs beside ours: an Envoy in front of it, and a Redis behind it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::volumes::Volumes;
use crate::packages::image::free_port;
use crate::packages::manifests::{Manifests, Pod};
use crate::packages::service::Service;
use crate::process;

/// How long Envoy may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// The port of Envoy's own administration in its configuration.
const ADMIN: u64 = 9901;

/// How long after its `--linger` an instance is gone for certain.
const GONE_AFTER: Duration = Duration::from_secs(2);

/// How often a client asks at most until it is refused.
const ASKS: usize = 200;

/// A program that ends with its check.
#[derive(Debug)]
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        // It has ended already, or the check has failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Redis by its own configuration, on a free port.
#[derive(Debug)]
pub(super) struct Redis {
    _child: Other,
    port: u16,
}

impl Redis {
    pub(super) fn start(manifests: &Manifests, pod: &Pod<'_>, home: &Path) -> Result<Self> {
        let volumes = Volumes::fill(manifests, pod, &home.join("redis"), home)?;
        let port = free_port()?;
        let mut command = Command::new("redis-server");
        let folder = pod.container["workingDir"].as_str().context("a Redis without a folder")?;
        command.current_dir(volumes.path(folder)?);
        for word in pod.arguments()? {
            match word.starts_with('/') {
                true => command.arg(volumes.path(word)?),
                false => command.arg(word),
            };
        }
        // The last word holds.
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.stdout(Stdio::piped());
        let mut child = command.spawn().context("redis-server")?;
        let out = child.stdout.take().context("a Redis has no output")?;
        let redis = Self { _child: Other(child), port };
        let mut lines = BufReader::new(out).lines();
        let mut said = Vec::new();
        let ready = lines.by_ref().map_while(Result::ok).any(|line| {
            let ready = line.contains("Ready to accept");
            said.push(line);
            ready
        });
        std::thread::spawn(move || lines.for_each(drop));
        match ready {
            true => Ok(redis),
            false => bail!("the Redis did not start: {}", said.join("; ")),
        }
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The counts are on it, and it writes each to its file.
    pub(super) fn keeps(&self) -> Result<String> {
        let port = self.port.to_string();
        let ask = |words: &[&str]| {
            process::read(Command::new("redis-cli").args(["-e", "-p", &port]).args(words))
        };
        let keys = ask(&["DBSIZE"])?;
        let keys = keys.trim();
        if keys == "0" || !ask(&["INFO", "persistence"])?.contains("aof_enabled:1") {
            bail!("{keys} keys on the Redis, or it has no append-only file");
        }
        Ok(format!("{keys} keys on the Redis"))
    }
}

/// An Envoy by its own configuration, with free ports.
#[derive(Debug)]
pub(super) struct Envoy {
    _child: Other,
    web: u16,
    admin: u16,
}

impl Envoy {
    /// Starts it before our gRPC at these addresses, and waits until its probe holds.
    pub(super) fn start(
        program: &Path,
        manifests: &Manifests,
        pod: &Pod<'_>,
        instances: &[&str],
        home: &Path,
    ) -> Result<Self> {
        let volumes = Volumes::fill(manifests, pod, &home.join("envoy"), home)?;
        let config = pod.arguments()?.into_iter().find(|word| word.starts_with('/'));
        let config = volumes.path(config.context("Envoy without a configuration")?)?;
        let text = std::fs::read_to_string(&config)?;
        let (here, taken) = at_free_ports(&text, instances)?;
        let port_of = |name: &str| -> Result<u16> {
            let mut ports = pod.container["ports"].as_array().into_iter().flatten();
            let port = ports.find(|port| port["name"] == name).map(|port| &port["containerPort"]);
            let port = port.and_then(Value::as_u64).with_context(|| format!("no port {name}"))?;
            taken.get(&port).copied().with_context(|| format!("Envoy does not listen at {port}"))
        };
        let probe = &pod.container["readinessProbe"]["httpGet"];
        let [Some(path), Some(name)] = [&probe["path"], &probe["port"]].map(Value::as_str) else {
            bail!("Envoy has no probe with a path and the name of a port: {probe}");
        };
        let (web, probe) = (port_of("http")?, format!("http://127.0.0.1:{}{path}", port_of(name)?));
        let file = home.join("envoy.yaml");
        std::fs::write(&file, here)?;
        let mut command = Command::new(program);
        command.arg("-c").arg(&file).args(["--concurrency", "1", "--disable-hot-restart"]);
        let log = std::fs::File::create(home.join("envoy.log"))?;
        let child = command.stdout(Stdio::null()).stderr(log).spawn().context("Envoy")?;
        let admin = *taken.get(&ADMIN).context("Envoy has no administration")?;
        let envoy = Self { _child: Other(child), web, admin };
        let started = Instant::now();
        while status(&probe)? != "200" {
            if started.elapsed() > READY_WITHIN {
                let log = std::fs::read_to_string(home.join("envoy.log"))?;
                bail!("Envoy is not ready at {probe}: {log}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(envoy)
    }

    /// A client is admitted, and after some requests it is not.
    pub(super) fn denies(&self) -> Result<String> {
        let page = format!("http://127.0.0.1:{}/", self.web);
        for asked in 0..ASKS {
            match status(&page)?.as_str() {
                "200" => {}
                "429" if asked > 0 => {
                    return Ok(format!("Envoy denies request {} with 429", asked + 1));
                }
                other => bail!("Envoy answers request {} with {other}", asked + 1),
            }
        }
        bail!("Envoy admits {ASKS} requests of one client")
    }

    /// An instance ends, and no call of Envoy fails meanwhile.
    pub(super) fn outlives(&self, instance: &Service, linger: &str) -> Result<String> {
        let linger: u64 = linger.trim_end_matches('s').parse().context("--linger")?;
        instance.terminate()?;
        let (started, mut asked) = (Instant::now(), 0);
        while started.elapsed() < Duration::from_secs(linger) + GONE_AFTER {
            status(&format!("http://127.0.0.1:{}/", self.web))?;
            asked += 1;
        }
        if instance.get("/healthz").is_ok() {
            bail!("an instance serves {linger} s after SIGTERM");
        }
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--fail"]);
        let stats = process::read(curl.arg(format!("http://127.0.0.1:{}/stats", self.admin)))?;
        let mut failed = stats.lines().filter(|line| line.contains("ratelimit.error: "));
        match failed.find(|line| !line.ends_with(": 0")) {
            _ if !stats.contains("ratelimit.over_limit: ") => bail!("Envoy counted no calls"),
            Some(line) => bail!("{line}, of {asked} while an instance ended"),
            None => Ok(format!("no call of {asked} fails while an instance ends")),
        }
    }
}

/// A configuration whose addresses are free ports of this machine, and those of our service one for
/// each of its instances; and the port here of each port there.
fn at_free_ports(text: &str, instances: &[&str]) -> Result<(String, BTreeMap<u64, u16>)> {
    const ADDRESS: &str = "socket_address: { address: ";
    let mut ports = BTreeMap::new();
    let mut here = String::new();
    for line in text.lines() {
        let Some((before, part)) = line.split_once(ADDRESS) else {
            here.push_str(&format!("{line}\n"));
            continue;
        };
        let (address, rest) = part.split_once(" }").context("an address without an end")?;
        let (host, port) = address.split_once(", port_value: ").context("an address, no port")?;
        let mut put = |port: &dyn std::fmt::Display| {
            let address = format!("{ADDRESS}127.0.0.1, port_value: {port} }}");
            here.push_str(&format!("{before}{address}{rest}\n"));
        };
        if host.starts_with("tollgate") {
            for instance in instances {
                put(&instance.rsplit(':').next().unwrap_or_default());
            }
            continue;
        }
        let port: u64 = port.parse().with_context(|| format!("the port {port}"))?;
        let free = match ports.entry(port) {
            Entry::Occupied(taken) => *taken.get(),
            Entry::Vacant(place) => *place.insert(free_port()?),
        };
        put(&free);
    }
    Ok((here, ports))
}

/// The status of an answer; 000 without an answer.
fn status(url: &str) -> Result<String> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--max-time", "5", "--output", "/dev/null"]);
    let output = curl.args(["--write-out", "%{http_code}", url]).output().context("curl")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_has_one_that_is_free() {
        let text = "a: socket_address: { address: 0.0.0.0, port_value: 80 }\n\
                    b: { socket_address: { address: tollgate-x, port_value: 8081 } }\n\
                    c: socket_address: { address: 127.0.0.1, port_value: 80 }\n";
        let (here, ports) = at_free_ports(text, &["127.0.0.1:5", "127.0.0.1:6"]).unwrap();
        let free = ports[&80];
        let expected = format!(
            "a: socket_address: {{ address: 127.0.0.1, port_value: {free} }}\n\
             b: {{ socket_address: {{ address: 127.0.0.1, port_value: 5 }} }}\n\
             b: {{ socket_address: {{ address: 127.0.0.1, port_value: 6 }} }}\n\
             c: socket_address: {{ address: 127.0.0.1, port_value: {free} }}\n"
        );
        assert_eq!((here, ports.len()), (expected, 1));
    }
}
