//! Manifests of Kubernetes: whether what they name is there, and their program started by them.

use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::service::Service;
use super::sheet::Shown;
use super::stage::{Stage, fresh};

/// The replacement of a secret.
const TOKEN: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// All documents of the rendered manifests.
#[derive(Debug)]
pub(crate) struct Manifests(Vec<Value>);

impl Manifests {
    /// Those of a JSON array.
    pub(crate) fn read(all: &Value) -> Result<Self> {
        Ok(Self(all.as_array().context("no list of manifests")?.clone()))
    }

    /// The kinds of manifest, for people.
    pub(crate) fn kinds(&self) -> String {
        let mut kinds: Vec<&str> = self.0.iter().flat_map(|one| one["kind"].as_str()).collect();
        kinds.sort_unstable();
        format!("{} documents: {}", kinds.len(), kinds.join(", "))
    }

    fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |one| one["kind"] == kind)
    }

    fn deployment(&self) -> Result<&Value> {
        self.of("Deployment").next().context("no Deployment")
    }

    /// Its one container.
    fn container(&self) -> Result<&Value> {
        let containers = &self.deployment()?["spec"]["template"]["spec"]["containers"];
        match containers.as_array().map(Vec::as_slice) {
            Some([container]) => Ok(container),
            _ => bail!("one container is wanted: {containers}"),
        }
    }

    /// Selectors select its pods, ports and volumes are there, and nothing runs with rights.
    pub(crate) fn fit(&self, version: &str) -> Result<Shown> {
        let deployment = self.deployment()?;
        let template = &deployment["spec"]["template"];
        let labels = &template["metadata"]["labels"];
        let selects = |selector: &Value| {
            let pairs = selector.as_object().filter(|pairs| !pairs.is_empty());
            pairs.is_some_and(|pairs| pairs.iter().all(|(key, value)| labels[key] == *value))
        };
        let mut selectors = vec![&deployment["spec"]["selector"]["matchLabels"]];
        selectors.extend(self.of("Service").map(|one| &one["spec"]["selector"]));
        let budgets = self.of("PodDisruptionBudget");
        selectors.extend(budgets.map(|one| &one["spec"]["selector"]["matchLabels"]));
        if let Some(selector) = selectors.iter().find(|selector| !selects(selector)) {
            bail!("{selector} does not select {labels}");
        }
        if deployment["spec"]["replicas"].as_u64() > Some(1) {
            let named = self.env()?.into_iter().any(|(name, _)| name == "TOLLGATE_STORE");
            if !named {
                bail!("several instances without a store");
            }
        }
        let container = self.container()?;
        let image = container["image"].as_str().unwrap_or_default();
        if !image.ends_with(&format!(":{version}")) {
            bail!("its image is {image}, and the version {version}");
        }
        let ports: Vec<&Value> =
            container["ports"].as_array().into_iter().flatten().map(|port| &port["name"]).collect();
        for service in self.of("Service") {
            for port in service["spec"]["ports"].as_array().into_iter().flatten() {
                if !ports.contains(&&port["targetPort"]) {
                    bail!("no port {} in {ports:?}", port["targetPort"]);
                }
            }
        }
        let pod = &template["spec"];
        let (of_pod, of_container) = (&pod["securityContext"], &container["securityContext"]);
        let either = |key: &str| [&of_container[key], &of_pod[key]].into_iter().any(|v| v == true);
        let dropped = &of_container["capabilities"]["drop"];
        if !either("runAsNonRoot")
            || of_container["readOnlyRootFilesystem"] != true
            || of_container["allowPrivilegeEscalation"] != false
            || *dropped != serde_json::json!(["ALL"])
        {
            bail!("it has rights: {of_pod} {of_container}");
        }
        if container["resources"]["limits"]["memory"].is_null() {
            bail!("its memory has no limit");
        }
        self.ends_in_time(pod, container)?;
        let secrets = self.secrets()?;
        Ok(Shown::Held(format!(
            "{} selectors, {} ports, {secrets} secrets",
            selectors.len(),
            ports.len()
        )))
    }

    /// Not ready is noticed while it still takes requests, and it is not killed before its end.
    fn ends_in_time(&self, pod: &Value, container: &Value) -> Result<()> {
        let probe = &container["readinessProbe"];
        let number = |value: &Value| value.as_u64().context("a probe or pod without its time");
        let noticed = number(&probe["periodSeconds"])? * number(&probe["failureThreshold"])?;
        let seconds = |name: &str| {
            let text = self.option(name)?.with_context(|| format!("no --{name}"))?;
            text.trim_end_matches('s').parse::<u64>().with_context(|| format!("--{name}={text}"))
        };
        let (linger, grace) = (seconds("linger")?, seconds("grace")?);
        let killed = number(&pod["terminationGracePeriodSeconds"])?;
        if noticed >= linger || killed <= linger.saturating_add(grace) {
            bail!(
                "noticed after {noticed} s, linger {linger} s, grace {grace} s, killed {killed} s"
            );
        }
        Ok(())
    }

    fn arguments(&self) -> Result<Vec<&str>> {
        let words = self.container()?["args"].as_array().context("a container without args")?;
        words.iter().map(|word| word.as_str().context("an argument is not text")).collect()
    }

    /// `VALUE` of `--NAME=VALUE`.
    fn option(&self, name: &str) -> Result<Option<String>> {
        let words = self.arguments()?;
        let start = format!("--{name}=");
        Ok(words.iter().find_map(|word| word.strip_prefix(&start)).map(str::to_owned))
    }

    /// Variables by name.
    fn env(&self) -> Result<Vec<(&str, &Value)>> {
        let all = self.container()?["env"].as_array().into_iter().flatten();
        Ok(all.flat_map(|one| Some((one["name"].as_str()?, one))).collect())
    }

    /// How many variables are from secrets: all that have one.
    fn secrets(&self) -> Result<usize> {
        let mut found = 0;
        for (name, variable) in self.env()? {
            let from = &variable["valueFrom"]["secretKeyRef"];
            if from["name"].is_string() && from["key"].is_string() {
                found += 1;
            } else if name.starts_with("TOLLGATE_") {
                bail!("{name} stands in the manifest: {variable}");
            }
        }
        Ok(found)
    }
}

/// Starts the program as the manifests do, with a test's address, files and secrets, and asks what
/// the probes ask.
pub(crate) fn starts(manifests: &Manifests, stage: &Stage) -> Result<Shown> {
    let home = stage.home.join("started");
    fresh(&home)?;
    let config = manifests.option("config")?.context("no --config")?;
    let name = config.rsplit('/').next().unwrap_or_default();
    let policies = manifests.of("ConfigMap").find_map(|one| one["data"][name].as_str());
    let file = home.join(name);
    std::fs::write(&file, policies.with_context(|| format!("no ConfigMap has {name}"))?)?;
    let mut command = Command::new(stage.program());
    command.current_dir(&home).arg("serve").env_clear();
    let mut replaced = 0;
    for word in manifests.arguments()? {
        let of = |name: &str| word.starts_with(&format!("--{name}="));
        if of("listen") || of("admin") {
            let (name, _) = word.split_once('=').unwrap_or_default();
            command.arg(format!("{name}=127.0.0.1:0"));
            replaced += 1;
        } else if of("config") {
            command.arg(format!("--config={}", file.display()));
            replaced += 1;
        } else {
            command.arg(word);
        }
    }
    if manifests.option("admin")?.is_none() {
        // The usual one may be in use here.
        command.arg("--admin=127.0.0.1:0");
    }
    if replaced < 2 {
        bail!("it names no address or no policies: {:?}", manifests.arguments()?);
    }
    for (name, _) in manifests.env()? {
        match name {
            "TOLLGATE_STORE" => {
                command.env(name, format!("sqlite://{}", home.join("c.db").display()))
            }
            "SSL_CERT_FILE" => continue,
            _ => command.env(name, TOKEN),
        };
    }
    let service = Service::start(&mut command)?;
    let container = manifests.container()?;
    let mut asked = 0;
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str();
        service.get(path.with_context(|| format!("no {probe}"))?)?;
        asked += 1;
    }
    if let Some(path) = manifests.scraped()?
        && !service.get(path)?.contains("tollgate_")
    {
        bail!("{path} has no metrics");
    }
    service.counts()?;
    Ok(Shown::Held(format!("it counts, and {asked} probes hold")))
}

impl Manifests {
    /// Where its pods say that metrics are, on the port for clients.
    fn scraped(&self) -> Result<Option<&str>> {
        let notes = &self.deployment()?["spec"]["template"]["metadata"]["annotations"];
        if notes["prometheus.io/scrape"] != "true" {
            return Ok(None);
        }
        let port = notes["prometheus.io/port"].as_str().context("no port of metrics")?;
        let port: u64 = port.parse().with_context(|| format!("the port `{port}` of metrics"))?;
        let ports = self.container()?["ports"].as_array().into_iter().flatten();
        let mut http = ports.filter(|one| one["name"] == "http");
        if !http.any(|one| one["containerPort"] == port) {
            bail!("metrics are said to be at port {port}");
        }
        Ok(notes["prometheus.io/path"].as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sound() -> Value {
        json!([
            {"kind": "Deployment", "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "a"}},
                "template": {"metadata": {"labels": {"app": "a"}}, "spec": {
                    "terminationGracePeriodSeconds": 20,
                    "securityContext": {"runAsNonRoot": true},
                    "containers": [{
                        "image": "tollgate:1.2.3",
                        "args": ["--linger=5s", "--grace=10s"],
                        "ports": [{"name": "http", "containerPort": 8700}],
                        "readinessProbe": {"periodSeconds": 2, "failureThreshold": 1},
                        "resources": {"limits": {"memory": "1Mi"}},
                        "securityContext": {
                            "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
                            "capabilities": {"drop": ["ALL"]}},
                    }],
                }},
            }},
            {"kind": "Service", "spec": {
                "selector": {"app": "a"}, "ports": [{"targetPort": "http"}]}},
        ])
    }

    fn fit(change: impl FnOnce(&mut Value)) -> Result<Shown> {
        let mut all = sound();
        change(&mut all);
        Manifests::read(&all).unwrap().fit("1.2.3")
    }

    #[test]
    fn what_does_not_fit_is_told() {
        fit(|_| {}).unwrap();
        let pod = "/0/spec/template/spec";
        let container = "/0/spec/template/spec/containers/0";
        let changes = [
            ("/1/spec/selector/app".to_owned(), json!("b"), "does not select"),
            ("/1/spec/ports/0/targetPort".to_owned(), json!("htpp"), "no port"),
            ("/0/spec/replicas".to_owned(), json!(2), "several instances"),
            (format!("{container}/image"), json!("tollgate:1.2.2"), "its image is"),
            (format!("{pod}/securityContext/runAsNonRoot"), json!(false), "it has rights"),
            (format!("{container}/securityContext/readOnlyRootFilesystem"), json!(false), "rights"),
            (format!("{container}/resources/limits"), json!({}), "no limit"),
            (format!("{pod}/terminationGracePeriodSeconds"), json!(15), "killed 15 s"),
            (format!("{container}/readinessProbe/failureThreshold"), json!(3), "after 6 s"),
        ];
        for (at, value, part) in changes {
            let error = fit(|all| *all.pointer_mut(&at).unwrap() = value).unwrap_err().to_string();
            assert!(error.contains(part), "{at}: {error}");
        }
        let env = json!([{"name": "TOLLGATE_STORE", "value": "redis://a:b@c"}]);
        let error = fit(|all| all.pointer_mut(container).unwrap()["env"] = env).unwrap_err();
        assert!(error.to_string().contains("stands in the manifest"), "{error}");
    }
}
