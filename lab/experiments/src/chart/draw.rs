//! Draws a chart: heading, legend, then one panel below the other.

use kuva::backend::svg::SvgBackend;
use kuva::render::render::{Scene, TextAnchor};
use maud::html;

use super::Chart;
use super::label::Font;
use super::look::{Ink, Look, Width};
use super::panel::{Key, Shape};
use super::plot::{MARGIN, Plot, TEXT, TICKS, dashes, lane};
use super::sheet::{At, Path, Rect, Sheet};

/// The chart as SVG text, which scales to any width.
pub(super) fn svg(chart: &Chart, look: Look) -> String {
    let scene = scene(chart, look);
    let size = format!("0 0 {} {}", scene.width, scene.height);
    let mut label = html! { (chart.title()) ": " (chart.says()) }.into_string();
    let mut chart = chart;
    while let Some(below) = &chart.below {
        label += &html! { " " (below.title()) ": " (below.says()) }.into_string();
        chart = below;
    }
    let start = format!("<svg viewBox=\"{size}\" role=\"img\" aria-label=\"{label}\" ");
    SvgBackend::new().render_scene(&scene).replacen("<svg ", &start, 1)
}

pub(super) fn scene(chart: &Chart, look: Look) -> Scene {
    let mut sheet = Sheet::new(look.width.pixels(), look.theme);
    let mut y = one(&mut sheet, chart, look, MARGIN);
    let mut chart = chart;
    while let Some(below) = &chart.below {
        y = one(&mut sheet, below, look, y + MARGIN);
        chart = below;
    }
    sheet.finish(y + MARGIN)
}

/// Draws a chart from `y` down; returns its lower end.
fn one(sheet: &mut Sheet, chart: &Chart, look: Look, mut y: f64) -> f64 {
    if look.heading {
        y = heading(sheet, chart, look.width, y);
    }
    y = legend(sheet, &chart.keys, y);
    let plot = Plot::new(chart, look.width);
    // The axis title is horizontal, above the axis: vertical text is hard to read.
    y += 4.0;
    for line in TICKS.wrap(chart.scale.unit(), sheet.width() - 2.0 * MARGIN) {
        y += 14.0;
        sheet.text(At { x: MARGIN, y }, TextAnchor::Start, (TICKS, Ink::Muted), line);
    }
    for panel in &chart.panels {
        y = plot.panel(sheet, panel, y + 12.0);
    }
    y += 16.0;
    let (text, x) = if chart.panels.is_empty() {
        ("no case was finished".into(), sheet.width() / 2.0)
    } else {
        (chart.across.name(), plot.left + plot.width / 2.0)
    };
    sheet.text(At { x, y }, TextAnchor::Middle, (TICKS, Ink::Muted), text);
    y
}

/// The title and the sentence, in as many lines as necessary.
fn heading(sheet: &mut Sheet, chart: &Chart, width: Width, mut y: f64) -> f64 {
    let room = sheet.width() - 2.0 * MARGIN;
    let title = (Font::bold(width.pick(17, 15)), Ink::Text);
    let says = (Font::plain(width.pick(13, 12)), Ink::Text);
    for (style, text) in [(title, &chart.title), (says, &chart.says)] {
        for line in style.0.wrap(text, room) {
            y += f64::from(style.0.size) * 1.35;
            sheet.text(At { x: MARGIN, y }, TextAnchor::Start, style, line);
        }
        y += 3.0;
    }
    y + 6.0
}

/// The legend's keys side by side, in as many lines as necessary.
fn legend(sheet: &mut Sheet, keys: &[Key], y: f64) -> f64 {
    const SWATCH: f64 = 18.0;
    let right = sheet.width() - MARGIN;
    let mut at = At { x: MARGIN, y: y + 12.0 };
    for key in keys {
        let lines = TEXT.wrap(&key.text, right - MARGIN - SWATCH - 6.0);
        let widest = lines.iter().map(|line| TEXT.width(line)).fold(0.0, f64::max);
        let width = SWATCH + 6.0 + widest;
        if at.x > MARGIN && at.x + width > right {
            at = At { x: MARGIN, y: at.y + 18.0 };
        }
        let corner = At { x: at.x, y: at.y - 10.0 };
        swatch(sheet, key, Rect { at: corner, width: SWATCH, height: 11.0 });
        for (place, line) in lines.into_iter().enumerate() {
            // A key with several lines takes nearly the whole width.
            at.y += if place == 0 { 0.0 } else { 16.0 };
            let place = At { x: at.x + SWATCH + 6.0, y: at.y };
            sheet.text(place, TextAnchor::Start, (TEXT, Ink::Text), line);
        }
        at.x += width + 16.0;
    }
    at.y + 4.0
}

fn swatch(sheet: &mut Sheet, key: &Key, room: Rect) {
    let Rect { at: At { x, y }, width, height } = room;
    let middle = y + height / 2.0;
    match key.shape {
        Shape::Area => sheet.boxes(key.ink, [room]),
        Shape::Line => {
            let mut path = Path::default();
            path.start(At { x, y: middle }).right(x + width);
            sheet.stroke(key.ink, 2.0, path);
        }
        Shape::Dot => {
            let at = At { x: x + (width - height + 3.0) / 2.0, y: y + 1.5 };
            sheet.boxes(key.ink, [Rect { at, width: height - 3.0, height: height - 3.0 }]);
        }
        Shape::Dashes => dashes(sheet, At { x, y: middle }, x + width),
        Shape::High | Shape::Low => {
            let (top, tall) = lane(key.shape);
            let at = |x| At { x, y: y + top * height };
            let tick = |x| Rect { at: at(x), width: 3.0, height: tall * height };
            sheet.boxes(key.ink, [x + 1.0, x + 7.0, x + 13.0].map(tick));
        }
    }
}
