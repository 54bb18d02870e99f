//! `doctor`: whether a server is fit to store counts, and what to do if it is not.

use anstyle::{AnsiColor, Style};
use anyhow::{Result, bail};
use pollster::block_on;
use serde::Serialize;
use tollgate_redis::doctor::{ConnectError, Connection, Facts, Finding, Level, diagnose, gather};
use tollgate_stores::{Kind, scheme};

use crate::args::Doctor;
use crate::show::{Output, count, wrapped};

/// The exit code if something must be changed.
const UNFIT: u8 = 1;

#[derive(Debug, Serialize)]
struct DoctorJson<'f> {
    address: &'f str,
    fit: bool,
    findings: Vec<FindingJson<'f>>,
}

#[derive(Debug, Serialize)]
struct FindingJson<'f> {
    id: &'f str,
    level: &'f str,
    what: &'f str,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<&'f str>,
}

pub(crate) fn doctor(args: &Doctor, out: &mut Output) -> Result<u8> {
    if let (Ok(Kind::Sqlite | Kind::Memory), Some(scheme)) =
        (Kind::from_url(&args.store), scheme(&args.store))
    {
        bail!("`{scheme}://` cannot be checked: give redis://, rediss:// or unix://");
    }
    let (address, facts) = match Connection::open(&args.store) {
        Ok(mut connection) => {
            let facts = block_on(gather(&mut connection))?;
            (connection.address().to_owned(), facts)
        }
        // The server was reached, so its refusal is a finding.
        Err(ConnectError::Refused { address, why }) => (address, Facts::refused(why)),
        Err(error) => return Err(error.into()),
    };
    let findings = diagnose(&facts);
    let of = |level| findings.iter().filter(|finding| finding.level == level).count();
    let fit = of(Level::Failure) == 0;
    if args.json {
        let findings = findings.iter().map(FindingJson::from_finding).collect();
        out.json(&DoctorJson { address: &address, fit, findings })?;
    } else {
        let bold = Style::new().bold();
        let verdict = if fit { "fit" } else { "unfit" };
        let (failures, warnings) = (of(Level::Failure), of(Level::Warning));
        out.line(format!(
            "{bold}{address} is {verdict}{bold:#}: {}, {}",
            counted(failures, "failure")?,
            counted(warnings, "warning")?
        ))?;
        for finding in &findings {
            out.text(&text(finding))?;
        }
    }
    Ok(if fit { 0 } else { UNFIT })
}

impl<'f> FindingJson<'f> {
    fn from_finding(finding: &'f Finding) -> Self {
        Self {
            id: finding.id,
            level: finding.level.name(),
            what: &finding.what,
            remedy: finding.remedy.as_deref(),
        }
    }
}

fn counted(number: usize, one: &str) -> Result<String> {
    Ok(count(u64::try_from(number)?, one))
}

/// A finding in a few lines. A remedy stays on one line, so that it can be copied.
fn text(finding: &Finding) -> String {
    const INDENT: usize = 24;
    let colour = match finding.level {
        Level::Ok => AnsiColor::Green,
        Level::Warning => AnsiColor::Yellow,
        Level::Failure => AnsiColor::Red,
    };
    let style = colour.on_default();
    let (level, id) = (finding.level.name(), finding.id);
    let what = wrapped(&finding.what, INDENT);
    let mut text = format!("  {style}{level:<7}{style:#}  {id:<12} {what}\n");
    if let Some(remedy) = &finding.remedy {
        text.push_str(&format!("{:INDENT$}-> {remedy}\n", ""));
    }
    text
}
