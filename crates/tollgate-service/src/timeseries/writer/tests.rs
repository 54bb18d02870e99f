//! The batches that are sent again and those that are not, to a server that answers by a script.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tollgate_policy::Outcome;

use super::*;
use crate::timeseries::{Counted, Outbox};

fn decisions(outcome: Outcome) -> Counted<'static> {
    Counted::Limit { policy: "p", limit: "l", outcome }
}

/// The reply to one question.
type Reply = fn(usize) -> Result<Recorded, TimeSeriesError>;

/// A server that says what the script says, and then takes everything.
#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    said: VecDeque<Reply>,
    /// The values of each question, but for those without samples.
    heard: Vec<Vec<u64>>,
}

impl Server for Scripted {
    async fn record(&mut self, samples: &[Sample<'_>]) -> Result<Recorded, TimeSeriesError> {
        let mut script = self.0.lock();
        if samples.is_empty() {
            return Ok(Recorded::default());
        }
        script.heard.push(samples.iter().map(|sample| sample.value).collect());
        script.said.pop_front().unwrap_or(taken)(samples.len())
    }

    fn name(&self) -> String {
        "redis://script".to_owned()
    }
}

fn taken(all: usize) -> Result<Recorded, TimeSeriesError> {
    let mut recorded = Recorded::default();
    recorded.taken = all;
    Ok(recorded)
}

/// So many of each, the others unsent.
fn some(all: usize, [taken, refused, unknown]: [usize; 3]) -> Result<Recorded, TimeSeriesError> {
    let mut recorded = Recorded::default();
    (recorded.taken, recorded.refused, recorded.unknown) = (taken, refused, unknown);
    recorded.unsent = all - taken - refused - unknown;
    recorded.error = Some(gone());
    Ok(recorded)
}

fn gone() -> TimeSeriesError {
    TimeSeriesError::Missing { address: "script".to_owned() }
}

/// A writer, its server, and where to put what it writes.
struct Setup {
    outbox: Outbox,
    server: Scripted,
    tally: Arc<Tally>,
    writer: Writer<Scripted>,
}

impl Setup {
    fn new(room: usize, said: impl IntoIterator<Item = Reply>) -> Self {
        let server = Scripted::default();
        server.0.lock().said.extend(said);
        let (sender, queue) = mpsc::channel(room);
        let (alive, ended) = oneshot::channel();
        let tally = Arc::<Tally>::default();
        let retention = Duration::from_secs(60);
        let outbox = Outbox::new(sender, alive, retention, Arc::clone(&tally));
        let writer = Writer::new(server.clone(), queue, ended, Arc::clone(&tally));
        Self { outbox, server, tally, writer }
    }

    fn put(&mut self, values: impl IntoIterator<Item = u64>) {
        for value in values {
            self.outbox.put(&decisions(Outcome::Allowed), 1_700_000_000 + value, value);
        }
    }

    /// Lets it write, with time that passes by itself, until nothing waits.
    async fn run(self) -> (Running, Outbox) {
        let Self { outbox, server, tally, writer } = self;
        let task = tokio::spawn(writer.run());
        let running = Running { server, tally, task };
        running.settled().await;
        (running, outbox)
    }
}

struct Running {
    server: Scripted,
    tally: Arc<Tally>,
    task: JoinHandle<()>,
}

impl Running {
    async fn settled(&self) {
        while self.tally.waiting() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await; // tidy: sleep-ok paused time
        }
    }

    fn heard(&self) -> Vec<Vec<u64>> {
        self.server.0.lock().heard.clone()
    }
}

fn counted(tally: &Tally) -> (u64, [u64; 3]) {
    (tally.taken(), Lost::ALL.map(|why| tally.lost(why)))
}

#[tokio::test(start_paused = true)]
async fn what_was_not_sent_is_sent_again_and_what_may_be_in_is_not() {
    // Of six, two are in, one is refused, one may be in, and two were not sent; then nothing can
    // be sent for a while.
    let mut setup = Setup::new(
        100,
        [
            (|all| some(all, [2, 1, 1])) as Reply,
            |_| Err(gone()),
            |_| Err(gone()),
            |all| some(all, [1, 0, 0]),
        ],
    );
    setup.put(1..=6);
    let (running, outbox) = setup.run().await;
    let heard = [vec![1, 2, 3, 4, 5, 6], vec![5, 6], vec![5, 6], vec![5, 6], vec![6]];
    assert_eq!(running.heard(), heard);
    assert_eq!(counted(&running.tally), (4, [0, 1, 1]));
    drop(outbox);
    running.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_lost_and_counted() {
    let mut setup = Setup::new(4, []);
    setup.put(1..=7);
    assert_eq!(setup.tally.waiting(), 4);
    assert_eq!(counted(&setup.tally), (0, [3, 0, 0]));
    let (running, mut outbox) = setup.run().await;
    assert_eq!(running.heard(), [[1, 2, 3, 4]]);
    outbox.put(&decisions(Outcome::Denied), 1, 8);
    running.settled().await;
    assert_eq!(running.heard(), [vec![1, 2, 3, 4], vec![8]]);
    assert_eq!(counted(&running.tally), (5, [3, 0, 0]));
    // Nobody is there to take it.
    running.task.abort();
    assert!(running.task.await.is_err());
    outbox.put(&decisions(Outcome::Denied), 1, 9);
    assert_eq!(counted(&running.tally), (5, [4, 0, 0]));
}

#[tokio::test(start_paused = true)]
async fn many_go_in_rounds_and_in_order() {
    let mut setup = Setup::new(5_000, []);
    setup.put(1..=2_500);
    let (running, _outbox) = setup.run().await;
    let heard = running.heard();
    assert!(heard.iter().all(|round| round.len() <= MAX_BATCH));
    assert_eq!(heard.concat(), (1..=2_500).collect::<Vec<u64>>());
}

#[tokio::test(start_paused = true)]
async fn the_end_writes_what_waits_and_does_not_sit_out_a_pause() {
    let fail: Reply = |_| Err(gone());
    // The last try works, or it does not.
    for (said, left) in [(vec![fail; 3], 0), (vec![fail; 4], 2)] {
        let mut setup = Setup::new(100, said);
        setup.put([1]);
        let Setup { mut outbox, server, tally, writer } = setup;
        let task = tokio::spawn(writer.run());
        // Three tries: immediately, after a second, after two more.
        while server.0.lock().heard.len() < 3 {
            tokio::time::sleep(Duration::from_millis(10)).await; // tidy: sleep-ok paused time
        }
        outbox.put(&decisions(Outcome::Allowed), 1, 2);
        let began = tokio::time::Instant::now();
        drop(outbox);
        task.await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(server.0.lock().heard.last(), Some(&vec![1, 2]));
        assert_eq!(tally.waiting(), left);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_is_asked_less_and_less() {
    let fail: Reply = |_| Err(gone());
    let mut setup = Setup::new(100, [fail; 20]);
    setup.put([1]);
    let began = tokio::time::Instant::now();
    let (running, _outbox) = setup.run().await;
    assert_eq!(running.heard().len(), 21);
    // 1 + 2 + 4 + 8 + 16, and then 30 each.
    let took = began.elapsed().as_secs();
    assert_eq!(took, 31 + 15 * 30);
}
