//! The field that the panels of a chart share: axes, grid, and what is drawn in it.

use kuva::render::render::TextAnchor;

use super::Chart;
use super::axis::{self, Across, Unit};
use super::label::Font;
use super::look::{Ink, Width};
use super::panel::{Mark, Panel, Scale, Series, Shape};
use super::sheet::{At, Path, Rect, Sheet};
use crate::figure::real;
use crate::text::printable;

/// Around everything.
pub(super) const MARGIN: f64 = 12.0;
pub(super) const TICKS: Font = Font::plain(11);
pub(super) const TEXT: Font = Font::plain(12);
const NAME: Font = Font::bold(13);
/// Between a label of the vertical axis and the panel.
const GAP: f64 = 7.0;
/// How high a row is.
const ROW: f64 = 17.0;
/// The length of a dash; the gap after it is a little shorter.
const DASH: f64 = 5.0;

/// The field of a panel: the same for all of them.
pub(super) struct Plot<'a> {
    scale: &'a Scale,
    across: Across,
    /// The marks of the horizontal axis.
    marks: Vec<(u64, String)>,
    /// The marks of the vertical axis, and what they say; the last is its top.
    counts: Vec<(u64, String)>,
    pub(super) left: f64,
    pub(super) width: f64,
    shape: Width,
    is_low: bool,
}

impl<'a> Plot<'a> {
    pub(super) fn new(chart: &'a Chart, shape: Width) -> Self {
        let across = chart.across;
        let upwards = |top: u64, one: u64| {
            let ticks = axis::ticks(top.div_ceil(one).max(1), shape.pick(4, 3)).into_iter();
            let counts = ticks.map(|count| (count.saturating_mul(one), count.to_string()));
            let counts: Vec<_> = counts.collect();
            let widest = counts.iter().map(|(_, says)| TICKS.width(says)).fold(0.0, f64::max);
            (counts, widest)
        };
        let (counts, labels) = match &chart.scale {
            Scale::Count { top, .. } => upwards(*top, 1),
            Scale::Time { top_us, .. } => upwards(*top_us, Unit::of(*top_us).us),
            Scale::Rows { .. } => {
                let rows = chart.panels.iter().flat_map(|panel| &panel.rows);
                let widest = rows.map(|row| TICKS.width(row)).fold(0.0, f64::max);
                (Vec::new(), widest.min(shape.pick(150.0, 112.0)))
            }
        };
        let left = MARGIN + labels + GAP;
        // On the right there is room for half of the last label.
        let last = TICKS.width(&across.end());
        let width = shape.pixels() - left - (last / 2.0 + 6.0).max(MARGIN + 6.0);
        // As many as fit side by side.
        let room = |most: &u8| f64::from(*most) * (last + 12.0) <= width;
        let most = (2..=shape.pick(12, 6)).rev().find(room).unwrap_or(1);
        let marks = across.marks(most);
        Self {
            scale: &chart.scale,
            across,
            marks,
            counts,
            left,
            width,
            shape,
            is_low: chart.is_low,
        }
    }

    fn x(&self, at_us: u64) -> f64 {
        self.left + self.width * self.across.place(at_us)
    }

    /// Draws a panel from `top` down; returns where it ends.
    pub(super) fn panel(&self, sheet: &mut Sheet, panel: &Panel, top: f64) -> f64 {
        let top = self.header(sheet, panel, top);
        let height = match self.scale {
            Scale::Count { .. } | Scale::Time { .. } if self.is_low => 68.0,
            Scale::Count { .. } | Scale::Time { .. } => self.shape.pick(110.0, 100.0),
            Scale::Rows { .. } => (real_len(panel.rows.len()) * ROW).max(16.0),
        };
        let field = Rect { at: At { x: self.left, y: top }, width: self.width, height };
        self.grid(sheet, panel, field);
        for mark in &panel.marks {
            self.mark(sheet, mark, field);
        }
        let bottom = top + height;
        sheet.boxes(Ink::Muted, [Rect { at: At { y: bottom, ..field.at }, height: 1.0, ..field }]);
        for (at_us, says) in &self.marks {
            let at = At { x: self.x(*at_us), y: bottom + 14.0 };
            sheet.text(at, TextAnchor::Middle, (TICKS, Ink::Muted), says.clone());
        }
        bottom + 20.0
    }

    /// The name, and the note beside it or, where it is narrow, below.
    fn header(&self, sheet: &mut Sheet, panel: &Panel, top: f64) -> f64 {
        let right = sheet.width() - MARGIN;
        let note_width = TEXT.width(&panel.note);
        let y = top + 14.0;
        let room = self.shape.pick(right - MARGIN - note_width - 16.0, right - MARGIN);
        let name = NAME.fit(&printable(panel.name.as_bytes(), 200), room);
        sheet.text(At { x: MARGIN, y }, TextAnchor::Start, (NAME, Ink::Text), name);
        let note = TEXT.fit(&panel.note, right - MARGIN);
        match self.shape {
            Width::Wide => {
                let at = At { x: self.left + self.width, y };
                sheet.text(at, TextAnchor::End, (TEXT, Ink::Muted), note);
                y + 8.0
            }
            Width::Narrow => {
                let at = At { x: MARGIN, y: y + 16.0 };
                sheet.text(at, TextAnchor::Start, (TEXT, Ink::Muted), note);
                y + 27.0
            }
        }
    }

    fn grid(&self, sheet: &mut Sheet, panel: &Panel, field: Rect) {
        let upright = |(at_us, _): &(u64, String)| Rect {
            at: At { x: self.x(*at_us) - 0.5, ..field.at },
            width: 1.0,
            ..field
        };
        sheet.boxes(Ink::Grid, self.marks.iter().map(upright));
        let level = |y: f64| Rect { at: At { y, ..field.at }, height: 1.0, ..field };
        let mut labels = Vec::new();
        match self.scale {
            Scale::Count { .. } | Scale::Time { .. } => {
                for (count, says) in &self.counts {
                    labels.push((self.y(real(*count), field), says.clone()));
                }
                sheet.boxes(Ink::Grid, labels.iter().map(|(y, _)| level(*y)));
            }
            Scale::Rows { .. } => {
                let rows = panel.rows.iter().enumerate();
                labels.extend(
                    rows.map(|(index, row)| {
                        (field.at.y + ROW * (real_len(index) + 0.5), row.clone())
                    }),
                );
                let lines = labels.iter().map(|(y, _)| level(y - ROW / 2.0));
                sheet.boxes(Ink::Grid, lines);
            }
        }
        for (y, text) in labels {
            let text = TICKS.fit(&text, field.at.x - MARGIN - GAP + 1.0);
            let at = At { x: field.at.x - GAP, y: y + 4.0 };
            sheet.text(at, TextAnchor::End, (TICKS, Ink::Muted), text);
        }
    }

    /// Where a count is.
    fn y(&self, count: f64, field: Rect) -> f64 {
        let top = self.counts.last().map_or(1.0, |(top, _)| real(*top)).max(1.0);
        field.at.y + field.height * (1.0 - (count / top).min(1.0))
    }

    fn mark(&self, sheet: &mut Sheet, mark: &Mark, field: Rect) {
        match mark {
            Mark::Area { ink, series } => sheet.fill(*ink, self.outline(series, 0.0, field)),
            Mark::Above { ink, level, series } => {
                sheet.fill(*ink, self.outline(series, *level, field));
            }
            Mark::Line { ink, series } => {
                sheet.stroke(*ink, 1.4, self.outline(series, 0.0, field));
            }
            Mark::Level(level) => {
                let from = At { y: self.y(*level, field), ..field.at };
                dashes(sheet, from, field.at.x + field.width);
            }
            Mark::Moments { ink, shape, runs } => {
                // What a single attempt is wide at least, to be seen.
                let thin = self.shape.pick(1.3, 0.8);
                let (above, height) = lane(*shape);
                sheet.boxes(
                    *ink,
                    runs.iter().map(|run| {
                        let x = self.x(run.from_us).min(field.at.x + field.width - thin);
                        Rect {
                            at: At { x, y: field.at.y + ROW * (real_len(run.row) + above) },
                            width: (self.x(run.to_us) - x).max(thin),
                            height: ROW * height,
                        }
                    }),
                );
            }
        }
    }

    /// The outline of the columns that are higher than `base`, from there up; columns that are
    /// alike are one.
    fn outline(&self, series: &Series, base: f64, field: Rect) -> Path {
        let bottom = self.y(base, field);
        let mut path = Path::default();
        let mut start = 0_u64;
        let mut is_open = false;
        for alike in series.values.chunk_by(|a, b| a == b) {
            let value = alike.first().copied().map_or(0.0, real);
            let end = start.saturating_add(u64::try_from(alike.len()).unwrap_or(u64::MAX));
            let [from, to] =
                [start, end].map(|column| self.x(column.saturating_mul(series.column_us)));
            if value > base {
                if !is_open {
                    path.start(At { x: from, y: bottom });
                }
                path.down(self.y(value, field)).right(to);
            } else if is_open {
                path.down(bottom);
            }
            is_open = value > base;
            start = end;
        }
        if is_open {
            path.down(bottom);
        }
        path
    }
}

/// A number of rows as a place on paper.
fn real_len(len: usize) -> f64 {
    real(u64::try_from(len).unwrap_or(u64::MAX))
}

/// Dashes as rectangles, which are sharp in SVG and PNG alike, on a light ground, so that they are
/// seen on paper and on any colour.
pub(super) fn dashes(sheet: &mut Sheet, from: At, right: f64) {
    let bar = |x: f64, width: f64, height: f64| Rect {
        at: At { x, y: from.y - height / 2.0 },
        width: width.min(right - x),
        height,
    };
    sheet.boxes(Ink::Paper, [bar(from.x, right - from.x, 2.5)]);
    let starts = std::iter::successors(Some(from.x), |x| Some(x + 1.6 * DASH));
    let starts = starts.take_while(|x| *x < right);
    sheet.boxes(Ink::Text, starts.map(|x| bar(x, DASH, 1.5)));
}

/// Where marks are in a row: what is above them and how tall they are, as parts of the row.
pub(super) fn lane(shape: Shape) -> (f64, f64) {
    match shape {
        Shape::High => (0.08, 0.5),
        Shape::Low => (0.66, 0.26),
        Shape::Area => (0.25, 0.5),
        Shape::Line | Shape::Dashes => (0.44, 0.12),
    }
}
