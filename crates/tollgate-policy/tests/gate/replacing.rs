//! Policies that are replaced, and files that are followed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tollgate_policy::{Authority, Reload, Watch};

use super::*;

#[test]
fn a_live_limit_is_raised_and_lowered_and_keeps_its_count() {
    let of = |units: u64| {
        parse(&one(&format!("limits = [{{ subject = \"ip\", limit = \"{units}/h\" }}]")))
    };
    let (gate, _) = gate_of(of(5));
    let call = [("ip", "1.1.1.1")];
    assert_eq!(admitted(&asked(&gate, 9, &call)), 5);
    let old = ask(&gate, &call);
    assert_eq!(gate.replace(of(8)).number, 2);
    assert_eq!(admitted(&asked(&gate, 9, &call)), 3);
    gate.replace(of(6));
    assert_eq!(admitted(&asked(&gate, 9, &call)), 0);
    let last = gate.replace(of(9));
    assert_eq!(admitted(&asked(&gate, 9, &call)), 1);
    let answer = ask(&gate, &call);
    assert_eq!(answer.revision(), &last);
    assert_eq!((old.revision().number, answer.revision().number), (1, 4));
    assert_ne!(old.revision().hash, answer.revision().hash);
    // The counters live on, too.
    let counts: HashMap<String, _> = gate.counters().policies().into_iter().collect();
    assert_eq!(counts["p"].total(Outcome::Allowed), 9);
    // Another name is another count.
    gate.replace(parse(
        &one("limits = [{ subject = \"ip\", limit = \"5/h\" }]").replace("\"p\"", "\"q\""),
    ));
    assert!(ask(&gate, &call).is_allowed());
}

#[test]
fn policies_are_replaced_under_load_without_a_wrong_answer() {
    let of = |units: u64| {
        parse(&one(&format!("limits = [{{ subject = \"ip\", limit = \"{units}/h via gcra\" }}]")))
    };
    let gate = Gate::new(of(1_000), MemoryStore::new()).unwrap();
    let (stop, allowed) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while !stop.load(Ordering::Relaxed) {
                    let answer = ask(&gate, &[("ip", "1.1.1.1")]);
                    assert_eq!(answer.authority(), Authority::Store, "{answer}");
                    assert!(answer.revision().number >= last);
                    last = answer.revision().number;
                    let units = answer.limit().unwrap().quota().units;
                    assert_eq!(units, 1_000 + (last - 1) % 2);
                    allowed.fetch_add(u64::from(answer.is_allowed()), Ordering::Relaxed);
                }
            });
        }
        for round in 1..=20 {
            gate.replace(of(1_000 + round % 2));
            let wanted = gate.current().revision().number;
            until(|| ask(&gate, &[("ip", "2.2.2.2")]).revision().number >= wanted);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(gate.current().revision().number, 21);
    // No count was lost: the admitted units are at most the limit's capacity, and the units that
    // came back.
    let more = u64::try_from(admitted(&asked(&gate, 2_000, &[("ip", "1.1.1.1")]))).unwrap();
    let all = allowed.load(Ordering::Relaxed) + more;
    assert!((1_000..=1_010).contains(&all), "{all}");
}

/// Waits for something that another thread does.
fn until(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "it did not happen within 30 s");
        std::thread::yield_now();
    }
}

struct Watched {
    gate: Gate<MemoryStore>,
    told: Arc<Mutex<Vec<String>>>,
    _watcher: tollgate_policy::Watcher,
}

fn watched(path: &Path, watch: Watch) -> Watched {
    let gate = Gate::new(Policies::load(path).unwrap(), MemoryStore::new()).unwrap();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let into = Arc::clone(&told);
    let watcher = watch
        .debounce(Duration::from_millis(5))
        .start(&gate, move |reload| {
            into.lock().unwrap().push(match reload {
                Reload::Replaced { revision, .. } => format!("replaced {}", revision.number),
                Reload::Broken(problems) => format!("broken {problems}"),
                other => format!("{other:?}"),
            });
        })
        .unwrap();
    Watched { gate, told, _watcher: watcher }
}

/// The units of the limit that counts now.
fn units(gate: &Gate<MemoryStore>) -> u64 {
    gate.current().policies().policies()[0].entries[0].limits.limits()[0].quota().units
}

#[test]
fn a_file_is_followed_through_writes_renames_and_faults() {
    for polling in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.toml");
        std::fs::write(&path, hourly(1)).unwrap();
        // Where the system tells, the poll must not be what finds it.
        let watch = if polling {
            Watch::new(&path).polling_only().poll(Duration::from_millis(2))
        } else {
            Watch::new(&path).poll(Duration::from_secs(3_600))
        };
        let Watched { gate, told, _watcher } = watched(&path, watch);
        std::fs::write(&path, hourly(2)).unwrap();
        until(|| units(&gate) == 2);
        let beside = folder.path().join("new");
        std::fs::write(&beside, hourly(3)).unwrap();
        std::fs::rename(&beside, &path).unwrap();
        until(|| units(&gate) == 3);
        std::fs::write(&beside, "version = 1\npolicies = 5").unwrap();
        std::fs::rename(&beside, &path).unwrap();
        let last = || told.lock().unwrap().last().cloned().unwrap_or_default();
        until(|| last().starts_with("broken"));
        assert!(last().contains("p.toml:2:12"), "{}", last());
        assert_eq!(units(&gate), 3);
        std::fs::remove_file(&path).unwrap();
        until(|| last().contains("cannot be read"));
        assert!(ask(&gate, &[("ip", "1.1.1.1")]).is_allowed());
        std::fs::write(&beside, hourly(4)).unwrap();
        std::fs::rename(&beside, &path).unwrap();
        until(|| units(&gate) == 4);
    }
}

#[cfg(unix)]
#[test]
fn a_swapped_link_is_followed_as_kubernetes_makes_it() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (name, units) in [("..1", 1), ("..2", 2)] {
        std::fs::create_dir(at(name)).unwrap();
        std::fs::write(at(name).join("p.toml"), hourly(units)).unwrap();
    }
    symlink("..1", at("..data")).unwrap();
    symlink("..data/p.toml", at("p.toml")).unwrap();
    let path = at("p.toml");
    let Watched { gate, _watcher, .. } =
        watched(&path, Watch::new(&path).poll(Duration::from_secs(3_600)));
    symlink("..2", at("..data_tmp")).unwrap();
    std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
    until(|| units(&gate) == 2);
}

#[test]
fn what_did_not_change_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.toml");
    std::fs::write(&path, hourly(1)).unwrap();
    let watch = Watch::new(&path).polling_only().poll(Duration::from_millis(1));
    let Watched { gate, told, _watcher } = watched(&path, watch);
    std::fs::write(&path, hourly(1)).unwrap();
    std::fs::write(folder.path().join("other.toml"), hourly(9)).unwrap();
    std::fs::write(&path, hourly(2)).unwrap();
    until(|| units(&gate) == 2);
    // A file that is being written can be seen half: it was then broken, and is whole now.
    let replaced: Vec<String> =
        told.lock().unwrap().iter().filter(|told| told.starts_with("replaced")).cloned().collect();
    assert!(replaced.len() <= 2, "{replaced:?}");
    assert_eq!(gate.current().revision().hash, Policies::load(&path).unwrap().hash());
}
