//! Writes a large log to standard output: `generate_log [LINES] [CLIENTS] [json]`.

use std::io::{BufWriter, Write};

use tollgate_logs::generate::{Format, Log};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: &str| {
        let text = args.get(at).map_or(default, String::as_str);
        text.parse::<u32>().map_err(|error| format!("{text}: {error}; write a whole number"))
    };
    let format = match args.get(2).map(String::as_str) {
        Some("json") => Format::Json,
        None => Format::Combined,
        Some(other) => return Err(format!("{other}: write json, or nothing").into()),
    };
    let log = Log {
        lines: u64::from(number(0, "10000")?),
        clients: number(1, "1000")?,
        format,
        ..Log::default()
    };
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    log.write(&mut out)?;
    out.flush()?;
    Ok(())
}
