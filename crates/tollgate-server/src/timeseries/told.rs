//! When trouble is worth a line of the log: when it begins and when it ends, not while it lasts.

use std::time::{Duration, Instant};

/// Trouble that comes and goes is told of once in so long.
const SELDOM: Duration = Duration::from_secs(60);

/// What was told last.
#[derive(Debug, Default)]
pub(super) struct Told {
    now: Option<News>,
    last_bad: Option<Instant>,
}

/// How it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum News {
    Good,
    Bad,
}

impl Told {
    /// Nothing was told; that all is well goes without saying.
    pub(super) fn well() -> Self {
        Self { now: Some(News::Good), last_bad: None }
    }

    /// Whether to tell that it is so, at this time.
    pub(super) fn is_new(&mut self, news: News, at: Instant) -> bool {
        let is_soon =
            || self.last_bad.is_some_and(|last| at.saturating_duration_since(last) < SELDOM);
        if self.now == Some(news) || news == News::Bad && is_soon() {
            return false;
        }
        self.now = Some(news);
        if news == News::Bad {
            self.last_bad = Some(at);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_and_what_ends_is_new() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut told = Told::default();
        for (seconds, news, is_new) in [
            (0, News::Bad, true),
            (1, News::Bad, false),
            (2, News::Good, true),
            (3, News::Good, false),
            // It comes and goes: once a minute is enough.
            (4, News::Bad, false),
            (5, News::Good, false),
            (59, News::Bad, false),
            (60, News::Bad, true),
            (61, News::Good, true),
            (200, News::Bad, true),
        ] {
            assert_eq!(told.is_new(news, at(seconds)), is_new, "{seconds} s");
        }
        assert!(Told::default().is_new(News::Good, start), "the first word");
        assert!(!Told::well().is_new(News::Good, start));
        assert!(Told::well().is_new(News::Bad, start));
    }
}
