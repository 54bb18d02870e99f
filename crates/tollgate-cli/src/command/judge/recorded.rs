//! A recorded log, as the traffic of a judgement.

use anyhow::{Result, bail};
use tollgate_logs::{ClientId, Reading, Traffic};
use tollgate_proof::judge::{Recorded, RecordedLog};

use crate::args::Judge;
use crate::command::log::LogOptions;
use crate::show;

/// The most requests of a log that are asked.
const MOST: usize = 20_000;

/// The longest name of a client in a subject, in bytes. A longer one is replaced by its number.
const LONGEST_NAME: usize = 200;

/// The requests of `--log`; none without it.
pub(super) fn recorded(args: &Judge) -> Result<RecordedLog> {
    if args.log.is_empty() {
        let given = &args.reading;
        let texts = [&given.format, &given.time_field, &given.client_field, &given.cost];
        if texts.iter().any(|text| text.is_some()) || given.spread.is_some() || given.by != "ip" {
            bail!("--log is missing: the other options of recorded traffic say how it is read");
        }
        return Ok(RecordedLog::default());
    }
    let log = LogOptions::new(&args.reading)?;
    let reading = Reading::by(log.by.clone()).with_cost(log.cost.clone());
    let reading = reading.with_hints(log.hints.clone());
    let traffic = log.read(&args.log, |lines, update| reading.read_lines(lines, update))?;
    log.notes(&traffic.summary).iter().for_each(|note| show::note(note));
    let events = traffic.ordered.iter()?.take(MOST).map(|event| {
        let event = event?;
        let (at_us, cost) = (event.at_us, event.cost.into());
        Ok(Recorded { at_us, subject: name(&traffic, event.client), cost })
    });
    let requests = events.collect::<Result<Vec<_>, tollgate_logs::Error>>()?;
    Ok(RecordedLog { requests, of: traffic.ordered.len() })
}

/// The name of a client in its subject.
fn name(traffic: &Traffic, client: ClientId) -> String {
    let name = traffic.clients.printable(client).filter(|name| name.len() <= LONGEST_NAME);
    name.unwrap_or_else(|| format!("client {}", client.index()))
}
