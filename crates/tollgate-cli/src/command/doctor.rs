//! `doctor`: whether servers are fit to store counts, and the remedy if they are not.

use anstyle::{AnsiColor, Style};
use anyhow::{Result, bail};
use serde::Serialize;
use tollgate_redis::doctor::{Finding, Level, Report, examine};
use tollgate_stores::{Kind, scheme};

use crate::args::Doctor;
use crate::show::{Output, count, wrapped};

/// The exit code if something must be changed.
const UNFIT: u8 = 1;

#[derive(Debug, Serialize)]
struct DoctorJson<'f> {
    address: &'f str,
    fit: bool,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    nodes: &'f [String],
    findings: Vec<FindingJson<'f>>,
}

#[derive(Debug, Serialize)]
struct FindingJson<'f> {
    id: &'f str,
    level: &'f str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    nodes: &'f [String],
    what: &'f str,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<&'f str>,
}

pub(crate) fn doctor(args: &Doctor, out: &mut Output) -> Result<u8> {
    if let (Ok(Kind::Sqlite | Kind::Memory), Some(scheme)) =
        (Kind::from_url(&args.store), scheme(&args.store))
    {
        bail!(
            "`{scheme}://` cannot be checked: give redis://, rediss://, unix://, redis+cluster:// \
             or redis+sentinel://"
        );
    }
    let report = examine(&args.store)?;
    let (address, fit) = (report.address.as_str(), report.is_fit());
    if args.json {
        let findings = report.findings.iter().map(FindingJson::from_finding).collect();
        out.json(&DoctorJson { address, fit, nodes: &report.nodes, findings })?;
    } else {
        let bold = Style::new().bold();
        let verdict = if fit { "fit" } else { "unfit" };
        out.line(format!(
            "{bold}{address} is {verdict}{bold:#}: {}, {}",
            counted(report.count(Level::Failure), "failure")?,
            counted(report.count(Level::Warning), "warning")?
        ))?;
        for finding in &report.findings {
            out.text(&text(&report, finding))?;
        }
    }
    Ok(if fit { 0 } else { UNFIT })
}

impl<'f> FindingJson<'f> {
    fn from_finding(finding: &'f Finding) -> Self {
        Self {
            id: finding.id,
            level: finding.level.name(),
            nodes: &finding.nodes,
            what: &finding.what,
            remedy: finding.remedy.as_deref(),
        }
    }
}

fn counted(number: usize, one: &str) -> Result<String> {
    Ok(count(u64::try_from(number)?, one))
}

/// A finding in a few lines. `--json` has the remedy as one, to be copied.
fn text(report: &Report, finding: &Finding) -> String {
    const INDENT: usize = 24;
    let colour = match finding.level {
        Level::Ok => AnsiColor::Green,
        Level::Warning => AnsiColor::Yellow,
        Level::Failure => AnsiColor::Red,
    };
    let style = colour.on_default();
    let (level, id) = (finding.level.name(), finding.id);
    let about = report.about(finding).map_or_else(String::new, |nodes| format!("{nodes}: "));
    let what = wrapped(&format!("{about}{}", finding.what), INDENT);
    let mut text = format!("  {style}{level:<7}{style:#}  {id:<12} {what}\n");
    if let Some(remedy) = &finding.remedy {
        text.push_str(&format!("{:INDENT$}-> {}\n", "", wrapped(remedy, INDENT + 3)));
    }
    text
}
