//! A decision as a line for humans.

use core::fmt;
use core::time::Duration;

use super::{Decision, Verdict};

impl fmt::Display for Decision<'_> {
    /// One line for humans.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binding = self.binding();
        let (subject, limit) = (binding.subject(), binding.limit().shown());
        match self.verdict() {
            Verdict::Allow => {
                write!(
                    f,
                    "allow {subject}: {} of {} left ({limit})",
                    self.remaining(),
                    self.limit()
                )
            }
            Verdict::NotYet(wait) => {
                write!(f, "deny {subject}: retry in {} ({limit})", Seconds(wait))
            }
            Verdict::Never => {
                write!(f, "deny {subject}: never, {} ({limit})", self.unit().beyond(self.limit()))
            }
        }
    }
}

/// A wait in seconds without rounding, such as `1.5s`.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, micros) = (self.0.as_secs(), self.0.subsec_micros());
        if micros == 0 {
            return write!(f, "{whole}s");
        }
        let digits = format!("{micros:06}");
        write!(f, "{whole}.{}s", digits.trim_end_matches('0'))
    }
}
