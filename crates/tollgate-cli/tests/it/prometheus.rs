//! The dashboard and the alerts of the examples, as a real Prometheus evaluates them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use tollgate_testbed::{Client as RedisClient, Program, Reply, free_port, until};

use crate::Place;
use crate::clients::folder;
use crate::serving::{LONG, Serving};

const POLICIES: &str = r#"
version = 1
[[policies]]
name = "pages"
on_failure = "allow"
limits = [{ subject = "ip", limit = "3/h" }]
"#;

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 3 }
";

/// The window of rates, in place of Grafana's variable.
const WINDOW: &str = "1m";

/// Three services, each of which is asked through one door alone.
struct Services {
    policies: Serving,
    rules: Serving,
    resp: Serving,
}

impl Services {
    fn start(place: &Place) -> Self {
        let config = place.path().join("policies.toml");
        let rules = place.path().join("rules.yaml");
        std::fs::write(&config, POLICIES).unwrap();
        std::fs::write(&rules, RULES).unwrap();
        let [config, rules] = [config, rules].map(|path| path.display().to_string());
        // Nobody reads their logs before they end, and a full pipe would hold them up.
        let start =
            |args: &[&str]| Serving::start(place, &[&["--log-denials", "off"], args].concat());
        Self {
            policies: start(&["--config", &config]),
            rules: start(&["--envoy-config", &rules, "--grpc", "127.0.0.1:0"]),
            resp: start(&["--resp", "127.0.0.1:0"]),
        }
    }

    /// Asks each once.
    fn ask(&self) {
        let (status, _) = self.policies.client().ask("GET", "/v1/auth", "").unwrap();
        assert!([200, 429].contains(&status), "{status}");
        let question = r#"{"domain": "shop", "descriptors":
            [{"entries": [{"key": "user", "value": "ann"}]}]}"#;
        let (status, _) = self.rules.client().ask("POST", "/json", question).unwrap();
        assert!([200, 429].contains(&status), "{status}");
        let address = self.resp.line_after("redis      ").parse().unwrap();
        let words: [&[u8]; 5] = [b"CL.THROTTLE", b"user:ann", b"2", b"3", b"3600"];
        let reply = RedisClient::tcp(address).unwrap().command(&words).unwrap();
        assert!(matches!(reply, Reply::Array(_)), "{reply:?}");
    }

    fn addresses(&self) -> [String; 3] {
        [&self.policies, &self.rules, &self.resp].map(|one| one.address().to_string())
    }
}

/// A Prometheus that reads services, under the alerts of the examples.
struct Prometheus {
    program: Program,
    address: SocketAddr,
}

impl Prometheus {
    /// Starts it; `None`, and a word about it, where none is installed.
    fn start(place: &Place, services: &[String]) -> Option<Self> {
        let Some(program) = Program::find("prometheus") else {
            println!("SKIPPED: prometheus is not installed: apt-get install prometheus");
            return None;
        };
        let alerts = std::fs::read_to_string(folder("../../examples/prometheus/alerts.yaml"));
        // Nobody waits for minutes here.
        let soon = |line: &str| match line.trim_start().starts_with("for: ") {
            true => "        for: 1s\n".to_owned(),
            false => format!("{line}\n"),
        };
        let alerts: String = alerts.unwrap().lines().map(soon).collect();
        let write = |name: &str, text: &str| {
            let path = place.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let alerts = write("alerts.yaml", &alerts);
        let config = format!(
            "global: {{ scrape_interval: 200ms, scrape_timeout: 200ms, \
             evaluation_interval: 200ms }}\n\
             rule_files: [\"{alerts}\"]\n\
             scrape_configs:\n\
             - job_name: tollgate\n  static_configs: [{{ targets: {services:?} }}]\n"
        );
        let config = write("prometheus.yaml", &config);
        let address = free_port();
        let mut command = Command::new(program);
        command.arg(format!("--config.file={config}"));
        command.arg(format!("--web.listen-address={address}"));
        command.arg(format!("--storage.tsdb.path={}", place.path().join("data").display()));
        let log = std::fs::File::create(place.path().join("prometheus.log")).unwrap();
        command.stdout(Stdio::null()).stderr(log);
        let program = Program::start(&mut command).unwrap();
        let this = Self { program, address };
        until(LONG, "prometheus starts", || this.get("/-/ready"));
        Some(this)
    }

    /// The body of a 200; else what came instead.
    fn get(&self, path: &str) -> Result<String, String> {
        let ask = || {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(LONG))?;
            // HTTP/1.0 has the body in one piece.
            write!(stream, "GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n")?;
            let mut said = String::new();
            stream.read_to_string(&mut said).map(|_| said)
        };
        let said = ask().map_err(|error: std::io::Error| error.to_string())?;
        match said.split_once("\r\n\r\n") {
            Some((head, body)) if head.contains(" 200 ") => Ok(body.to_owned()),
            _ => Err(said),
        }
    }

    fn json(&self, path: &str) -> Result<Value, String> {
        let body = self.get(path)?;
        serde_json::from_str(&body).map_err(|error| format!("{error}: {body}"))
    }

    /// The samples of a query.
    fn query(&self, query: &str) -> Result<Vec<f64>, String> {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = self.json(&format!("/api/v1/query?query={escaped}"))?;
        let samples = answer["data"]["result"].as_array().ok_or_else(|| answer.to_string())?;
        let value = |sample: &Value| sample["value"][1].as_str().unwrap().parse().unwrap();
        Ok(samples.iter().map(value).collect())
    }
}

/// The title and the queries of each panel, and whether it is a headline.
fn panels() -> Vec<(String, Vec<String>, bool)> {
    let text = std::fs::read_to_string(folder("../../examples/grafana/tollgate.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let (mut all, mut row) = (Vec::new(), String::new());
    let list = |of: &Value| of["panels"].as_array().cloned().unwrap_or_default();
    for panel in list(&dashboard).iter().flat_map(|it| [vec![it.clone()], list(it)].concat()) {
        let title = panel["title"].as_str().unwrap().to_owned();
        if panel["type"] == "row" {
            row = title;
            continue;
        }
        let targets = panel["targets"].as_array().unwrap().iter();
        let queries = targets.map(|target| target["expr"].as_str().unwrap().to_owned());
        let is_headline = row == "Overview" && panel["type"] == "stat";
        all.push((title, queries.collect(), is_headline));
    }
    all
}

fn filled(query: &str, instance: &str) -> String {
    let query = query.replace("$__rate_interval", WINDOW).replace("$policy", ".*");
    query.replace("$instance", instance)
}

#[test]
fn every_service_fills_the_headlines_and_a_broken_file_is_an_alert() {
    let place = Place::new();
    let services = Services::start(&place);
    services.ask();
    let Some(prometheus) = Prometheus::start(&place, &services.addresses()) else { return };

    let panels = panels();
    let headlines: Vec<_> = panels.iter().filter(|(.., is_headline)| *is_headline).collect();
    assert!(headlines.len() >= 8, "{}", headlines.len());
    for instance in services.addresses() {
        for (title, queries, _) in &headlines {
            for query in queries {
                let query = filled(query, &instance);
                until(LONG, title, || {
                    // Rates see what is counted between two scrapes.
                    services.ask();
                    match prometheus.query(&query)?[..] {
                        [number] if number.is_finite() => Ok(()),
                        ref other => Err(format!("{instance}: {other:?} of {query}")),
                    }
                });
            }
        }
    }
    // A query may be sound and fail all the same, as a join of many with many.
    for (title, queries, _) in &panels {
        for query in queries {
            let done = prometheus.query(&filled(query, ".*"));
            assert!(done.is_ok(), "{title}: {done:?}");
        }
    }
    alerts(&prometheus, &services, place.path());
    services.policies.end();
    services.rules.end();
    services.resp.end();
    drop(prometheus.program);
}

/// All alerts are evaluated, and a broken file is one that fires, for its service alone.
fn alerts(prometheus: &Prometheus, services: &Services, folder: &Path) {
    let firing = || -> Result<Vec<[String; 3]>, String> {
        let answer = prometheus.json("/api/v1/alerts")?;
        let alerts = answer["data"]["alerts"].as_array().ok_or_else(|| answer.to_string())?;
        let broken = alerts.iter().filter(|alert| {
            alert["labels"]["alertname"] == "TollgateReloadBroken" && alert["state"] == "firing"
        });
        let told = |alert: &Value| {
            let labels = [&alert["labels"]["instance"], &alert["labels"]["severity"]];
            let [instance, severity] = labels.map(|label| label.as_str().unwrap().to_owned());
            [instance, severity, alert["annotations"]["summary"].as_str().unwrap().to_owned()]
        };
        Ok(broken.map(told).collect())
    };
    assert_eq!(firing(), Ok(Vec::new()));
    std::fs::write(folder.join("policies.toml"), "version = 1\nnonsense").unwrap();
    services.policies.signal(Signal::HUP);
    let instance = services.policies.address().to_string();
    let summary = format!("The policy file of {instance} is broken");
    let expected = vec![[instance, "critical".to_owned(), summary]];
    until(LONG, "the alert fires", || match firing()? {
        now if now == expected => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let rules = prometheus.json("/api/v1/rules").unwrap();
    let groups = rules["data"]["groups"].as_array().unwrap().iter();
    let rules: Vec<&Value> = groups.flat_map(|group| group["rules"].as_array().unwrap()).collect();
    assert!(rules.len() >= 20, "{}", rules.len());
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
}
