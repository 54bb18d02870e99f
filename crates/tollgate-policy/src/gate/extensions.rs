//! Values that fronts derive from the policies of one revision.

use core::any::Any;
use std::sync::OnceLock;

/// One value of each type, in a list: most gates have one front, so its value comes first.
#[derive(Default)]
pub(super) struct Extensions {
    value: OnceLock<Box<dyn Any + Send + Sync>>,
    next: OnceLock<Box<Self>>,
}

impl Extensions {
    /// The value of this type, created now if there is none. Other threads wait meanwhile.
    #[inline]
    pub(super) fn get_or_init<T: Any + Send + Sync>(&self, make: impl Fn() -> T) -> &T {
        let mut at = self;
        loop {
            if let Some(found) = at.value.get_or_init(|| Box::new(make())).downcast_ref() {
                return found;
            }
            at = at.next.get_or_init(Box::default);
        }
    }
}
