//! The plot area that the panels of a chart share: axes, grid, and marks.

use kuva::render::render::TextAnchor;

use super::Chart;
use super::axis::{self, Across, Unit};
use super::label::{Font, LONGEST};
use super::look::{Ink, Width};
use super::panel::{Mark, Panel, Scale, Series, Shape, WHOLE};
use super::sheet::{At, Path, Rect, Sheet};
use crate::figure::{real, span};
use tollgate_logs::text::printable;

/// The margin around everything.
pub(super) const MARGIN: f64 = 12.0;
pub(super) const TICKS: Font = Font::plain(11);
pub(super) const TEXT: Font = Font::plain(12);
const NAME: Font = Font::bold(13);
/// The gap between a label of the vertical axis and the panel.
const GAP: f64 = 7.0;
/// The height of a row.
const ROW: f64 = 17.0;
/// The height of a name's line above its row.
const LINE: f64 = 14.0;
/// The length of a dash; the gap after it is a little shorter.
const DASH: f64 = 5.0;
/// The side of a dot.
const DOT: f64 = 7.5;

/// The plot area of a panel: the same for all of them.
pub(super) struct Plot<'a> {
    scale: &'a Scale,
    across: Across,
    /// The ticks of the horizontal axis.
    marks: Vec<(u64, String)>,
    /// The ticks of the vertical axis, with labels; the last is its top.
    counts: Vec<(u64, String)>,
    pub(super) left: f64,
    pub(super) width: f64,
    shape: Width,
    is_low: bool,
    /// Whether the names of rows are above them, since some would not fit beside them.
    is_above: bool,
}

/// A row of a panel.
struct Row<'p> {
    /// The top of its marks, below that of the plot area.
    top: f64,
    name: &'p str,
    /// The lines of its name.
    lines: Vec<String>,
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
        let decades = |least: u64, top: u64, says: fn(u64) -> String| {
            let counts = axis::decades(least, top, says);
            let widest = counts.iter().map(|(_, says)| TICKS.width(says)).fold(0.0, f64::max);
            (counts, widest)
        };
        let (counts, labels) = match &chart.scale {
            Scale::Count { top, .. } => upwards(*top, 1),
            Scale::Time { top_us, .. } => upwards(*top_us, Unit::for_length(*top_us).us),
            Scale::Counts { top, .. } => decades(1, *top, |count| count.to_string()),
            Scale::Times { least_us, top_us, .. } => decades(*least_us, *top_us, span),
            Scale::Shares { least, .. } => {
                // One decade more, so that nobody is lower than one client.
                let says = |share| axis::percent(share, WHOLE);
                let mut shares = axis::decades(least.saturating_sub(1).max(1), WHOLE, says);
                if let Some((_, says)) = shares.first_mut() {
                    *says = "nobody".into();
                }
                let widest = shares.iter().map(|(_, says)| TICKS.width(says)).fold(0.0, f64::max);
                (shares, widest)
            }
            Scale::Rows { .. } => {
                let rows = chart.panels.iter().flat_map(|panel| &panel.rows);
                (Vec::new(), rows.map(|row| TICKS.width(row)).fold(0.0, f64::max))
            }
        };
        // For the whole picture, so that all rows begin at the same position.
        let is_above =
            matches!(chart.scale, Scale::Rows { .. }) && labels > shape.pick(150.0, 112.0);
        // Both ends need room for half of a label.
        let last = TICKS.width(&across.end());
        let left = if is_above { MARGIN.max(last / 2.0 + 6.0) } else { MARGIN + labels + GAP };
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
            is_above,
        }
    }

    /// The rows of a panel, and their total height.
    fn rows<'p>(&self, panel: &'p Panel) -> (Vec<Row<'p>>, f64) {
        let mut top = 0.0;
        let mut rows = Vec::with_capacity(panel.rows.len());
        for name in &panel.rows {
            let lines = if self.is_above {
                TICKS.break_up(name, self.shape.pixels() - 2.0 * MARGIN)
            } else {
                vec![name.clone()]
            };
            if self.is_above {
                top += LINE * real_len(lines.len()) + 2.0;
            }
            rows.push(Row { top, name, lines });
            top += ROW;
        }
        (rows, top)
    }

    fn x(&self, at_us: u64) -> f64 {
        self.left + self.width * self.across.place(at_us)
    }

    /// Draws a panel from `top` down; returns its lower end.
    pub(super) fn panel(&self, sheet: &mut Sheet, panel: &Panel, top: f64) -> f64 {
        let top = self.header(sheet, panel, top);
        let (rows, high) = self.rows(panel);
        let height = match self.scale {
            Scale::Rows { .. } => high.max(16.0),
            _ if self.is_low => 68.0,
            _ => self.shape.pick(110.0, 100.0),
        };
        let field = Rect { at: At { x: self.left, y: top }, width: self.width, height };
        let bands = panel.marks.iter().filter_map(|mark| match mark {
            Mark::Band { from_us, until_us } => {
                let (x, right) = (self.x(*from_us), self.x(*until_us));
                Some(Rect { at: At { x, ..field.at }, width: right - x, ..field })
            }
            _ => None,
        });
        sheet.boxes(Ink::Band, bands);
        self.grid(sheet, &rows, field);
        for mark in &panel.marks {
            self.mark(sheet, mark, &rows, field);
        }
        let bottom = top + height;
        sheet.boxes(Ink::Muted, [Rect { at: At { y: bottom, ..field.at }, height: 1.0, ..field }]);
        for (at_us, says) in &self.marks {
            let at = At { x: self.x(*at_us), y: bottom + 14.0 };
            sheet.text(at, TextAnchor::Middle, (TICKS, Ink::Muted), says.clone());
        }
        bottom + 20.0
    }

    /// The name, with the note beside it or, if it is narrow, below.
    fn header(&self, sheet: &mut Sheet, panel: &Panel, top: f64) -> f64 {
        let right = sheet.width() - MARGIN;
        let note_width = TEXT.width(&panel.note);
        let room = self.shape.pick(right - MARGIN - note_width - 16.0, right - MARGIN);
        let mut y = top + 14.0;
        for (place, line) in
            NAME.wrap(&printable(panel.name.as_bytes(), LONGEST), room).into_iter().enumerate()
        {
            y += if place == 0 { 0.0 } else { 17.0 };
            sheet.text(At { x: MARGIN, y }, TextAnchor::Start, (NAME, Ink::Text), line);
        }
        match self.shape {
            Width::Wide => {
                let at = At { x: self.left + self.width, y };
                sheet.text(at, TextAnchor::End, (TEXT, Ink::Muted), panel.note.clone());
                y + 8.0
            }
            Width::Narrow => {
                for line in TEXT.wrap(&panel.note, right - MARGIN) {
                    y += 16.0;
                    sheet.text(At { x: MARGIN, y }, TextAnchor::Start, (TEXT, Ink::Muted), line);
                }
                y + 11.0
            }
        }
    }

    fn grid(&self, sheet: &mut Sheet, rows: &[Row<'_>], field: Rect) {
        let upright = |(at_us, _): &(u64, String)| Rect {
            at: At { x: self.x(*at_us) - 0.5, ..field.at },
            width: 1.0,
            ..field
        };
        let level = |y: f64| Rect { at: At { y, ..field.at }, height: 1.0, ..field };
        let beside = |sheet: &mut Sheet, y: f64, text: &str| {
            let at = At { x: field.at.x - GAP, y: y + 4.0 };
            sheet.text(at, TextAnchor::End, (TICKS, Ink::Muted), text.into());
        };
        match self.scale {
            Scale::Count { .. }
            | Scale::Time { .. }
            | Scale::Counts { .. }
            | Scale::Times { .. }
            | Scale::Shares { .. } => {
                sheet.boxes(Ink::Grid, self.marks.iter().map(upright));
                let levels = || self.counts.iter().map(|(count, _)| self.y(real(*count), field));
                sheet.boxes(Ink::Grid, levels().map(level));
                for (y, (_, says)) in levels().zip(&self.counts) {
                    beside(sheet, y, says);
                }
            }
            Scale::Rows { .. } if self.is_above => {
                // Lines must not cross names.
                for row in rows {
                    let at = At { y: field.at.y + row.top, ..field.at };
                    let upright = self.marks.iter().map(upright);
                    sheet.boxes(
                        Ink::Grid,
                        upright.map(|it| Rect { at: At { y: at.y, ..it.at }, height: ROW, ..it }),
                    );
                    sheet.boxes(Ink::Grid, [level(at.y)]);
                    self.above(sheet, row, at);
                }
            }
            Scale::Rows { .. } => {
                sheet.boxes(Ink::Grid, self.marks.iter().map(upright));
                sheet.boxes(Ink::Grid, rows.iter().map(|row| level(field.at.y + row.top)));
                for row in rows {
                    beside(sheet, field.at.y + row.top + ROW / 2.0, row.name);
                }
            }
        }
    }

    /// A row's name above it; a shortened name has the full one as its tooltip.
    fn above(&self, sheet: &mut Sheet, row: &Row<'_>, at: At) {
        let is_cut = row.name.chars().count() > LONGEST;
        if is_cut {
            sheet.begin_title(row.name);
        }
        for (place, line) in row.lines.iter().enumerate() {
            let below = real_len(row.lines.len() - 1 - place);
            let at = At { x: MARGIN, y: at.y - 4.0 - LINE * below };
            sheet.text(at, TextAnchor::Start, (TICKS, Ink::Muted), line.clone());
        }
        if is_cut {
            sheet.end_title();
        }
    }

    /// The position of a count.
    fn y(&self, count: f64, field: Rect) -> f64 {
        let top = self.counts.last().map_or(1.0, |(top, _)| real(*top)).max(1.0);
        let share = if self.scale.is_logarithmic() {
            let least = self.counts.first().map_or(1.0, |(least, _)| real(*least)).max(1.0);
            libm::log10(count.max(least) / least) / libm::log10((top / least).max(10.0))
        } else {
            count / top
        };
        field.at.y + field.height * (1.0 - share.min(1.0))
    }

    fn mark(&self, sheet: &mut Sheet, mark: &Mark, rows: &[Row<'_>], field: Rect) {
        match mark {
            Mark::Area { ink, series } => {
                sheet.fill(*ink, self.outline(series, 0.0, field));
                self.cut(sheet, *ink, series, field);
            }
            Mark::Above { ink, level, series } => {
                sheet.fill(*ink, self.outline(series, *level, field));
            }
            Mark::Line { ink, series } => {
                let width = if self.scale.is_logarithmic() { 2.0 } else { 1.4 };
                sheet.stroke(*ink, width, self.outline(series, 0.0, field));
                self.cut(sheet, *ink, series, field);
            }
            Mark::Point { at, value, text } => {
                let place = At { x: self.x(*at), y: self.y(real(*value), field) };
                self.point(sheet, place, text, field);
            }
            // Drawn before the grid.
            Mark::Band { .. } => {}
            Mark::Level(level) => {
                let from = At { y: self.y(*level, field), ..field.at };
                dashes(sheet, from, field.at.x + field.width);
            }
            Mark::Moments { ink, shape, runs } => {
                // The smallest visible width of a single attempt.
                let thin = self.shape.pick(1.3, 0.8);
                let (above, height) = lane(*shape);
                sheet.boxes(
                    *ink,
                    runs.iter().filter_map(|run| {
                        let top = field.at.y + rows.get(run.row)?.top;
                        let at = |x| At { x, y: top + ROW * above };
                        let height = ROW * height;
                        if *shape == Shape::Dot {
                            let x = self.x(run.from_us) - DOT / 2.0;
                            return Some(Rect { at: at(x), width: DOT, height });
                        }
                        let x = self.x(run.from_us).min(field.at.x + field.width - thin);
                        let width = (self.x(run.to_us) - x).max(thin);
                        Some(Rect { at: at(x), width, height })
                    }),
                );
            }
        }
    }

    /// A point with its name beside the line across the panel.
    fn point(&self, sheet: &mut Sheet, place: At, text: &str, field: Rect) {
        let At { x, y } = place;
        let line = At { x: x - 0.75, ..field.at };
        sheet.boxes(Ink::Text, [Rect { at: line, width: 1.5, ..field }]);
        for (ink, size) in [(Ink::Paper, DOT + 3.0), (Ink::Text, DOT)] {
            let at = At { x: x - size / 2.0, y: y - size / 2.0 };
            sheet.boxes(ink, [Rect { at, width: size, height: size }]);
        }
        // A curve that falls leaves room on the right; across the line where that is too little.
        let wide = TEXT.width(text);
        let from = (x + GAP).min(field.at.x + field.width - wide).max(field.at.x);
        let behind = At { x: from - 2.0, y: field.at.y + 2.0 };
        sheet.boxes(Ink::Paper, [Rect { at: behind, width: wide + 4.0, height: 15.0 }]);
        let at = At { x: from, y: field.at.y + 14.0 };
        sheet.text(at, TextAnchor::Start, (TEXT, Ink::Text), text.into());
    }

    /// Dashes above the panel where values are cut at its top: they are higher.
    fn cut(&self, sheet: &mut Sheet, ink: Ink, series: &Series, field: Rect) {
        let Some((top, _)) = self.counts.last() else { return };
        let mut start = 0_u64;
        for alike in series.values.chunk_by(|a, b| (a > top) == (b > top)) {
            let end = start.saturating_add(u64::try_from(alike.len()).unwrap_or(u64::MAX));
            if alike.first().is_some_and(|value| value > top) {
                let [from, to] =
                    [start, end].map(|column| self.x(column.saturating_mul(series.column_us)));
                // The flat line at the top is no value.
                let over =
                    Rect { at: At { x: from, y: field.at.y - 1.5 }, width: to - from, height: 3.0 };
                sheet.boxes(Ink::Paper, [over]);
                let starts = std::iter::successors(Some(from), |x| Some(x + 1.6 * DASH));
                let dashes = starts.take_while(|x| *x < to).map(|x| Rect {
                    at: At { x, y: field.at.y - 3.0 },
                    width: DASH.min(to - x),
                    height: 3.0,
                });
                sheet.boxes(ink, dashes);
            }
            start = end;
        }
    }

    /// The outline of the columns above `base`; adjacent equal columns are merged.
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
                    // Nothing rises or falls at the ends of a logarithmic axis: it has no zero.
                    let is_first = start == 0 && self.scale.is_logarithmic();
                    let y = if is_first { self.y(value, field) } else { bottom };
                    path.start(At { x: from, y });
                }
                path.down(self.y(value, field)).right(to);
            } else if is_open {
                path.down(bottom);
            }
            is_open = value > base;
            start = end;
        }
        if is_open && !self.scale.is_logarithmic() {
            path.down(bottom);
        }
        path
    }
}

/// A number of rows as a coordinate.
fn real_len(len: usize) -> f64 {
    real(u64::try_from(len).unwrap_or(u64::MAX))
}

/// Dashes as rectangles, which are sharp in both SVG and PNG, on a light background, so that they
/// are visible on any colour.
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

/// The position of marks in a row: their offset and height, as fractions of the row.
pub(super) fn lane(shape: Shape) -> (f64, f64) {
    match shape {
        Shape::High => (0.08, 0.5),
        Shape::Low => (0.66, 0.26),
        Shape::Area => (0.25, 0.5),
        Shape::Dot => (0.28, 0.44),
        Shape::Line | Shape::Dashes => (0.44, 0.12),
    }
}
