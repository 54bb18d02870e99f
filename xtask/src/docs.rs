//! `cargo xtask docs`: writes the parts of the documents that come from the engine, so that no
//! table and no picture can say something else than the code does.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kuva::backend::svg::SvgBackend;
use kuva::plot::Histogram;
use kuva::render::annotations::ReferenceLine;
use kuva::render::figure::Figure;
use kuva::render::layout::{Layout, TickFormat};
use kuva::render::plots::Plot;
use kuva::render::theme::Theme;
use tollgate::{Limit, LimitSet, Limiter, ManualClock, MemoryStore, Strategy};

use crate::tidy::STRATEGIES;
use crate::tree::Tree;

/// The line that opens a generated part; a line [`END`] closes it.
const BEGIN: &str = "<!-- generated: which-one -->";

/// Programs that a page shows as they stand, each with the language of its block. The line that
/// opens the part names the file.
const EXAMPLES: [(&str, &str); 3] = [
    ("examples/redis/limit.sh", "sh"),
    ("examples/redis/limit.py", "python"),
    ("examples/redis/limit.mjs", "js"),
];

/// The page that shows them.
const REDIS_PAGE: &str = "docs/redis.md";

const END: &str = "<!-- end -->";

/// The quota of every row of the table.
const QUOTA: &str = "60/m";

/// What the picture shows, one panel each: every strategy at least once (a test sees to it).
/// `gcra` has a burst of its own, since with the default one it lets through what a token bucket
/// does.
const PANELS: [&str; 6] = [
    "60/m via uniform",
    "60/m via fixed_window",
    "60/m via sliding_log",
    "60/m via sliding_window",
    "60/m via token_bucket",
    "60/m burst 10 via gcra",
];

/// The client of the picture asks this often, in milliseconds, and goes on for this long.
const ASK_EVERY_MS: u64 = 250;
const SECONDS: u64 = 120;

/// It begins 45 s into a minute, so that a window's edge falls into its first burst.
const BEGIN_S: u64 = 45;

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
    let mut text = read(REDIS_PAGE)?;
    for (file, language) in EXAMPLES {
        let shown = format!("```{language}\n{}```\n", read(file)?);
        text = with_part(REDIS_PAGE, &text, &format!("<!-- generated: {file} -->"), &shown)?;
    }
    parts.push(Part { path: REDIS_PAGE.to_owned(), text });
    for (path, look) in [("docs/picture.svg", LIGHT), ("docs/picture-dark.svg", DARK)] {
        parts.push(Part { path: path.to_owned(), text: picture(look)? });
    }
    Ok(parts)
}

/// The page of a strategy, from the root of the project.
fn page(strategy: Strategy) -> String {
    let name = strategy.name();
    format!("{STRATEGIES}{name}/{name}.md")
}

/// The text with its generated part replaced.
fn with_part(path: &str, text: &str, begin: &str, part: &str) -> Result<String> {
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

/// What a limit let through.
struct Admitted {
    /// The units admitted in each second of the client's life.
    per_second: Vec<u32>,
    /// The most in any half-open window as long as the limit's.
    peak: usize,
}

/// Asks the engine itself, on a clock that stands still between the questions.
fn admitted(limit: &Limit) -> Result<Admitted> {
    let clock = ManualClock::at_micros(BEGIN_S * 1_000_000);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limiter = Limiter::new(limit.clone().into(), store);
    let window_us = limit.quota().period.as_micros();
    let (mut recent, mut peak) = (VecDeque::new(), 0);
    let mut per_second = Vec::new();
    for _ in 0..SECONDS {
        let mut count = 0;
        for _ in 0..1000 / ASK_EVERY_MS {
            let decision = limiter.check_now("client")?;
            if decision.is_allowed() {
                count += 1;
                let now_us = decision.at().as_micros();
                recent.push_back(now_us);
                while recent.front().is_some_and(|first| first + window_us <= now_us) {
                    recent.pop_front();
                }
                peak = peak.max(recent.len());
            }
            clock.advance(Duration::from_millis(ASK_EVERY_MS));
        }
        per_second.push(count);
    }
    Ok(Admitted { per_second, peak })
}

/// The colours of one of GitHub's two themes.
#[derive(Clone, Copy)]
struct Look {
    background: &'static str,
    text: &'static str,
    faint: &'static str,
    bars: &'static str,
    edges: &'static str,
}

const LIGHT: Look = Look {
    background: "#ffffff",
    text: "#1f2328",
    faint: "#d8dee4",
    bars: "#0969da",
    edges: "#bc4c00",
};

const DARK: Look = Look {
    background: "#0d1117",
    text: "#e6edf3",
    faint: "#2a313a",
    bars: "#4493f8",
    edges: "#db6d28",
};

impl Look {
    fn theme(self) -> Theme {
        let [background, text, faint] = [self.background, self.text, self.faint].map(String::from);
        Theme {
            background: background.clone(),
            axis_color: text.clone(),
            grid_color: faint.clone(),
            tick_color: text.clone(),
            text_color: text,
            legend_bg: background,
            legend_border: faint,
            show_grid: true,
            ..Theme::light()
        }
    }
}

/// The picture of the README: one greedy client, every strategy.
fn picture(look: Look) -> Result<String> {
    let (mut plots, mut layouts) = (Vec::new(), Vec::new());
    for (index, text) in PANELS.iter().enumerate() {
        let limit: Limit = text.parse()?;
        let seen = admitted(&limit)?;
        let (edges, counts) = bars_of(&seen.per_second);
        let bars = Histogram::new().with_precomputed(edges, counts).with_color(look.bars);
        let panel: Vec<Plot> = vec![bars.into()];
        layouts.push(layout(look, &panel, text, &seen, index + 2 >= PANELS.len()));
        plots.push(panel);
    }
    let rate = 1000 / ASK_EVERY_MS;
    let title = format!("One client asks {rate} times a second: what gets through, per second");
    let scene = Figure::new(PANELS.len().div_ceil(2), 2)
        .with_plots(plots)
        .with_layouts(layouts)
        .with_title(title)
        .with_title_size(17)
        .with_cell_size(440.0, 168.0)
        .with_spacing(4.0)
        .with_padding(8.0)
        .render();
    Ok(SvgBackend::default().with_pretty(true).render_scene(&scene))
}

/// The edges of bars and their heights: seconds that are alike side by side are one bar, without
/// seams.
fn bars_of(per_second: &[u32]) -> (Vec<f64>, Vec<f64>) {
    let (mut edges, mut heights) = (vec![0.0], Vec::new());
    let mut at = 0.0;
    for alike in per_second.chunk_by(|a, b| a == b) {
        at += alike.iter().map(|_| 1.0).sum::<f64>();
        edges.push(at);
        heights.extend(alike.first().copied().map(f64::from));
    }
    (edges, heights)
}

fn layout(look: Look, panel: &[Plot], text: &str, seen: &Admitted, last: bool) -> Layout {
    let total: u32 = seen.per_second.iter().sum();
    let title = format!("{text}: {total} admitted, at most {} in 1m", seen.peak);
    let mut layout = Layout::auto_from_plots(panel)
        .with_theme(look.theme())
        .with_title(title)
        .with_title_size(13)
        .with_label_size(12)
        .with_tick_size(11)
        .with_x_axis_min(0.0)
        .with_x_axis_max(SECONDS as f64)
        .with_x_tick_step(15.0)
        .with_y_axis_min(0.0)
        .with_y_axis_max(5.0)
        .with_y_tick_step(1.0)
        .with_tick_format(TickFormat::Integer)
        .with_force_margins_y(30.0, 42.0);
    if last {
        layout = layout.with_x_label("seconds; dashed: a full minute on the clock");
    }
    for minute in 1..=(BEGIN_S + SECONDS) / 60 {
        let second = minute * 60 - BEGIN_S;
        layout = layout.with_reference_line(
            ReferenceLine::vertical(second as f64).with_color(look.edges).with_stroke_width(1.5),
        );
    }
    layout
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_is_in_the_picture() {
        for strategy in Strategy::ALL {
            let shown = PANELS.iter().any(|text| {
                let limit: Limit = text.parse().unwrap();
                limit.strategy() == *strategy
            });
            assert!(shown, "`{strategy}` has no panel: add it to PANELS");
        }
    }

    #[test]
    fn the_picture_shows_the_worst_window_of_the_table() {
        for text in PANELS {
            let limit: Limit = text.parse().unwrap();
            let seen = admitted(&limit).unwrap();
            let worst = limit.strategy().traits(limit.quota()).worst_window;
            // The client is greedy enough to reach the worst window, and no more gets through.
            assert_eq!(u64::try_from(seen.peak).unwrap(), worst, "{text}");
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

    #[test]
    fn equal_seconds_are_one_bar() {
        let (edges, heights) = bars_of(&[4, 4, 0, 1]);
        assert_eq!((edges, heights), (vec![0.0, 2.0, 3.0, 4.0], vec![4.0, 0.0, 1.0]));
    }
}
