//! `cargo xtask packages`: the installable packages (for Debian, an image, a chart, folders for
//! Kustomize), built and tested.

mod charts;
mod deb;
mod image;
mod manifests;
mod program;
mod sbom;
mod service;
mod sheet;
mod stage;
mod started;
mod values;

use std::path::Path;

use anyhow::Result;

pub(crate) use image::free_port;
pub(crate) use sheet::{Sheet, Shown};
pub(crate) use stage::version;
use stage::{CRATE, Stage};

use crate::tree::Tree;

/// Builds and tests them all, and ends with a table of them.
pub(crate) fn run(tree: &Tree, may_install: bool, rebuild: bool) -> Result<bool> {
    let mut sheet = Sheet::default();
    make(tree, &mut sheet, may_install, rebuild)?;
    told(&sheet)
}

/// The charts alone, by a program that is built already.
pub(crate) fn charts_by(tree: &Tree, program: &Path, may_install: bool) -> Result<bool> {
    let mut sheet = Sheet::default();
    let stage = Stage::with(tree, program)?;
    charts::chart(tree, &stage, &mut sheet, may_install)?;
    charts::kustomize(tree, &stage, &mut sheet, may_install)?;
    told(&sheet)
}

fn told(sheet: &Sheet) -> Result<bool> {
    println!("\n{}", sheet.table()?);
    Ok(sheet.holds(in_ci()))
}

/// Whether a skipped check is a failed one.
pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

/// Builds and tests them, and notes them on the sheet. With `rebuild` the program is built once
/// more, in another folder.
pub(crate) fn make(tree: &Tree, sheet: &mut Sheet, may_install: bool, rebuild: bool) -> Result<()> {
    let stage = Stage::fill(tree, may_install)?;
    program::check(tree, &stage, sheet, rebuild);
    let bill = stage.out.join(format!("tollgate-{}.spdx.json", stage.version));
    std::fs::copy(stage.materials(), &bill)?;
    sheet.file("sbom", &bill);
    sheet.check("sbom", "what it names", || sbom::check(tree, CRATE, &bill, may_install));
    deb::make(tree, &stage, sheet, may_install)?;
    image::make(tree, &stage, sheet, may_install)?;
    charts::chart(tree, &stage, sheet, may_install)?;
    charts::kustomize(tree, &stage, sheet, may_install)
}
