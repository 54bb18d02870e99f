//! Writes the files of an experiment: completely, or not at all.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tempfile::NamedTempFile;
use tollgate_experiments::chart::{self, Look, Theme, Width};
use tollgate_experiments::experiment::Results;
use tollgate_experiments::report;

use crate::args::LabCommon;
use crate::show::note;

/// The files to write.
pub(super) struct Files {
    report: Option<PathBuf>,
    pictures: Option<PathBuf>,
}

impl Files {
    /// Checks that the files can be written, and leaves nothing at their paths, since a second
    /// signal ends the process immediately.
    pub(super) fn open(common: &LabCommon) -> Result<Self> {
        if let Some(path) = &common.report {
            beside(path)?;
        }
        if let Some(folder) = &common.pictures {
            fs::create_dir_all(folder)
                .with_context(|| format!("{}: this folder cannot be made", folder.display()))?;
            beside(&folder.join("picture"))?;
        }
        Ok(Self { report: common.report.clone(), pictures: common.pictures.clone() })
    }

    /// Writes the files, and appends their paths to `written`.
    pub(super) fn write(self, results: &Results, written: &mut Vec<String>) -> Result<()> {
        if let Some(path) = self.report {
            persist(beside(&path)?, report::html(results).as_bytes(), &path)?;
            written.push(path.display().to_string());
        }
        let Some(folder) = self.pictures else { return Ok(()) };
        for (name, chart) in &chart::all(results) {
            for (theme, suffix) in [(Theme::Light, ""), (Theme::Dark, "-dark")] {
                let look = Look::new(theme, Width::Wide);
                let svg = folder.join(format!("{name}{suffix}.svg"));
                persist(beside(&svg)?, chart.svg(look).as_bytes(), &svg)?;
                let png = folder.join(format!("{name}{suffix}.png"));
                written.push(svg.display().to_string());
                match chart.png(look) {
                    Ok(bytes) => {
                        persist(beside(&png)?, &bytes, &png)?;
                        written.push(png.display().to_string());
                    }
                    // The SVG was written.
                    Err(error) => note(&format!("{}: {error}", png.display())),
                }
            }
        }
        Ok(())
    }
}

/// A temporary file in the folder of `path`, to be renamed later.
pub(in crate::command) fn beside(path: &Path) -> Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    // With the usual permissions: by default only the owner could read a temporary file.
    let mut builder = tempfile::Builder::new();
    let builder = builder.permissions(fs::Permissions::from_mode(0o666));
    let file = builder.tempfile_in(folder.unwrap_or(Path::new(".")));
    if path.is_dir() {
        anyhow::bail!("{}: this is a folder; name a file", path.display());
    }
    file.with_context(|| format!("{}: cannot be written", path.display()))
}

/// Moves the written file to its path.
pub(in crate::command) fn persist(
    mut file: NamedTempFile,
    bytes: &[u8],
    path: &Path,
) -> Result<()> {
    let failed = || format!("{}: cannot be written", path.display());
    file.write_all(bytes).with_context(failed)?;
    file.persist(path).map(drop).with_context(failed)
}
