//! The requests of the bundled log.

use std::io::Read as _;
use std::path::Path;

/// A request, with the texts of its line.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) client: String,
    pub(crate) time: String,
    pub(crate) request: String,
    pub(crate) status: String,
    pub(crate) bytes: String,
    pub(crate) referer: String,
    pub(crate) agent: String,
}

/// All requests, in the order of the log.
pub(crate) fn bundled() -> Vec<Request> {
    let path = "../../examples/data/semicomplete_access.log.gz";
    let file = std::fs::File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text.lines().map(Request::new).collect()
}

impl Request {
    fn new(line: &str) -> Self {
        let parts: Vec<&str> = line.split('"').collect();
        let [head, request, sizes, referer, _, agent, ..] = parts[..] else { panic!("{line}") };
        let (client, rest) = head.split_once(' ').unwrap();
        let time = rest.split(['[', ']']).nth(1).unwrap();
        let (status, bytes) = sizes.trim().split_once(' ').unwrap();
        // One agent of the log has no closing quote.
        let agent = if parts.len() > 6 { agent } else { "-" };
        let [client, time, request, status, bytes, referer, agent] =
            [client, time, request, status, bytes, referer, agent].map(str::to_owned);
        Self { line: line.to_owned(), client, time, request, status, bytes, referer, agent }
    }

    /// `2015-05-17T10:05:03Z`: all times of the log are in UTC.
    pub(crate) fn rfc3339(&self) -> String {
        format!("{}T{}Z", self.date(), self.time_of_day())
    }

    pub(crate) fn date(&self) -> String {
        format!("2015-05-{}", &self.time[..2])
    }

    pub(crate) fn time_of_day(&self) -> &str {
        &self.time[12..20]
    }

    pub(crate) fn epoch_s(&self) -> u64 {
        tollgate_logs::time::parse(self.rfc3339().as_bytes()).unwrap() / 1_000_000
    }

    pub(crate) fn method(&self) -> &str {
        self.request.split(' ').next().unwrap()
    }

    /// The target, with its query.
    pub(crate) fn target(&self) -> &str {
        self.request.split(' ').nth(1).unwrap()
    }

    pub(crate) fn path(&self) -> &str {
        self.target().split(['?', '#']).next().unwrap()
    }
}
