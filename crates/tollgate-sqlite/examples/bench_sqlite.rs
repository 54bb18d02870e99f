//! `cargo run --release -p tollgate-sqlite --example bench_sqlite [DIR [CHECKS]]`: decisions per
//! second on a file in DIR (the present directory), beside a bare UPDATE loop.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let dir = args.next().map_or_else(|| PathBuf::from("."), PathBuf::from);
    let checks = match args.next() {
        Some(text) => text.to_string_lossy().parse()?,
        None => 20_000,
    };
    let dir = tempfile::tempdir_in(dir)?;
    let figures = tollgate_sqlite::bench::run(dir.path(), checks)?;
    println!("{figures}");
    Ok(())
}
