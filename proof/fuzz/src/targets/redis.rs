//! The data on Redis, and its place: states and URLs.

use tollgate::engine::{self, Mode, Part, VecStates};
use tollgate::{LimitSet, Time};
use tollgate_redis::{Options, decode, encode};

use super::text;

const SETS: [&str; 7] = [
    "x: 10/s via gcra",
    "x: 5/10s via fixed_window",
    "x: 6/10s precision 5s via sliding_window",
    "x: 5/10s refill interval via token_bucket",
    "x: 7/m via gcra, y: 5/10s via sliding_log",
    "x: 5/month in Europe/Berlin from 15th",
    "x: 7/m via gcra, y: 90/m of tokens via fixed_window",
];

/// A state and the rows of a log: read or refused, and a parsed one can be worked on.
///
/// The first byte picks the limits, the next eight are the time. Then come pieces, each after a
/// byte with its length: the state, and the rows.
pub(crate) fn state(data: &[u8]) {
    let Some((&[set, now @ ..], rest)) = data.split_first_chunk::<9>() else { return };
    let limits: LimitSet = SETS[usize::from(set) % SETS.len()].parse().expect("a limit of ours");
    let now = Time::from_micros(u64::from_le_bytes(now) % (1 << 52));
    let mut pieces = Pieces(rest);
    let state = pieces.next().unwrap_or_default();
    let log: Vec<Vec<u8>> = pieces.map(<[u8]>::to_vec).collect();
    let Ok((was, mut held)) = decode(&limits, Some(state), &[vec![], log]) else { return };
    let mut new = VecStates::fresh(&limits);
    let _ = engine::migrate(&limits, &mut new, &was, &mut held, now);
    let mut parts = [Part::new(&limits, &mut new)];
    let _ = engine::decide(&mut parts, now, 3.into(), Mode::Whole, None).unwrap();
    let written = encode(&limits, &new).expect("these sets have a state");
    let (_, again) = decode(&limits, Some(&written), &[]).expect("what is written is read");
    assert_eq!(again.words, new.words);
}

struct Pieces<'d>(&'d [u8]);

impl<'d> Iterator for Pieces<'d> {
    type Item = &'d [u8];

    fn next(&mut self) -> Option<&'d [u8]> {
        let (length, rest) = self.0.split_first()?;
        let (piece, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        self.0 = rest;
        Some(piece)
    }
}

/// A password that is in no URL but those it is put into.
const PASSWORD: &str = "s3cr3t-word";

/// A URL: no password in what is shown.
pub(crate) fn url(data: &[u8]) {
    let text = text(data);
    // Where it is the host as well, it is shown as that.
    if text.contains(PASSWORD) {
        return;
    }
    let url = format!("redis://user:{PASSWORD}@{text}");
    for url in [text, &url] {
        match Options::from_url(url) {
            Ok(options) => assert!(!format!("{options} {options:?}").contains(PASSWORD)),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert!(!error.to_string().contains(PASSWORD));
            }
        }
    }
}
