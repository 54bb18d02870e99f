//! How answers get to a thread of JavaScript. Its own event loop asks Redis, by the carrier;
//! threads of the runtime ask files, and ring. Only that thread touches objects of JavaScript.

use core::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::{IntoRawFd as _, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use napi::bindgen_prelude::{Buffer, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, Status};
use napi_derive::napi;
use tollgate::{Error, Hold};
use tollgate_binding::{Answers, Carrier, Change, Rest, Sender, runtime};

use crate::error::{self, Result};
use crate::handles::Handled as _;
use crate::numbers::{self, Numbers};
use crate::reply::{BindingAnswer, Reply, reply};

/// The function that wakes an event loop. It does not keep the process alive; `lib/native.js` does,
/// while questions are open.
type Bell = ThreadsafeFunction<(), (), (), Status, false, true>;

/// Neither an answer nor a change.
const NOTHING: f64 = -1.0;

/// There is a change, which `change` returns.
const CHANGE: f64 = -2.0;

/// There is an answer, which `arrived` returns, for the place that is subtracted.
const ANSWER: f64 = -3.0;

/// The side of JavaScript.
#[derive(Default)]
struct Bridge {
    carrier: Option<Arc<Carrier>>,
    /// The buffer for the loop's reads from sockets.
    incoming: Option<Rc<Buffer>>,
    answers: Answers<Numbers>,
    /// The answers that were taken and not read yet.
    taken: VecDeque<(u32, core::result::Result<BindingAnswer, Error>)>,
    /// The answer that is read now.
    current: Option<core::result::Result<BindingAnswer, Error>>,
}

thread_local! {
    static BRIDGE: RefCell<Bridge> = RefCell::default();
}

/// Prepares this thread of JavaScript: `bytes` is the shared array, sockets are read into
/// `incoming`, and `wake` is called when the loop must have a turn.
#[napi(catch_unwind)]
pub(crate) fn attach(
    env: Env,
    bytes: Buffer,
    incoming: Buffer,
    wake: Function<'_, (), ()>,
) -> napi::Result<()> {
    numbers::share(bytes);
    let bell: Bell = wake.build_threadsafe_function::<()>().weak::<true>().build()?;
    let ring = move || {
        bell.call((), ThreadsafeFunctionCallMode::NonBlocking);
    };
    let runtime = runtime().map_err(|it| napi::Error::from_reason(it.what))?;
    let carrier = Arc::new(Carrier::new(runtime.handle().clone(), ring, Rest::HandedOver));
    // Questions in flight end with the thread, before the variables of the thread are gone.
    env.add_env_cleanup_hook(Arc::clone(&carrier), |carrier| carrier.close())?;
    let (carrier, incoming) = (Some(carrier), Some(Rc::new(incoming)));
    BRIDGE.replace(Bridge { carrier, incoming, ..Bridge::default() });
    Ok(())
}

/// The carrier of this thread.
pub(crate) fn carrier() -> Result<Arc<Carrier>> {
    let carrier = BRIDGE.with_borrow(|bridge| bridge.carrier.clone());
    carrier.ok_or_else(|| error::other("this thread was not attached"))
}

/// A sender for the answer that is waited for at `place`.
pub(crate) fn sender(place: u32) -> Sender<Numbers> {
    BRIDGE.with_borrow(|bridge| bridge.answers.sender(place))
}

/// Has a turn: begins the questions that were started, and goes on with all that can go on.
/// Returns what `next` does.
#[napi(catch_unwind)]
pub(crate) fn turn() -> Result<f64> {
    carrier()?.turn(|_| {});
    Ok(next())
}

/// Has a turn after the loop has read this many bytes from a socket.
#[napi(catch_unwind)]
pub(crate) fn received(socket: u32, count: u32) -> Result<f64> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let incoming = BRIDGE.with_borrow(|bridge| bridge.incoming.clone());
    let bytes = incoming.as_ref().and_then(|it| it.get(..count)).unwrap_or_default();
    carrier()?.turn(|sockets| sockets.received(socket, bytes));
    Ok(next())
}

/// Has a turn after the loop has written what it was given for a socket.
#[napi(catch_unwind)]
pub(crate) fn written(socket: u32) -> Result<f64> {
    carrier()?.turn(|sockets| sockets.can_write(socket));
    Ok(next())
}

/// Has a turn after the loop has closed a socket.
#[napi(catch_unwind)]
pub(crate) fn ended(socket: u32) -> Result<f64> {
    carrier()?.turn(|sockets| sockets.ended(socket, Ok(())));
    Ok(next())
}

/// Reads the next answer: the place of who waits for it. Of a decision the numbers are in the
/// shared array. For any other answer it is -3 less the place, and `arrived` returns it. -2 is a
/// change, which `change` returns, and -1 is that there is nothing.
#[napi(catch_unwind)]
pub(crate) fn next() -> f64 {
    BRIDGE.with_borrow_mut(|bridge| {
        if bridge.taken.is_empty() {
            bridge.taken.extend(bridge.answers.take());
        }
        match bridge.taken.pop_front() {
            Some((place, Ok(BindingAnswer::Decision(numbers)))) => {
                numbers::show(&numbers);
                f64::from(place)
            }
            Some((place, answer)) => {
                bridge.current = Some(answer);
                ANSWER - f64::from(place)
            }
            None => match &bridge.carrier {
                Some(carrier) if carrier.sockets().has_changes() => CHANGE,
                _ => NOTHING,
            },
        }
    })
}

/// The answer that `next` has read, or its error.
#[napi(catch_unwind)]
pub(crate) fn arrived() -> Result<Reply> {
    match BRIDGE.with_borrow_mut(|bridge| bridge.current.take()) {
        Some(Ok(answer)) => Ok(reply(answer)),
        Some(Err(it)) => Err(error::raised(it)),
        None => Err(error::other("no answer was read")),
    }
}

/// The change of a socket: with `fd` it is new, with `bytes` they are to be written, else it is to
/// be closed.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub(crate) struct SocketChange {
    /// Its number.
    pub socket: u32,
    /// Its descriptor, which the caller now has to close.
    pub fd: Option<i32>,
    /// The bytes to write.
    pub bytes: Option<Buffer>,
}

/// The next change; nothing where there is none.
#[napi(catch_unwind)]
pub(crate) fn change() -> Result<Option<SocketChange>> {
    let (carrier, none) = (carrier()?, SocketChange::default());
    Ok(carrier.sockets().change().map(|change| match change {
        Change::Open(watched) => {
            // The loop closes its descriptor, so it gets a duplicate.
            let (socket, fd) = (watched.number(), watched.duplicate());
            let failed = |error| carrier.turn(|sockets| sockets.ended(socket, Err(error)));
            SocketChange { socket, fd: fd.map(OwnedFd::into_raw_fd).map_err(failed).ok(), ..none }
        }
        Change::Write(watched, bytes) => {
            SocketChange { socket: watched.number(), bytes: Some(bytes.into()), ..none }
        }
        Change::Close(watched) => SocketChange { socket: watched.number(), ..none },
    }))
}

/// Forgets a hold that nobody has any more.
#[napi(catch_unwind)]
pub(crate) fn forget_hold(hold: u32) {
    Hold::forget(hold);
}
