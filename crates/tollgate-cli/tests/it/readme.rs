//! The README's table of where to start: its commands are ones that the program takes.

use crate::Place;
use crate::page::rows;

const README: &str = include_str!("../../../../README.md");

#[test]
fn where_to_start_names_commands_that_the_program_takes() {
    let place = Place::new();
    let mut found = 0;
    for row in rows(README) {
        let [_, start, clone] = &row[..] else { continue };
        let Some(words) = start.strip_prefix("tollgate ") else { continue };
        // From a clone it is the same command.
        assert_eq!(clone, &format!("cargo run --release -- {words}"));
        // The help is shown only where the words before it are understood.
        let words: Vec<&str> = words.split(' ').chain(["--help"]).collect();
        let (code, out, err) = place.run(&words);
        assert_eq!((code, err.as_str()), (0, ""), "{start}: {out}");
        found += 1;
    }
    assert_eq!(found, 9);
}
