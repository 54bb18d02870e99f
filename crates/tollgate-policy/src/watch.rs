//! Watches a policy file and reloads it when it changes.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use notify::{RecursiveMode, Watcher as _};
use tollgate::Store;

use crate::gate::{Gate, Reread, Revision};
use crate::load::{Lists, format_of, parse, text_of, whole};
use crate::policies::Policies;
use crate::problem::Problems;
use crate::seen_lists::SeenLists;

/// The default interval at which the file is polled: 2 s.
pub const DEFAULT_POLL: Duration = Duration::from_secs(2);

/// The default time that a file must be unchanged before it is read: 100 ms. Editors write in
/// several steps.
pub const DEFAULT_DEBOUNCE: Duration = Duration::from_millis(100);

/// The longest debounce time: 1 minute.
const MAX_DEBOUNCE: Duration = Duration::from_secs(60);

/// The longest wait for a file that keeps changing, in debounce times.
const MAX_DEBOUNCES: u32 = 10;

/// The result of a change to a watched file.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reload {
    /// Its policies are in force. Warnings are in [`Policies::warnings`].
    Replaced {
        /// The new revision.
        revision: Revision,
        /// The policies.
        policies: Policies,
    },
    /// The file was written or repaired, and its policies are already in force: they are unchanged,
    /// or another caller has read them first.
    Unchanged(Revision),
    /// The file is invalid, and the previous policies stay in force.
    Broken(Problems),
    /// The system does not report changes: the file is only polled.
    PollingOnly(String),
}

impl core::fmt::Display for Reload {
    /// The result as text, for a log.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Replaced { revision, policies } => {
                let number = policies.policies().len();
                write!(f, "policies replaced: revision {revision}, {number} in number")?;
                if policies.warnings().is_empty() {
                    return Ok(());
                }
                write!(f, "\n{}", policies.warnings())
            }
            Self::Unchanged(revision) => {
                write!(f, "the file has the policies that count: revision {revision}")
            }
            Self::Broken(problems) => {
                write!(f, "policies not replaced, the file is broken:\n{problems}")
            }
            Self::PollingOnly(why) => {
                write!(f, "policies are only looked at from time to time: {why}")
            }
        }
    }
}

/// The settings of a file watcher.
#[derive(Clone, Debug)]
pub struct Watch {
    path: PathBuf,
    poll: Duration,
    debounce: Duration,
    notify: bool,
}

impl Watch {
    /// Watches this file with [`DEFAULT_POLL`], [`DEFAULT_DEBOUNCE`], and change events of the
    /// system.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let (poll, debounce) = (DEFAULT_POLL, DEFAULT_DEBOUNCE);
        Self { path: path.into(), poll, debounce, notify: true }
    }

    /// Sets the interval at which the file is polled, in addition to the system's events: at least
    /// 1 ms.
    #[must_use]
    pub fn poll(self, poll: Duration) -> Self {
        Self { poll: poll.max(Duration::from_millis(1)), ..self }
    }

    /// Sets the time that the file must be unchanged before it is read: at most 1 minute.
    #[must_use]
    pub fn debounce(self, debounce: Duration) -> Self {
        Self { debounce: debounce.min(MAX_DEBOUNCE), ..self }
    }

    /// Only polls: for file systems that report no changes, such as network file systems.
    #[must_use]
    pub fn polling_only(self) -> Self {
        Self { notify: false, ..self }
    }

    /// Starts the watcher. The current content is compared with `gate`'s policies and replaces them
    /// if it differs; later, every change does. `on_reload` is called on the watching thread: a
    /// panic in it ends the watching.
    ///
    /// # Errors
    /// The thread cannot be started, or the file has an extension of no known format.
    pub fn start<S: Store + 'static>(
        self,
        gate: &Gate<S>,
        on_reload: impl FnMut(&Reload) + Send + 'static,
    ) -> Result<Watcher, Problems> {
        format_of(&self.path)?;
        // One pending event is enough, however many files of the folder change meanwhile.
        let (sender, receiver) = sync_channel(1);
        let bell = Bell { sender, end: Arc::default() };
        let wakeups = Wakeups { receiver, end: Arc::clone(&bell.end) };
        let (lists, seen) = (Lists::default(), SeenLists::default());
        let mut followed = Followed { gate: gate.clone(), last: None, lists, seen, on_reload };
        let (system, silence) = if self.notify { self.listen(&bell) } else { (None, None) };
        let path = self.path.clone();
        let run = move || {
            if let Some(why) = silence {
                (followed.on_reload)(&Reload::PollingOnly(why));
            }
            let mut rested = false;
            loop {
                let mut content = followed.read(&self.path);
                if !rested && followed.is_news(&content) {
                    let rest = || self.rest(&wakeups).then(|| followed.read(&self.path));
                    let Some(settled) = settled(content, rest) else { return };
                    content = settled;
                }
                followed.take(&self.path, content);
                match self.wait(&wakeups) {
                    Some(has_rested) => rested = has_rested,
                    None => return,
                }
            }
        };
        let thread = std::thread::Builder::new().name("tollgate-watch".to_owned()).spawn(run);
        let thread = thread.map_err(|error| {
            whole(&path, format!("no thread for it: {error}"), "raise the limit of threads")
        })?;
        Ok(Watcher { bell, thread: Some(thread), _system: system })
    }

    /// Subscribes to the system's events for the folder. The file itself cannot be watched: a
    /// rename or a changed symbolic link replaces it by another file.
    fn listen(&self, bell: &Bell) -> (Option<notify::RecommendedWatcher>, Option<String>) {
        let bell = bell.clone();
        let on_event = move |event: notify::Result<notify::Event>| {
            if is_change(&event) {
                bell.ring();
            }
        };
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let watching = notify::recommended_watcher(on_event).and_then(|mut watcher| {
            watcher.watch(folder, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        match watching {
            Ok(watcher) => (Some(watcher), None),
            Err(error) => (None, Some(error.to_string())),
        }
    }

    /// Waits until the next read, and returns whether the file has been unchanged; `None` when the
    /// watcher should end.
    fn wait(&self, wakeups: &Wakeups) -> Option<bool> {
        match wakeups.receiver.recv_timeout(self.poll) {
            _ if wakeups.is_end() => None,
            Ok(()) => self.rest(wakeups).then_some(true),
            Err(RecvTimeoutError::Timeout) => Some(false),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Waits until the events stop, with an upper bound; false when the watcher should end.
    fn rest(&self, wakeups: &Wakeups) -> bool {
        let last = Instant::now() + self.debounce * MAX_DEBOUNCES;
        while Instant::now() < last {
            match wakeups.receiver.recv_timeout(self.debounce) {
                _ if wakeups.is_end() => return false,
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        true
    }
}

/// Reading the file causes an event too: it must not count as a change.
fn is_change(event: &notify::Result<notify::Event>) -> bool {
    event.as_ref().is_ok_and(|event| !event.kind.is_access())
}

/// The content of a policy file and of the lists that it refers to.
#[derive(Clone, PartialEq, Debug)]
struct Content {
    text: Result<String, Problems>,
    lists: Lists,
}

/// The content after two equal reads in a row. Without the system's events, a file may be read
/// while it is half written, and half of it may be a valid file with fewer policies. `None` when
/// the watcher should end, as reported by `rest`.
fn settled<T: PartialEq>(mut text: T, mut rest: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..MAX_DEBOUNCES {
        let again = rest()?;
        let same = again == text;
        text = again;
        if same {
            break;
        }
    }
    Some(text)
}

/// Wakes the watching thread.
#[derive(Clone, Debug)]
struct Bell {
    sender: SyncSender<()>,
    end: Arc<AtomicBool>,
}

impl Bell {
    fn ring(&self) {
        // A full channel means that the thread is about to wake anyway.
        let _ = self.sender.try_send(());
    }
}

/// The receiving side of a [`Bell`].
struct Wakeups {
    receiver: Receiver<()>,
    end: Arc<AtomicBool>,
}

impl Wakeups {
    fn is_end(&self) -> bool {
        self.end.load(Ordering::Acquire)
    }
}

/// The watched file, with its last content.
struct Followed<S, F> {
    gate: Gate<S>,
    /// The last content, or the error of reading it, so that nothing is reported twice.
    last: Option<Content>,
    /// The lists that are watched: those that the file referred to when it was read.
    lists: Lists,
    seen: SeenLists,
    on_reload: F,
}

impl<S: Store, F: FnMut(&Reload)> Followed<S, F> {
    /// The current content of the file and its lists.
    fn read(&mut self, path: &Path) -> Content {
        Content { text: text_of(path), lists: self.seen.look(&self.lists) }
    }

    /// True when it differs from the last content.
    ///
    /// The content is compared, not the modification time: two changes in one tick of a file
    /// system's clock have the same time. [`SeenLists`] knows when there can be none.
    fn is_news(&self, content: &Content) -> bool {
        self.last.as_ref() != Some(content)
    }

    /// Applies the policies of a changed content.
    fn take(&mut self, path: &Path, content: Content) {
        if !self.is_news(&content) {
            return;
        }
        let first = self.last.is_none();
        let (mut taken, mut is_stale) = (None, false);
        let reread = self.gate.reread(|| {
            let mut lists = Lists::new();
            let policies = content
                .text
                .as_ref()
                .map_err(Problems::clone)
                .and_then(|text| parse(path, text, &mut lists));
            if content.text.is_ok() {
                self.lists = lists;
            }
            // If another caller read it meanwhile, that one has the newer content, and this one
            // reads again.
            is_stale = text_of(path) != content.text;
            let policies = policies?;
            taken = Some(policies.clone());
            Ok(if is_stale { self.gate.current().policies().clone() } else { policies })
        });
        if is_stale {
            return;
        }
        // With the lists as they were read now.
        self.last = Some(Content { lists: self.lists.clone(), ..content });
        let reload = match (reread, taken) {
            (Ok(Reread::Taken(revision)), Some(policies)) => {
                Reload::Replaced { revision, policies }
            }
            (Ok(_), _) if first => return,
            (Ok(reread), _) => Reload::Unchanged(reread.revision().clone()),
            (Err(problems), _) => Reload::Broken(problems),
        };
        (self.on_reload)(&reload);
    }
}

impl<S: Store + 'static> Gate<S> {
    /// Watches a policy file, as [`Watch::start`] does with the defaults.
    ///
    /// # Errors
    /// As [`Watch::start`].
    pub fn watch(
        &self,
        path: impl Into<PathBuf>,
        on_reload: impl FnMut(&Reload) + Send + 'static,
    ) -> Result<Watcher, Problems> {
        Watch::new(path).start(self, on_reload)
    }
}

/// A running watcher; dropping it stops the watching.
#[derive(Debug)]
#[must_use = "a watcher that is dropped watches nothing"]
pub struct Watcher {
    bell: Bell,
    thread: Option<JoinHandle<()>>,
    _system: Option<notify::RecommendedWatcher>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.bell.end.store(true, Ordering::Release);
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            // A watcher dropped within its own callback cannot join its own thread.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_is_no_change() {
        use notify::EventKind;
        use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RemoveKind};
        let is = |kind: EventKind| is_change(&Ok(notify::Event::new(kind)));
        assert!(!is(EventKind::Access(AccessKind::Open(AccessMode::Read))));
        assert!(!is(EventKind::Access(AccessKind::Close(AccessMode::Read))));
        // `Other`: the system lost count of its events, and says only that there were some.
        for kind in [
            EventKind::Any,
            EventKind::Create(CreateKind::File),
            EventKind::Modify(ModifyKind::Any),
            EventKind::Remove(RemoveKind::File),
            EventKind::Other,
        ] {
            assert!(is(kind), "{kind:?}");
        }
        assert!(!is_change(&Err(notify::Error::generic("gone"))));
    }

    #[test]
    fn half_a_file_is_not_taken() {
        let text = |text: &str| Ok::<String, Problems>(text.to_owned());
        let written = ["half", "most", "whole", "whole", "too late"];
        let mut seen = written.iter();
        let settled_at = settled(text("ha"), || seen.next().map(|s| text(s)));
        assert_eq!(settled_at, Some(text("whole")));
        assert_eq!(seen.next(), Some(&"too late"));
        // A file that changes all the time is read in the end.
        let mut times = 0;
        let restless = settled(text("0"), || {
            times += 1;
            Some(text(&times.to_string()))
        });
        assert_eq!((restless, times), (Some(text("10")), 10));
        assert_eq!(settled(text("a"), || None), None);
    }
}
