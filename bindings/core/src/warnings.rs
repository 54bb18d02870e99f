//! The warnings that the libraries of Rust log, for the log of another language.

use core::fmt;
use std::collections::VecDeque;
use std::sync::{Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::lock::lock;

/// The most that are kept for whoever takes them next: a program has at least one of each kind.
const MOST: usize = 64;

static KEPT: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Keeps warnings from now on. This module has its own copy of `tracing`, so no other library of
/// the process is concerned.
pub(crate) fn keep() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // It fails in a test that logs by itself.
        let _ = tracing::subscriber::set_global_default(Keeper);
    });
}

/// Takes those that came since the last call.
pub(crate) fn take() -> Vec<String> {
    lock(&KEPT).drain(..).collect()
}

struct Keeper;

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN && metadata.is_event()
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        let mut kept = lock(&KEPT);
        if kept.len() < MOST {
            kept.push_back(message.0);
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The text of an event, which has the values of its fields.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}
