//! How an answer gets from the runtime's thread to a thread of JavaScript: a queue, and one call
//! that wakes its event loop. No thread of the runtime ever touches an object of JavaScript.

use core::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use napi::Status;
use napi::bindgen_prelude::{Buffer, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use tollgate::{Error, Hold};

use crate::error::{self, Result};
use crate::handles::Handled as _;
use crate::numbers;
use crate::reply::{Answer, Reply};

/// What wakes an event loop. It does not keep the process alive; `lib/native.js` does, while
/// questions are open.
type Waker = ThreadsafeFunction<(), (), (), Status, false, true>;

/// An answer, and the place of who waits for it.
type Arrived = (u32, core::result::Result<Answer, Error>);

/// Answers that came for one thread of JavaScript.
struct Queue {
    answers: Mutex<Vec<Arrived>>,
    waker: Waker,
}

/// What a running question needs to hand its answer over.
pub(crate) struct Sender {
    place: u32,
    queue: Arc<Queue>,
}

impl Sender {
    /// Hands the answer over. A thread that ended meanwhile never looks.
    pub(crate) fn send(self, answer: core::result::Result<Answer, Error>) {
        let was_empty = {
            let mut answers = self.queue.answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.push((self.place, answer));
            answers.len() == 1
        };
        // One call for all answers until the loop looks.
        if was_empty {
            self.queue.waker.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }
}

/// The side of JavaScript.
#[derive(Default)]
struct Bridge {
    queue: Option<Arc<Queue>>,
    /// What was taken from the queue and not read yet.
    taken: VecDeque<Arrived>,
    /// The answer that is read now.
    current: Option<core::result::Result<Answer, Error>>,
}

thread_local! {
    static BRIDGE: RefCell<Bridge> = RefCell::default();
}

/// Prepares this thread of JavaScript: `bytes` is the shared array, and `wake` is called when
/// answers came.
#[napi(catch_unwind)]
pub(crate) fn attach(bytes: Buffer, wake: Function<'_, (), ()>) -> napi::Result<()> {
    numbers::share(bytes);
    let waker = wake.build_threadsafe_function::<()>().weak::<true>().build()?;
    let queue = Arc::new(Queue { answers: Mutex::default(), waker });
    BRIDGE.with_borrow_mut(|bridge| bridge.queue = Some(queue));
    Ok(())
}

/// A sender for the answer that is waited for at `place`.
pub(crate) fn sender(place: u32) -> Result<Sender> {
    let queue = BRIDGE.with_borrow(|bridge| bridge.queue.clone());
    let queue = queue.ok_or_else(|| error::other("this thread was not attached"))?;
    Ok(Sender { place, queue })
}

/// Reads the next answer: the place of who waits for it. Of a decision the numbers are in the
/// shared array. For any other answer it is -2 less the place, and `arrived` returns it. -1 is that
/// there is none.
#[napi(catch_unwind)]
pub(crate) fn next() -> f64 {
    let arrived = BRIDGE.with_borrow_mut(|bridge| {
        if bridge.taken.is_empty()
            && let Some(queue) = &bridge.queue
        {
            let mut answers = queue.answers.lock().unwrap_or_else(PoisonError::into_inner);
            bridge.taken.extend(answers.drain(..));
        }
        bridge.taken.pop_front()
    });
    match arrived {
        None => -1.0,
        Some((place, Ok(Answer::Decision(numbers)))) => {
            numbers::show(&numbers);
            f64::from(place)
        }
        Some((place, answer)) => {
            BRIDGE.with_borrow_mut(|bridge| bridge.current = Some(answer));
            -2.0 - f64::from(place)
        }
    }
}

/// The answer that `next` has read, or its error.
#[napi(catch_unwind)]
pub(crate) fn arrived() -> Result<Reply> {
    match BRIDGE.with_borrow_mut(|bridge| bridge.current.take()) {
        Some(Ok(answer)) => Ok(answer.into_reply()),
        Some(Err(it)) => Err(error::raised(&it)),
        None => Err(error::other("no answer was read")),
    }
}

/// Forgets a hold that nobody has any more.
#[napi(catch_unwind)]
pub(crate) fn forget_hold(hold: u32) {
    Hold::forget(hold);
}
