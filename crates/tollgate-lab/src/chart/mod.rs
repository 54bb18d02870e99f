//! Pictures of an experiment: what got through over time, how full the window was, who got through,
//! and in real time how long answers took.
//!
//! [`over_time`], [`occupancy`], [`raster()`] and [`latency()`] say what is drawn, of queues
//! [`offers`], [`depth`] and [`waits`], and [`all`] which of them there are; a [`Look`] says how.
//! What is over time has one panel for each case, one under the other, on the same axes, so
//! that cases are compared by looking down. At most 600 columns of time are drawn: of a longer
//! series the highest bucket of each column, so that a spike stays as high as it was.
//!
//! Layout and axes are ours, not those of the plots that the drawing crate has: panels must line
//! up, at two widths, and ten thousand attempts should be one path instead of as many circles.

mod axis;
mod columns;
mod draw;
mod label;
mod latency;
mod look;
mod occupancy;
mod over_time;
mod panel;
mod picture;
mod plot;
mod queue;
mod raster;
mod sheet;

pub(crate) use columns::Timeline;

pub use latency::latency;
pub use look::{Look, Theme, Width, page_colours};
pub use occupancy::occupancy;
pub use over_time::over_time;
pub use picture::Chart;
pub use queue::{depth, offers, waits};
pub use raster::raster;

use crate::error::Error;
use crate::experiment::results::Results;

/// Pixels of a PNG for each pixel of the layout: sharp on screens of today.
const PNG_SCALE: f32 = 2.0;
/// How tall a PNG can be, in pixels of the layout: with its width some 200 MB while it is drawn.
const PNG_HEIGHT: f64 = 16_000.0;

/// Every picture that there is of these results, with a name for its file.
#[must_use]
pub fn all(results: &Results) -> Vec<(&'static str, Chart)> {
    let is_all_queues = offers(results).is_some_and(|it| it.panels.len() == results.cases.len());
    let charts = [
        // Where all are queues, the offers say the same and more.
        ("over-time", (!is_all_queues).then(|| over_time(results))),
        ("offers", offers(results).filter(|_| is_all_queues)),
        ("occupancy", occupancy(results)),
        ("depth", depth(results)),
        ("waits", waits(results)),
        ("raster", Some(raster(results))),
        ("latency", latency(results)),
    ];
    charts.into_iter().filter_map(|(name, chart)| Some((name, chart?))).collect()
}

impl Chart {
    /// The picture as SVG, which needs nothing beside it.
    ///
    /// # Examples
    /// ```no_run
    /// use tollgate_lab::chart::{Look, Theme, Width, over_time};
    /// use tollgate_lab::experiment::results::Results;
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

    /// The picture as the bytes of a PNG, with two pixels for each of the SVG's. [`Theme::Page`]
    /// needs a page and is drawn as [`Theme::Light`].
    ///
    /// # Errors
    /// [`Error::Picture`] when it would be taller than 16,000 pixels of the layout: with a hundred
    /// cases, or with half as many and a row for each of many clients.
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
