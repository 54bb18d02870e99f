//! The lists and tiers that a watcher looks at: a file is read again where it may have changed.

use core::time::Duration;
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use crate::lines::hash_of;
use crate::load::{Lists, read_list};

/// How long the metadata of a file must be the same before they stand for its content. The times of
/// a file system have ticks of up to 2 s (FAT), and two changes in one tick have the same time.
const TICK: Duration = Duration::from_secs(2);

/// The metadata and hashes of the files at the last look.
#[derive(Debug, Default)]
pub(crate) struct SeenLists(BTreeMap<PathBuf, Seen>);

#[derive(Debug)]
struct Seen {
    stamp: Stamp,
    /// When the metadata were first like this, by this process: the clock of a file server may be
    /// another.
    since: Instant,
    /// When the content was read.
    read: Instant,
    hash: u64,
}

impl Seen {
    /// Whether a change after the content was read has other metadata.
    fn is_settled(&self) -> bool {
        self.read.duration_since(self.since) >= TICK
    }
}

/// The metadata that a change of the content changes. A file that is put in the place of another
/// has another number, and a time that somebody sets leaves that of the change of the metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    bytes: u64,
    modified: SystemTime,
    file: File,
}

/// The device, the number, and the seconds and nanoseconds of the last change of the metadata.
type File = (u64, u64, i64, i64);

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        Some(Self { bytes: found.len(), modified: found.modified().ok()?, file: file(&found) })
    }
}

#[cfg(unix)]
fn file(found: &Metadata) -> File {
    use std::os::unix::fs::MetadataExt as _;
    (found.dev(), found.ino(), found.ctime(), found.ctime_nsec())
}

#[cfg(not(unix))]
fn file(_: &Metadata) -> File {
    File::default()
}

impl SeenLists {
    /// The hashes of the files that these lists name.
    pub(crate) fn look(&mut self, lists: &Lists) -> Lists {
        self.look_at(lists, Instant::now, |path| read_list(path).ok().map(|text| hash_of(&text)))
    }

    fn look_at(
        &mut self,
        lists: &Lists,
        now: impl Fn() -> Instant,
        mut read: impl FnMut(&Path) -> Option<u64>,
    ) -> Lists {
        let mut before = core::mem::take(&mut self.0);
        let mut hash = |path: &PathBuf| {
            // Before the content is read: a change in between is found at the next look.
            let (stamp, now) = (Stamp::of(path), now());
            let same = before.remove(path).filter(|seen| Some(seen.stamp) == stamp);
            let seen = match same {
                Some(seen) if seen.is_settled() => seen,
                same => {
                    let since = same.map_or(now, |seen| seen.since);
                    let (hash, stamp) = (read(path)?, stamp?);
                    Seen { stamp, since, read: now, hash }
                }
            };
            let hash = seen.hash;
            self.0.insert(path.clone(), seen);
            Some(hash)
        };
        lists.keys().map(|path| (path.clone(), hash(path))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One file, its looks, and how often it was read.
    struct Story {
        folder: tempfile::TempDir,
        seen: SeenLists,
        begin: Instant,
        read: usize,
    }

    impl Story {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let (seen, begin) = (SeenLists::default(), Instant::now());
            Self { folder, seen, begin, read: 0 }
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("list.txt")
        }

        /// The content, by a look so many milliseconds after the beginning.
        fn look(&mut self, after_ms: u64) -> Option<u64> {
            let (path, now) = (self.path(), self.begin + Duration::from_millis(after_ms));
            let lists = Lists::from([(path.clone(), None)]);
            let read = |path: &Path| {
                self.read += 1;
                std::fs::read_to_string(path).ok()?.parse().ok()
            };
            self.seen.look_at(&lists, || now, read).remove(&path).unwrap()
        }
    }

    #[test]
    fn a_file_is_read_while_its_time_may_hide_a_change_and_then_no_more() {
        let mut story = Story::new();
        std::fs::write(story.path(), "1").unwrap();
        for (after_ms, read) in
            [(0, 1), (1, 2), (1_999, 3), (2_000, 4), (2_001, 4), (4_000, 4), (1 << 40, 4)]
        {
            assert_eq!((story.look(after_ms), story.read), (Some(1), read), "{after_ms}");
        }
    }

    /// Each change leaves the length and the time of the file as they were.
    #[cfg(unix)]
    #[test]
    fn a_change_is_found_by_what_it_leaves() {
        use std::os::unix::fs::MetadataExt as _;
        let mut story = Story::new();
        let path = story.path();
        std::fs::write(&path, "1").unwrap();
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let age = |path: &Path| {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_modified(long_ago).unwrap();
        };
        age(&path);
        let mut after_ms = 0;
        let mut settles = |story: &mut Story| {
            for _ in 0..3 {
                after_ms += 2_000;
                story.look(after_ms);
            }
            let read = story.read;
            after_ms += 2_000;
            (story.look(after_ms), story.read - read)
        };
        assert_eq!(settles(&mut story), (Some(1), 0));
        let changed = || std::fs::metadata(&path).unwrap().ctime_nsec();
        let before = changed();
        // The clock of the file system may tick each few milliseconds.
        while changed() == before {
            std::fs::write(&path, "2").unwrap();
            age(&path);
        }
        assert_eq!(settles(&mut story), (Some(2), 0));
        let beside = path.with_extension("new");
        std::fs::write(&beside, "3").unwrap();
        age(&beside);
        std::fs::rename(&beside, &path).unwrap();
        assert_eq!(settles(&mut story), (Some(3), 0));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(settles(&mut story), (None, 1));
        // What cannot be read is looked at each time.
        std::fs::write(&path, "no number").unwrap();
        assert_eq!(settles(&mut story), (None, 1));
    }
}
