//! The statuses, agents and paths of clients, from a uniform sample of their requests.

use std::collections::HashMap;

use serde::Serialize;

use crate::event::ClientId;
use crate::parse::{By, Column, Hints, Parser, parts};
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

/// A sample of the requests of a log.
#[derive(Debug)]
pub struct Descriptions {
    parser: Parser,
    kept: Vec<(ClientId, Box<[u8]>)>,
    seen: u64,
    random: SplitMix64,
}

/// The most frequent values of a client's requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Description {
    /// How many of them were looked at: all, or a sample.
    pub looked_at: u64,
    /// The most frequent statuses, with how many of these requests have each.
    pub statuses: Vec<(String, u64)>,
    /// The most frequent values of `User-Agent`.
    pub agents: Vec<(String, u64)>,
    /// The most frequent paths.
    pub paths: Vec<(String, u64)>,
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
        Self { parser, kept: Vec::new(), seen: 0, random: SplitMix64::new(1) }
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
    pub(crate) fn see(&mut self, client: ClientId, line: &[u8]) {
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
        Description { looked_at, statuses, agents, paths }
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
                    all.see(ClientId::new(n % 2), line(status, path).as_bytes());
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
}
