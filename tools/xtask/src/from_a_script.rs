//! `cargo xtask from-a-script`: the table of that page, made by its test on a real Redis.

use anyhow::{Context as _, Result, bail};

use crate::part::with_part;
use crate::tools::cargo;
use crate::tree::Tree;
use crate::{process, programs};

/// The page that has the table, and the line that opens it there.
const PAGE: &str = "docs/from-a-script.md";
const BEGIN: &str = "<!-- generated: cargo xtask from-a-script -->";

/// The variable by which the test writes the table into a file in place of comparing it.
const INTO: &str = "TOLLGATE_TABLE_INTO";

/// Writes the table into the page, or with `check` only compares it. False if that fails.
pub(crate) fn run(tree: &Tree, check: bool) -> Result<bool> {
    programs::find("redis-server").context("apt-get install redis-server")?;
    let mut command = cargo(tree);
    command.args(["test", "--quiet", "-p", "tollgate-redis", "--test", "servers", "--"]);
    command.args(["--exact", "from_a_script::the_table_of_the_page_is_what_both_sides_answer"]);
    if check {
        return process::show(&mut command);
    }
    let folder = tree.root.join("target");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("from-a-script.md");
    // One of an earlier run must not pass for this one's.
    let _ = std::fs::remove_file(&file);
    if !process::show(command.env(INTO, &file))? {
        return Ok(false);
    }
    let Ok(table) = std::fs::read_to_string(&file) else { bail!("the test wrote no table") };
    let path = tree.root.join(PAGE);
    let page = std::fs::read_to_string(&path).with_context(|| format!("cannot read {PAGE}"))?;
    std::fs::write(&path, with_part(PAGE, &page, BEGIN, &table)?)?;
    eprintln!("{PAGE}: written");
    Ok(true)
}
