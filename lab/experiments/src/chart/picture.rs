//! The content of a chart, for any width and theme.

use super::axis::Across;
use super::panel::{Key, Panel, Scale};

/// The content of a chart, for any width and theme.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    pub(super) title: String,
    pub(super) says: String,
    pub(super) across: Across,
    pub(super) scale: Scale,
    pub(super) keys: Vec<Key>,
    pub(super) panels: Vec<Panel>,
    /// Another chart below it, in the same picture.
    pub(super) below: Option<Box<Self>>,
    /// Whether its panels are low, since several charts share the picture.
    pub(super) is_low: bool,
}

impl Chart {
    /// The same chart with another one below it, both with lower panels.
    #[must_use]
    pub fn above(self, below: Self) -> Self {
        let below = Self { is_low: true, ..below };
        Self { below: Some(Box::new(below)), is_low: true, ..self }
    }

    /// The title.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The main observation, in one sentence.
    #[must_use]
    pub fn says(&self) -> &str {
        &self.says
    }
}
