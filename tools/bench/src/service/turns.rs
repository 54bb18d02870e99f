//! Runs of several sides in turns, and their figures.

use core::fmt;

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use crate::show;
use crate::stolen::{Taken, undisturbed};

/// One way to ask, with the medians of its runs.
#[derive(Debug, Serialize)]
pub(crate) struct RowJson {
    pub(crate) what: String,
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Where it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_us: Option<f64>,
    /// Beside the next row.
    #[serde(flatten)]
    pub(crate) beside: Option<BesideJson>,
    /// Runs that did not count, since others had the processors.
    pub(crate) taken_again: u32,
    /// Runs that count though others had the processors.
    pub(crate) disturbed: u32,
}

/// One side over the other in each turn, since a processor that is shared can be half as fast a
/// second later.
#[derive(Debug, Serialize)]
pub(crate) struct BesideJson {
    /// The median of the turns.
    pub(crate) ratio: f64,
    /// A quarter of the turns are below.
    pub(crate) ratio_low: f64,
    /// A quarter of the turns are above.
    pub(crate) ratio_high: f64,
    #[serde(flatten)]
    pub(crate) bar: Bar,
}

/// The comparison, and the ratio that it has to reach.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bar {
    /// The answers a second, at least this much of the other's.
    AtLeast(f64),
    /// The time of the processors for an answer, at most this much of the other's.
    CpuAtMost(f64),
}

impl Bar {
    fn of(self, run: &Run) -> f64 {
        match self {
            Self::AtLeast(_) => run.per_second,
            Self::CpuAtMost(_) => run.cpu_us.unwrap_or(f64::NAN),
        }
    }

    fn is_missed_by(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(least) => ratio < least,
            Self::CpuAtMost(most) => ratio > most,
        }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, ">= {least}"),
            Self::CpuAtMost(most) => write!(f, "CPU <= {most}"),
        }
    }
}

/// A loader's report of one run.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Run {
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    #[serde(default)]
    pub(crate) errors: u64,
    /// The time of the processors that the server took for a command, in microseconds.
    #[serde(default)]
    pub(crate) cpu_us: Option<f64>,
}

/// Loads something once, knowing its run before.
pub(crate) type Load<'s> = Box<dyn Fn(Option<&Run>) -> Result<Run> + 's>;

/// Something that is measured.
pub(crate) struct Side<'s> {
    pub(crate) what: String,
    pub(crate) load: Load<'s>,
    pub(crate) runs: Vec<Taken<Run>>,
}

/// Runs of all sides, one after the other, in turns.
pub(crate) struct Turns {
    runs: u32,
    progress: ProgressBar,
}

impl Turns {
    /// This many runs of each side, with a line that shows how far they are.
    pub(crate) fn new(runs: u32) -> Self {
        let style = show::bar("{spinner} {elapsed} {msg}");
        Self { runs, progress: ProgressBar::new_spinner().with_style(style) }
    }

    /// Clears the line.
    pub(crate) fn end(&self) {
        self.progress.finish_and_clear();
    }

    /// The medians of each side; with a bar, the first is compared with the second.
    pub(crate) fn take(&self, mut sides: Vec<Side<'_>>, bar: Option<Bar>) -> Result<Vec<RowJson>> {
        self.load(&mut sides)?;
        let mut rows: Vec<RowJson> = sides.iter().map(RowJson::from_side).collect();
        if let (Some(bar), [row, ..], [first, second, ..]) = (bar, &mut rows[..], &sides[..]) {
            row.beside = Some(BesideJson::from_turns(&first.runs, &second.runs, bar));
        }
        Ok(rows)
    }

    /// The medians of each side. The first is compared with each other that has a bar, and the
    /// comparison is beside that one.
    pub(crate) fn take_first_over_others(
        &self,
        mut sides: Vec<Side<'_>>,
        bars: &[Option<Bar>],
    ) -> Result<Vec<RowJson>> {
        self.load(&mut sides)?;
        let mut rows: Vec<RowJson> = sides.iter().map(RowJson::from_side).collect();
        if let Some((first, others)) = sides.split_first() {
            for ((row, other), bar) in rows.iter_mut().skip(1).zip(others).zip(bars) {
                row.beside = bar.map(|bar| BesideJson::from_turns(&first.runs, &other.runs, bar));
            }
        }
        Ok(rows)
    }

    /// Loads all sides in turns.
    fn load(&self, sides: &mut [Side<'_>]) -> Result<()> {
        // How many of each may be taken again.
        let mut spare = vec![self.runs; sides.len()];
        for turn in 0..=self.runs {
            for (side, spare) in sides.iter_mut().zip(&mut spare) {
                self.progress.set_message(format!("{} ({turn} of {})", side.what, self.runs));
                let before = side.runs.last().map(|taken| &taken.run);
                let taken = undisturbed(spare, || {
                    self.progress.tick();
                    let run = (side.load)(before)?;
                    if run.errors > 0 {
                        bail!("{}: {} requests were not answered with 200", side.what, run.errors);
                    }
                    Ok(run)
                })?;
                // The first of each fills caches, and does not count.
                if turn == 1 {
                    side.runs.clear();
                }
                side.runs.push(taken);
            }
        }
        Ok(())
    }
}

impl BesideJson {
    fn from_turns(ours: &[Taken<Run>], others: &[Taken<Run>], bar: Bar) -> Self {
        let turns = ours.iter().zip(others);
        let ratios = turns.map(|(ours, other)| bar.of(&ours.run) / bar.of(&other.run));
        let [ratio_low, ratio, ratio_high] = quartiles(ratios.collect());
        Self { ratio, ratio_low, ratio_high, bar }
    }
}

/// The quartiles of the figures, each one of those given.
fn quartiles(mut figures: Vec<f64>) -> [f64; 3] {
    figures.sort_unstable_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| figures.get(figures.len() * quarter / 4).copied().unwrap_or(f64::NAN))
}

impl RowJson {
    /// The head of a table of rows, with the columns that identify groups of them.
    pub(crate) fn header([one, other]: [&str; 2]) -> [&str; 10] {
        ["", one, other, "per second", "p50 ms", "p99 ms", "CPU us", "ratio", "half", "bar"]
    }

    /// The cells under such a head.
    pub(crate) fn cells(&self, [one, other]: [String; 2]) -> [String; 10] {
        let [ratio, half, bar] = self.beside_cells();
        [
            self.what.clone(),
            one,
            other,
            format!("{:.0}", self.per_second),
            format!("{:.3}", self.p50_ms),
            format!("{:.3}", self.p99_ms),
            self.cpu_us.map_or_else(String::new, |cpu_us| format!("{cpu_us:.2}")),
            ratio,
            half,
            bar,
        ]
    }

    /// The ratio, the middle half of the ratios, and the bar, as cells of a table.
    pub(crate) fn beside_cells(&self) -> [String; 3] {
        self.beside.as_ref().map_or_else(Default::default, |beside| {
            let missed = if beside.bar.is_missed_by(beside.ratio) { ": missed" } else { "" };
            [
                format!("{:.2}", beside.ratio),
                format!("{:.2}-{:.2}", beside.ratio_low, beside.ratio_high),
                format!("{}{missed}", beside.bar),
            ]
        })
    }

    fn from_side(side: &Side<'_>) -> Self {
        let median = |of: fn(&Run) -> f64| {
            let [_, median, _] = quartiles(side.runs.iter().map(|taken| of(&taken.run)).collect());
            median
        };
        Self {
            what: side.what.clone(),
            per_second: median(|run| run.per_second),
            p50_ms: median(|run| run.p50_ms),
            p99_ms: median(|run| run.p99_ms),
            cpu_us: Some(median(|run| run.cpu_us.unwrap_or(f64::NAN))).filter(|it| !it.is_nan()),
            beside: None,
            taken_again: side.runs.iter().map(|taken| taken.again).sum(),
            disturbed: side.runs.iter().map(|taken| u32::from(taken.disturbed)).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_figures_that_were_seen() {
        assert_eq!(quartiles((0..15).rev().map(f64::from).collect()), [3.0, 7.0, 11.0]);
        assert_eq!(quartiles(vec![2.0]), [2.0; 3]);
        assert!(quartiles(Vec::new()).iter().all(|figure| figure.is_nan()));
    }

    #[test]
    fn sides_are_compared_turn_by_turn() {
        let runs = |speeds: [f64; 5]| {
            speeds.map(|per_second| {
                let run = Run { per_second, p50_ms: 1.0, p99_ms: 2.0, errors: 0, cpu_us: None };
                Taken { run, again: 0, disturbed: false }
            })
        };
        // A machine that is half as fast for two turns. The medians, 90 and 110, say 0.82.
        let ours = runs([100.0, 50.0, 60.0, 90.0, 120.0]);
        let other = runs([110.0, 40.0, 60.0, 120.0, 120.0]);
        let beside = BesideJson::from_turns(&ours, &other, Bar::AtLeast(0.8));
        assert!((beside.ratio - 1.0).abs() < 1e-9, "{beside:?}");
        assert!((beside.ratio_low - 100.0 / 110.0).abs() < 1e-9, "{beside:?}");
        assert!((beside.ratio_high - 1.0).abs() < 1e-9, "{beside:?}");
    }
}
