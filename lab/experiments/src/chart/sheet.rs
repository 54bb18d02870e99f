//! The drawing surface: text, rectangles and outlines, by the drawing crate.

use std::fmt::Write as _;

use kuva::render::color::Color;
use kuva::render::render::{PathData, Primitive, Scene, TextAnchor, TextSpan};

use super::label::Font;
use super::look::{Ink, Theme};

/// PNGs use the first font; the others have a similar width.
const FONTS: &str = "DejaVu Sans, Verdana, Liberation Sans, Arial, sans-serif";

/// A picture under construction.
#[derive(Debug)]
pub(super) struct Sheet {
    scene: Scene,
    theme: Theme,
}

/// A position in pixels from the left and the top.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct At {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// A rectangle, by its upper left corner.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Rect {
    pub(super) at: At,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Sheet {
    pub(super) fn new(width: f64, theme: Theme) -> Self {
        let css = |ink: Ink| ink.colour(theme).to_svg_string();
        let mut scene = Scene::new(width, 0.0);
        // A page has its own background.
        scene.background_color = (theme != Theme::Page).then(|| css(Ink::Paper));
        scene.text_color = Some(css(Ink::Text));
        scene.font_family = Some(FONTS.into());
        Self { scene, theme }
    }

    pub(super) fn width(&self) -> f64 {
        self.scene.width
    }

    /// The picture, with its final height.
    pub(super) fn finish(mut self, height: f64) -> Scene {
        self.scene.height = height.ceil();
        self.scene
    }

    /// One line of text, with its baseline at `at`. It is always rich text, since the drawing crate
    /// takes plain text between two dollar signs for a formula.
    pub(super) fn text(&mut self, at: At, anchor: TextAnchor, style: (Font, Ink), text: String) {
        let (font, ink) = style;
        let span = TextSpan {
            text,
            bold: font.bold,
            italic: false,
            underline: false,
            code: false,
            math: false,
        };
        let color = Some(ink.colour(self.theme));
        let At { x, y } = at;
        let spans = vec![span];
        self.scene.add(Primitive::RichText { x, y, spans, size: font.size, anchor, color });
    }

    /// Everything drawn from here to [`Sheet::end_title`] has this tooltip.
    pub(super) fn begin_title(&mut self, title: &str) {
        let title = Some(title.to_owned());
        // With its own class, since the drawing crate styles groups without one differently.
        let extra_attrs = Some("class=\"whole\"".to_owned());
        self.scene.add(Primitive::GroupStart { transform: None, title, extra_attrs });
    }

    pub(super) fn end_title(&mut self) {
        self.scene.add(Primitive::GroupEnd);
    }

    /// Filled rectangles as one path, which takes a third of the size of separate elements.
    pub(super) fn boxes(&mut self, ink: Ink, boxes: impl IntoIterator<Item = Rect>) {
        let mut path = Path::default();
        for Rect { at, width, height } in boxes {
            path.start(at).right(at.x + width).down(at.y + height).right(at.x).close();
        }
        self.fill(ink, path);
    }

    pub(super) fn fill(&mut self, ink: Ink, path: Path) {
        self.path(path, Some(ink.colour(self.theme)), Color::None, 0.0);
    }

    pub(super) fn stroke(&mut self, ink: Ink, width: f64, path: Path) {
        self.path(path, None, ink.colour(self.theme), width);
    }

    fn path(&mut self, path: Path, fill: Option<Color>, stroke: Color, stroke_width: f64) {
        if path.0.is_empty() {
            return;
        }
        let data = PathData {
            d: path.0,
            fill,
            stroke,
            stroke_width,
            opacity: None,
            stroke_dasharray: None,
        };
        self.scene.add(Primitive::Path(data.into()));
    }
}

/// An outline of horizontal and vertical lines.
#[derive(Debug, Default)]
pub(super) struct Path(String);

impl Path {
    pub(super) fn start(&mut self, at: At) -> &mut Self {
        self.command('M', at.x).command(' ', at.y)
    }

    /// A horizontal line to this x.
    pub(super) fn right(&mut self, x: f64) -> &mut Self {
        self.command('H', x)
    }

    /// A vertical line to this y.
    pub(super) fn down(&mut self, y: f64) -> &mut Self {
        self.command('V', y)
    }

    pub(super) fn close(&mut self) {
        self.0.push('Z');
    }

    /// A tenth of a pixel is precise enough.
    fn command(&mut self, command: char, number: f64) -> &mut Self {
        self.0.push(command);
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{number:.1}");
        if self.0.ends_with(".0") {
            self.0.truncate(self.0.len() - 2);
        }
        self
    }
}
