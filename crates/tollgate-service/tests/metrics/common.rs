//! A service on a port that the system chose, asked by HTTP, and its page as a parser reads it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use prometheus_parse::{Scrape, Value};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tollgate_policy::{Format, Policies};
use tollgate_service::{AnyStore, Options, Server};

pub(crate) struct Service {
    pub(crate) server: Server,
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

pub(crate) fn policies(text: &str) -> Policies {
    Policies::parse(&format!("version = 1\n{text}"), Format::Toml).unwrap()
}

impl Service {
    pub(crate) async fn start(text: &str, store: AnyStore) -> Self {
        Self::with(policies(text), store, None).await
    }

    pub(crate) async fn with(policies: Policies, store: AnyStore, config: Option<PathBuf>) -> Self {
        Self::start_with(policies, store, |options| options.config = config).await
    }

    pub(crate) async fn start_with(
        policies: Policies,
        store: AnyStore,
        set: impl FnOnce(&mut Options),
    ) -> Self {
        let mut options = Options::new(vec!["127.0.0.1:0".parse().unwrap()]);
        options.admin = Some("127.0.0.1:0".parse().unwrap());
        set(&mut options);
        let gate = options.metrics.gate(policies, store).unwrap();
        Self { server: Server::start(gate, options).await.unwrap() }
    }

    async fn send(&self, admin: bool, head: &str, body: &str) -> Reply {
        let address = match admin {
            true => self.server.admin().unwrap(),
            false => &self.server.addresses()[0],
        };
        let mut stream = TcpStream::connect(address.to_string()).await.unwrap();
        let length = body.len();
        let request = format!(
            "{head}\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// A GET with more headers.
    pub(crate) async fn get(&self, path: &str, headers: &str) -> Reply {
        self.send(false, &format!("GET {path} HTTP/1.1{headers}"), "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Reply {
        self.send(false, &format!("POST {path} HTTP/1.1"), body).await
    }

    pub(crate) async fn admin(&self, method: &str, path: &str) -> Reply {
        self.send(true, &format!("{method} {path} HTTP/1.1"), "").await
    }

    /// The outcome of one question.
    pub(crate) async fn check(&self, body: &str) -> String {
        let reply = self.post("/v1/check", body).await;
        assert_eq!(reply.status, 200, "{body}: {}", reply.body);
        let answer: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
        answer["outcome"].as_str().unwrap().to_owned()
    }

    /// Many questions, in as few requests as may be.
    pub(crate) async fn batch(&self, questions: &[String]) {
        for some in questions.chunks(250) {
            let body = format!("{{\"checks\": [{}]}}", some.join(","));
            let reply = self.post("/v1/check", &body).await;
            assert_eq!(reply.status, 200, "{}", reply.body);
            assert!(!reply.body.contains("problem"), "{}", reply.body);
        }
    }

    pub(crate) async fn page(&self) -> Page {
        let reply = self.get("/metrics", "").await;
        assert_eq!(reply.status, 200);
        Page::parse(&reply.body)
    }
}

/// The labels of a series.
pub(crate) type Labels = BTreeMap<String, String>;

/// A page of metrics.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) text: String,
    /// Each series by its name and labels. Buckets are series of `NAME_bucket`, as in queries.
    pub(crate) series: Vec<(String, Labels, f64)>,
}

impl Page {
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.lines().map(|line| Ok(line.to_owned()));
        let scrape = Scrape::parse(lines).unwrap();
        let mut series = Vec::new();
        for sample in scrape.samples {
            let labels: Labels =
                sample.labels.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
            match sample.value {
                Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => {
                    series.push((sample.metric, labels, value));
                }
                Value::Histogram(buckets) => {
                    for bucket in buckets {
                        let mut labels = labels.clone();
                        labels.insert("le".to_owned(), bucket.less_than.to_string());
                        series.push((format!("{}_bucket", sample.metric), labels, bucket.count));
                    }
                }
                Value::Summary(_) => panic!("there is no summary"),
            }
        }
        // The parser passes over what it cannot read; nothing here is to be passed over.
        let samples = text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(series.len(), samples, "{text}");
        Self { text: text.to_owned(), series }
    }

    /// The sum of the series that have these labels; `None` without such a series.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let has = |of: &Labels| {
            labels.iter().all(|(label, value)| of.get(*label).is_some_and(|it| it == value))
        };
        let values: Vec<f64> = self
            .series
            .iter()
            .filter(|(metric, of, _)| metric == name && has(of))
            .map(|(.., value)| *value)
            .collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }

    /// The names of all series.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.series.iter().map(|(name, ..)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// No value of a label has any of these in it.
    pub(crate) fn tells_nothing_of(&self, subjects: &[&str]) {
        for (name, labels, _) in &self.series {
            for (label, value) in labels {
                for subject in subjects {
                    assert!(!value.contains(subject), "{name}{{{label}={value}}}");
                }
            }
        }
        subjects.iter().for_each(|subject| assert!(!self.text.contains(subject), "{subject}"));
    }
}

/// Prometheus' own checker, where it is installed. The parser above judges everywhere.
pub(crate) fn promtool(arguments: &[&str], input: &str) {
    use std::io::Write as _;
    let program = std::env::var_os("TOLLGATE_PROMTOOL").unwrap_or_else(|| "promtool".into());
    let started = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else {
        println!("SKIPPED: promtool is not installed: apt-get install prometheus");
        return;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let answer = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.is_empty(), "{answer}{said}");
}
