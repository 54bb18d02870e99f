//! Who clients are: robots and scanners by all of their requests; and their statuses, agents and
//! paths from a uniform sample of these.

use std::collections::HashMap;

use serde::Serialize;

use crate::event::ClientId;
use crate::parse::{By, Column, Hints, Parser, Signs, parts};
use crate::split_mix::SplitMix64;
use crate::text;

/// The requests that are kept, as at most 400 bytes each. Of more, a sample is: a reservoir by
/// Vitter's algorithm R (ACM TOMS 11:1, 1985), in which each request is equally likely.
const KEPT: usize = 32_768;

/// The most bytes of the values of a request that are kept.
const MAX_BYTES: usize = 384;

/// The most characters of a value that are shown.
const SHOWN_CHARS: usize = 120;

/// The values that are described, by their names in `--by`. Where they are too long together, the
/// last one is cut.
const FIELDS: [&str; 3] = ["status", "path", "agent"];

/// The fewest refused requests of a scanner.
const FEWEST_REFUSED: u32 = 20;

/// A sample of the requests of a log, and the signs in all of them.
#[derive(Debug)]
pub struct Descriptions {
    parser: Parser,
    kept: Vec<(ClientId, Box<[u8]>)>,
    seen: u64,
    random: SplitMix64,
    /// By the numbers of the clients.
    signs: Vec<Signed>,
}

/// The signs in the requests of a client.
#[derive(Debug, Clone, Copy, Default)]
struct Signed {
    requests: u32,
    refused: u32,
    by_robots: u32,
}

/// A client that is no person and no program of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// At least half of its requests, and at least 20, were answered by 400, 401, 403, 404 or 405.
    Scanner,
    /// At least half of its requests have an agent that names a robot.
    Robot,
}

/// The most frequent values of a client's requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Description {
    /// Whether it is a robot or a scanner, by all of its requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// How many of them were looked at: all, or a sample.
    pub looked_at: u64,
    /// The most frequent statuses, with how many of these requests have each.
    pub statuses: Vec<(String, u64)>,
    /// The most frequent values of `User-Agent`.
    pub agents: Vec<(String, u64)>,
    /// The most frequent paths.
    pub paths: Vec<(String, u64)>,
}

impl Kind {
    /// One of them in a sentence: `a robot`.
    #[must_use]
    pub const fn one(self) -> &'static str {
        match self {
            Self::Scanner => "a scanner",
            Self::Robot => "a robot",
        }
    }
}

impl Description {
    /// The most values of one field.
    pub const VALUES: usize = 3;
}

impl Descriptions {
    /// No requests yet, of a log of which this is known.
    pub(crate) fn new(hints: &Hints) -> Self {
        let by = |name: &str| By::Field(name.to_owned());
        let columns = FIELDS.map(|name| match name {
            "path" => Column::optional(&By::Path),
            name => Column::optional(&by(name)),
        });
        let parser = Parser::of_columns(By::All, columns.into()).with_hints(hints.clone());
        let random = SplitMix64::new(1);
        Self { parser, kept: Vec::new(), seen: 0, random, signs: Vec::new() }
    }

    /// Begins another file.
    pub(crate) fn begin_file(&mut self) {
        self.parser.begin_file();
    }

    /// Reads a line that is no event: it may be a header.
    pub(crate) fn pass(&mut self, line: &[u8]) {
        let _ = self.parser.parse(line);
    }

    /// Looks at a request of this client.
    pub(crate) fn see(&mut self, client: ClientId, signs: Signs, line: &[u8]) {
        self.sign(client, signs);
        self.seen += 1;
        let place = match self.kept.len() {
            len if len < KEPT => len,
            _ => usize::try_from(self.random.below(self.seen)).unwrap_or(usize::MAX),
        };
        if place >= KEPT {
            return;
        }
        let Ok(Some(parsed)) = self.parser.parse(line) else { return };
        let values = parsed.key.get(..parsed.key.len().min(MAX_BYTES)).unwrap_or_default();
        let request = (client, Box::from(values));
        match self.kept.get_mut(place) {
            Some(kept) => *kept = request,
            None => self.kept.push(request),
        }
    }

    fn sign(&mut self, client: ClientId, signs: Signs) {
        let index = client.index() as usize;
        if index >= self.signs.len() {
            self.signs.resize(index + 1, Signed::default());
        }
        if let Some(signed) = self.signs.get_mut(index) {
            let add = |count: &mut u32, is: bool| *count = count.saturating_add(u32::from(is));
            add(&mut signed.requests, true);
            add(&mut signed.refused, signs.was_refused);
            add(&mut signed.by_robots, signs.names_robot);
        }
    }

    /// The kind of this client, if it has one.
    #[must_use]
    pub fn kind(&self, client: ClientId) -> Option<Kind> {
        self.kind_of(&[client])
    }

    /// The kind of these clients together.
    pub(crate) fn kind_of(&self, clients: &[ClientId]) -> Option<Kind> {
        let mut all = Signed::default();
        for of in clients.iter().filter_map(|client| self.signs.get(client.index() as usize)) {
            all.requests = all.requests.saturating_add(of.requests);
            all.refused = all.refused.saturating_add(of.refused);
            all.by_robots = all.by_robots.saturating_add(of.by_robots);
        }
        let Signed { requests, refused, by_robots } = all;
        let is_half = |part: u32| part > 0 && part >= requests - part;
        if refused >= FEWEST_REFUSED && is_half(refused) {
            return Some(Kind::Scanner);
        }
        is_half(by_robots).then_some(Kind::Robot)
    }

    /// The most frequent values of the requests of this client.
    #[must_use]
    pub fn of(&self, client: ClientId) -> Description {
        let mut counts: [HashMap<Vec<u8>, u64>; FIELDS.len()] = Default::default();
        let mut looked_at = 0;
        for (_, values) in self.kept.iter().filter(|(of, _)| *of == client) {
            looked_at += 1;
            for (count, value) in counts.iter_mut().zip(parts(values)) {
                if !value.is_empty() {
                    *count.entry(value.into_owned()).or_default() += 1;
                }
            }
        }
        let [statuses, paths, agents] = counts.map(most);
        Description { kind: self.kind(client), looked_at, statuses, agents, paths }
    }
}

/// The most frequent values, in printable form.
fn most(counts: HashMap<Vec<u8>, u64>) -> Vec<(String, u64)> {
    let mut all: Vec<(Vec<u8>, u64)> = counts.into_iter().collect();
    all.sort_unstable_by(|(one, ones), (other, others)| others.cmp(ones).then(one.cmp(other)));
    all.truncate(Description::VALUES);
    all.into_iter().map(|(value, count)| (text::printable(&value, SHOWN_CHARS), count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_described_by_its_requests_and_a_sample_by_their_shares() {
        let line = |status: u32, path: &str| {
            format!(
                "1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET {path} HTTP/1.1\" {status} 5 \"-\" \
                 \"curl, 7\""
            )
        };
        for times in [10_u64, 20_000] {
            let mut all = Descriptions::new(&Hints::default());
            for _ in 0..times {
                for n in 0..10 {
                    let (status, path) = if n < 9 { (404, "/a?b") } else { (200, "/,%") };
                    let signs = Signs::default();
                    all.see(ClientId::new(n % 2), signs, line(status, path).as_bytes());
                }
            }
            let found = all.of(ClientId::new(1));
            assert_eq!(found.agents, [("curl, 7".to_owned(), found.looked_at)]);
            let [(status, n), (other, m)] = &found.statuses[..] else { panic!("{found:?}") };
            assert_eq!((&**status, &**other, n + m), ("404", "200", found.looked_at));
            assert!((75..=85).contains(&(n * 100 / found.looked_at)), "{found:?}");
            assert_eq!(found.paths.iter().map(|it| &*it.0).collect::<Vec<_>>(), ["/a", "/,%"]);
            let kept = if times == 10 { 50 } else { KEPT as u64 / 2 };
            assert!(found.looked_at.abs_diff(kept) <= kept / 20, "{}", found.looked_at);
        }
    }

    #[test]
    fn a_kind_needs_half_of_the_requests_and_a_scanner_twenty() {
        let of = |refused: u32, by_robots: u32, others: u32| {
            let mut all = Descriptions::new(&Hints::default());
            let one = |was_refused, names_robot| Signs { names_robot, was_refused };
            let runs = [(refused, one(true, false)), (by_robots, one(false, true))];
            for (times, signs) in runs.into_iter().chain([(others, one(false, false))]) {
                (0..times).for_each(|_| all.sign(ClientId::new(3), signs));
            }
            assert_eq!(all.kind(ClientId::new(2)), None, "another client");
            all.kind(ClientId::new(3))
        };
        assert_eq!([of(19, 0, 0), of(20, 0, 20), of(20, 0, 21)], [None, Some(Kind::Scanner), None]);
        assert_eq!([of(0, 1, 1), of(0, 1, 2), of(0, 0, 1)], [Some(Kind::Robot), None, None]);
        assert_eq!(of(0, 0, 0), None);
        assert_eq!(of(20, 20, 0), Some(Kind::Scanner), "the scanner first");
    }
}
