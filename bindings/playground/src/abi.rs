//! The functions that a page calls in WebAssembly. They pass numbers; texts are in the memory.
//!
//! A page asks for room with [`tollgate_question`], writes its message there, calls
//! [`tollgate_answer`], and reads [`tollgate_answer_bytes`] bytes at the address that it returns.
//!
//! `unsafe_code` is allowed for the attribute that exports a function under its own name, which has
//! no safe form. The crate has no unsafe block, like all others: an address is a number, and only
//! the page uses it.
#![allow(unsafe_code, reason = "the attribute `unsafe(no_mangle)`, and nothing else")]

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::play::Playground;

/// The longest message, in bytes: 5,000 questions take a tenth of it.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// The one playground of the page, its last message and the answer to it.
#[derive(Default)]
struct Desk {
    playground: Playground,
    message: Vec<u8>,
    answer: String,
}

static DESK: Mutex<Option<Desk>> = Mutex::new(None);

/// WebAssembly has one thread here, so nobody waits. A lock is poisoned by a panic, which ends the
/// page's engine anyway.
fn desk() -> MutexGuard<'static, Option<Desk>> {
    DESK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes room for a message of this many bytes, and returns its address; 0 if it is too long. The
/// room is valid until the next call of this function.
#[unsafe(no_mangle)]
pub extern "C" fn tollgate_question(bytes: usize) -> usize {
    if bytes > MAX_MESSAGE_BYTES {
        return 0;
    }
    let mut desk = desk();
    let message = &mut desk.get_or_insert_default().message;
    message.clear();
    message.resize(bytes, 0);
    message.as_mut_ptr() as usize
}

/// Answers the message in the room, and returns the address of the answer, UTF-8. It is valid until
/// the next call of this function.
#[unsafe(no_mangle)]
pub extern "C" fn tollgate_answer() -> usize {
    let mut desk = desk();
    let desk = desk.get_or_insert_default();
    desk.answer = match str::from_utf8(&desk.message) {
        Ok(message) => desk.playground.answer(message),
        Err(_) => r#"{"error":"the message is not UTF-8"}"#.to_owned(),
    };
    desk.answer.as_ptr() as usize
}

/// The length of the answer in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn tollgate_answer_bytes() -> usize {
    desk().as_ref().map_or(0, |desk| desk.answer.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_answered_and_one_that_is_too_long_has_no_room() {
        assert_eq!(tollgate_question(MAX_MESSAGE_BYTES + 1), 0);
        // As many zeros, which are no JSON: the page would write into the room.
        assert_ne!(tollgate_question(3), 0);
        assert_ne!(tollgate_answer(), 0);
        let answer = desk().as_ref().unwrap().answer.clone();
        assert!(answer.starts_with("{\"error\":\"not a question: "), "{answer}");
        assert_eq!(tollgate_answer_bytes(), answer.len());
        // The next message may be shorter.
        assert_ne!(tollgate_question(1), 0);
        assert_eq!(desk().as_ref().unwrap().message, [0]);
    }
}
