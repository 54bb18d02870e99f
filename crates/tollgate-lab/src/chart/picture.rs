//! What a picture shows, for any width and theme.

use super::axis::Across;
use super::panel::{Key, Panel, Scale};

/// What a picture shows, for any width and theme.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    pub(super) title: String,
    pub(super) says: String,
    pub(super) across: Across,
    pub(super) scale: Scale,
    pub(super) keys: Vec<Key>,
    pub(super) panels: Vec<Panel>,
    /// Another one under it, in the same picture.
    pub(super) below: Option<Box<Self>>,
    /// Whether its panels are low: where several charts share a picture.
    pub(super) is_low: bool,
}

impl Chart {
    /// The same picture with another one under it, both with lower panels.
    #[must_use]
    pub fn above(self, below: Self) -> Self {
        let below = Self { is_low: true, ..below };
        Self { below: Some(Box::new(below)), is_low: true, ..self }
    }

    /// What it is a picture of.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// What there is to see in it: one sentence.
    #[must_use]
    pub fn says(&self) -> &str {
        &self.says
    }
}
