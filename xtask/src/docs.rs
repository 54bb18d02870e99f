//! `cargo xtask docs`: writes the parts of the documents that come from the engine, so that no
//! table and no picture can say something else than the code does.

use anyhow::{Context, Result, bail};
use tollgate::{LimitSet, Strategy};
use tollgate_lab::InMemory;
use tollgate_lab::chart::{Chart, Look, Theme, Width, depth, offers, over_time};
use tollgate_lab::experiment::{self, Experiment, Queueing, Results};

use crate::tidy::STRATEGIES;
use crate::tree::Tree;

/// The line that opens a generated part; a line [`END`] closes it.
const BEGIN: &str = "<!-- generated: which-one -->";

/// Pages that show programs as they stand, each with the language of its block. The line that opens
/// the part names the file.
const EXAMPLES: [(&str, &[(&str, &str)]); 2] = [
    (
        "docs/redis.md",
        &[
            ("examples/redis/limit.sh", "sh"),
            ("examples/redis/limit.py", "python"),
            ("examples/redis/limit.mjs", "js"),
        ],
    ),
    (
        "docs/clients.md",
        &[
            ("examples/redis/cluster.sh", "sh"),
            ("examples/redis/cluster.py", "python"),
            ("examples/redis/cluster.mjs", "js"),
            ("examples/redis/cluster-ioredis.mjs", "js"),
        ],
    ),
];

const END: &str = "<!-- end -->";

/// The quota of every row of the table.
const QUOTA: &str = "60/m";

/// The experiment whose picture is the README's.
const PICTURE: &str = "examples/lab/strategies.toml";

/// Writes every generated part, or, with `check`, names those that are stale and changes nothing.
pub(crate) fn run(tree: &Tree, check: bool) -> Result<bool> {
    let mut current = true;
    for Part { path, text } in parts(tree)? {
        let file = tree.root.join(&path);
        // A file that is not there yet is stale.
        if std::fs::read_to_string(&file).is_ok_and(|found| found == text) {
            continue;
        }
        if check {
            current = false;
            eprintln!("{path}: stale; run `cargo xtask docs`");
        } else {
            std::fs::write(&file, text).with_context(|| format!("cannot write {path}"))?;
            eprintln!("{path}: written");
        }
    }
    Ok(current)
}

/// A file, as it should be.
struct Part {
    path: String,
    text: String,
}

fn parts(tree: &Tree) -> Result<Vec<Part>> {
    let read = |path: &str| {
        std::fs::read_to_string(tree.root.join(path)).with_context(|| format!("cannot read {path}"))
    };
    let mut parts = Vec::new();
    let rows: Vec<String> = Strategy::ALL
        .iter()
        .map(|strategy| row(*strategy, &format!("[`{strategy}`]({})", page(*strategy))))
        .collect::<Result<_>>()?;
    let path = "README.md".to_owned();
    let text = with_part(&path, &read(&path)?, BEGIN, &table(&rows.concat()))?;
    parts.push(Part { path, text });
    for strategy in Strategy::ALL {
        let path = page(*strategy);
        let row = row(*strategy, &format!("`{strategy}`"))?;
        let text = with_part(&path, &read(&path)?, BEGIN, &table(&row))?;
        parts.push(Part { path, text });
    }
    for (page, programs) in EXAMPLES {
        let mut text = read(page)?;
        for (file, language) in programs {
            let shown = format!("```{language}\n{}```\n", read(file)?);
            text = with_part(page, &text, &format!("<!-- generated: {file} -->"), &shown)?;
        }
        parts.push(Part { path: page.to_owned(), text });
    }
    for (name, chart) in [("picture", over_time(&shown(tree)?)), ("queue", queue(&queues()?)?)] {
        for (suffix, theme) in [("", Theme::Light), ("-dark", Theme::Dark)] {
            let text = chart.svg(Look::new(theme, Width::Wide));
            parts.push(Part { path: format!("docs/{name}{suffix}.svg"), text });
        }
    }
    Ok(parts)
}

/// The page of a strategy, from the root of the project.
fn page(strategy: Strategy) -> String {
    let name = strategy.name();
    format!("{STRATEGIES}{name}/{name}.md")
}

/// The text with its generated part replaced.
pub(crate) fn with_part(path: &str, text: &str, begin: &str, part: &str) -> Result<String> {
    let Some((before, rest)) = text.split_once(begin) else {
        bail!("{path} has no line `{begin}`: add it and a line `{END}` where the part belongs");
    };
    let Some((_, after)) = rest.split_once(END) else {
        bail!("{path} has no line `{END}` after `{begin}`");
    };
    Ok(format!("{before}{begin}\n{part}{END}{after}"))
}

fn table(rows: &str) -> String {
    format!(
        "| `{QUOTA}` via | most in any 1m | demand never ends | bytes of state per subject | bursts |\n\
         | --- | --- | --- | --- | --- |\n{rows}"
    )
}

/// One row of the table: what the sample quota means under a strategy.
fn row(strategy: Strategy, name: &str) -> Result<String> {
    let set = LimitSet::parse_with(QUOTA, strategy)?;
    let [limit] = set.limits() else { bail!("`{QUOTA}` is not one limit") };
    let traits = strategy.traits(limit.quota());
    let (window, rate) = (traits.worst_window, traits.sustained);
    Ok(format!("| {name} | {window} | {rate} | {} | {} |\n", traits.bytes, traits.burst))
}

/// What the experiment of the picture showed: the decisions of the engine itself.
fn shown(tree: &Tree) -> Result<Results> {
    let experiment = Experiment::load(&tree.root.join(PICTURE))?;
    Ok(experiment::run(&experiment, &mut InMemory::default(), |_| ())?)
}

/// What `tollgate lab queue` shows: the answers of the queue itself.
fn queues() -> Result<Results> {
    let experiment = Queueing::default().experiment(1)?;
    Ok(experiment::run(&experiment, &mut InMemory::default(), |_| ())?)
}

/// The picture of queues: what they accepted and refused, and below it how many jobs waited.
fn queue(results: &Results) -> Result<Chart> {
    let (Some(offers), Some(depth)) = (offers(results), depth(results)) else {
        bail!("the lab's queues are none")
    };
    Ok(offers.above(depth))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_of_queues_shows_that_workers_set_the_pace() {
        let results = queues().unwrap();
        let queues: Vec<_> = results.cases.iter().filter_map(|it| it.queue.as_ref()).collect();
        let [one, two] = &queues[..] else { panic!("{results:?}") };
        assert_eq!((one.workers, two.workers), (1, 2));
        // Producers twice as fast as a worker: half is accepted; with two workers all of it.
        assert_eq!((one.accepted_per_s, one.refused_per_s), (Some(10.0), Some(10.0)));
        assert_eq!((two.accepted_per_s, two.refused_per_s), (Some(20.0), Some(0.0)));
        assert_eq!((one.depth_max, one.bound), (10, 10));
    }

    #[test]
    fn the_picture_shows_the_worst_window_of_every_strategy() {
        let results = shown(&Tree::find().unwrap()).unwrap();
        for strategy in Strategy::ALL {
            let limits = results.cases.iter().flat_map(|case| &case.limits);
            let limit = limits.clone().find(|limit| limit.strategy == strategy.name());
            let limit = limit.unwrap_or_else(|| panic!("`{strategy}` is not in {PICTURE}"));
            // The client is greedy enough to reach the worst window, and no more gets through.
            assert_eq!(limit.peak, limit.promise, "{limit:?}");
        }
    }

    #[test]
    fn a_part_is_replaced_and_the_rest_stays() {
        let text = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let written = with_part("a.md", &text, BEGIN, "new\n").unwrap();
        assert_eq!(written, format!("before\n{BEGIN}\nnew\n{END}\nafter\n"));
        assert_eq!(with_part("a.md", &written, BEGIN, "new\n").unwrap(), written);
    }

    #[test]
    fn a_missing_marker_is_named() {
        let said = with_part("a.md", "text", BEGIN, "").err().unwrap().to_string();
        assert!(said.starts_with("a.md has no line `<!-- generated"), "{said}");
        let said = with_part("a.md", BEGIN, BEGIN, "").err().unwrap().to_string();
        assert!(said.starts_with("a.md has no line `<!-- end -->`"), "{said}");
    }
}
