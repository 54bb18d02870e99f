//! Writes the oracle's answers into files of `vectors/holds/` and `vectors/units.txt`, in place of
//! those that they have.

use std::process::ExitCode;

use tollgate_proof::vectors::{holds, units};

fn main() -> ExitCode {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    if paths.is_empty() {
        eprintln!("give the files to write: vectors/holds/*.txt vectors/units.txt");
        return ExitCode::FAILURE;
    }
    for path in paths {
        let write = if path.ends_with("units.txt") { units::write } else { holds::write };
        let written = std::fs::read_to_string(&path)
            .map_err(|error| error.to_string())
            .and_then(|text| write(&text).map_err(|error| error.to_string()))
            .and_then(|text| std::fs::write(&path, text).map_err(|error| error.to_string()));
        if let Err(error) = written {
            eprintln!("{path}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
