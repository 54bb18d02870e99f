//! Charts of an experiment: the admitted units over time, the occupancy of the window, the admitted
//! clients, the keys and bytes of the store, and in real time the latencies of answers.
//!
//! [`over_time`], [`edge()`], [`occupancy`], [`raster()`], [`kept()`] and [`latency()`] build a
//! chart; for queues [`offers`], [`depth`] and [`waits`], for a backend [`in_flight`], [`service`]
//! and [`served`], for nodes [`questions()`], and [`race()`]. [`all`] returns the charts that
//! apply, and a [`Look`] sets how they are drawn. Charts over time have one panel per case, one
//! below the other, on the same axes, so that cases can be compared vertically. They have at most
//! 600 columns of time. For a longer series each column shows its highest bucket, so that a spike
//! keeps its height.
//!
//! Layout and axes are our own, not the plots of the drawing crate: panels must be aligned, at two
//! widths, and ten thousand attempts should be one path instead of as many circles.

mod advice;
mod axis;
mod backend;
mod columns;
mod draw;
mod edge;
mod kept;
mod label;
mod latency;
mod look;
mod occupancy;
mod outage;
mod over_time;
mod panel;
mod picture;
mod plot;
mod questions;
mod queue;
mod race;
mod raster;
mod sheet;

pub(crate) use columns::Timeline;

pub use advice::trade;
pub use backend::{in_flight, served, service};
pub use edge::edge;
pub use kept::kept;
pub use latency::latency;
pub use look::{Look, Theme, Width, page_colours};
pub use occupancy::occupancy;
pub use over_time::over_time;
pub use picture::Chart;
pub use questions::questions;
pub use queue::{depth, offers, waits};
pub use race::race;
pub use raster::raster;

use crate::error::Error;
use crate::experiment::results::Results;

/// Pixels of a PNG per pixel of the layout: sharp on high-density screens.
const PNG_SCALE: f32 = 2.0;
/// The tallest PNG, in pixels of the layout: with its width it takes about 200 MB while it is
/// drawn.
const PNG_HEIGHT: f64 = 16_000.0;

/// All charts that apply to these results, with a name for each file.
#[must_use]
pub fn all(results: &Results) -> Vec<(&'static str, Chart)> {
    let is_all_queues = offers(results).is_some_and(|it| it.panels.len() == results.cases.len());
    let has_backend = results.cases.iter().any(|case| case.backend.is_some());
    let charts = [
        // If all cases are queues, the chart of offers contains the same and more; and in front of
        // a backend, the charts of it.
        ("over-time", (!is_all_queues && !has_backend).then(|| over_time(results))),
        ("edge", edge(results)),
        ("in-flight", in_flight(results)),
        ("service", service(results)),
        ("served", served(results)),
        ("offers", offers(results).filter(|_| is_all_queues)),
        ("occupancy", occupancy(results)),
        ("depth", depth(results)),
        ("waits", waits(results)),
        ("raster", Some(raster(results))),
        ("kept", kept(results)),
        ("questions", questions(results)),
        ("latency", latency(results)),
    ];
    let shaded = |(name, chart): (_, Option<Chart>)| Some((name, outage::shaded(chart?, results)));
    charts.into_iter().filter_map(shaded).collect()
}

impl Chart {
    /// The chart as a self-contained SVG.
    ///
    /// # Examples
    /// ```no_run
    /// use tollgate_experiments::chart::{Look, Theme, Width, over_time};
    /// use tollgate_experiments::experiment::results::Results;
    ///
    /// fn write(results: &Results) -> std::io::Result<()> {
    ///     let picture = over_time(results).svg(Look::new(Theme::Light, Width::Wide));
    ///     std::fs::write("over-time.svg", picture)
    /// }
    /// ```
    #[must_use]
    pub fn svg(&self, look: Look) -> String {
        draw::svg(self, look)
    }

    /// The chart as the bytes of a PNG, with two pixels per pixel of the SVG. [`Theme::Page`] needs
    /// a page, and is drawn as [`Theme::Light`].
    ///
    /// # Errors
    /// [`Error::Picture`] when the chart would be taller than 16,000 pixels of the layout. That
    /// takes a hundred cases, or half as many with a row for each of many clients.
    pub fn png(&self, look: Look) -> Result<Vec<u8>, Error> {
        let theme = if look.theme == Theme::Page { Theme::Light } else { look.theme };
        let scene = draw::scene(self, Look { theme, ..look });
        if scene.height > PNG_HEIGHT {
            let why = format!("it is {} pixels tall, {PNG_HEIGHT} are possible", scene.height);
            return Err(Error::Picture { why });
        }
        kuva::RasterBackend::new()
            .with_scale(PNG_SCALE)
            .render_scene(&scene)
            .map_err(|why| Error::Picture { why })
    }
}

#[cfg(test)]
mod tests;
