//! How a chart looks: its colours and its width.

use kuva::render::color::Color;

/// How a chart is drawn.
///
/// # Examples
/// ```
/// use tollgate_experiments::chart::{Look, Theme, Width};
/// let look = Look::new(Theme::Dark, Width::Narrow);
/// # let _ = look;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Look {
    /// Its colours.
    pub theme: Theme,
    /// Its width.
    pub width: Width,
    /// Whether the title and the sentence are part of the chart.
    pub(super) heading: bool,
}

impl Look {
    /// A standalone chart, with its title and its sentence.
    #[must_use]
    pub fn new(theme: Theme, width: Width) -> Self {
        Self { theme, width, heading: true }
    }

    /// A chart within a page that shows title and sentence as text, and declares the colours with
    /// [`page_colours`].
    #[must_use]
    pub fn in_page(width: Width) -> Self {
        Self { theme: Theme::Page, width, heading: false }
    }
}

/// The colours of a chart: the palette of Okabe and Ito, which is safe for colour-blind readers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Theme {
    /// On white.
    Light,
    /// On near black.
    Dark,
    /// The CSS custom properties that [`page_colours`] declares.
    Page,
}

/// The width of a chart. Text has the same size in both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Width {
    /// 880 pixels: a page, a slide.
    Wide,
    /// 360 pixels: a phone.
    Narrow,
}

impl Width {
    pub(super) fn pixels(self) -> f64 {
        match self {
            Self::Wide => 880.0,
            Self::Narrow => 360.0,
        }
    }

    /// One of two values, the first for [`Width::Wide`].
    pub(super) fn pick<T>(self, wide: T, narrow: T) -> T {
        match self {
            Self::Wide => wide,
            Self::Narrow => narrow,
        }
    }
}

/// The use of a colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ink {
    Paper,
    Text,
    Muted,
    Grid,
    Admitted,
    Denied,
    Over,
    Waiting,
    /// Behind everything, a time that is marked.
    Band,
}

impl Ink {
    pub(super) const ALL: [Self; 9] = [
        Self::Paper,
        Self::Text,
        Self::Muted,
        Self::Grid,
        Self::Admitted,
        Self::Denied,
        Self::Over,
        Self::Waiting,
        Self::Band,
    ];

    pub(super) fn colour(self, theme: Theme) -> Color {
        Color::from(match theme {
            Theme::Light => self.light(),
            Theme::Dark => self.dark(),
            Theme::Page => self.page(),
        })
    }

    fn light(self) -> &'static str {
        match self {
            Self::Paper => "#ffffff",
            Self::Text => "#1f2328",
            Self::Muted => "#59636e",
            Self::Grid => "#d8dee4",
            Self::Admitted => "#0072b2",
            Self::Denied => "#d55e00",
            Self::Over => "#b87f00",
            Self::Waiting => "#009e73",
            Self::Band => "#f6ecd2",
        }
    }

    fn dark(self) -> &'static str {
        match self {
            Self::Paper => "#0d1117",
            Self::Text => "#e6edf3",
            Self::Muted => "#9198a1",
            Self::Grid => "#2a313a",
            Self::Admitted => "#56b4e9",
            Self::Denied => "#d55e00",
            Self::Over => "#e69f00",
            Self::Waiting => "#009e73",
            Self::Band => "#33291a",
        }
    }

    fn page(self) -> &'static str {
        match self {
            Self::Paper => "var(--paper)",
            Self::Text => "var(--text)",
            Self::Muted => "var(--muted)",
            Self::Grid => "var(--grid)",
            Self::Admitted => "var(--admitted)",
            Self::Denied => "var(--denied)",
            Self::Over => "var(--over)",
            Self::Waiting => "var(--waiting)",
            Self::Band => "var(--band)",
        }
    }
}

/// CSS that declares the colours of [`Theme::Page`]: light or dark as the reader's system is set,
/// always light in print.
///
/// # Examples
/// ```
/// let css = tollgate_experiments::chart::page_colours();
/// assert!(css.contains("--admitted:#0072b2;") && css.contains("prefers-color-scheme:dark"));
/// ```
#[must_use]
pub fn page_colours() -> String {
    let declare = |colour: fn(Ink) -> &'static str| {
        let name = |ink: Ink| ink.page().trim_start_matches("var(").trim_end_matches(')');
        Ink::ALL.map(|ink| format!("{}:{};", name(ink), colour(ink))).concat()
    };
    let (light, dark) = (declare(Ink::light), declare(Ink::dark));
    format!(
        ":root{{color-scheme:light dark;{light}}}\n\
         @media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
    )
}
