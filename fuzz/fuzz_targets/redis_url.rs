//! URLs of Redis from any text: no panic, and no password in what is shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_redis::Options;

fuzz_target!(|text: &str| {
    let url = format!("redis://user:s3cr3t-word@{text}");
    for url in [text, &url] {
        match Options::from_url(url) {
            Ok(options) => assert!(!format!("{options} {options:?}").contains("s3cr3t-word")),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert!(!error.to_string().contains("s3cr3t-word"));
            }
        }
    }
});
