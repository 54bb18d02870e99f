//! What test binaries and doc tests say, read line by line and summed.

use std::collections::BTreeSet;

/// What the test binaries and doc tests said, summed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    passed: usize,
    failed: usize,
    /// Tests that libtest reports as ignored.
    ignored: Vec<String>,
    /// Tests that passed but said `SKIPPED: reason`.
    skipped: Vec<String>,
    /// Tests that said `WANTED: reason`: what they need nothing here can install.
    wanted: Vec<String>,
}

impl Counts {
    pub(super) fn of_a_failed_build() -> Self {
        Self { failed: 1, ..Self::default() }
    }

    pub(super) fn add(&mut self, other: Self) {
        let Self { passed, failed, ignored, skipped, wanted } = other;
        self.passed += passed;
        self.failed += failed;
        self.ignored.extend(ignored);
        self.skipped.extend(skipped);
        self.wanted.extend(wanted);
    }

    pub(crate) fn hold(&self, in_ci: bool) -> bool {
        let nothing_skipped = self.ignored.is_empty() && self.skipped.is_empty();
        self.failed == 0 && (nothing_skipped || !in_ci)
    }

    pub(crate) fn say_skips(&self, in_ci: bool) {
        let price = if in_ci { "; a skipped test fails here" } else { "; it fails with CI=true" };
        for skip in self.ignored.iter().chain(&self.skipped) {
            println!("skipped: {skip}{price}");
        }
        for want in &self.wanted {
            println!("skipped: {want}");
        }
    }

    /// The line that people and scripts read. In CI a skipped test is a failed one.
    pub(crate) fn last_line(&self, in_ci: bool) -> String {
        let Self { passed, failed, ignored, skipped, wanted } = self;
        let passed = passed.saturating_sub(wanted.len());
        if in_ci {
            let passed = passed.saturating_sub(skipped.len());
            format!("{passed} passed, {} failed", failed + ignored.len() + skipped.len())
        } else {
            format!("{passed} passed, {failed} failed")
        }
    }
}

/// Reads the output of a test binary, or of several in a row, line by line.
#[derive(Debug, Default)]
pub(super) struct Reader {
    counts: Counts,
    /// A binary said `running N tests` and has not yet said its result.
    running: bool,
    /// Within the output of tests that passed.
    successes: bool,
    /// Whose output the lines are.
    test: String,
    /// The tests of this binary that said they skipped.
    skipped: BTreeSet<String>,
    wanted: BTreeSet<String>,
}

impl Reader {
    /// The counts of a whole output, and the lines of it that are worth showing.
    pub(super) fn read_all(output: &str, success: bool) -> (Counts, String) {
        let mut reader = Self::default();
        let mut shown = String::new();
        for line in output.lines().filter(|line| reader.read(line)) {
            shown.push_str(line);
            shown.push('\n');
        }
        (reader.end(success), shown)
    }

    /// Takes a line; false when it is not worth showing: the output of tests that passed.
    fn read(&mut self, line: &str) -> bool {
        let plain = without_colours(line);
        let plain = plain.trim_end();
        if is_start(plain) {
            self.end_binary();
            self.running = true;
        } else if let Some(result) = plain.strip_prefix("test result: ") {
            self.counts.passed += number_before(result, " passed");
            self.counts.failed += number_before(result, " failed");
            self.running = false;
            self.end_binary();
        } else if let Some(name) = ignored_test(plain) {
            self.counts.ignored.push(name.to_owned());
        } else if plain == "successes:" {
            self.successes = true;
        } else if plain == "failures:" {
            self.successes = false;
        } else if let Some(name) = output_of(plain) {
            self.test = name.to_owned();
        } else if let Some((before, reason)) = plain.split_once("SKIPPED: ")
            && before.trim().is_empty()
        {
            self.skipped.insert(format!("{}: {reason}", self.test));
            return true;
        } else if let Some((before, reason)) = plain.split_once("WANTED: ")
            && before.trim().is_empty()
        {
            self.wanted.insert(format!("{}: {reason}", self.test));
            return true;
        }
        !self.successes
    }

    /// The sum. A binary that died without a result is one failure, and so is one that failed
    /// without a failed test.
    fn end(mut self, success: bool) -> Counts {
        self.end_binary();
        if !success && self.counts.failed == 0 {
            self.counts.failed = 1;
        }
        self.counts
    }

    fn end_binary(&mut self) {
        if self.running {
            self.counts.failed += 1;
        }
        self.running = false;
        self.successes = false;
        self.test.clear();
        self.counts.wanted.extend(std::mem::take(&mut self.wanted));
        // One test may say it twice.
        let mut last = None;
        for skip in std::mem::take(&mut self.skipped) {
            let name = skip.split(": ").next().map(str::to_owned);
            if name != last {
                self.counts.skipped.push(skip);
            }
            last = name;
        }
    }
}

/// `running 3 tests`.
fn is_start(line: &str) -> bool {
    let count = line
        .strip_prefix("running ")
        .and_then(|rest| rest.strip_suffix(" tests").or_else(|| rest.strip_suffix(" test")));
    count.is_some_and(|count| count.parse::<usize>().is_ok())
}

/// The name in `test NAME ... ignored` or `test NAME ... ignored, REASON`.
fn ignored_test(line: &str) -> Option<&str> {
    let (name, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    (outcome == "ignored" || outcome.starts_with("ignored,")).then_some(name)
}

/// The name in `---- NAME stdout ----`.
fn output_of(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

fn number_before(text: &str, word: &str) -> usize {
    let before = text.split(word).next().unwrap_or_default();
    let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

/// The line without the escape sequences that colour it.
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut parts = line.split('\u{1b}');
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        // A sequence ends with its first letter; `ESC ( B`, which resets, with its second byte.
        let end = part.find(|c: char| c.is_ascii_alphabetic()).map_or(part.len(), |at| at + 1);
        plain.push_str(part.get(end..).unwrap_or_default());
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, success: bool) -> (Counts, String) {
        Reader::read_all(text, success)
    }

    const TWO_BINARIES: &str = "\
running 3 tests
test a ... ok
test b ... ignored, too long
test c ... ok

successes:

---- c stdout ----
chatter
SKIPPED: no disk
SKIPPED: no disk, really

---- a stdout ----
WANTED: a server of yours

successes:
    a
    c

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests tollgate
running 1 test
test src/lib.rs - f (line 3) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.20s
";

    #[test]
    fn binaries_are_summed_and_skips_are_counted() {
        let (counts, shown) = read(TWO_BINARIES, true);
        assert_eq!((counts.passed, counts.failed), (3, 0));
        assert_eq!(counts.ignored, ["b"]);
        assert_eq!(counts.skipped, ["c: no disk"]);
        assert_eq!(counts.wanted, ["a: a server of yours"]);
        assert!(shown.contains("SKIPPED: no disk") && !shown.contains("chatter"));
        assert_eq!(counts.last_line(false), "2 passed, 0 failed");
        assert_eq!(counts.last_line(true), "1 passed, 2 failed");
        assert!(counts.hold(false) && !counts.hold(true));
    }

    #[test]
    fn a_binary_that_dies_is_a_failure() {
        let text = "running 2 tests\ntest a ... ok\nrunning 1 test\ntest b ... ok\n\
                    test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        let (counts, _) = read(text, false);
        assert_eq!((counts.passed, counts.failed), (1, 1));
        assert!(!counts.hold(false));
    }

    #[test]
    fn a_build_that_fails_is_a_failure() {
        let mut counts = Counts::of_a_failed_build();
        assert_eq!(counts.last_line(false), "0 passed, 1 failed");
        counts.add(read(TWO_BINARIES, true).0);
        assert_eq!(counts.last_line(true), "1 passed, 3 failed");
    }

    #[test]
    fn failures_are_counted_and_shown() {
        let text = "running 2 tests\nfailures:\n---- a stdout ----\nwhy\n\
                    test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured";
        let (counts, shown) = read(text, false);
        assert_eq!((counts.passed, counts.failed), (1, 1));
        assert!(shown.contains("why"));
    }

    #[test]
    fn colours_do_not_hide_a_result() {
        let text = "test result: \u{1b}[32mok\u{1b}(B\u{1b}[m. 4 passed; 2 failed; 0 ignored";
        let (counts, _) = read(text, false);
        assert_eq!((counts.passed, counts.failed), (4, 2));
        let (counts, _) = read("test a ... \u{1b}[33mignored\u{1b}(B\u{1b}[m", true);
        assert_eq!(counts.ignored, ["a"]);
    }
}
