//! What is drawn, before anybody knows how large.

use super::look::Ink;

/// What the vertical axis of all panels means.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Scale {
    /// A count from 0 to `top`.
    Count { unit: String, top: u64 },
    /// A time from 0 to `top_us`.
    Time { unit: String, top_us: u64 },
    /// A row for each of [`Panel::rows`].
    Rows { unit: String },
}

impl Scale {
    pub(super) fn unit(&self) -> &str {
        match self {
            Self::Count { unit, .. } | Self::Time { unit, .. } | Self::Rows { unit } => unit,
        }
    }
}

/// A line of the legend.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Key {
    pub(super) shape: Shape,
    pub(super) ink: Ink,
    pub(super) text: String,
}

/// How something is drawn: shapes are told apart where colours are not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    Area,
    Line,
    Dashes,
    /// In the upper part of a row.
    High,
    /// In the lower part of a row, and half as tall.
    Low,
}

/// One case.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Panel {
    pub(super) name: String,
    /// Its figures in short.
    pub(super) note: String,
    /// The labels of its rows, from the top, where the scale has rows.
    pub(super) rows: Vec<String>,
    pub(super) marks: Vec<Mark>,
}

/// Something in a panel.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Mark {
    /// Columns from 0 up.
    Area { ink: Ink, series: Series },
    /// What of columns is above a level.
    Above { ink: Ink, level: f64, series: Series },
    /// The outline of columns.
    Line { ink: Ink, series: Series },
    /// A level from the left to the right.
    Level(f64),
    /// Single moments in rows.
    Moments { ink: Ink, shape: Shape, runs: Vec<Run> },
}

/// Values over time, one column after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Series {
    pub(super) column_us: u64,
    pub(super) values: Vec<u64>,
}

/// Moments of a row, so close that they touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) row: usize,
    pub(super) from_us: u64,
    pub(super) to_us: u64,
}
