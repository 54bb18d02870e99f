//! Pages about moving here from others: their blocks and tables, run on both sides where the other
//! is at hand.

mod envoy_ratelimit;
mod limitador;

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::Place;
use crate::page::rows;
use crate::serving::{Client, Serving};

/// The head that clients of JSON send.
const JSON: &str = "content-type: application/json\r\n";

/// A file with this text, in the place of a test.
fn file(place: &Place, name: &str, text: &str) -> PathBuf {
    let path = place.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// A service in memory under these arguments.
fn serve(place: &Place, args: &[&str]) -> Serving {
    Serving::start(place, &[&["--store", "memory://"], args].concat())
}

/// The status of the answer to Envoy's question in JSON, about one descriptor.
fn asked_as_envoy(client: &mut Client, domain: &str, entries: &[(&str, &str)]) -> (u16, Value) {
    let entries: Vec<_> =
        entries.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
    let question = json!({"domain": domain, "descriptors": [{"entries": entries}]});
    let (status, said) = client.ask("POST", "/json", &question.to_string()).unwrap();
    (status, serde_json::from_str(&said).unwrap())
}

/// The last columns of the tables name flags of ours.
#[test]
fn the_flags_of_the_pages_are_those_of_serve() {
    let (_, help, _) = Place::new().run(&["serve", "--help"]);
    for page in [
        envoy_ratelimit::PAGE,
        limitador::PAGE,
        include_str!("../../../../../docs/coming-from-nginx.md"),
    ] {
        let cells: Vec<_> = rows(page).filter_map(|mut row| row.pop()).collect();
        let words = cells.iter().flat_map(|cell| cell.split([' ', '`', ',', ';', ':']));
        let is_flag = |word: &&str| word.starts_with("--") && *word != "---";
        let flags: Vec<_> = words.filter(is_flag).collect();
        assert!(flags.len() > 2, "{flags:?}");
        for flag in flags {
            let is_known = [" <", "\n"].iter().any(|end| help.contains(&format!("{flag}{end}")));
            assert!(is_known, "serve has no {flag}");
        }
    }
}
