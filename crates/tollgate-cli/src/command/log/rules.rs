//! Policies and limits that a log is replayed under, and the decisions as CSV.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use tempfile::NamedTempFile;
use tollgate_logs::policy::{Go, PolicyReading, Requests, limits_as_policies};
use tollgate_logs::{Error, csv_text};
use tollgate_policy::{Field, Policies};

use super::LogOptions;
use crate::args::FieldArgs;
use crate::file::beside;
use crate::input::shown;
use crate::show;
use crate::stop::Stop;

/// The endings of policy files.
const ENDINGS: [&str; 3] = [".toml", ".yaml", ".yml"];

/// The policies of a file, or those that limits become.
pub(crate) struct Rules {
    pub(crate) name: String,
    pub(crate) policies: Policies,
}

impl Rules {
    /// A policy file by its ending, else limits.
    pub(crate) fn new(text: &str, has_costs: bool) -> Result<Self> {
        if ENDINGS.iter().any(|ending| text.ends_with(ending)) {
            return Self::load(Path::new(text));
        }
        if Path::new(text).is_file() {
            bail!("{}: a policy file ends in .toml, .yaml or .yml", shown(text));
        }
        Ok(Self { name: shown(text), policies: limits_as_policies(text, has_costs)? })
    }

    pub(crate) fn load(path: &Path) -> Result<Self> {
        let policies = Policies::load(path)?;
        Ok(Self { name: shown(&path.display().to_string()), policies })
    }
}

impl LogOptions {
    /// Reads the requests of the logs for these policies.
    pub(crate) fn requests(
        &self,
        logs: &[PathBuf],
        fields: &FieldArgs,
        policies: &[&Policies],
    ) -> Result<Requests> {
        let mut reading = PolicyReading::by(self.by.clone());
        reading.cost = self.cost.clone();
        reading.hints = self.hints.clone();
        reading.max_combinations = fields.max_clients;
        reading.given = fields.field.iter().map(|text| given(text)).collect::<Result<_>>()?;
        self.read(logs, |lines, update| reading.read_lines(lines, policies, update))
    }
}

/// `route=path`.
fn given(text: &str) -> Result<(Field, String)> {
    let Some((field, name)) = text.split_once('=') else {
        bail!("--field {}: write FIELD=LOGFIELD, as in `--field route=path`", shown(text));
    };
    Ok((Field::parse(field).context("--field")?, name.to_owned()))
}

/// Decides with a progress bar, until a signal arrives.
pub(crate) fn deciding<T>(
    stop: &Stop,
    decide: impl FnOnce(&mut Go<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let bar = show::progress(Some(0)).with_style(show::bar("{msg:20} {bar:30} {percent} %"));
    bar.set_message("deciding");
    let decided = decide(&mut |(done, total)| {
        bar.set_length(total);
        bar.set_position(done);
        if stop.is_asked() { Err(Error::Stopped) } else { Ok(()) }
    });
    bar.finish_and_clear();
    decided
}

/// Decisions as rows of a file, which appears when it is complete.
pub(crate) struct Csv {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
}

impl Csv {
    /// A file with the header.
    pub(crate) fn new(path: &Path) -> Result<Self> {
        let mut file = BufWriter::new(beside(path)?);
        writeln!(file, "line,at_us,client,admitted,policy")
            .with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// One decision; `place` is its line and its time.
    pub(crate) fn row(
        &mut self,
        place: (u32, u64),
        client: &[u8],
        is_admitted: bool,
        policy: Option<&str>,
    ) -> Result<(), Error> {
        let (line, at_us) = place;
        let client = csv_text(client);
        let policy = policy.unwrap_or_default();
        writeln!(self.file, "{line},{at_us},{client},{is_admitted},{policy}")
            .map_err(|source| Error::Read { path: self.path.clone(), source })
    }

    /// Moves the file to its path, which is returned.
    pub(crate) fn finish(self) -> Result<String> {
        let Self { path, file } = self;
        let failed = || format!("{}: cannot be written", path.display());
        let file = file.into_inner().map_err(std::io::IntoInnerError::into_error);
        file.with_context(failed)?.persist(&path).with_context(failed)?;
        Ok(path.display().to_string())
    }
}
