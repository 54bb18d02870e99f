//! Files that no store writes, with checksums that fit: whatever they say, nothing is believed.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{Ask, LimitSet, Limiter, ManualClock};

const NOW_US: u64 = 1_000_000_000;

/// A piece of a file.
enum Piece<'a> {
    Tag(u8),
    Text(&'a str),
    Small(u32),
    Long(u64),
    Raw(&'a [u8]),
}

use Piece::{Long, Raw, Small, Tag, Text};

/// The facts of a store without shards: not our hash, so that it is restored by its own hashes.
fn store() -> Vec<Piece<'static>> {
    let numbers = [NOW_US, 1 << 20, 1_000, 7, 100, 256, 1, 2, 3, 4];
    core::iter::once(Tag(tag::STORE)).chain(numbers.map(Long)).collect()
}

/// The same with a hash that a store takes over, and so with all that belongs to shards.
fn store_alike() -> Vec<Piece<'static>> {
    let hash = crate::memory::hash::KeyHash::random(false).text();
    let [one, two] = hash.seeds;
    let numbers = [NOW_US, 1 << 20, 1_000, 7, 100, 256, u64::from(hash.kind), one, two, hash.probe];
    core::iter::once(Tag(tag::STORE)).chain(numbers.map(Long)).collect()
}

const LOG: [Piece<'static>; 3] =
    [Tag(tag::SET), Text("sliding_log/1h"), Text("5/h via sliding_log")];
const PAIR: [Piece<'static>; 3] = [Tag(tag::SET), Text("gcra/1h"), Text("5/h burst 5 via gcra")];

const fn shard(index: u32) -> [Piece<'static>; 6] {
    [Tag(tag::SHARD), Small(index), Long(0), Small(1), Small(0), Small(0)]
}

fn file(pieces: impl IntoIterator<Item = Piece<'static>>) -> Vec<u8> {
    let mut file = Vec::new();
    let mut out = ChunkWriter::begin(&mut file).unwrap();
    for piece in pieces {
        match piece {
            Tag(tag) => out.put(&[tag]),
            Text(text) => {
                out.put(&u32::try_from(text.len()).unwrap().to_le_bytes()).unwrap();
                out.put(text.as_bytes())
            }
            Small(number) => out.put(&number.to_le_bytes()),
            Long(number) => out.put(&number.to_le_bytes()),
            Raw(bytes) => out.put(bytes),
        }
        .unwrap();
    }
    out.end().unwrap();
    file
}

fn restore(file: &[u8]) -> Result<(MemoryStore, Restored), SnapshotError> {
    let clock = ManualClock::at_micros(NOW_US);
    MemoryStore::builder().clock(clock).max_bytes(1 << 20).restore(file)
}

fn join<const N: usize>(parts: [Vec<Piece<'static>>; N]) -> Vec<u8> {
    file(parts.into_iter().flatten())
}

fn entry(subject: &'static str, state: Vec<Piece<'static>>) -> Vec<Piece<'static>> {
    let mut pieces = vec![Tag(tag::ENTRY), Small(0), Text(subject)];
    pieces.extend(state);
    pieces
}

fn end(entries: u64) -> Vec<Piece<'static>> {
    vec![Tag(tag::END), Long(entries)]
}

/// The pieces are right: a file that a store could have written is taken.
#[test]
fn a_file_by_hand_is_taken() {
    let owes = vec![Long(NOW_US + 3_600_000_000), Long(0)];
    let file = join([store(), PAIR.into(), shard(9).into(), entry("bob", owes), end(1)]);
    let (store, restored) = restore(&file).unwrap();
    assert_eq!((restored.subjects, restored.receipts), (1, false));
    let limiter = Limiter::new("5/h via gcra".parse().unwrap(), store);
    assert_eq!(limiter.check(Ask::new("bob").peek()).now().unwrap().remaining(), 0);

    let events = vec![Long(2), Long(NOW_US - 5), Long(1), Long(NOW_US), Long(3)];
    let file = join([store_alike(), LOG.into(), shard(0).into(), entry("bob", events), end(1)]);
    let (store, restored) = restore(&file).unwrap();
    assert_eq!((restored.subjects, restored.receipts), (1, true));
    let limiter = Limiter::new("5/h via sliding_log".parse().unwrap(), store);
    assert_eq!(limiter.check(Ask::new("bob").peek()).now().unwrap().remaining(), 1);
}

/// A store with another number of shards has its subjects elsewhere, as one with another hash.
#[test]
fn another_number_of_shards_is_another_place() {
    let mut begin = store_alike();
    begin[6] = Long(512);
    let owes = || vec![Long(NOW_US + 3_600_000_000), Long(0)];
    let parts = [begin, PAIR.into(), shard(500).into(), entry("bob", owes()), end(1)];
    let (store, restored) = restore(&join(parts)).unwrap();
    assert_eq!((restored.subjects, restored.receipts), (1, false));
    let limiter = Limiter::new("5/h via gcra".parse().unwrap(), store);
    assert_eq!(limiter.check(Ask::new("bob").peek()).now().unwrap().remaining(), 0);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn nothing_is_believed() {
    let pair = || vec![Long(NOW_US + 7), Long(0)];
    let one = || vec![Long(1), Long(NOW_US), Long(1)];
    let begin = |set: [Piece<'static>; 3]| -> Vec<Piece<'static>> {
        store().into_iter().chain(set).chain(shard(3)).collect()
    };
    let charges = |charges: u64| {
        let mut pieces = store();
        pieces[5] = Long(charges);
        pieces
    };
    let alike = || -> Vec<Piece<'static>> { store_alike().into_iter().chain(shard(3)).collect() };
    let ancestor = |charges: u64| vec![Tag(tag::ANCESTOR), Long(1), Long(charges)];
    for (file, says) in [
        (file([]), "the last chunk ends too early"),
        (join([end(0)]), "does not begin with what the store was"),
        (join([store()]), "the last chunk ends too early"),
        (join([charges(u64::MAX), end(0)]), "more charges than can have been made"),
        (join([store(), ancestor(101), end(0)]), "an ancestor that cannot be"),
        (file(store().into_iter().chain((0..1_025).flat_map(|_| ancestor(1)))), "an ancestor"),
        (join([store(), vec![Tag(b'?')]]), "an unknown part"),
        (join([store(), store(), end(0)]), "an unknown part"),
        (join([store(), end(1)]), "not as many entries"),
        (join([begin(PAIR), entry("bob", pair()), end(2)]), "not as many entries"),
        (join([store(), end(0), end(0)]), "something follows the last part"),
        // Sets.
        (join([store(), vec![Tag(tag::SET), Small(u32::MAX)]]), "a text of 4294967295 bytes"),
        (join([store(), vec![Tag(tag::SET), Small(2), Raw(b"\xff\xfe")]]), "an invalid text"),
        (
            join([store(), vec![Tag(tag::SET), Text("gcra/1h"), Text("5/h via nothing")]]),
            "limits that cannot be read (unknown strategy `nothing`)",
        ),
        (
            join([store(), vec![Tag(tag::SET), Text("a>b>gcra/1h"), Text("5/h via gcra")]]),
            "not as they are written",
        ),
        (
            join([store(), vec![Tag(tag::SET), Text("a b>gcra/1h"), Text("5/h via gcra")]]),
            "limits that cannot be read",
        ),
        (
            join([store(), vec![Tag(tag::SET), Text("gcra/1h"), Text("5/60m via gcra")]]),
            "not as they are written",
        ),
        // Shards and their parts.
        (join([store(), shard(256).into(), end(0)]), "shards are not in order"),
        (join([store(), shard(u32::MAX).into(), end(0)]), "shards are not in order"),
        (join([store(), shard(1).into(), shard(1).into()]), "shards are not in order"),
        (
            join([store(), vec![Tag(tag::SHARD), Small(0), Long(101), Raw(&[0; 12])]]),
            "a charge that was never made",
        ),
        (join([store(), PAIR.into(), entry("bob", pair())]), "before the first shard"),
        (join([store(), vec![Tag(tag::SPENT), Long(1), Long(1)]]), "before the first shard"),
        (join([alike(), vec![Tag(tag::SPENT), Long(101), Long(1)]]), "never charged"),
        (join([alike(), vec![Tag(tag::SPENT), Long(1), Long(u64::MAX)]]), "never charged"),
        (join([alike(), vec![Tag(tag::SPENT_PART), Long(101), Long(1), Long(1)]]), "never charged"),
        (
            join([alike(), vec![Tag(tag::RESET), Long(1), Long(101), Long(1), Long(1)]]),
            "a reset that cannot have been",
        ),
        (
            join([alike(), vec![Tag(tag::RESET), Long(1), Long(1), Long(1), Long(u64::MAX)]]),
            "a reset that cannot have been",
        ),
        // Entries.
        (join([store(), shard(0).into(), entry("bob", pair())]), "limits that were not written"),
        (join([begin(PAIR), vec![Tag(tag::SHARED), Small(1)]]), "limits that were not written"),
        (join([begin(PAIR), entry("", pair())]), "a subject that is not as one is written"),
        (join([begin(PAIR), entry("key:bob", pair())]), "a subject that is not as"),
        (join([begin(PAIR), entry("b:1,a:1", pair())]), "a subject that is not as"),
        (join([begin(PAIR), entry("a\nb", pair())]), "a subject that is not as"),
        (
            join([begin(PAIR), vec![Tag(tag::ENTRY), Small(0), Small(65_537)]]),
            "a text of 65537 bytes, where 65536 are the most",
        ),
        (
            join([begin(PAIR), entry("bob", pair()), entry("bob", pair()), end(2)]),
            "a subject that has an entry already",
        ),
        (
            join([begin(PAIR), entry("bob", vec![Long(u64::MAX), Long(0)])]),
            "numbers that no count has",
        ),
        (join([begin(LOG), entry("bob", vec![Long(u64::MAX), Long(1)])]), "ends too early"),
        (
            join([begin(LOG), entry("bob", vec![Long(2), Long(5), Long(1), Long(4), Long(1)])]),
            "not in order of time",
        ),
        (
            join([begin(LOG), entry("bob", vec![Long(1), Long(u64::MAX), Long(1)])]),
            "not in order of time",
        ),
        (
            join([
                begin(LOG),
                entry("bob", vec![Long(2), Long(4), Long(u64::MAX), Long(5), Long(u64::MAX)]),
            ]),
            "more than can be counted",
        ),
    ] {
        let error = restore(&file).unwrap_err();
        assert_eq!(error.fault(), SnapshotFault::Damaged, "{says}: {error}");
        assert!(error.what().contains(says), "{says}: {error}");
        assert!(error.at() <= file.len() as u64, "{error}");
    }
    assert!(restore(&join([begin(LOG), entry("bob", one()), end(1)])).is_ok());
}

/// Large numbers are no reason to make room for them.
#[test]
fn promises_take_no_room() {
    let most = [Tag(tag::SHARD), Small(0), Long(0), Small(u32::MAX), Small(9), Small(u32::MAX)];
    let file = join([store_alike(), most.into(), end(0)]);
    assert_eq!(restore(&file).unwrap_err().fault(), SnapshotFault::TooLarge);
    // Nor that the store before held much.
    for bound in [0, 1 << 20] {
        let mut begin = store_alike();
        (begin[2], begin[3]) = (Long(bound), Long(u64::MAX));
        let many = (0..256).flat_map(|index| {
            let [tag, _, forgotten, ..] = shard(index);
            [tag, Small(index), forgotten, Small(u32::MAX), Small(u32::MAX), Small(u32::MAX)]
        });
        let file = join([begin, many.collect(), end(0)]);
        let error = restore(&file).unwrap_err();
        assert_eq!(error.fault(), SnapshotFault::TooLarge);
        // The first of them is one too many.
        assert_eq!(error.at(), 98);
    }
    // A log of 2^64 events when the file holds 9,000: a megabyte has no room for twice that.
    let mut state = vec![Long(u64::MAX)];
    state.extend((0..9_000).flat_map(|i| [Long(NOW_US + i), Long(1)]));
    let file = join([store(), LOG.into(), shard(0).into(), entry("bob", state)]);
    let error = restore(&file).unwrap_err();
    assert_eq!(
        (error.fault(), error.what()),
        (SnapshotFault::Damaged, "the last chunk ends too early")
    );
    // And one that holds as many as it says, which are too many.
    let mut state = vec![Long(70_000)];
    state.extend((0..70_000).flat_map(|i| [Long(NOW_US + i), Long(1)]));
    let file = join([store(), LOG.into(), shard(0).into(), entry("bob", state), end(1)]);
    let error = restore(&file).unwrap_err();
    assert_eq!(error.fault(), SnapshotFault::TooLarge);
    assert!(error.at() > 500_000, "it came before half of it was read: {error}");
}

/// States at the edge of the accepted range can be worked on.
#[test]
fn whatever_is_taken_can_be_worked_on() {
    let most = Time::MAX.as_micros();
    for (set, state) in [
        (PAIR, vec![Long((1 << 53) - 1), Long(0)]),
        (LOG, vec![Long(2), Long(0), Long(1 << 52), Long(most), Long(1 << 52)]),
        (LOG, vec![Long(3), Long(5), Long(0), Long(5), Long(0), Long(5), Long(9)]),
    ] {
        let log = matches!(set[1], Text("sliding_log/1h"));
        // A full refill, and for a backlog the debt, which is as much again.
        let (limits, longest) =
            if log { ("5/h via sliding_log", 3_601) } else { ("5/h via gcra", 7_200) };
        let file = join([store(), set.into(), shard(0).into(), entry("bob", state), end(1)]);
        for now_us in [0, 4, 5, NOW_US, most] {
            let clock = ManualClock::at_micros(now_us);
            let (store, _) =
                MemoryStore::builder().clock(clock.clone()).restore(&file[..]).unwrap();
            let limiter = Limiter::new(limits.parse().unwrap(), store);
            for _ in 0..7 {
                let wait = limiter.check("bob").now().unwrap().retry_after().unwrap_or_default();
                assert!(wait <= Duration::from_secs(longest), "{wait:?}");
                clock.advance(wait);
            }
        }
    }
}

/// A snapshot of a store with something of everything, and the parts that it is made of.
fn real() -> (Vec<u8>, Vec<u8>) {
    let clock = ManualClock::at_micros(NOW_US);
    let store = MemoryStore::builder().clock(clock.clone()).max_bytes(20_000).build();
    let limits = "5/10m via gcra, 3/1h via sliding_log, 9/1h precision 30m via sliding_window";
    let limiter = Limiter::new(limits.parse().unwrap(), store);
    let pair: LimitSet = "4/1h via fixed_window".parse().unwrap();
    for subject in ["user:42", "a-subject-of-more-than-sixteen-bytes", "bob", "eve"] {
        for limits in [limiter.limits(), &pair] {
            let decision = limiter.check(Ask::new(subject).under(limits)).now().unwrap();
            let receipt = decision.receipt().unwrap();
            clock.advance(Duration::from_micros(7));
            if subject == "eve" {
                limiter.store().refund_now(&receipt, receipt.cost.amounts());
                let subject = crate::Subject::literal(subject).unwrap();
                limiter.store().reset_now(crate::Counted::new(&subject, limits));
            }
        }
    }
    for i in 0..1_000 {
        let _ = limiter.check(format!("flood:{i}")).now().unwrap();
        if limiter.store().shared() > 0 {
            break;
        }
    }
    let mut file = Vec::new();
    let saved = limiter.store().save(&mut file).unwrap();
    assert!(saved.shared > 0 && saved.subjects > 0, "{saved:?}");
    let parts = file[16..file.len() - 20].to_vec();
    (file, parts)
}

fn sealed(parts: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut out = ChunkWriter::begin(&mut file).unwrap();
    out.put(parts).unwrap();
    out.end().unwrap();
    file
}

/// Asks a store for everybody that it may hold, in every way.
fn work_on(store: &MemoryStore) {
    let limits = "5/10m via gcra, 3/1h via sliding_log, 9/1h precision 30m via sliding_window";
    let limiter = Limiter::new(limits.parse().unwrap(), store.clone());
    for limits in [limits, "4/1h via fixed_window", "1/1m via gcra, 2/1h via sliding_log"] {
        let limits: LimitSet = limits.parse().unwrap();
        for subject in ["user:42", "a-subject-of-more-than-sixteen-bytes", "bob", "eve", "new"] {
            let _ = limiter.check(Ask::new(subject).under(&limits).cost(2).peek()).now().unwrap();
            let decision = limiter.check(Ask::new(subject).under(&limits)).now().unwrap();
            if let Some(receipt) = decision.receipt() {
                store.refund_now(&receipt, receipt.cost.amounts());
            }
            let subject = crate::Subject::literal(subject).unwrap();
            store.inspect_now(&subject, &limits);
            store.adjust_now(crate::Counted::new(&subject, &limits), &1.into());
        }
    }
    store.sweep();
    store.save(std::io::sink()).unwrap();
}

proptest! {
    // Failures are printed with their input; they are not written into the tree.
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(3_000)
    })]

    /// Parts that were changed and sealed again, as no damage does and somebody could: an error, or
    /// a store that works.
    #[test]
    fn no_parts_make_a_panic(
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), 0..5_u8, any::<u8>()),
            1..4,
        ),
        now_us in prop_oneof![Just(NOW_US), Just(0), any::<u64>()],
    ) {
        let (file, mut parts) = real();
        prop_assert_eq!(&sealed(&parts), &file);
        for (at, how, byte) in changes {
            let at = at.index(parts.len());
            match how {
                0 => parts[at] = byte,
                1 => parts[at] ^= 1 << (byte % 8),
                2 => parts.insert(at, byte),
                3 => parts.truncate(at),
                _ => {
                    let until = (at + usize::from(byte)).min(parts.len());
                    let again = parts[at..until].to_vec();
                    parts.splice(at..at, again);
                }
            }
            if parts.is_empty() {
                break;
            }
        }
        let file = sealed(&parts);
        let clock = ManualClock::at_micros(now_us);
        let builder = MemoryStore::builder().clock(clock).max_bytes(1 << 20);
        match builder.restore(&file[..]) {
            Ok((store, _)) => work_on(&store),
            Err(error) => prop_assert!(error.at() <= file.len() as u64 && !error.what().is_empty()),
        }
    }
}

#[test]
fn holds_are_saved_and_end_as_they_would_have() {
    let clock = ManualClock::at_micros(1_763_632_000_000_000);
    let make = || MemoryStore::builder().clock(clock.clone());
    let limits: LimitSet = "100/h via gcra, 5 at once hold 30s".parse().unwrap();
    let limiter = Limiter::new(limits.clone(), make().build());
    let ttl = Duration::from_secs(20);
    let settled = limiter.hold(Ask::new("ann").cost(7).reserve(ttl)).now().unwrap().hold.unwrap();
    limiter.commit(&settled, 3).now().unwrap();
    let open = limiter.hold(Ask::new("ann").cost(40).reserve(ttl)).now().unwrap().hold.unwrap();
    let slot = limiter.hold(Ask::new("ann").acquire()).now().unwrap().hold.unwrap();
    let mut file = Vec::new();
    limiter.store().save(&mut file).unwrap();
    let (store, restored) = make().restore(&file[..]).unwrap();
    assert_eq!(restored.subjects, 1);
    let after = Limiter::new(limits, store);
    let left = |limiter: &Limiter| {
        let decision = limiter.check(Ask::new("ann").peek()).now().unwrap();
        decision.reports().map(|report| report.remaining()).collect::<Vec<_>>()
    };
    assert_eq!((left(&limiter), left(&after)), (vec![56, 3], vec![56, 3]));
    assert!(after.commit(&settled, 3).now().unwrap().already);
    assert!(!after.commit(&open, 10).now().unwrap().already);
    assert_eq!(left(&after), [86, 4]);
    let next = after.hold(Ask::new("ann").acquire()).now().unwrap().hold.unwrap();
    assert!(next.fence > slot.fence);
    assert!(after.release(&slot).now().unwrap());
    // Each byte of a hold that is changed is an error, or another hold.
    for at in 0..file.len() {
        let mut other = file.clone();
        other[at] ^= 1;
        assert!(make().restore(&other[..]).is_err(), "{at}");
    }
}
