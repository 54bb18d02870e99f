//! Tests of the answers that may not have been read, over a connection of several streams.

use super::waiting::MAX_WAITING;
use super::*;

const MESSAGE: &[u8] = b"the text of a hold";
const SIZE: usize = ANSWER_BYTES + MESSAGE.len();

/// A connection, and how many of its answers were undone.
struct World {
    all: OnTheWay,
    room: Arc<Budget>,
    undone: Arc<Mutex<Vec<u32>>>,
}

impl World {
    fn with_room(bytes: usize) -> Self {
        let all = OnTheWay::new(Duration::from_millis(250));
        Self { all, room: Budget::new(bytes), undone: Arc::default() }
    }

    /// An answer on its way. Returns its number and the bytes that the HTTP library has of it.
    fn pass_on(&self, name: u32) -> (u64, Bytes) {
        let undone = Arc::clone(&self.undone);
        let undelivered = Undelivered::new(move || undone.lock().push(name));
        let (number, bytes) =
            self.all.passed_on(undelivered, Bytes::from_static(MESSAGE), &self.room);
        assert_eq!(bytes, MESSAGE);
        (number, bytes)
    }

    /// An answer that went over the stream of this number.
    fn answer_over(&self, stream: u32) {
        let (_, bytes) = self.pass_on(stream);
        self.all.goes_over(stream, MESSAGE);
        drop(bytes);
        self.all.flushed();
    }

    #[track_caller]
    fn was_undone(&self, all: &[u32]) {
        assert_eq!(*self.undone.lock(), all);
    }
}

/// One answer on its way.
fn on_the_way() -> (World, u64, Bytes) {
    let world = World::with_room(MAX_WAITING_BYTES);
    let (number, bytes) = world.pass_on(7);
    (world, number, bytes)
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_reset_after_its_message_went_undoes_it() {
    let (world, _, bytes) = on_the_way();
    world.all.goes_over(7, MESSAGE);
    drop(bytes);
    world.all.flushed();
    world.all.reset(5);
    assert!(world.all.is_any());
    world.was_undone(&[]);
    world.all.reset(7);
    assert!(!world.all.is_any());
    world.was_undone(&[7]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_goes_after_its_stream_was_reset_is_undone() {
    let (world, _, bytes) = on_the_way();
    drop(bytes);
    world.all.reset(7);
    world.was_undone(&[]);
    world.all.goes_over(7, MESSAGE);
    world.was_undone(&[7]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_was_discarded_is_undone_and_one_that_waits_is_not() {
    let (world, _, bytes) = on_the_way();
    tokio::time::advance(10 * READ_WITHIN).await;
    world.all.flushed();
    world.was_undone(&[]);
    drop(bytes);
    world.all.flushed();
    world.was_undone(&[7]);
}

#[tokio::test(start_paused = true)]
async fn a_message_in_parts_counts_as_written() {
    let (world, _, bytes) = on_the_way();
    let (first, second) = MESSAGE.split_at(5);
    world.all.goes_over(7, first);
    world.all.goes_over(7, second);
    assert!(world.all.is_any_coming(), "the rest may still wait");
    drop(bytes);
    world.all.flushed();
    assert!(!world.all.is_any_coming());
    world.all.ended();
    world.was_undone(&[]);
}

#[tokio::test(start_paused = true)]
async fn a_message_of_which_a_part_waits_at_the_end_is_undone() {
    let (world, _, bytes) = on_the_way();
    world.all.goes_over(7, &MESSAGE[..5]);
    world.all.flushed();
    world.all.ended();
    drop(bytes);
    world.was_undone(&[7]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_its_end_is_undone() {
    let (world, number, bytes) = on_the_way();
    world.all.cut_off(number + 1);
    world.was_undone(&[]);
    world.all.cut_off(number);
    world.was_undone(&[7]);
    drop(bytes);
    let (number, _bytes) = world.pass_on(8);
    world.all.goes_over(8, MESSAGE);
    world.all.cut_off(number);
    world.was_undone(&[7, 8]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_written_long_ago_counts_as_read() {
    let (world, _, bytes) = on_the_way();
    // The time begins when it is written.
    tokio::time::advance(READ_WITHIN).await;
    world.all.goes_over(7, MESSAGE);
    drop(bytes);
    tokio::time::advance(READ_WITHIN).await;
    world.answer_over(9);
    world.all.reset(7);
    world.was_undone(&[7]);
    tokio::time::advance(READ_WITHIN + Duration::from_millis(1)).await;
    world.all.reset(9);
    world.was_undone(&[7]);
    assert!(!world.all.is_any());
    // A connection on which nothing is asked forgets it at its next frame, as that of a ping.
    world.answer_over(11);
    tokio::time::advance(READ_WITHIN + Duration::from_millis(1)).await;
    world.all.flushed();
    assert_eq!((world.all.is_any(), world.room.held()), (false, 0));
}

#[tokio::test(start_paused = true)]
async fn writes_look_at_no_answer_that_a_frame_has_shown() {
    let world = World::with_room(MAX_WAITING_BYTES);
    (1..100).for_each(|stream| world.answer_over(stream));
    assert!(world.all.is_any() && !world.all.is_any_coming());
    let (_, bytes) = world.pass_on(101);
    assert!(world.all.is_any_coming());
    assert_eq!(world.all.waiting.lock().coming.len(), 1);
    drop(bytes);
    world.all.flushed();
    assert!(!world.all.is_any_coming());
    world.was_undone(&[101]);
}

#[tokio::test(start_paused = true)]
async fn of_too_many_answers_the_oldest_count_as_read() {
    let world = World::with_room(MAX_WAITING_BYTES);
    let most = u32::try_from(MAX_WAITING).unwrap();
    (0..most + 2).for_each(|stream| world.answer_over(stream));
    assert_eq!(world.room.held(), MAX_WAITING * SIZE);
    for stream in 0..3 {
        world.all.reset(stream);
    }
    world.was_undone(&[2]);
}

#[tokio::test(start_paused = true)]
async fn of_too_many_bytes_the_oldest_count_as_read() {
    let whole = World::with_room(3 * SIZE);
    let part = World { room: whole.room.part(2 * SIZE), ..World::with_room(0) };
    (0..3).for_each(|stream| part.answer_over(stream));
    assert_eq!((part.room.held(), whole.room.held()), (2 * SIZE, 2 * SIZE));
    // The other connection has room for one, and takes none from this one.
    (10..12).for_each(|stream| whole.answer_over(stream));
    assert_eq!(whole.room.held(), 3 * SIZE);
    for stream in [0, 1, 2, 10, 11] {
        part.all.reset(stream);
        whole.all.reset(stream);
    }
    part.was_undone(&[1, 2]);
    whole.was_undone(&[11]);
    assert_eq!(whole.room.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_room_counts_as_read() {
    let world = World::with_room(SIZE - 1);
    let (number, bytes) = world.pass_on(7);
    assert!(!world.all.is_any());
    drop(bytes);
    world.all.flushed();
    world.all.cut_off(number);
    world.was_undone(&[]);
}
