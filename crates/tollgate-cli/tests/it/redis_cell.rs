//! `CL.THROTTLE` beside redis-cell: the tables of the page, and random histories.
//!
//! TOLLGATE_PEER_REDIS_CELL names the module. Without it, only our side is asked, loudly.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use tollgate_proof::Random;
use tollgate_testbed::RedisServer;

use crate::Place;
use crate::redis;
use crate::serving::{LONG, Serving};

const PAGE: &str = include_str!("../../docs/coming-from-redis-cell.md");

const PEER: &str = "TOLLGATE_PEER_REDIS_CELL";

/// A connection that asks, and reads replies as the page writes them.
struct Asker<T>(BufReader<T>);

impl<T: Read + Write> Asker<T> {
    fn send(&mut self, commands: &[Vec<String>]) {
        let mut bytes = Vec::new();
        for words in commands {
            bytes.extend(format!("*{}\r\n", words.len()).into_bytes());
            for word in words {
                bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
            }
        }
        self.0.get_mut().write_all(&bytes).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn reply(&mut self) -> String {
        let line = self.line();
        match line.split_at(1) {
            ("*", count) => {
                let numbers = (0..count.parse().unwrap()).map(|_| self.line().split_off(1));
                numbers.collect::<Vec<_>>().join(" ")
            }
            (_, text) => text.trim_end().to_owned(),
        }
    }
}

/// redis-cell in a Redis; none where it is not named.
fn peer(place: &Place) -> Option<(RedisServer, Asker<UnixStream>)> {
    let Ok(module) = std::env::var(PEER) else {
        println!("WANTED: {PEER} names no module of redis-cell, so only one side is asked");
        return None;
    };
    let (redis, url) = redis::start(place.path(), &["--loadmodule", &module])?;
    let stream = UnixStream::connect(url.strip_prefix("unix://").unwrap()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    Some((redis, Asker(BufReader::new(stream))))
}

fn ours(place: &Place) -> (Serving, Asker<TcpStream>) {
    let serving = Serving::start(place, &["--resp", "127.0.0.1:0"]);
    let stream = TcpStream::connect(serving.line_after("redis      ")).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.set_nodelay(true).unwrap();
    (serving, Asker(BufReader::new(stream)))
}

/// The rows of the tables of calls: the call, the reply of redis-cell, the reply of Tollgate.
fn rows() -> Vec<(Vec<String>, String, String)> {
    let calls = PAGE.lines().filter(|line| line.starts_with("| `CL.THROTTLE"));
    let cells = |line: &str| -> Vec<String> {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
    };
    let rows = calls.map(|line| match &cells(line)[..] {
        [call, both] => (call.clone(), both.clone(), both.clone()),
        [call, cell, tollgate] => (call.clone(), cell.clone(), tollgate.clone()),
        other => panic!("{other:?}"),
    });
    rows.map(|(call, cell, tollgate)| (words(&call), cell, tollgate)).collect()
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn the_tables_of_the_page_hold_on_both_sides() {
    let place = Place::new();
    let (_serving, mut ours) = ours(&place);
    let mut peer = peer(&place);
    let rows = rows();
    assert_eq!(rows.len(), 20);
    let calls: Vec<_> = rows.iter().map(|(call, ..)| call.clone()).collect();
    ours.send(&calls);
    if let Some((_, cell)) = &mut peer {
        cell.send(&calls);
    }
    for (call, cell_says, tollgate_says) in &rows {
        assert_eq!(ours.reply(), *tollgate_says, "{call:?}");
        if let Some((_, cell)) = &mut peer {
            assert_eq!(cell.reply(), *cell_says, "redis-cell: {call:?}");
        }
    }
}

/// How many histories.
const HISTORIES: usize = 10_000;

/// The calls of each.
const CALLS: usize = 8;

/// How many calls are in flight.
const AT_ONCE: usize = 50;

/// More than the microsecond that Tollgate's clock may be off, in nanoseconds.
const CLOCK_NS: i128 = 2_000;

/// A key with its numbers, and the bounds of its state, whichever server keeps it: when it will be
/// as new, in nanoseconds, at the earliest and at the latest.
struct History {
    key: String,
    burst: u64,
    count: u64,
    period: u64,
    new_at: (i128, i128),
    /// Whether the servers may differ from here on.
    is_over: bool,
}

impl History {
    fn random(at: usize, random: &mut Random) -> Self {
        let period =
            [1, 2, 5, 10, 30, 60, 300, 3_600, 86_400][usize::try_from(random.below(9)).unwrap()];
        // One unit takes at least 200 ms, which is longer than a call.
        let count = 1 + random.below((period * 5).min(1_000));
        let burst = random.below(40);
        let new_at = (i128::from(i64::MIN), i128::from(i64::MIN));
        Self { key: format!("user:{at}"), burst, count, period, new_at, is_over: false }
    }

    /// The reply that both servers must give to a quantity which was asked for between two moments:
    /// whether it is limited, and the minimum and maximum that remains. None where either may be.
    fn expected(&mut self, quantity: u64, between: (i128, i128)) -> Option<(bool, u64, u64)> {
        let (begin, end) = (between.0 - CLOCK_NS, between.1 + CLOCK_NS);
        let unit = i128::from(self.period) * 1_000_000_000 / i128::from(self.count);
        let whole = unit * i128::from(self.burst + 1);
        let more = unit * i128::from(quantity);
        // How much of the whole is used.
        let (least, most) = ((self.new_at.0 - end).max(0), (self.new_at.1 - begin).max(0));
        let is_limited = least + more > whole;
        if is_limited != (most + more > whole) {
            self.is_over = true;
            return None;
        }
        let more = if is_limited { 0 } else { more };
        if more > 0 {
            self.new_at = (self.new_at.0.max(begin) + more, self.new_at.1.max(end) + more);
        }
        let units = |used: i128| u64::try_from(((whole - used) / unit).max(0)).unwrap();
        Some((is_limited, units(most + more), units(least + more)))
    }
}

#[test]
fn random_histories_are_answered_alike() {
    let place = Place::new();
    let Some((_redis, mut cell)) = peer(&place) else { return };
    let (_serving, mut ours) = ours(&place);
    let random = &mut Random::new(29);
    let mut histories: Vec<_> = (0..HISTORIES).map(|at| History::random(at, random)).collect();
    let (start, mut compared, mut left_out) = (Instant::now(), 0_u32, 0_u32);
    for _ in 0..CALLS {
        for some in histories.chunks_mut(AT_ONCE) {
            let quantities: Vec<u64> = some
                .iter()
                .map(|history| match random.below(4) {
                    0 => random.below(history.burst + 3),
                    _ => random.below(4),
                })
                .collect();
            let call = |(history, quantity): (&History, &u64)| {
                let History { key, burst, count, period, .. } = history;
                words(&format!("CL.THROTTLE {key} {burst} {count} {period} {quantity}"))
            };
            let calls: Vec<_> = some.iter().zip(&quantities).map(call).collect();
            let begin = start.elapsed().as_nanos() as i128;
            ours.send(&calls);
            cell.send(&calls);
            let replies: Vec<_> = calls.iter().map(|_| (ours.reply(), cell.reply())).collect();
            let between = (begin, start.elapsed().as_nanos() as i128);
            for (((history, quantity), call), (ours, cell)) in
                some.iter_mut().zip(quantities).zip(&calls).zip(replies)
            {
                if history.is_over {
                    continue;
                }
                let Some((is_limited, least, most)) = history.expected(quantity, between) else {
                    left_out += 1;
                    continue;
                };
                compared += 1;
                alike(call, (&ours, &cell), (is_limited, least..=most));
            }
        }
    }
    println!("{compared} calls were answered alike; {left_out} histories ended at a boundary");
    assert!(f64::from(left_out) < 0.05 * HISTORIES as f64, "{left_out} histories ended");
}

/// How many keys whose units take a whole number of nanoseconds.
const WHOLE: usize = 2_000;

/// The time of a unit, where it is a whole number of nanoseconds. A fresh key is charged all of its
/// burst in one call, so that a unit that is off by a nanosecond moves the seconds of many.
#[test]
fn a_unit_takes_the_same_time() {
    let place = Place::new();
    let mut peer = peer(&place);
    let (_serving, mut ours) = ours(&place);
    let random = &mut Random::new(30);
    let (mut calls, mut expected) = (Vec::new(), Vec::new());
    for at in 0..WHOLE {
        let period: [u32; 9] = [1, 2, 7, 10, 30, 60, 300, 3_600, 86_400];
        let period = period[usize::try_from(random.below(9)).unwrap()];
        // A divisor of the billion nanoseconds of a second.
        let mut power = |base: u64| base.pow(u32::try_from(random.below(10)).unwrap());
        let count = power(2) * power(5);
        // A quantity that takes over 71 years to come back is refused here.
        let quantity = 1 + random.below(20_000);
        let burst = quantity - 1;
        calls.push(words(&format!("CL.THROTTLE unit:{at} {burst} {count} {period} {quantity}")));
        let unit = u128::from(period) * 1_000_000_000 / u128::from(count);
        let reset = (unit * u128::from(quantity) / 1_000_000).div_ceil(1_000);
        expected.push(format!("0 {quantity} 0 -1 {reset}"));
    }
    for (calls, expected) in calls.chunks(AT_ONCE).zip(expected.chunks(AT_ONCE)) {
        ours.send(calls);
        if let Some((_, cell)) = &mut peer {
            cell.send(calls);
        }
        for (call, expected) in calls.iter().zip(expected) {
            assert_eq!(ours.reply(), *expected, "{call:?}");
            if let Some((_, cell)) = &mut peer {
                assert_eq!(cell.reply(), *expected, "redis-cell: {call:?}");
            }
        }
    }
}

/// Both replies are what is expected, and their seconds are as far apart as one at most.
fn alike(
    call: &[String],
    (ours, cell): (&str, &str),
    (is_limited, remaining): (bool, core::ops::RangeInclusive<u64>),
) {
    let numbers = |reply: &str| -> [i64; 5] {
        let numbers: Vec<i64> =
            reply.split(' ').map(|number| number.parse().unwrap_or(i64::MIN)).collect();
        numbers.try_into().unwrap_or_else(|_| panic!("{call:?}: {reply}"))
    };
    let (mine, theirs) = (numbers(ours), numbers(cell));
    for reply in [mine, theirs] {
        assert_eq!(reply[0], i64::from(is_limited), "{call:?}: {ours} and {cell}");
        let left = u64::try_from(reply[2]).unwrap();
        assert!(remaining.contains(&left), "{call:?}: {ours} and {cell}, not {remaining:?}");
    }
    assert_eq!(mine[1], theirs[1], "{call:?}: {ours} and {cell}");
    for place in [3, 4] {
        let (mine, theirs) = (mine[place], theirs[place]);
        // "Never" and "no wait" are not seconds.
        assert_eq!(mine < 0, theirs < 0, "{call:?}: {ours} and {cell}");
        assert!(mine.abs_diff(theirs) <= 1, "{call:?}: {ours} and {cell}");
    }
}
