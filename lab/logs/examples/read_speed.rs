//! How fast a log is read: `read_speed LOG [BY] [REPEAT]`. Times apart: parsing lines that lie in
//! memory (the log REPEAT times), then the whole way from the file to events in order.

use std::io::Cursor;
use std::path::Path;
use std::time::Instant;

use tollgate_logs::parse::Parser;
use tollgate_logs::{By, Lines, Reading};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let path = args.first().ok_or("name a log: read_speed LOG [BY] [REPEAT]")?;
    let by: By = args.get(1).map_or("ip", String::as_str).parse()?;
    let repeat: usize = args.get(2).map_or("1", String::as_str).parse()?;

    if repeat > 1 {
        let mut log = Vec::new();
        let mut lines = Lines::open(Path::new(path))?;
        while let Some(line) = lines.next_line()? {
            log.extend_from_slice(line.text);
            log.push(b'\n');
        }
        let log = log.repeat(repeat);
        let mut parser = Parser::new(by.clone());
        let mut lines = Lines::from_reader(Cursor::new(log), Path::new("memory"), None)?;
        let (mut events, mut count) = (0_u64, 0_u64);
        let start = Instant::now();
        while let Some(line) = lines.next_line()? {
            count += 1;
            events += u64::from(std::hint::black_box(parser.parse(line.text)).is_ok());
        }
        report("parse", count, lines.unpacked_bytes(), start);
        println!("  {events} events");
    }

    let start = Instant::now();
    let traffic = Reading::by(by).read(Path::new(path), |_| ())?;
    let summary = &traffic.summary;
    report("read and sort", summary.lines, summary.bytes, start);
    println!(
        "  {} events, {} out of order, {} unparsed, {} clients, {} runs on disk",
        summary.events,
        summary.out_of_order,
        summary.unparsed,
        summary.clients,
        traffic.ordered.runs()
    );
    let start = Instant::now();
    let mut last_us = 0;
    for event in traffic.ordered.iter()? {
        let event = event?;
        assert!(event.at_us >= last_us, "events must come in order");
        last_us = event.at_us;
    }
    report("read back in order", summary.events, 12 * summary.events, start);
    Ok(())
}

fn report(what: &str, lines: u64, bytes: u64, start: Instant) {
    let us = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX).max(1);
    println!("{what}: {} lines/s, {} MB/s ({us} us)", lines * 1_000_000 / us, bytes / us);
}
