//! Large logs for tests and benchmarks: seeded, so that the same settings give the same bytes.

use std::io::{self, Write};

use crate::split_mix::SplitMix64;

/// The settings of a generated log.
///
/// # Examples
/// ```
/// use tollgate_logs::generate::Log;
/// let mut bytes = Vec::new();
/// Log { lines: 5, clients: 2, ..Log::default() }.write(&mut bytes)?;
/// assert_eq!(bytes.iter().filter(|b| **b == b'\n').count(), 5);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs)] // made by its fields, as the example shows
pub struct Log {
    /// The number of lines.
    pub lines: u64,
    /// The most clients; at least 1. The n-th busiest client sends 1/n of the requests of the
    /// busiest (Zipf), so some may not appear in a short log.
    pub clients: u32,
    /// Lines per second on average; at least 1.
    pub per_second: u32,
    /// The first second, in seconds since the Unix epoch.
    pub start_s: u32,
    /// How many seconds late a line may be: 0 makes a log in order.
    pub late_s: u32,
    /// The seed of the random numbers.
    pub seed: u64,
    /// The format of lines.
    pub format: Format,
}

/// The format of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// The combined format of Apache and nginx, with timestamps in whole seconds.
    Combined,
    /// A JSON object per line, with timestamps in microseconds.
    Json,
}

impl Default for Log {
    /// 10,000 lines from 1,000 clients, 100 a second, up to 5 s late, from 1 January 2026.
    fn default() -> Self {
        Self {
            lines: 10_000,
            clients: 1_000,
            per_second: 100,
            start_s: 1_767_225_600,
            late_s: 5,
            seed: 1,
            format: Format::Combined,
        }
    }
}

const METHODS: [&str; 4] = ["GET", "GET", "HEAD", "POST"];
const PATHS: [&str; 6] =
    ["/", "/index.html", "/images/logo.png", "/api/v1/items?page=2", "/feed/atom", "/robots.txt"];
const AGENTS: [&str; 3] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (compatible; Bot/2.1; +http://bot.example/\\\"about\\\")",
    "curl/8.5.0",
];

impl Log {
    /// Writes the log.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut rng = SplitMix64::new(self.seed);
        let weights = zipf(self.clients.max(1));
        let total = weights.last().copied().unwrap_or(1);
        for line in 0..self.lines {
            let draw = rng.below(total);
            let client = weights.partition_point(|sum| *sum <= draw);
            let late_us = rng.below(u64::from(self.late_s) * 1_000_000 + 1);
            let passed_us = line * 1_000_000 / u64::from(self.per_second.max(1));
            // A line is late by at most some seconds, so this is never negative in practice.
            let at_us = (u64::from(self.start_s) * 1_000_000 + passed_us).saturating_sub(late_us);
            self.write_line(out, &mut rng, client, at_us)?;
        }
        Ok(())
    }

    fn write_line(
        &self,
        out: &mut impl Write,
        rng: &mut SplitMix64,
        client: usize,
        at_us: u64,
    ) -> io::Result<()> {
        let address = (client / 65_536 + 1, client / 256 % 256, client % 256);
        let (ip_b, ip_c, ip_d) = address;
        let method = pick(rng, &METHODS);
        let path = pick(rng, &PATHS);
        let agent = pick(rng, &AGENTS);
        let bytes = rng.below(100_000);
        match self.format {
            Format::Combined => writeln!(
                out,
                "10.{ip_b}.{ip_c}.{ip_d} - - [{}] \"{method} {path} HTTP/1.1\" 200 {bytes} \
                 \"http://www.example/{path}\" \"{agent}\"",
                UtcTime(at_us)
            ),
            Format::Json => writeln!(
                out,
                "{{\"ts\":{}.{:06},\"remote_addr\":\"10.{ip_b}.{ip_c}.{ip_d}\",\
                 \"method\":\"{method}\",\"path\":\"{path}\",\"status\":200,\"bytes\":{bytes},\
                 \"agent\":\"{agent}\"}}",
                at_us / 1_000_000,
                at_us % 1_000_000
            ),
        }
    }
}

/// A time in the format of common logs.
struct UtcTime(u64);

impl std::fmt::Display for UtcTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let us = i64::try_from(self.0).map_err(|_| std::fmt::Error)?;
        let time = jiff::Timestamp::from_microsecond(us).map_err(|_| std::fmt::Error)?;
        write!(f, "{}", time.strftime("%d/%b/%Y:%H:%M:%S +0000"))
    }
}

fn pick<'a>(rng: &mut SplitMix64, from: &[&'a str]) -> &'a str {
    let index = usize::try_from(rng.below(from.len() as u64)).unwrap_or(0);
    from[index]
}

/// Running sums of the weights 2^32 / rank, in integers so that every machine agrees.
fn zipf(clients: u32) -> Vec<u64> {
    let weights = (1..=u64::from(clients)).map(|rank| (1 << 32) / rank);
    weights
        .scan(0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{By, Lines, Reading};

    fn bytes_of(log: Log) -> Vec<u8> {
        let mut bytes = Vec::new();
        log.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_seed_decides() {
        let log = Log::default();
        assert_eq!(bytes_of(log), bytes_of(log));
        assert_ne!(bytes_of(log), bytes_of(Log { seed: 2, ..log }));
    }

    #[test]
    fn every_line_of_every_format_is_an_event_for_every_common_field() {
        for format in [Format::Combined, Format::Json] {
            for by in ["ip", "path", "method", "status", "agent"] {
                let bytes = bytes_of(Log { format, ..Log::default() });
                let lines = Lines::from_reader(io::Cursor::new(bytes), Path::new("x"), None);
                let reading = Reading::by(by.parse::<By>().unwrap());
                let traffic = reading.read_lines(lines.unwrap(), |_| ()).unwrap();
                assert_eq!((traffic.summary.events, traffic.summary.unparsed), (10_000, 0));
                assert_eq!(traffic.summary.whole_seconds, format == Format::Combined);
                assert!(traffic.summary.out_of_order > 1_000);
            }
        }
    }

    #[test]
    fn clients_are_as_busy_as_their_rank_says() {
        let sums = zipf(3);
        assert_eq!(sums, [1 << 32, (1 << 32) + (1 << 31), (1 << 32) + (1 << 31) + 1_431_655_765]);
        let ordered = bytes_of(Log { late_s: 0, clients: 0, ..Log::default() });
        let lines = Lines::from_reader(io::Cursor::new(ordered), Path::new("x"), None).unwrap();
        let summary = Reading::default().read_lines(lines, |_| ()).unwrap().summary;
        assert_eq!((summary.out_of_order, summary.clients), (0, 1));
    }
}
