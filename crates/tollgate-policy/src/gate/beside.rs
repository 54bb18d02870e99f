//! What fronts make of the policies of one revision.

use core::any::Any;
use std::sync::OnceLock;

/// One thing of each type. Most gates have one front, so that what is looked for lies first.
#[derive(Default)]
pub(super) struct Beside {
    made: OnceLock<Box<dyn Any + Send + Sync>>,
    next: OnceLock<Box<Self>>,
}

impl Beside {
    /// The thing of this type, made now if it is not there. Who asks meanwhile waits.
    #[inline]
    pub(super) fn of<T: Any + Send + Sync>(&self, make: impl Fn() -> T) -> &T {
        let mut at = self;
        loop {
            if let Some(made) = at.made.get_or_init(|| Box::new(make())).downcast_ref() {
                return made;
            }
            at = at.next.get_or_init(Box::default);
        }
    }
}
