//! The edges of calendars, as another implementation knows them: `edges.py` has written them.

use std::sync::LazyLock;

/// The edges of each calendar of `edges.txt`, in seconds.
static ALL: LazyLock<Vec<(&str, Vec<i64>)>> = LazyLock::new(|| {
    let lines = include_str!("edges.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| read(line).unwrap_or_else(|| panic!("edges.txt: {line}"))).collect()
});

fn read(line: &'static str) -> Option<(&'static str, Vec<i64>)> {
    let (calendar, rest) = line.split_once(" | ")?;
    let (first, runs) = rest.split_once(" | ")?;
    let mut edges = vec![first.parse().ok()?];
    for run in runs.split(' ') {
        let (length, count) = run.split_once('x')?;
        for _ in 0..count.parse::<u32>().ok()? {
            edges.push(edges.last()? + length.parse::<i64>().ok()?);
        }
    }
    Some((calendar, edges))
}

/// Each calendar whose edges are known, as `month in Europe/Berlin`, with its edges in seconds.
pub fn calendars() -> impl Iterator<Item = (&'static str, &'static [i64])> {
    ALL.iter().map(|(calendar, edges)| (*calendar, &edges[..]))
}

/// The edges of a calendar in seconds, if they are known: from 1970 to 2034.
pub fn edges_of(calendar: &str) -> Option<&'static [i64]> {
    calendars().find(|(known, _)| *known == calendar).map(|(_, edges)| edges)
}
