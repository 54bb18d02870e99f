//! The output of test binaries and doc tests, read line by line and summed.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::report::seconds;

/// The maximum number of lines of a failed test's output at the end of the run, from its beginning.
const MAX_LINES: usize = 40;

/// As many of the slowest tests are named.
const SLOWEST: usize = 12;

/// The results of the test binaries and doc tests, summed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    passed: usize,
    failed: usize,
    /// Tests that libtest reports as ignored.
    ignored: Vec<String>,
    /// Tests that passed but said `SKIPPED: reason`.
    skipped: Vec<String>,
    /// Tests that printed `WANTED: reason`: nothing here can install the program that they need.
    wanted: Vec<String>,
    /// Tests that failed, each with its output, indented.
    failures: Vec<String>,
    /// How long each test took.
    times: Vec<(Duration, String)>,
}

impl Counts {
    pub(super) fn of_a_failed_build() -> Self {
        Self { failed: 1, ..Self::default() }
    }

    /// The same, with the name of its binary before each failure and each time.
    pub(super) fn of_binary(mut self, binary: &str) -> Self {
        let names = self.times.iter_mut().map(|(_, test)| test);
        for name in self.failures.iter_mut().chain(names) {
            name.insert_str(0, &format!("{binary}, "));
        }
        self
    }

    pub(super) fn add(&mut self, other: Self) {
        let Self { passed, failed, ignored, skipped, wanted, failures, times } = other;
        self.failures.extend(failures);
        self.times.extend(times);
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

    /// Prints the slowest tests, each failed test with its output, and the skipped ones: in a long
    /// log these are the last lines.
    pub(crate) fn say(&self, in_ci: bool) {
        let mut times: Vec<&(Duration, String)> = self.times.iter().collect();
        times.sort_by(|one, other| other.cmp(one));
        for (time, test) in times.into_iter().take(SLOWEST) {
            println!("slow: {} {test}", seconds(*time));
        }
        for failure in &self.failures {
            println!("failed: {failure}");
        }
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
        let Self { passed, failed, ignored, skipped, wanted, .. } = self;
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
    /// Within the output of tests that failed.
    failures: bool,
    /// The test whose output the lines are.
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
        let (plain, time) = without_time(plain.trim_end());
        if let (Some((name, _)), Some(time)) = (result_of(plain), time) {
            self.counts.times.push((time, name.to_owned()));
        }
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
            // The second time, their names alone follow.
            (self.successes, self.failures) = (false, !self.failures);
        } else if let Some(name) = output_of(plain) {
            self.test = name.to_owned();
            if self.failures {
                self.counts.failures.push(name.to_owned());
            }
        } else if let Some(failure) = self.counts.failures.last_mut().filter(|_| self.failures) {
            if !is_backtrace(plain) && failure.lines().count() <= MAX_LINES {
                failure.push_str(&format!("\n    {plain}"));
            }
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
        if self.counts.failed > self.counts.failures.len() {
            self.counts.failures.push("ended without a result; see above".to_owned());
        }
        self.counts
    }

    fn end_binary(&mut self) {
        if self.running {
            self.counts.failed += 1;
        }
        self.running = false;
        (self.successes, self.failures) = (false, false);
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
    let (name, outcome) = result_of(line)?;
    (outcome == "ignored" || outcome.starts_with("ignored,")).then_some(name)
}

/// The name and the outcome in `test NAME ... OUTCOME`.
fn result_of(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("test ")?.split_once(" ... ")
}

/// The line without ` <1.234s>` at its end, and that time.
fn without_time(line: &str) -> (&str, Option<Duration>) {
    let time = || {
        let (before, time) = line.strip_suffix("s>")?.rsplit_once(" <")?;
        Some((before, Duration::try_from_secs_f64(time.parse().ok()?).ok()?))
    };
    time().map_or((line, None), |(before, time)| (before, Some(time)))
}

/// A line of a backtrace, or a line before or after it.
fn is_backtrace(line: &str) -> bool {
    let line = line.trim_start();
    let is_frame =
        |(number, rest): (&str, &str)| number.parse::<u32>().is_ok() && rest.starts_with(' ');
    line.starts_with("at ")
        || line.starts_with("note: ")
        || line == "stack backtrace:"
        || line.split_once(':').is_some_and(is_frame)
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
    fn a_failed_test_is_named_with_its_output_and_a_slow_one_with_its_time() {
        let text = "running 2 tests\ntest a ... FAILED <1.250s>\ntest b ... ok <0.000s>\n\n\
                    successes:\n\n---- b stdout ----\nfine\n\nsuccesses:\n    b\n\n\
                    failures:\n\n---- a stdout ----\nwhy\nstack backtrace:\n   0: f\n  at x.rs:1\n\n\
                    failures:\n    a\n\n\
                    test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured";
        let counts = read(text, false).0.of_binary("z");
        assert_eq!(counts.failures, ["z, a\n    why\n    "]);
        let times: Vec<_> =
            counts.times.iter().map(|(time, name)| (time.as_millis(), &**name)).collect();
        assert_eq!(times, [(1_250, "z, a"), (0, "z, b")]);
        let died = read("running 2 tests\ntest a ... ok", false).0.of_binary("z");
        assert_eq!(died.failures, ["z, ended without a result; see above"]);
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
