//! Writes the files of an experiment.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use tollgate_experiments::chart::{self, Look, Theme, Width};
use tollgate_experiments::experiment::Results;
use tollgate_experiments::report;

use crate::args::LabCommon;
use crate::file::{beside, persist};
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
