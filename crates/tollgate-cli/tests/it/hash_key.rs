//! `hash-key`: the hash of an API key.

use crate::Place;

/// The beginning of HMAC-SHA256 and SHA-256 of `k-17`, by other programs: `printf k-17 | openssl
/// dgst -sha256 -hmac 0123456789abcdef`, and `printf k-17 | sha256sum`.
const KEYED: &str = "eeea92883570eecb1abed984950f3115";
const PLAIN: &str = "369a8a2236855b0625dc9911d8013fea";

/// The exit code and both outputs under this secret.
fn keyed(place: &Place, secret: &str, args: &[&str]) -> (i32, String, String) {
    let output = place.std(args).env("TOLLGATE_KEY_SECRET", secret).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_hash_of_a_key_is_that_of_the_service() {
    let place = Place::new();
    let secret = "0123456789abcdef";
    let (code, out, error) = keyed(&place, secret, &["hash-key", "k-17"]);
    assert_eq!((code, &*out, &*error), (0, &*format!("hash:{KEYED}\n"), ""));
    let (code, out, error) = place.run(&["hash-key", "k-17"]);
    assert_eq!((code, &*out), (0, &*format!("hash:{PLAIN}\n")));
    assert!(error.contains("TOLLGATE_KEY_SECRET is not set"), "{error}");
}

#[test]
fn a_key_that_no_service_reads_is_refused_and_not_shown() {
    let place = Place::new();
    let long = "k".repeat(8_193);
    for (key, bytes) in [("", "0 bytes"), (&long, "8193 bytes")] {
        let (code, out, error) = place.run(&["hash-key", key]);
        assert_eq!((code, &*out), (2, ""));
        assert!(error.contains(bytes) && !error.contains("kkk"), "{error}");
    }
    let (code, _, error) = place.run(&["hash-key"]);
    assert_eq!(code, 2);
    assert!(error.contains("the standard input is empty"), "{error}");
    let (code, _, error) = keyed(&place, "hunter2", &["hash-key", "k-17"]);
    assert_eq!(code, 2);
    assert!(error.contains("16 at least") && !error.contains("hunter2"), "{error}");
}
