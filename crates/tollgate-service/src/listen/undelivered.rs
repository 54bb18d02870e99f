//! Actions that are undone where an answer does not reach its client.

use core::fmt;
use std::sync::Arc;

use http::Extensions;
use parking_lot::Mutex;

/// The actions to take if an answer is not delivered. It is done when this is dropped.
pub(crate) struct Undelivered(Vec<Box<dyn FnOnce() + Send + Sync>>);

impl Undelivered {
    pub(crate) fn new(undo: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(vec![Box::new(undo)])
    }

    /// Both of these together.
    #[cfg(feature = "grpc")]
    pub(crate) fn and(mut self, mut other: Self) -> Self {
        self.0.append(&mut other.0);
        self
    }

    /// The client has the answer: nothing is to be done.
    pub(crate) fn delivered(mut self) {
        self.0.clear();
    }

    /// Attaches it to a response.
    pub(crate) fn attach(self, extensions: &mut Extensions) {
        extensions.insert(Attached(Arc::new(Mutex::new(Some(self)))));
    }

    /// The actions that are attached to a response.
    pub(crate) fn of(extensions: &mut Extensions) -> Option<Self> {
        extensions.remove::<Attached>().and_then(|attached| attached.0.lock().take())
    }
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|undo| undo());
    }
}

impl fmt::Debug for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Undelivered")
    }
}

/// An [`Undelivered`] as the extension of a response, which has to be `Clone`.
#[derive(Clone)]
struct Attached(Arc<Mutex<Option<Undelivered>>>);
