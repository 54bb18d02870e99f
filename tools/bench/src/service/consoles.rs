//! The service while browsers show its console, beside the same service without.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};

use super::bench::Bench;
use super::turns::{Bar, Load, RowJson, Run, Side};
use crate::processor::with_cpu;

/// How many browsers show the console.
const BROWSERS: u32 = 10;

/// How often a browser asks.
const PAUSE: Duration = Duration::from_secs(2);

/// The service with consoles over the one without, at least.
const OVER_NONE: Bar = Bar::AtLeast(0.98);

/// Checks with ten consoles open and with none, of one service.
pub(super) fn with_consoles(bench: &Bench<'_>) -> Result<Vec<RowJson>> {
    let (ours, admin) = bench.tollgate.serve_with_admin()?;
    let url = ours.url("/v1/check");
    let seconds = f64::from(bench.args.turns.seconds);
    let load = || {
        with_cpu(ours.id(), || {
            let run = bench.wrk.load(&url, Some(bench.script))?;
            Ok((run, run.per_second * seconds))
        })
    };
    let side = |what, load| Side { what, load, runs: Vec::new() };
    let sides = vec![
        side(
            format!("tollgate, memory, {BROWSERS} consoles"),
            Box::new(|_: Option<&Run>| watching(admin, load)) as Load<'_>,
        ),
        side("tollgate, memory, no console".to_owned(), Box::new(|_: Option<&Run>| load())),
    ];
    bench.turns.take(sides, Some(OVER_NONE))
}

/// Does something while as many browsers ask for the figures, one after the other in each pause.
fn watching<T>(admin: SocketAddr, does: impl FnOnce() -> Result<T>) -> Result<T> {
    std::thread::scope(|scope| {
        let browsers: Vec<_> = (0..BROWSERS)
            .map(|number| {
                let (ends, ended) = channel::<()>();
                let browser = scope.spawn(move || -> Result<u32> {
                    let mut connection = BufReader::new(TcpStream::connect(admin)?);
                    let mut wait = PAUSE * number / BROWSERS;
                    let mut asked = 0;
                    while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                        ask(&mut connection)?;
                        (wait, asked) = (PAUSE, asked + 1);
                    }
                    Ok(asked)
                });
                (ends, browser)
            })
            .collect();
        let done = does();
        for (ends, browser) in browsers {
            drop(ends);
            let asked = browser.join().map_err(|_| anyhow!("a browser panicked"))?;
            if asked.context("a browser was not answered")? == 0 {
                bail!("a run is too short for a browser to ask: --seconds 2 or more");
            }
        }
        done
    })
}

/// Asks for the figures, and reads the answer.
fn ask(connection: &mut BufReader<TcpStream>) -> Result<()> {
    let request = "GET /v1/admin/overview HTTP/1.1\r\nhost: localhost\r\n\r\n";
    connection.get_mut().write_all(request.as_bytes())?;
    let (mut status, mut length, mut line) = (String::new(), 0, String::new());
    connection.read_line(&mut status)?;
    loop {
        line.clear();
        connection.read_line(&mut line)?;
        match line.trim_end().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body)?;
    if !status.starts_with("HTTP/1.1 200") || !body.starts_with(b"{") {
        bail!("the service has no figures: {status}");
    }
    Ok(())
}
