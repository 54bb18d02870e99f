//! The bundled log, against facts that were counted without this project (examples/data/README.md).

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use tollgate_logs::{By, Error, Event, Lines, Ordered, Reading, Sorting, Traffic, time};

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/semicomplete_access.log.gz")
}

fn read(by: &str) -> Traffic {
    Reading::by(by.parse::<By>().unwrap()).read(&path(), |_| ()).unwrap()
}

fn events(ordered: &Ordered) -> Vec<Event> {
    ordered.iter().unwrap().collect::<Result<_, Error>>().unwrap()
}

/// The number of events of each value of `of`, greatest first.
fn ranking(events: &[Event], of: impl Fn(&Event) -> u64) -> Vec<(u64, u64)> {
    let mut counts: HashMap<u64, u64> = HashMap::new();
    events.iter().for_each(|event| *counts.entry(of(event)).or_default() += 1);
    let mut ranked: Vec<(u64, u64)> = counts.into_iter().map(|(k, n)| (n, k)).collect();
    ranked.sort_unstable_by(|a, b| b.cmp(a));
    ranked
}

#[test]
fn the_summary_is_as_counted() {
    let summary = read("ip").summary;
    assert_eq!((summary.lines, summary.events, summary.unparsed), (10_000, 10_000, 0));
    assert_eq!((summary.out_of_order, summary.clients), (4_915, 1_753));
    assert!(summary.whole_seconds && summary.first_unparsed.is_empty());
    let (first, last) = summary.first_last_us.unwrap();
    assert_eq!(Ok(first), time::parse(b"17/May/2015:10:05:00 +0000"));
    assert_eq!(Ok(last), time::parse(b"20/May/2015:21:05:59 +0000"));
    assert_eq!(time::show(last), "2015-05-20T21:05:59Z");
}

#[test]
fn the_busiest_clients_and_second_are_as_counted() {
    let traffic = read("ip");
    let events = events(&traffic.ordered);
    assert!(events.is_sorted_by_key(|event| event.at_us));
    let clients = ranking(&events, |event| u64::from(event.client.index()));
    let mut names = events.iter().map(|e| (e.client.index(), e.client)).collect::<HashMap<_, _>>();
    let top: Vec<(u64, String)> = clients[..3]
        .iter()
        .map(|(n, id)| {
            let id = names.remove(&u32::try_from(*id).unwrap()).unwrap();
            (*n, traffic.clients.printable(id).unwrap())
        })
        .collect();
    let expected = [(482, "66.249.73.135"), (364, "46.105.14.53"), (357, "130.237.218.86")];
    assert_eq!(top, expected.map(|(n, name)| (n, name.to_owned())));
    assert_eq!(ranking(&events, |event| event.at_us / 1_000_000)[0].0, 9);
}

#[test]
fn sorting_on_disk_gives_the_same_events_as_in_memory() {
    let sorting = Sorting::default()
        .with_memory_events(NonZeroUsize::new(700).unwrap())
        .with_fan_in(NonZeroUsize::new(4).unwrap());
    let reading = Reading::default().with_sorting(sorting);
    let on_disk = reading.read(&path(), |_| ()).unwrap();
    let in_memory = read("ip");
    assert_eq!((on_disk.ordered.runs(), in_memory.ordered.runs()), (4, 0));
    assert_eq!(events(&on_disk.ordered), events(&in_memory.ordered));
    assert_eq!(on_disk.summary, in_memory.summary);
}

#[test]
fn a_spread_keeps_the_number_of_every_second() {
    let plain = events(&read("ip").ordered);
    let spread = events(&read("ip").spread(42).unwrap().ordered);
    assert!(spread.is_sorted_by_key(|event| event.at_us));
    let per_second = |events: &[Event]| ranking(events, |event| event.at_us / 1_000_000);
    assert_eq!(per_second(&plain), per_second(&spread));
    assert!(spread.iter().filter(|event| event.at_us % 1_000_000 != 0).count() > 9_900);
    assert_eq!(spread, events(&read("ip").spread(42).unwrap().ordered));
}

#[test]
fn other_fields_and_a_plain_copy_read_as_well() {
    assert_eq!(read("path").summary.unparsed, 0);
    assert_eq!(read("method").summary.clients, 4);
    let users = read("user").summary;
    assert_eq!((users.events, users.unparsed, users.first_unparsed.len()), (0, 10_000, 3));
    let mut lines = Lines::open(&path()).unwrap();
    let mut plain = Vec::new();
    while let Some(line) = lines.next_line().unwrap() {
        plain.extend_from_slice(line.text);
        plain.push(b'\n');
    }
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("access.log");
    std::fs::write(&copy, plain).unwrap();
    assert_eq!(Reading::default().read(&copy, |_| ()).unwrap().summary, read("ip").summary);
}
