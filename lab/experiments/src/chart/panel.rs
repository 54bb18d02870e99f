//! The content of panels, independent of their size.

use super::look::Ink;

/// The parts of a whole, in which shares are counted.
pub(super) const WHOLE: u64 = 1_000_000_000;

/// The quantity on the vertical axis of all panels.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Scale {
    /// A count from 0 to `top`.
    Count { unit: String, top: u64 },
    /// A time from 0 to `top_us`.
    Time { unit: String, top_us: u64 },
    /// A count of 1 or more on a logarithmic scale, up to `top`; 0 is at the bottom too.
    Counts { unit: String, top: u64 },
    /// A time of at least `least_us` on a logarithmic scale.
    Times { unit: String, least_us: u64, top_us: u64 },
    /// A share in parts of [`WHOLE`] on a logarithmic scale, and nobody at the bottom; `least` is
    /// the smallest share above.
    Shares { unit: String, least: u64 },
    /// A row for each of [`Panel::rows`].
    Rows { unit: String },
}

impl Scale {
    pub(super) fn unit(&self) -> &str {
        match self {
            Self::Count { unit, .. }
            | Self::Time { unit, .. }
            | Self::Counts { unit, .. }
            | Self::Times { unit, .. }
            | Self::Shares { unit, .. }
            | Self::Rows { unit } => unit,
        }
    }

    /// Whether it is logarithmic: the length of a bar means nothing on it.
    pub(super) fn is_logarithmic(&self) -> bool {
        matches!(self, Self::Counts { .. } | Self::Times { .. } | Self::Shares { .. })
    }
}

/// An entry of the legend.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Key {
    pub(super) shape: Shape,
    pub(super) ink: Ink,
    pub(super) text: String,
}

/// The shape of marks: shapes distinguish them where colours do not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    Area,
    Line,
    Dashes,
    /// A square at one moment.
    Dot,
    /// In the upper part of a row.
    High,
    /// In the lower part of a row, at half the height.
    Low,
}

/// The panel of one case.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Panel {
    pub(super) name: String,
    /// Its main figures in short.
    pub(super) note: String,
    /// The labels of its rows from top to bottom, if the scale has rows.
    pub(super) rows: Vec<String>,
    pub(super) marks: Vec<Mark>,
}

/// A mark in a panel.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Mark {
    /// Filled columns from 0.
    Area { ink: Ink, series: Series },
    /// The parts of columns above a level.
    Above { ink: Ink, level: f64, series: Series },
    /// The outline of columns.
    Line { ink: Ink, series: Series },
    /// A time that is marked, behind everything else.
    Band { from_us: u64, until_us: u64 },
    /// A horizontal level line.
    Level(f64),
    /// One point with its name, and a line across the panel.
    Point { at: u64, value: u64, text: String },
    /// Single moments in rows.
    Moments { ink: Ink, shape: Shape, runs: Vec<Run> },
}

/// Values over time, one per column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Series {
    pub(super) column_us: u64,
    pub(super) values: Vec<u64>,
}

/// Moments of a row that touch each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) row: usize,
    pub(super) from_us: u64,
    pub(super) to_us: u64,
}
