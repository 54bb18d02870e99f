//! `cargo xtask judge`: judges limiters of other people, and ours, by `tollgate judge`.

mod limiter;
mod machine;
mod peers;
mod programs;
mod table;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::part::with_part;
use crate::tree::Tree;
use limiter::Limiter;
use programs::Programs;

/// The page that has the table, and the line that opens it there.
const PAGE: &str = "docs/field.md";
const BEGIN: &str = "<!-- generated: cargo xtask judge --write -->";

/// The exit codes of `tollgate judge` for a limiter that was judged.
const JUDGED: [Option<i32>; 2] = [Some(0), Some(1)];

/// A limiter, with its judgement or the reason why it was not judged.
struct Row {
    limiter: Limiter,
    seen: Result<Judged, String>,
}

/// The judgements of a limiter and of ours.
struct Judged {
    theirs: Value,
    ours: Value,
}

/// Judges all, or those whose name contains `only`. False: ours broke a promise.
pub(crate) fn run(tree: &Tree, write: bool, only: Option<&str>) -> Result<bool> {
    if write && only.is_some() {
        bail!("--write makes the table of the page, which has all of them: leave --only out");
    }
    let mut limiters = limiter::read(tree)?;
    limiters.retain(|limiter| only.is_none_or(|only| limiter.name().contains(only)));
    if limiters.is_empty() {
        bail!("no limiter of {} has `{}` in its name", limiter::FILE, only.unwrap_or_default());
    }
    let programs = Programs::provide(tree, &limiters)?;
    let mut rows = Vec::new();
    // Several are held to the same limit: ours is asked for it once.
    let mut known: BTreeMap<(String, bool), Value> = BTreeMap::new();
    for limiter in limiters {
        if let Some(why) = limiter.absent() {
            eprintln!("skipped: {}: {why}", limiter.name());
            rows.push(Row { limiter, seen: Err(why) });
            continue;
        }
        eprintln!("judging {}", limiter.title());
        let theirs = programs.judged(&limiter).with_context(|| limiter.name())?;
        let limit = (limiter.limit.clone(), limiter.is_bound);
        let ours = match known.get(&limit) {
            Some(ours) => ours.clone(),
            None => programs.ours(&limiter).context("ours")?,
        };
        known.insert(limit, ours.clone());
        rows.push(Row { limiter, seen: Ok(Judged { theirs, ours }) });
    }
    let ours_hold = known.values().all(|ours| ours["verdict"] == "kept");
    let text = format!("{}\n{}", machine::sentence(programs.python()), table::table(&rows));
    if write {
        let path = tree.root.join(PAGE);
        let page = std::fs::read_to_string(&path).with_context(|| format!("cannot read {PAGE}"))?;
        std::fs::write(&path, with_part(PAGE, &page, BEGIN, &text)?)?;
        eprintln!("{PAGE}: written");
    } else {
        print!("{text}");
    }
    Ok(ours_hold)
}
