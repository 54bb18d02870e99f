//! One line of an access log, any bytes: no panic, and what is an event has a client and a time.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| tollgate_lab::parse::fuzz_line(line));
