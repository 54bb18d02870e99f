//! Following a policy file through everything that is done to files. Nothing here waits for a time:
//! each step waits until what it did is seen.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests may

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_executor::block_on;
use tollgate::MemoryStore;
use tollgate_policy::{Gate, Outcome, Policies, Reload, Watch, Watcher};

/// A file with one limit of so many an hour.
fn hourly(units: u64) -> String {
    format!(
        "version = 1\n[[policies]]\nname = \"p\"\non_failure = \"allow\"\nlimits = [{{ subject = \
         \"ip\", limit = \"{units}/h\" }}]\n"
    )
}

/// Waits until it holds, for a minute at most: a busy machine is not a fault.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::yield_now();
    }
}

struct Watched {
    gate: Gate<MemoryStore>,
    told: Arc<Mutex<Vec<String>>>,
    watcher: Watcher,
}

impl Watched {
    fn new(path: &Path, watch: Watch) -> Self {
        let gate = Gate::new(Policies::load(path).unwrap(), MemoryStore::new()).unwrap();
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let into = Arc::clone(&told);
        let watcher = watch.debounce(Duration::from_millis(2)).start(&gate, move |reload| {
            into.lock().unwrap().push(match reload {
                Reload::Replaced { policies, .. } => format!("replaced {}", policies.hash()),
                Reload::Broken(problems) => format!("broken {problems}"),
                other => format!("{other:?}"),
            });
        });
        Self { gate, told, watcher: watcher.unwrap() }
    }

    fn units(&self) -> u64 {
        self.gate.current().policies().policies()[0].entries[0].limits.limits()[0].quota().units
    }

    fn until(&self, units: u64) {
        until(&format!("{units}/h"), || self.units() == units);
    }

    fn until_told(&self, says: &str) {
        until(says, || self.told.lock().unwrap().last().is_some_and(|told| told.contains(says)));
    }
}

/// Told by the system, and only looking: a poll of an hour finds nothing, one of 1 ms all.
fn both(path: &Path) -> [Watch; 2] {
    [
        Watch::new(path).poll(Duration::from_secs(3_600)),
        Watch::new(path).polling_only().poll(Duration::from_millis(1)),
    ]
}

/// Runs a story for both ways of watching, each in a separate folder with `p.toml`.
fn story(run: impl Fn(&Path, &Path, Watched)) {
    for way in 0..2 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.toml");
        std::fs::write(&path, hourly(1)).unwrap();
        let [told, looking] = both(&path);
        let watched = Watched::new(&path, if way == 0 { told } else { looking });
        run(folder.path(), &path, watched);
    }
}

/// As editors and deployments do it: whole or not at all.
fn renamed(folder: &Path, path: &Path, text: &str) {
    let beside = folder.join("beside");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(&beside, path).unwrap();
}

#[test]
fn writes_and_renames_are_followed() {
    story(|folder, path, watched| {
        std::fs::write(path, hourly(2)).unwrap();
        watched.until(2);
        renamed(folder, path, &hourly(3));
        watched.until(3);
        renamed(folder, path, &hourly(1));
        watched.until(1);
        assert_eq!(watched.gate.current().revision().hash, Policies::load(path).unwrap().hash());
    });
}

/// A file whose one limit does not hold for who is in `list.txt`.
fn listed(units: u64) -> String {
    let [before, after] = ["limits = [{", " }]"];
    let overrides = "overrides = [{ when = { ip = { file = \"list.txt\" } }, limit = \"banned\" }]";
    hourly(units).replace(before, &format!("{before} {overrides},")).replace(after, " }]")
}

#[test]
fn a_list_of_networks_is_followed_as_the_file_that_names_it() {
    story(|folder, path, watched| {
        let list = folder.join("list.txt");
        let is_banned =
            |ip: &str| block_on(watched.gate.check(&[("ip", ip)])).outcome() == Outcome::Banned;
        std::fs::write(&list, "203.0.113.0/24\n").unwrap();
        renamed(folder, path, &listed(1_000));
        until("the list is read", || is_banned("203.0.113.9"));
        assert!(!is_banned("192.0.2.7"));
        let first = watched.gate.current().revision().clone();
        // One more line, and the policies are others.
        renamed(folder, &list, "203.0.113.0/24\n192.0.2.7 # caught\n");
        until("the list is read again", || is_banned("192.0.2.7"));
        assert_ne!(*watched.gate.current().revision(), first);
        assert_eq!(watched.gate.current().revision().hash, Policies::load(path).unwrap().hash());
        // A bad line, or no list at all, changes nothing and is reported with its place.
        renamed(folder, &list, "203.0.113.0/24\nnobody\n");
        watched.until_told("list.txt, line 2: `nobody` is not an address or a network");
        assert!(is_banned("192.0.2.7"));
        std::fs::remove_file(&list).unwrap();
        watched.until_told("list.txt: the file cannot be read");
        assert!(is_banned("192.0.2.7"));
        renamed(folder, &list, "192.0.2.7\n");
        until("mended", || !is_banned("203.0.113.9") && is_banned("192.0.2.7"));
        // A file that no policy names any more is no longer looked at.
        renamed(folder, path, &hourly(7));
        watched.until(7);
        assert!(!is_banned("192.0.2.7"));
    });
}

#[test]
fn a_file_that_is_deleted_keeps_its_policies_until_it_is_back() {
    story(|folder, path, watched| {
        for units in [2, 1, 2] {
            std::fs::remove_file(path).unwrap();
            watched.until_told("cannot be read");
            assert_ne!(watched.units(), units);
            renamed(folder, path, &hourly(units));
            watched.until(units);
        }
    });
}

#[test]
fn a_broken_file_in_between_changes_nothing() {
    story(|folder, path, watched| {
        for (broken, says) in [
            ("version = 1\npolicies = 5", "`policies` is a whole number"),
            ("version = 1\n[[policies", "unclosed array table"),
            ("", "the file says nothing"),
        ] {
            renamed(folder, path, broken);
            watched.until_told(says);
            assert_eq!((watched.units(), watched.gate.current().revision().number), (1, 1));
        }
        // An earlier fault is reported as gone: a reader that saw it wants to know that.
        renamed(folder, path, &hourly(1));
        watched.until_told("Unchanged");
        assert_eq!((watched.units(), watched.gate.current().revision().number), (1, 1));
        let told = watched.told.lock().unwrap();
        let broken = told.iter().filter(|told| told.starts_with("broken")).count();
        assert!(told.len() == 4 && broken == 3, "each is reported once: {told:#?}");
    });
}

#[test]
fn of_many_quick_changes_the_last_is_taken() {
    story(|folder, path, watched| {
        for units in 2..300 {
            renamed(folder, path, &hourly(units));
        }
        watched.until(299);
        // Revisions count what was taken, which is at most each of them.
        assert!((2..=299).contains(&watched.gate.current().revision().number));
    });
}

#[test]
fn a_busy_folder_is_not_in_the_way() {
    story(|folder, path, watched| {
        for number in 0..300 {
            std::fs::write(folder.join("other.log"), number.to_string()).unwrap();
        }
        renamed(folder, path, &hourly(2));
        watched.until(2);
        assert_eq!(watched.gate.current().revision().number, 2);
    });
}

#[cfg(unix)]
fn data(folder: &Path, name: &str, units: u64) -> PathBuf {
    let data = folder.join(name);
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("p.toml"), hourly(units)).unwrap();
    data
}

/// `p.toml` leads to `..data/p.toml`, and `..data` to a folder that is another one after an update.
#[cfg(unix)]
#[test]
fn links_are_swapped_as_kubernetes_does_it() {
    use std::os::unix::fs::symlink;
    for way in 0..2 {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        data(folder.path(), "..1", 1);
        symlink("..1", at("..data")).unwrap();
        symlink("..data/p.toml", at("p.toml")).unwrap();
        let [told, looking] = both(&at("p.toml"));
        let watched = Watched::new(&at("p.toml"), if way == 0 { told } else { looking });
        for units in 2..6 {
            data(folder.path(), &format!("..{units}"), units);
            symlink(format!("..{units}"), at("..data_tmp")).unwrap();
            std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
            std::fs::remove_dir_all(at(&format!("..{}", units - 1))).unwrap();
            watched.until(units);
        }
    }
}

/// Changes without an event of the system are found by looking: a target elsewhere, a folder that
/// is gone.
#[cfg(unix)]
#[test]
fn changes_elsewhere_are_found_by_looking() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (here, there) = (at("here"), data(folder.path(), "there", 1));
    std::fs::create_dir(&here).unwrap();
    symlink(there.join("p.toml"), here.join("p.toml")).unwrap();
    let watch = Watch::new(here.join("p.toml")).poll(Duration::from_millis(1));
    let watched = Watched::new(&here.join("p.toml"), watch);
    renamed(&there, &there.join("p.toml"), &hourly(2));
    watched.until(2);
    std::fs::remove_dir_all(&here).unwrap();
    watched.until_told("cannot be read");
    std::fs::create_dir(&here).unwrap();
    renamed(folder.path(), &here.join("p.toml"), &hourly(3));
    watched.until(3);
}

#[test]
fn what_the_file_holds_at_the_beginning_is_taken_when_it_is_something_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.toml");
    std::fs::write(&path, hourly(1)).unwrap();
    let old = Gate::new(Policies::load(&path).unwrap(), MemoryStore::new()).unwrap();
    std::fs::write(&path, hourly(2)).unwrap();
    let watch = Watch::new(&path).polling_only().poll(Duration::from_millis(1));
    let _watcher = watch.debounce(Duration::ZERO).start(&old, |_| {}).unwrap();
    until("2", || {
        old.current().policies().policies()[0].entries[0].limits.to_string().starts_with("2/h")
    });
    assert_eq!(old.current().revision().number, 2);
}

#[test]
fn a_folder_that_cannot_be_watched_is_told_and_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("later/p.toml");
    let beside = folder.path().join("p.toml");
    std::fs::write(&beside, hourly(1)).unwrap();
    let gate = Gate::new(Policies::load(&beside).unwrap(), MemoryStore::new()).unwrap();
    let (sender, told) = std::sync::mpsc::channel();
    let watch = Watch::new(&path).poll(Duration::from_millis(1)).debounce(Duration::ZERO);
    let _watcher = watch
        .start(&gate, move |reload| {
            let _ = sender.send(match reload {
                Reload::PollingOnly(_) => "polling",
                Reload::Broken(_) => "broken",
                _ => "replaced",
            });
        })
        .unwrap();
    let next = || told.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!((next(), next()), ("polling", "broken"));
    std::fs::create_dir(folder.path().join("later")).unwrap();
    renamed(folder.path(), &path, &hourly(2));
    assert_eq!(next(), "replaced");
    assert!(Watch::new(folder.path().join("p.ini")).start(&gate, |_| {}).is_err());
}

#[test]
fn a_watcher_ends_when_it_is_dropped_at_any_moment() {
    story(|folder, path, watched| {
        let Watched { gate, told, watcher } = watched;
        drop(watcher);
        // The thread has ended, and with it what it held.
        assert_eq!(Arc::strong_count(&told), 1);
        renamed(folder, path, &hourly(9));
        assert_eq!(gate.current().revision().number, 1);
    });
    // Within its own call, and while it waits for a file to rest.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.toml");
    std::fs::write(&path, hourly(1)).unwrap();
    let gate = Gate::new(Policies::load(&path).unwrap(), MemoryStore::new()).unwrap();
    let slot: Arc<Mutex<Option<Watcher>>> = Arc::default();
    let own = Arc::clone(&slot);
    let watch = Watch::new(&path).polling_only().poll(Duration::from_millis(1));
    let watch = watch.debounce(Duration::ZERO);
    let watcher = watch.start(&gate, move |_| drop(own.lock().unwrap().take())).unwrap();
    *slot.lock().unwrap() = Some(watcher);
    renamed(folder.path(), &path, &hourly(2));
    until("dropped", || slot.lock().unwrap().is_none() && Arc::strong_count(&slot) == 1);
    let endless = Watch::new(&path).poll(Duration::from_millis(1)).debounce(Duration::MAX);
    let watcher = endless.start(&gate, |_| {}).unwrap();
    renamed(folder.path(), &path, &hourly(3));
    drop(watcher);
    assert_eq!(gate.current().revision().number, 2);
}
