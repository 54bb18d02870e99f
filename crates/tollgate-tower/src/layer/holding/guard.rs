//! What one request holds.

/// Settles the hold of a request when it is dropped.
pub(super) struct Guard {
    settle: Option<Settle>,
}

/// What settles a hold, wherever it is called: also where no runtime is.
type Settle = Box<dyn FnOnce() + Send + Sync>;

impl Guard {
    pub(super) fn new(settle: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self { settle: Some(Box::new(settle)) }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(settle) = self.settle.take() {
            settle();
        }
    }
}
