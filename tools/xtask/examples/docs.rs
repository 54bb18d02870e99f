//! Writes the parts of the documents that come from the engine, so that no table and no picture can
//! say something else than the code does. `cargo xtask docs [--check]` runs it. It is an example,
//! since every task of a program with the engine and the charts in it would wait for their build.

#[path = "../src/part.rs"]
mod part;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use tollgate::{LimitSet, Strategy};
use tollgate_experiments::chart::{
    self, Chart, Look, Theme, Width, depth, in_flight, offers, over_time, questions, served,
    service,
};
use tollgate_experiments::experiment::results::CaseResult;
use tollgate_experiments::experiment::{self, Experiment, Queueing, Results};
use tollgate_logs::InMemory;

use part::with_part;

/// The folder of the strategies, where each has its page.
const STRATEGIES: &str = "crates/tollgate/src/strategy/";

/// The line that opens a generated part.
const BEGIN: &str = "<!-- generated: which-one -->";

/// Pages that show programs unchanged, each with the language of its block. The line that opens the
/// part names the file.
const EXAMPLES: [(&str, &[(&str, &str)]); 4] = [
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
    ("docs/go.md", &[("examples/go/grpc/interceptor.go", "go")]),
    (
        "docs/languages.md",
        &[
            ("examples/go/check/main.go", "go"),
            ("examples/go/middleware/main.go", "go"),
            ("examples/go/throttle/main.go", "go"),
            ("examples/java/Check.java", "java"),
            ("examples/java/Middleware.java", "java"),
            ("examples/java/Throttle.java", "java"),
        ],
    ),
];

/// The quota of every row of the table.
const QUOTA: &str = "60/m";

/// The experiment whose picture is the README's.
const PICTURE: &str = "examples/lab/strategies.toml";

/// The experiment of the page on leases, and the line that opens its table.
const LEASES: (&str, &str) = ("examples/lab/leases.toml", "<!-- generated: nodes -->");

/// The page of the Zoo, and the line that opens its pictures. Each picture answers a question.
const ZOO: (&str, &str) = ("docs/zoo.md", "<!-- generated: zoo -->");
const ZOO_QUESTIONS: [(&str, &str); 6] = [
    ("over-time", "May callers use up their calls in a burst?"),
    ("occupancy", "Is the site protected when a gang passes its gates at one moment?"),
    ("depth", "Who sets the pace, and what becomes of the rest?"),
    ("waits", "How long does a call wait for its turn?"),
    ("raster", "Who gets through: does the fastest win?"),
    ("kept", "How many keys does it take?"),
];

/// The experiment of the page on holds, and the line that opens its table.
const BACKEND: (&str, &str) =
    ("examples/lab/slow_backend.toml", "<!-- generated: slow backend -->");

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => write(&root()),
        ["--check"] => check(&root()),
        _ => Err(anyhow::anyhow!("this takes --check or nothing, not {}", words.join(" "))),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// The project's folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Writes every part that is stale.
fn write(root: &Path) -> Result<bool> {
    for DocPart { path, text } in stale(root)? {
        std::fs::write(root.join(&path), text).with_context(|| format!("cannot write {path}"))?;
        eprintln!("{path}: written");
    }
    Ok(true)
}

/// Names every part that is stale; whether there is none.
fn check(root: &Path) -> Result<bool> {
    let stale = stale(root)?;
    for DocPart { path, .. } in &stale {
        eprintln!("{path}: stale; run `cargo xtask docs`");
    }
    Ok(stale.is_empty())
}

/// The parts that are not on disk as they should be. A file that is not there yet is stale.
fn stale(root: &Path) -> Result<Vec<DocPart>> {
    let mut parts = parts(root)?;
    parts.retain(|part| {
        !std::fs::read_to_string(root.join(&part.path)).is_ok_and(|found| found == part.text)
    });
    Ok(parts)
}

/// A file, as it should be.
struct DocPart {
    path: String,
    text: String,
}

fn parts(root: &Path) -> Result<Vec<DocPart>> {
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
    };
    let mut parts = Vec::new();
    let rows: Vec<String> = Strategy::RATES
        .iter()
        .map(|strategy| row(*strategy, &format!("[`{strategy}`]({})", page(*strategy))))
        .collect::<Result<_>>()?;
    let path = "README.md".to_owned();
    let text = with_part(&path, &read(&path)?, BEGIN, &table(&rows.concat()))?;
    parts.push(DocPart { path, text });
    for strategy in Strategy::RATES {
        let path = page(*strategy);
        let row = row(*strategy, &format!("`{strategy}`"))?;
        let text = with_part(&path, &read(&path)?, BEGIN, &table(&row))?;
        parts.push(DocPart { path, text });
    }
    for (page, programs) in EXAMPLES {
        let mut text = read(page)?;
        for (file, language) in programs {
            let shown = format!("```{language}\n{}```\n", read(file)?);
            text = with_part(page, &text, &format!("<!-- generated: {file} -->"), &shown)?;
        }
        parts.push(DocPart { path: page.to_owned(), text });
    }
    let leases = run(root, LEASES.0)?;
    let path = "docs/leases.md".to_owned();
    let text = with_part(&path, &read(&path)?, LEASES.1, &nodes(&leases)?)?;
    parts.push(DocPart { path, text });
    let slow = run(root, BACKEND.0)?;
    let path = "docs/holds.md".to_owned();
    let text = with_part(&path, &read(&path)?, BACKEND.1, &backends(&slow)?)?;
    parts.push(DocPart { path, text });
    let zoo = run_of(&experiment::zoo(400, 300, 1)?)?;
    let pictures = chart::all(&zoo);
    let (path, begin) = (ZOO.0.to_owned(), ZOO.1);
    let text = with_part(&path, &read(&path)?, begin, &zoo_part(&zoo, &pictures)?)?;
    parts.push(DocPart { path, text });
    let charts = [
        ("picture".to_owned(), over_time(&run(root, PICTURE)?)),
        ("queue".to_owned(), queue(&queues()?)?),
        ("leases".to_owned(), questions(&leases).context("no case has nodes")?),
        ("backend".to_owned(), backend(&slow).context("nothing reached a backend")?),
    ];
    let pictures = pictures.into_iter().map(|(name, chart)| (format!("zoo-{name}"), chart));
    for (name, chart) in charts.into_iter().chain(pictures) {
        for (suffix, theme) in [("", Theme::Light), ("-dark", Theme::Dark)] {
            let text = chart.svg(Look::new(theme, Width::Wide));
            parts.push(DocPart { path: format!("docs/{name}{suffix}.svg"), text });
        }
    }
    Ok(parts)
}

/// The page of a strategy, from the root of the project.
fn page(strategy: Strategy) -> String {
    let name = strategy.name();
    format!("{STRATEGIES}{name}/{name}.md")
}

fn table(rows: &str) -> String {
    format!(
        "| `{QUOTA}` via | most in any 1m | demand never ends | bytes of state per subject | bursts |\n\
         | --- | --- | --- | --- | --- |\n{rows}"
    )
}

/// One row of the table: the meaning of the sample quota under a strategy.
fn row(strategy: Strategy, name: &str) -> Result<String> {
    let set = LimitSet::parse_with(QUOTA, strategy)?;
    let [limit] = set.limits() else { bail!("`{QUOTA}` is not one limit") };
    let traits = strategy.traits(limit.quota());
    let (window, rate) = (traits.worst_window, traits.sustained);
    Ok(format!("| {name} | {window} | {rate} | {} | {} |\n", traits.bytes, traits.burst))
}

/// The table of an experiment with nodes: a row for each case.
fn nodes(results: &Results) -> Result<String> {
    let mut table =
        "| nodes | lease | decisions for each question | most in any 1s | without leases \
                     | bound | admitted beside one count |\n\
                     | --- | --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    for case in &results.cases {
        let (Some(nodes), [limit]) = (&case.nodes, &case.limits[..]) else {
            bail!("`{}` is not one limit on nodes", case.name)
        };
        let set: LimitSet = limit.limit.parse()?;
        let [alone] = set.limits() else { bail!("`{}` is not one limit", limit.limit) };
        let lease = nodes.leases.first().map_or("none", String::as_str);
        let worst = alone.strategy().traits(alone.quota()).worst_window;
        let each = nodes.per_question.unwrap_or_default();
        let difference = 100.0 * nodes.difference.unwrap_or_default();
        writeln!(
            table,
            "| {} | {lease} | {each:.1} | {} | {worst} | {} | {difference:+.1} % |",
            nodes.number, limit.peak, limit.promise
        )?;
    }
    Ok(table)
}

/// The table of an experiment with a backend: a row for each case.
fn backends(results: &Results) -> Result<String> {
    let mut table = "| limit | denied | most in flight | half done within | 99 of 100 within \
                     | queue empty after |\n\
                     | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for case in &results.cases {
        let (Some(backend), names) = (&case.backend, case.limits.iter().map(|it| &it.limit)) else {
            bail!("`{}` has no backend", case.name)
        };
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(" and ") };
        let latency = backend.latency_us.as_ref().context("nothing was done")?;
        let recovered = backend.recovered_us.map_or_else(|| "never".to_owned(), seconds);
        let (half, most) = (seconds(latency.p50), seconds(latency.p99));
        writeln!(
            table,
            "| {names} | {} | {} | {half} | {most} | {recovered} |",
            case.denied, backend.in_flight_max
        )?;
    }
    Ok(table)
}

/// Microseconds as seconds with two decimals, rounded up.
fn seconds(us: u64) -> String {
    let hundredths = us.div_ceil(10_000);
    format!("{}.{:02} s", hundredths / 100, hundredths % 100)
}

/// The picture of a backend: requests in flight, their latency, and the denied ones.
fn backend(results: &Results) -> Option<Chart> {
    Some(in_flight(results)?.above(service(results)?.above(served(results)?)))
}

/// The name of a figure, and its value of a case.
type FigureRow<'f> = (&'f str, &'f dyn Fn(&CaseResult) -> String);

/// The questions of the Zoo, each with its picture and its answer; and the findings and figures.
fn zoo_part(results: &Results, pictures: &[(&str, Chart)]) -> Result<String> {
    let mut part = String::new();
    for (name, chart) in pictures {
        let question = ZOO_QUESTIONS.iter().find(|(of, _)| of == name);
        let (_, question) = question.with_context(|| format!("`{name}` answers no question"))?;
        writeln!(
            part,
            "### {question}\n\n{}\n\n<picture>\n  <source media=\"(prefers-color-scheme: dark)\" \
             srcset=\"zoo-{name}-dark.svg\">\n  <img src=\"zoo-{name}.svg\" alt=\"{}\">\n</picture>\n",
            chart.says(),
            chart.title()
        )?;
    }
    part += "### The figures\n\n| |";
    part += &results.cases.iter().map(|case| format!(" {} |", case.name)).collect::<String>();
    part += &format!("\n| --- |{}\n", " --- |".repeat(results.cases.len()));
    let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |it| it.to_string());
    let most = |case: &CaseResult| case.most_admitted.as_ref().map(|it| it.admitted);
    let rows: [FigureRow<'_>; 7] = [
        ("calls", &|case| case.attempts.to_string()),
        ("let through, or accepted", &|case| case.admitted.to_string()),
        ("denied, or refused", &|case| case.denied.to_string()),
        ("most in any 10 s", &|case| number(case.peak)),
        ("most of one caller", &|case| number(most(case))),
        ("keys", &|case| number(case.keys)),
        ("bytes", &|case| number(case.bytes)),
    ];
    for (name, of) in rows {
        let values = results.cases.iter().map(|case| format!(" {} |", of(case)));
        writeln!(part, "| {name} |{}", values.collect::<String>())?;
    }
    part.push('\n');
    for finding in &results.findings {
        writeln!(part, "- {finding}")?;
    }
    Ok(part)
}

/// The results of an experiment file: the decisions of the engine itself.
fn run(root: &Path, file: &str) -> Result<Results> {
    run_of(&Experiment::load(&root.join(file))?)
}

fn run_of(experiment: &Experiment) -> Result<Results> {
    Ok(experiment::run(experiment, &mut InMemory::default(), |_| ())?)
}

/// The results of `tollgate lab queue`: the answers of the queue itself.
fn queues() -> Result<Results> {
    run_of(&Queueing::default().experiment(1)?)
}

/// The picture of queues: accepted and refused jobs, and below them how many waited.
fn queue(results: &Results) -> Result<Chart> {
    let (Some(offers), Some(depth)) = (offers(results), depth(results)) else {
        bail!("the lab has no queues")
    };
    Ok(offers.above(depth))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_say_what_the_engine_does() {
        assert!(check(&root()).unwrap(), "stale: run `cargo xtask docs`");
    }

    #[test]
    fn the_page_of_the_zoo_shows_what_the_article_says() {
        let results = run_of(&experiment::zoo(400, 300, 1).unwrap()).unwrap();
        let [gates, log, queue] = &results.cases[..] else { panic!("{:?}", results.findings) };
        assert!(gates.peak > Some(400), "the gang passes its gates");
        assert!(log.peak == Some(300) && queue.peak <= Some(300), "the others hold");
        assert!(gates.keys > Some(400) && log.keys == Some(1), "a key for each caller");
        let most = |case: &CaseResult| case.most_admitted.as_ref().unwrap().clone();
        assert_eq!(most(log).client, "bob", "the fastest wins");
        assert!(most(gates).admitted < 5, "and not by gates");
    }

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
    fn the_page_of_holds_shows_that_slots_keep_a_slow_backend_short() {
        let results = run(&root(), BACKEND.0).unwrap();
        let of: Vec<_> = results.cases.iter().filter_map(|it| it.backend.as_ref()).collect();
        let [none, rate, slots, both] = &of[..] else { panic!("{:?}", results.findings) };
        assert!(none.in_flight_max > 4_000 && rate.in_flight_max > 4_000);
        assert_eq!((slots.in_flight_max, both.in_flight_max), (20, 20));
        assert!(slots.recovered_us < Some(1_000_000) && rate.recovered_us > Some(20_000_000));
        assert_eq!(seconds(1_230_001), "1.24 s");
    }

    #[test]
    fn the_page_of_leases_shows_a_bound_that_holds() {
        let results = run(&root(), LEASES.0).unwrap();
        assert!(results.cases.iter().all(|case| case.limits[0].holds), "{:?}", results.findings);
        let asked = |name: &str| {
            let case = results.cases.iter().find(|case| case.name == name);
            case.and_then(|case| case.nodes.as_ref()?.per_question).unwrap()
        };
        assert!((0.99..1.01).contains(&asked("no lease, 1000 nodes")));
        assert!(asked("lease auto, 1 node") > 20.0 * asked("no lease, 1 node"));
        assert!(asked("lease auto, 1000 nodes") > 1.0);
    }

    #[test]
    fn the_picture_shows_the_worst_window_of_every_strategy() {
        let results = run(&root(), PICTURE).unwrap();
        for strategy in Strategy::RATES {
            let limits = results.cases.iter().flat_map(|case| &case.limits);
            let limit = limits.clone().find(|limit| limit.strategy == strategy.name());
            let limit = limit.unwrap_or_else(|| panic!("`{strategy}` is not in {PICTURE}"));
            // The client is greedy enough to reach the worst window, and no more gets through.
            assert_eq!(limit.peak, limit.promise, "{limit:?}");
        }
    }
}
