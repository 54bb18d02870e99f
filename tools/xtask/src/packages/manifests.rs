//! Manifests of Kubernetes: whether the parts that they name are there, and whether their pods have
//! no rights. `started.rs` starts their programs.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::sheet::Shown;

/// The container of our own program.
const OURS: &str = "tollgate";

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
        let mut counted: Vec<(&str, usize)> = Vec::new();
        for kind in &kinds {
            match counted.last_mut() {
                Some((last, times)) if last == kind => *times += 1,
                _ => counted.push((kind, 1)),
            }
        }
        let shown: Vec<String> = counted
            .iter()
            .map(|(kind, times)| match times {
                1 => (*kind).to_owned(),
                times => format!("{times} {kind}"),
            })
            .collect();
        format!("{} documents: {}", kinds.len(), shown.join(", "))
    }

    pub(crate) fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |one| one["kind"] == kind)
    }

    /// The pods that run, each with one container.
    fn pods(&self) -> Result<Vec<Pod<'_>>> {
        self.of("Deployment").chain(self.of("StatefulSet")).map(Pod::of).collect()
    }

    /// The pods whose container has this name, where there are some.
    pub(crate) fn pod(&self, container: &str) -> Result<Option<Pod<'_>>> {
        Ok(self.pods()?.into_iter().find(|pod| pod.container["name"] == container))
    }

    /// Those of our own program.
    pub(crate) fn ours(&self) -> Result<Pod<'_>> {
        self.pod(OURS)?.with_context(|| format!("no Deployment with a container {OURS}"))
    }

    /// A config map by its name; `None` where it is the user's own.
    pub(crate) fn config_map(&self, name: &str) -> Option<&Value> {
        self.of("ConfigMap").find(|one| one["metadata"]["name"] == name).map(|one| &one["data"])
    }

    /// Selectors select pods, ports and volumes are there, and nothing runs with rights.
    pub(crate) fn fit(&self, version: &str) -> Result<Shown> {
        let (selectors, ports) = self.selected()?;
        let ours = self.ours()?;
        let store = self.has_store(&ours)?;
        if ours.replicas() > Some(1) && !store {
            bail!("several instances without a store");
        }
        for scaler in self.of("HorizontalPodAutoscaler") {
            if scaler["spec"]["scaleTargetRef"]["name"] != ours.workload["metadata"]["name"] {
                bail!("nothing is called {}", scaler["spec"]["scaleTargetRef"]["name"]);
            }
            if !store || ours.replicas().is_some() {
                bail!("a number of replicas by load without a store, or beside a fixed one");
            }
        }
        let image = ours.container["image"].as_str().unwrap_or_default();
        if !image.ends_with(&format!(":{version}")) && !image.contains("@sha256:") {
            bail!("its image is {image}, and the version {version}");
        }
        ours.ends_in_time()?;
        let (mut secrets, mut volumes) = (0, 0);
        for pod in self.pods()? {
            pod.has_no_rights()?;
            volumes += pod.volumes_fit()?;
            secrets += pod.secrets()?;
            let account = &pod.spec["serviceAccountName"];
            let made = self.of("ServiceAccount").next();
            if made.is_some_and(|made| made["metadata"]["name"] != *account) {
                bail!("the service account {account} is not the one that is made");
            }
        }
        Ok(Shown::Held(format!(
            "{selectors} selectors, {ports} ports, {volumes} volumes, {secrets} secrets"
        )))
    }

    /// Every selector selects pods, and every port named for them is theirs: how many of each.
    fn selected(&self) -> Result<(usize, usize)> {
        let pods = self.pods()?;
        let mut selectors = 0;
        let mut ports = 0;
        let mut see = |selector: &Value, named: Vec<&Value>| {
            let pod = pods.iter().find(|pod| pod.is_selected_by(selector));
            let labels: Vec<&Value> = pods.iter().map(Pod::labels).collect();
            let pod = pod.with_context(|| format!("{selector} does not select {labels:?}"))?;
            let missing = named.iter().find(|port| port.is_string() && !pod.has_port(port));
            if let Some(port) = missing {
                bail!("no port {port} in {}", pod.container["ports"]);
            }
            selectors += 1;
            ports += named.len();
            Ok(())
        };
        for pod in &pods {
            see(&pod.workload["spec"]["selector"]["matchLabels"], Vec::new())?;
        }
        let each = |list: &'_ Value| list.as_array().cloned().unwrap_or_default();
        for one in self.of("Service") {
            let named = each(&one["spec"]["ports"]);
            see(&one["spec"]["selector"], named.iter().map(|port| &port["targetPort"]).collect())?;
        }
        for one in self.of("PodDisruptionBudget") {
            see(&one["spec"]["selector"]["matchLabels"], Vec::new())?;
        }
        for one in self.of("NetworkPolicy") {
            let rules = each(&one["spec"]["ingress"]);
            let named: Vec<Value> = rules.iter().flat_map(|rule| each(&rule["ports"])).collect();
            let named = named.iter().map(|port| &port["port"]).collect();
            see(&one["spec"]["podSelector"]["matchLabels"], named)?;
        }
        for one in self.of("PodMonitor") {
            let named = each(&one["spec"]["podMetricsEndpoints"]);
            let named = named.iter().map(|port| &port["port"]).collect();
            see(&one["spec"]["selector"]["matchLabels"], named)?;
        }
        Ok((selectors, ports))
    }

    fn has_store(&self, ours: &Pod<'_>) -> Result<bool> {
        let named = ours.env().into_iter().any(|(name, _)| name == "TOLLGATE_STORE");
        Ok(named || ours.option("store")?.is_some())
    }
}

/// The pods of a Deployment or a StatefulSet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pod<'a> {
    workload: &'a Value,
    /// The specification of the pod.
    pub(crate) spec: &'a Value,
    /// Its one container.
    pub(crate) container: &'a Value,
}

impl<'a> Pod<'a> {
    fn of(workload: &'a Value) -> Result<Self> {
        let spec = &workload["spec"]["template"]["spec"];
        match spec["containers"].as_array().map(Vec::as_slice) {
            Some([container]) => Ok(Self { workload, spec, container }),
            _ => bail!("one container is wanted: {}", spec["containers"]),
        }
    }

    fn labels(&self) -> &'a Value {
        &self.workload["spec"]["template"]["metadata"]["labels"]
    }

    fn replicas(&self) -> Option<u64> {
        self.workload["spec"]["replicas"].as_u64()
    }

    fn is_selected_by(&self, selector: &Value) -> bool {
        let pairs = selector.as_object().filter(|pairs| !pairs.is_empty());
        pairs.is_some_and(|all| all.iter().all(|(key, value)| self.labels()[key] == *value))
    }

    fn has_port(&self, name: &Value) -> bool {
        let mut ports = self.container["ports"].as_array().into_iter().flatten();
        ports.any(|port| port["name"] == *name)
    }

    fn has_no_rights(&self) -> Result<()> {
        let (of_pod, of_container) =
            (&self.spec["securityContext"], &self.container["securityContext"]);
        let either = |key: &str| [&of_container[key], &of_pod[key]].into_iter().any(|v| v == true);
        let dropped = &of_container["capabilities"]["drop"];
        if !either("runAsNonRoot")
            || of_container["readOnlyRootFilesystem"] != true
            || of_container["allowPrivilegeEscalation"] != false
            || *dropped != serde_json::json!(["ALL"])
        {
            bail!("it has rights: {of_pod} {of_container}");
        }
        if self.container["resources"]["limits"]["memory"].is_null() {
            bail!("its memory has no limit");
        }
        Ok(())
    }

    /// Each volume is mounted, and each mount has a volume: how many. A file by itself is never
    /// mounted, since the kubelet would not bring it up to date.
    fn volumes_fit(&self) -> Result<usize> {
        let names = |list: &'a Value| -> Vec<&'a str> {
            list.as_array().into_iter().flatten().flat_map(|one| one["name"].as_str()).collect()
        };
        let claims = &self.workload["spec"]["volumeClaimTemplates"];
        let claims = claims.as_array().into_iter().flatten();
        let mut volumes = names(&self.spec["volumes"]);
        volumes.extend(claims.flat_map(|claim| claim["metadata"]["name"].as_str()));
        let mut mounts = names(&self.container["volumeMounts"]);
        for list in [&mut volumes, &mut mounts] {
            list.sort_unstable();
        }
        if volumes != mounts {
            bail!("its volumes are {volumes:?}, and it mounts {mounts:?}");
        }
        if self.container["volumeMounts"].to_string().contains("subPath") {
            bail!("a `subPath` is not brought up to date: {}", self.container["volumeMounts"]);
        }
        Ok(volumes.len())
    }

    /// Not ready is noticed while it still takes requests, and it is not killed before its end.
    fn ends_in_time(&self) -> Result<()> {
        let probe = &self.container["readinessProbe"];
        let number = |value: &Value| value.as_u64().context("a probe or pod without its time");
        let noticed = number(&probe["periodSeconds"])? * number(&probe["failureThreshold"])?;
        let seconds = |name: &str| {
            let text = self.option(name)?.with_context(|| format!("no --{name}"))?;
            text.trim_end_matches('s').parse::<u64>().with_context(|| format!("--{name}={text}"))
        };
        let (linger, grace) = (seconds("linger")?, seconds("grace")?);
        let killed = number(&self.spec["terminationGracePeriodSeconds"])?;
        if noticed >= linger || killed <= linger.saturating_add(grace) {
            bail!(
                "noticed after {noticed} s, linger {linger} s, grace {grace} s, killed {killed} s"
            );
        }
        Ok(())
    }

    /// Its arguments.
    pub(crate) fn arguments(&self) -> Result<Vec<&'a str>> {
        let words = self.container["args"].as_array().context("a container without args")?;
        words.iter().map(|word| word.as_str().context("an argument is not text")).collect()
    }

    /// `VALUE` of `--NAME=VALUE`.
    pub(crate) fn option(&self, name: &str) -> Result<Option<&'a str>> {
        let words = self.arguments()?;
        let start = format!("--{name}=");
        Ok(words.into_iter().find_map(|word| word.strip_prefix(&start)))
    }

    /// Variables by name.
    pub(crate) fn env(&self) -> Vec<(&'a str, &'a Value)> {
        let all = self.container["env"].as_array().into_iter().flatten();
        all.flat_map(|one| Some((one["name"].as_str()?, one))).collect()
    }

    /// How many variables are from secrets: all that have one.
    fn secrets(&self) -> Result<usize> {
        let mut found = 0;
        for (name, variable) in self.env() {
            let from = &variable["valueFrom"]["secretKeyRef"];
            if from["name"].is_string() && from["key"].is_string() {
                found += 1;
            } else if name.starts_with("TOLLGATE_") {
                bail!("{name} stands in the manifest: {variable}");
            }
        }
        Ok(found)
    }

    /// Where its annotations say that metrics are, on the port for clients.
    pub(crate) fn scraped(&self) -> Result<Option<&'a str>> {
        let notes = &self.workload["spec"]["template"]["metadata"]["annotations"];
        if notes["prometheus.io/scrape"] != "true" {
            return Ok(None);
        }
        let port = notes["prometheus.io/port"].as_str().context("no port of metrics")?;
        let port: u64 = port.parse().with_context(|| format!("the port `{port}` of metrics"))?;
        let ports = self.container["ports"].as_array().into_iter().flatten();
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
            {"kind": "Deployment", "metadata": {"name": "a"}, "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "a"}},
                "template": {"metadata": {"labels": {"app": "a"}}, "spec": {
                    "terminationGracePeriodSeconds": 20,
                    "serviceAccountName": "a",
                    "securityContext": {"runAsNonRoot": true},
                    "volumes": [{"name": "v"}],
                    "containers": [{
                        "name": "tollgate",
                        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
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
            {"kind": "PodDisruptionBudget", "spec": {
                "selector": {"matchLabels": {"app": "a"}}}},
            {"kind": "NetworkPolicy", "spec": {
                "podSelector": {"matchLabels": {"app": "a"}},
                "ingress": [{"ports": [{"port": "http"}]}]}},
            {"kind": "ServiceAccount", "metadata": {"name": "a"}},
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
        let scaler = |name: &str| {
            let target = json!({"scaleTargetRef": {"name": name}});
            json!({"kind": "HorizontalPodAutoscaler", "spec": target})
        };
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
            (format!("{container}/volumeMounts/0/name"), json!("w"), "it mounts"),
            (
                format!("{container}/volumeMounts/0/mountPath"),
                json!({"subPath": "a"}),
                "up to date",
            ),
            ("/2".to_owned(), scaler("x"), "is called"),
            ("/2".to_owned(), scaler("a"), "by load"),
            ("/3/spec/podSelector/matchLabels/app".to_owned(), json!("b"), "does not select"),
            ("/3/spec/ingress/0/ports/0/port".to_owned(), json!("grpc"), "no port"),
            ("/4/metadata/name".to_owned(), json!("x"), "service account"),
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
