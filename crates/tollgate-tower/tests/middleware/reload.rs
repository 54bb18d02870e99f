//! Policies that change under load.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use tokio::task::JoinHandle;
use tollgate::MemoryStore;
use tollgate_policy::{Gate, Policies, Reload};

use crate::common::{from, send};
use crate::server;

/// More than is asked for while the test runs, on whatever machine.
const MANY: u64 = 1_000_000_000;

fn file(limit: u64) -> String {
    format!(
        "version = 1\n[[policies]]\nname = \"live\"\non_failure = \"deny\"\n\
         limits = [{{ subject = \"ip\", limit = \"{limit}/h anchor first-hit via fixed_window\" }}]\n"
    )
}

/// Replaces a file as editors and deployments do: in one step, by a rename.
fn write(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(&beside, path).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_reloads_under_load_lose_no_request_and_no_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policies.toml");
    write(&path, &file(MANY));
    let gate = Gate::new(Policies::load(&path).unwrap(), MemoryStore::new()).unwrap();
    let (sender, reloads) = channel();
    let _watcher = gate
        .watch(&path, move |reload| {
            let revision = match reload {
                Reload::Replaced { revision, .. } => Ok(revision.number),
                other => Err(other.to_string()),
            };
            sender.send(revision).unwrap();
        })
        .unwrap();
    let app = server::app(gate.clone()).unwrap();
    let (stop, admitted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let newest = Arc::new(AtomicU64::new(1));
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let (app, stop, admitted) = (app.clone(), Arc::clone(&stop), Arc::clone(&admitted));
        let newest = Arc::clone(&newest);
        tasks.push(tokio::spawn(async move {
            let mut last = 0;
            while !stop.load(Ordering::Relaxed) {
                let known = newest.load(Ordering::Relaxed);
                let seen = send(&app, from("192.0.2.1", &[])).await;
                assert_eq!(seen.status.as_u16(), 200, "{seen:?}");
                admitted.fetch_add(1, Ordering::Relaxed);
                // Its revision: never older than one that was there before it was sent.
                let revision = seen.revision();
                assert!(revision >= known && revision >= last, "{revision} {known} {last}");
                let limit = seen.header("ratelimit-policy").unwrap();
                let expected = format!("\"live\";q={};w=3600", MANY + revision - 1);
                assert_eq!(limit, expected);
                last = revision;
                tokio::task::yield_now().await;
            }
            last
        }));
    }
    let wait = || reloads.recv_timeout(Duration::from_secs(30)).expect("no reload");
    let mut good = 0;
    for number in 1..=20 {
        if number == 10 {
            write(&path, &file(5).replace("subject", "subjct"));
            let broken = wait().unwrap_err();
            assert!(broken.contains("unknown key `subjct`"), "{broken}");
            assert_eq!(gate.current().revision().number, good + 1);
        } else {
            good += 1;
            write(&path, &file(MANY + good));
            assert_eq!(wait(), Ok(good + 1));
            newest.store(good + 1, Ordering::Relaxed);
        }
        // Requests go on under it: more of them than there are tasks, so that some began after it.
        let before = admitted.load(Ordering::Relaxed);
        while admitted.load(Ordering::Relaxed) < before + 50 {
            if let Some(ended) = tasks.iter().position(JoinHandle::is_finished) {
                tasks.swap_remove(ended).await.unwrap();
            }
            tokio::task::yield_now().await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let mut last = 0;
    for task in tasks {
        last = last.max(task.await.unwrap());
    }
    assert_eq!(last, 20);
    // Not one count was lost.
    let admitted = admitted.load(Ordering::Relaxed);
    let left = send(&app, from("192.0.2.1", &[])).await.header("ratelimit").unwrap().to_owned();
    assert!(left.starts_with(&format!("\"live\";r={};", MANY + 19 - admitted - 1)), "{left}");

    // Lowered below the counted units, everybody is denied; raised again, the rest is admitted.
    write(&path, &file(10));
    assert_eq!(wait(), Ok(21));
    let denied = send(&app, from("192.0.2.1", &[])).await;
    assert_eq!((denied.status.as_u16(), denied.revision()), (429, 21));
    write(&path, &file(admitted + 3));
    assert_eq!(wait(), Ok(22));
    for expected in [200, 200, 429] {
        let seen = send(&app, from("192.0.2.1", &[])).await;
        assert_eq!((seen.status.as_u16(), seen.revision()), (expected, 22));
    }
}
