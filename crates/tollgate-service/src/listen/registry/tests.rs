//! Deadlines, and which connections make room.

use core::task::Waker;

use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn aborted() -> AbortHandle {
    tokio::spawn(core::future::pending::<()>()).abort_handle()
}

/// A registry with as many connections as may be, and their tasks.
fn full() -> (Arc<Registry>, Vec<Registration>, Vec<AbortHandle>) {
    let registry = Registry::new(Bounds { connections: 3, ..Bounds::default() });
    let places: Vec<Registration> = (0..3).map(|_| registry.enter(HERE).unwrap()).collect();
    let tasks: Vec<AbortHandle> = places.iter().map(|_| aborted()).collect();
    for (place, task) in places.iter().zip(&tasks) {
        registry.ended_by(place.key, &place.pace, task.clone());
    }
    (registry, places, tasks)
}

#[tokio::test]
async fn each_phase_has_its_deadline() {
    let bounds = Bounds {
        idle: Duration::from_secs(4),
        head: Duration::from_secs(3),
        body: Duration::from_secs(2),
        write: Duration::from_secs(1),
        ..Bounds::default()
    };
    for (phase, why, ticks) in [
        (Phase::Idle, Some(Closed::Idle), 16),
        (Phase::Head, Some(Closed::Head), 12),
        (Phase::Body, Some(Closed::Body), 8),
        (Phase::Write, Some(Closed::Write), 4),
        (Phase::Work, None, 1_000),
    ] {
        let registry = Registry::new(bounds);
        let place = registry.enter(HERE).unwrap();
        let task = aborted();
        registry.ended_by(place.key, &place.pace, task.clone());
        place.pace.set_phase(phase);
        registry.sweep(ticks);
        assert_eq!(Closed::ALL.iter().map(|why| registry.closed(*why)).sum::<u64>(), 0);
        registry.sweep(ticks + 1);
        registry.sweep(ticks + 2);
        if let Some(why) = why {
            assert_eq!(registry.closed(why), 1, "{phase:?}");
        }
        let closed = Closed::ALL.iter().map(|why| registry.closed(*why)).sum::<u64>();
        assert_eq!(closed, u64::from(why.is_some()), "{phase:?}");
    }
}

#[tokio::test]
async fn who_is_idle_for_a_second_is_woken_once_to_rest() {
    let registry = Registry::new(Bounds::default());
    let place = registry.enter(HERE).unwrap();
    let woken = Arc::new(Wakes::default());
    place.pace.is_served_by(&Waker::from(Arc::clone(&woken)));
    let wakes = || woken.0.load(Ordering::Relaxed);
    // It holds nothing before it is spoken to.
    registry.sweep(REST_TICKS);
    assert_eq!(wakes(), 0);
    place.pace.works();
    registry.sweep(REST_TICKS - 1);
    assert!(!place.pace.is_to_rest() && wakes() == 0);
    place.pace.set_phase(Phase::Work);
    registry.sweep(REST_TICKS);
    place.pace.set_phase(Phase::Idle);
    assert!(!place.pace.is_to_rest() && wakes() == 0);
    registry.sweep(REST_TICKS);
    registry.sweep(REST_TICKS + 1);
    assert!(place.pace.is_to_rest() && wakes() == 1);
    // A client that has sent something meanwhile is answered first.
    place.pace.set_phase(Phase::Head);
    assert!(!place.pace.is_to_rest());
}

#[derive(Default)]
struct Wakes(AtomicU32);

impl std::task::Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn half_of_a_request_makes_room_before_who_is_idle() {
    let (registry, places, tasks) = full();
    places.iter().for_each(|place| place.pace.works());
    registry.clock.store(1, Ordering::Relaxed);
    places[1].pace.set_phase(Phase::Head);
    // Just begun: nothing is wrong with it, and who has been idle longest goes.
    let _fourth = registry.enter(HERE).unwrap();
    tokio::task::yield_now().await;
    assert_eq!(tasks.each_finished(), [true, false, false]);
    registry.clock.store(1 + HALF_TICKS + 1, Ordering::Relaxed);
    let _fifth = registry.enter(HERE).unwrap();
    tokio::task::yield_now().await;
    assert_eq!(tasks.each_finished(), [true, true, false]);
}

#[tokio::test]
async fn who_never_said_anything_makes_room_before_who_did() {
    let (registry, places, tasks) = full();
    places[0].pace.works();
    places[2].pace.works();
    // All came at the same time: a flood.
    let _fourth = registry.enter(HERE).unwrap();
    tokio::task::yield_now().await;
    assert_eq!(tasks.each_finished(), [false, true, false]);
    // Those of a pool are idle for long, and a newcomer has its second to say something.
    registry.clock.store(HALF_TICKS, Ordering::Relaxed);
    let fifth = registry.enter(HERE).unwrap();
    registry.ended_by(fifth.key, &fifth.pace, aborted());
    tokio::task::yield_now().await;
    assert_eq!(tasks.each_finished(), [true, true, false]);
    // After that it goes first, however long the others are idle.
    registry.clock.store(2 * HALF_TICKS + 1, Ordering::Relaxed);
    let _sixth = registry.enter(HERE).unwrap();
    tokio::task::yield_now().await;
    assert_eq!(tasks.each_finished(), [true, true, false]);
}

#[tokio::test]
async fn who_was_idle_longest_makes_room() {
    let (registry, places, tasks) = full();
    places[0].pace.set_phase(Phase::Work);
    registry.clock.store(5, Ordering::Relaxed);
    places[1].pace.set_phase(Phase::Idle);
    let fourth = registry.enter(HERE).unwrap();
    tokio::task::yield_now().await;
    assert_eq!(tasks.each_finished(), [false, false, true]);
    // Nobody is idle: a client that has sent half of a head makes room.
    places[1].pace.set_phase(Phase::Head);
    fourth.pace.set_phase(Phase::Write);
    let fifth = registry.enter(HERE).unwrap();
    tokio::task::yield_now().await;
    assert_eq!(tasks.each_finished(), [false, true, true]);
    // All are being answered: the newcomer is turned away.
    fifth.pace.set_phase(Phase::Work);
    assert!(registry.enter(HERE).is_none());
    assert_eq!((registry.open(), registry.closed(Closed::Full)), (3, 3));
    drop((places, fourth, fifth));
    registry.emptied().await;
    assert_eq!(registry.accepted(), 6);
}

trait Finished {
    fn each_finished(&self) -> [bool; 3];
}

impl Finished for Vec<AbortHandle> {
    fn each_finished(&self) -> [bool; 3] {
        [0, 1, 2].map(|place| self[place].is_finished())
    }
}
