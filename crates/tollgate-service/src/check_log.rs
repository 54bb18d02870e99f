//! A log of checks in a file of bounded size, as `tollgate advise` reads it (`docs/server.md`).
//!
//! A decision puts its subject into a queue and waits for nothing; a thread writes what is queued
//! ten times a second. Checks that find no room in the queue are lost, and counted.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use tollgate::Subject;
use tollgate_policy::Outcome;

use crate::clock::since_epoch;

/// The most checks in the queue: of about 100 bytes each, and of 1 KiB with the longest subjects.
const MAX_WAITING: usize = 32_768;

/// How often the queue is written.
const PAUSE: Duration = Duration::from_millis(100);

/// The keys of a line that are not dimensions of the subject.
const KEYS: [&str; 5] = ["time", "client", "subject", "policy", "outcome"];

/// A log of checks. The log ends when this is dropped; [`CheckLog::end`] also waits for the file.
#[derive(Debug)]
pub struct CheckLog {
    queue: CheckQueue,
    /// Dropped to end the thread.
    alive: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The end at which checks are put in.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckQueue(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    checks: Vec<Check>,
    lost: u64,
}

#[derive(Debug)]
struct Check {
    at: Duration,
    policy: Option<String>,
    subject: String,
    outcome: Outcome,
}

impl CheckLog {
    /// The smallest bound of the size, in bytes: 1 MiB.
    pub const MIN_BYTES: u64 = 1 << 20;

    /// Starts to log into this file, after its present end. With the file `PATH.1`, in which older
    /// checks are, it has at most `max_bytes`, which is at least [`CheckLog::MIN_BYTES`].
    ///
    /// # Errors
    /// The file cannot be opened, or no thread can be started.
    pub fn start(path: &Path, max_bytes: u64) -> io::Result<Self> {
        let half = max_bytes.max(Self::MIN_BYTES) / 2;
        let mut file = Rotated::open(path, half)?;
        let queue = CheckQueue::default();
        let (alive, ended) = channel::<()>();
        let waiting = queue.clone();
        let writes = move || {
            let mut health = Health::default();
            loop {
                let is_last = ended.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout);
                let Waiting { checks, lost } = core::mem::take(&mut *waiting.0.lock());
                health.tell(lost, file.write(&checks).err());
                if is_last {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("check-log".to_owned()).spawn(writes)?;
        Ok(Self { queue, alive: Some(alive), thread: Some(thread) })
    }

    /// Writes what is queued, and ends.
    pub fn end(mut self) {
        self.alive = None;
        if let Some(thread) = self.thread.take() {
            // It panics nowhere, and has told of its errors.
            let _ = thread.join();
        }
    }

    pub(crate) fn queue(&self) -> CheckQueue {
        self.queue.clone()
    }
}

impl CheckQueue {
    /// Queues a check.
    #[inline]
    pub(crate) fn put(&self, policy: Option<&str>, subject: &str, outcome: Outcome) {
        let at = since_epoch();
        let (policy, subject) = (policy.map(str::to_owned), subject.to_owned());
        let mut waiting = self.0.lock();
        if waiting.checks.len() < MAX_WAITING {
            waiting.checks.push(Check { at, policy, subject, outcome });
        } else {
            waiting.lost += 1;
        }
    }
}

impl Serialize for Check {
    /// One line. Dimensions of the subject are fields, but for those that other fields are called.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry("time", &time(self.at))?;
        // The field that a reader of logs takes for the client where there is no `ip`.
        line.serialize_entry("client", &self.subject)?;
        line.serialize_entry("subject", &self.subject)?;
        line.serialize_entry("policy", &self.policy)?;
        line.serialize_entry("outcome", self.outcome.name())?;
        if let Ok(subject) = Subject::parse(&self.subject) {
            for (dimension, value) in subject.dimensions() {
                if !KEYS.contains(&dimension) {
                    line.serialize_entry(dimension, &String::from_utf8_lossy(&value))?;
                }
            }
        }
        line.end()
    }
}

/// Seconds since the Unix epoch with all digits of their microseconds, as text: a JSON number would
/// be a float.
fn time(at: Duration) -> String {
    format!("{}.{:06}", at.as_secs(), at.subsec_micros())
}

/// A file that becomes `PATH.1` when it has its most bytes.
#[derive(Debug)]
struct Rotated {
    path: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
    max_bytes: u64,
}

impl Rotated {
    fn open(path: &Path, max_bytes: u64) -> io::Result<Self> {
        let (file, bytes) = open(path)?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file), bytes, max_bytes })
    }

    fn write(&mut self, checks: &[Check]) -> io::Result<()> {
        let mut line = Vec::new();
        for check in checks {
            line.clear();
            serde_json::to_writer(&mut line, check)?;
            line.push(b'\n');
            if self.bytes > 0 && self.bytes.saturating_add(line.len() as u64) > self.max_bytes {
                self.rotate()?;
            }
            self.file.write_all(&line)?;
            self.bytes = self.bytes.saturating_add(line.len() as u64);
        }
        self.file.flush()
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file.flush()?;
        let mut older = self.path.as_os_str().to_owned();
        older.push(".1");
        std::fs::rename(&self.path, PathBuf::from(older))?;
        let (file, bytes) = open(&self.path)?;
        (self.file, self.bytes) = (BufWriter::new(file), bytes);
        Ok(())
    }
}

/// Opens a file at its end: the file, and its length. Subjects are personal data, so only the owner
/// may read a new file.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    let mut file = options.read(true).append(true).create(true).mode(0o600).open(path)?;
    let bytes = file.metadata()?.len();
    if bytes > 0 {
        // The last line of a process that was killed may have no end.
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
            return Ok((file, bytes.saturating_add(1)));
        }
    }
    Ok((file, bytes))
}

/// The last state of the file and of the queue that was logged.
#[derive(Debug, Default)]
struct Health {
    is_failing: bool,
    is_losing: bool,
}

impl Health {
    /// Logs a trouble when it begins, and when it has ended.
    fn tell(&mut self, lost: u64, error: Option<io::Error>) {
        match (&error, self.is_failing) {
            (Some(error), false) => {
                tracing::warn!(target: "tollgate", "the log of checks cannot be written: {error}");
            }
            (None, true) => {
                tracing::info!(target: "tollgate", "the log of checks is written again");
            }
            _ => {}
        }
        if lost > 0 && !self.is_losing {
            tracing::warn!(
                target: "tollgate",
                lost,
                "checks are missing in the log of checks: more came than are written"
            );
        }
        (self.is_failing, self.is_losing) = (error.is_some(), lost > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(subject: &str) -> Check {
        let at = Duration::from_micros(1_700_000_000_000_042);
        let (policy, subject) = (Some("login".to_owned()), subject.to_owned());
        Check { at, policy, subject, outcome: Outcome::Denied }
    }

    fn line(subject: &str) -> String {
        serde_json::to_string(&check(subject)).unwrap()
    }

    #[test]
    fn dimensions_are_fields_but_for_names_that_are_taken() {
        let begin = |subject: &str| {
            format!(
                "{{\"time\":\"1700000000.000042\",\"client\":\"{subject}\",\
                 \"subject\":\"{subject}\",\"policy\":\"login\",\"outcome\":\"denied\""
            )
        };
        let both = "ip:192.0.2.7,user:a%2Cb";
        let more = ",\"ip\":\"192.0.2.7\",\"user\":\"a,b\"}";
        assert_eq!(line(both), begin(both) + more);
        assert_eq!(line("time:7"), begin("time:7") + "}");
        assert_eq!(line("backup"), begin("backup") + ",\"key\":\"backup\"}");
    }

    #[test]
    fn two_files_have_at_most_their_bytes_and_the_newest_checks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checks");
        std::fs::write(&path, "a line without an end").unwrap();
        let bytes = line("user:10").len() as u64 + 1;
        let mut file = Rotated::open(&path, 3 * bytes).unwrap();
        let all: Vec<_> = (10..20).map(|number| check(&format!("user:{number}"))).collect();
        for some in all.chunks(4) {
            file.write(some).unwrap();
        }
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        let [newer, older] = [read(&path), read(&folder.path().join("checks.1"))];
        let lines: Vec<_> = older.lines().chain(newer.lines()).collect();
        let expected: Vec<_> =
            (20 - lines.len()..20).map(|number| line(&format!("user:{number}"))).collect();
        assert_eq!(lines, expected);
        assert!((3..=6).contains(&lines.len()), "{lines:?}");
        // Opened again, it goes on where it was.
        drop(file);
        Rotated::open(&path, 3 * bytes).unwrap().write(&[check("user:99")]).unwrap();
        assert!(read(&path).ends_with(&format!("{}\n", line("user:99"))));
    }

    #[test]
    fn a_line_without_an_end_gets_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checks");
        std::fs::write(&path, "{\"time\":").unwrap();
        let log = CheckLog::start(&path, 0).unwrap();
        log.queue().put(None, "user:1", Outcome::Allowed);
        log.end();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (2, "{\"time\":"));
        assert!(lines[1].contains("\"policy\":null,\"outcome\":\"allowed\",\"user\":\"1\"}"));
    }

    #[test]
    fn a_full_queue_loses_checks_and_counts_them() {
        let queue = CheckQueue::default();
        for _ in 0..MAX_WAITING + 3 {
            queue.put(None, "user:1", Outcome::Allowed);
        }
        let waiting = queue.0.lock();
        assert_eq!((waiting.checks.len(), waiting.lost), (MAX_WAITING, 3));
    }
}
