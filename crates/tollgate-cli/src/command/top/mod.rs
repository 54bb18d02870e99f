//! `top`: the figures of a running service in a terminal, again and again.

mod screen;
mod terminal;

use core::time::Duration;
use std::thread;
use std::time::Instant;

use anyhow::{Result, bail};
use serde_json::Value;
use tollgate_service::Operation;

use super::admin::{Payload, ask};
use crate::args::Top;
use crate::input::wait;
use crate::show::Output;
use crate::stop::Stop;
use screen::{Sort, Window};
use terminal::Terminal;

/// The shortest pause: the service computes a new answer each second.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// How long a signal or a key may go unnoticed.
const GLANCE: Duration = Duration::from_millis(50);

/// The key that ends it.
const QUIT: char = 'q';

pub(crate) fn top(args: &Top, out: &mut Output) -> Result<u8> {
    let every = wait(&args.every)?;
    if every < MIN_PAUSE {
        bail!("--every: the figures change once a second: 1s or more");
    }
    let figures = || ask(&args.service, Operation::Overview, Payload::Nothing);
    if args.json {
        out.json(&figures()?)?;
        return Ok(0);
    }
    if args.once {
        out.text(&screen::plain(&figures()?))?;
        return Ok(0);
    }
    let stop = Stop::listen()?;
    // A service that restarts comes back; one that never answered is a mistake.
    let mut answer = Ok(figures()?);
    let terminal = Terminal::open();
    let mut sort = Sort::Denied;
    while out.is_open() {
        let (began, mut drawn) = (Instant::now(), None);
        if terminal.is_none() {
            out.text(&format!("{}\n", text(&answer, screen::plain)))?;
        }
        while began.elapsed() < every {
            if stop.is_asked() {
                return Ok(0);
            }
            if let Some(terminal) = &terminal {
                for key in terminal.keys() {
                    if key == QUIT {
                        return Ok(0);
                    }
                    sort = Sort::by_key(key).unwrap_or(sort);
                }
                let window = Window { sort, size: terminal.size(), has_keys: terminal.has_keys() };
                if drawn != Some(window) {
                    terminal.draw(&text(&answer, |figures| screen::fitted(figures, window)));
                    drawn = Some(window);
                }
            }
            thread::sleep(GLANCE.min(every.saturating_sub(began.elapsed())));
        }
        answer = figures().map_err(|error| format!("{error:#}\n"));
    }
    Ok(0)
}

/// The figures as text, or why there are none.
fn text(answer: &Result<Value, String>, shown: impl FnOnce(&Value) -> String) -> String {
    answer.as_ref().map_or_else(Clone::clone, shown)
}
