//! API keys: read from a header, counted and shown only as a hash.

use core::fmt;

use compact_str::CompactString;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName};
use sha2::{Digest, Sha256};
use tollgate::ParseError;

use super::header::{header_name, one_line};
use super::text::Value;
use super::why::Why;

/// The longest key, in bytes: signed tokens are some kilobytes, and servers accept few more.
pub const MAX_KEY_BYTES: usize = 8_192;

/// The shortest secret of [`Hashing::keyed`], in bytes.
pub const MIN_SECRET_BYTES: usize = 16;

/// The bytes of a hash that are kept: 128 bits distinguish all keys.
const KEPT_BYTES: usize = 16;

/// How a key is hashed. There is no default: the right choice depends on the keys.
#[derive(Clone)]
pub struct Hashing(Kind);

#[derive(Clone)]
enum Kind {
    Keyed(Box<Hmac<Sha256>>),
    Plain,
}

impl Hashing {
    /// HMAC-SHA256 with your secret, for keys that could be guessed, and for all others. Processes
    /// that share counts need the same secret.
    ///
    /// # Errors
    /// A secret of fewer than [`MIN_SECRET_BYTES`].
    pub fn keyed(secret: impl AsRef<[u8]>) -> Result<Self, ParseError> {
        let secret = secret.as_ref();
        // The text of the error must not contain the secret.
        let refused = |what: String| {
            Err(ParseError::whole("", what, "32 random bytes are right, kept where keys are kept"))
        };
        if secret.len() < MIN_SECRET_BYTES {
            return refused(format!(
                "a secret of {} bytes is too short: {MIN_SECRET_BYTES} at least",
                secret.len()
            ));
        }
        match Hmac::<Sha256>::new_from_slice(secret) {
            Ok(mac) => Ok(Self(Kind::Keyed(Box::new(mac)))),
            Err(_) => refused("this secret cannot be used".to_owned()),
        }
    }

    /// SHA-256 alone, only for keys with at least 128 random bits. A key that can be guessed can be
    /// found from its hash by guessing.
    #[must_use]
    pub fn plain_for_random_keys() -> Self {
        Self(Kind::Plain)
    }

    /// The first 128 bits of the hash, as 32 hexadecimal digits: the value of the field `api_key`.
    ///
    /// ```
    /// use tollgate_tower::identity::Hashing;
    /// let hash = Hashing::plain_for_random_keys().hash(b"abc");
    /// assert_eq!(hash.as_str(), "ba7816bf8f01cfea414140de5dae2223");
    /// ```
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> CompactString {
        let hash: [u8; 32] = match &self.0 {
            Kind::Keyed(mac) => {
                let mut mac = Hmac::clone(mac);
                mac.update(key);
                mac.finalize().into_bytes().into()
            }
            Kind::Plain => Sha256::digest(key).into(),
        };
        let mut text = CompactString::with_capacity(2 * KEPT_BYTES);
        for byte in hash.iter().take(KEPT_BYTES) {
            for nibble in [byte >> 4, byte & 15] {
                text.push(char::from(b"0123456789abcdef"[usize::from(nibble)]));
            }
        }
        text
    }
}

impl fmt::Debug for Hashing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Keyed(_) => "Hashing(keyed)",
            Kind::Plain => "Hashing(plain)",
        })
    }
}

/// The header of a request's API key, and how the key is hashed.
///
/// The key is not verified here. Put the layer behind the authentication, or a caller can use a new
/// key for each request.
///
/// ```
/// use http::HeaderMap;
/// use tollgate_tower::identity::{ApiKey, Hashing};
/// let key = ApiKey::bearer(Hashing::keyed("a secret of 32 bytes, out of a file")?);
/// let mut headers = HeaderMap::new();
/// headers.insert("authorization", "Bearer 8d4f1c".parse()?);
/// let value = key.value(&headers).map_err(|_| "absent")?;
/// assert_eq!(value.as_str().len(), 32);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ApiKey {
    header: HeaderName,
    scheme: Option<&'static str>,
    hashing: Hashing,
}

impl ApiKey {
    /// The key of `Authorization: Bearer KEY`. The scheme may have any case, and any number of
    /// blanks after it.
    #[must_use]
    pub fn bearer(hashing: Hashing) -> Self {
        Self { header: AUTHORIZATION, scheme: Some("Bearer"), hashing }
    }

    /// The whole value of a header, such as `x-api-key`.
    ///
    /// # Errors
    /// An invalid name of a header, and `authorization`: it has a scheme before the key, and
    /// `bearer KEY` would be another client than `Bearer KEY`.
    pub fn header(name: &str, hashing: Hashing) -> Result<Self, ParseError> {
        let header = header_name(name)?;
        if header == AUTHORIZATION {
            return Err(ParseError::whole(
                name,
                "this header has a scheme before the key",
                "read it with `ApiKey::bearer`, or with a function of yours",
            ));
        }
        Ok(Self { header, scheme: None, hashing })
    }

    /// How its keys are hashed.
    pub(crate) fn hashing(&self) -> &Hashing {
        &self.hashing
    }

    /// True when the key is sent as `WWW-Authenticate: Bearer` requests.
    pub(super) fn is_bearer(&self) -> bool {
        self.scheme.is_some()
    }

    pub(super) fn name(&self) -> &str {
        if self.is_bearer() { "bearer key" } else { self.header.as_str() }
    }

    /// The hash of the request's key: 32 hexadecimal digits.
    ///
    /// # Errors
    /// The reason why there is no key: absent or empty, another scheme, several lines, over
    /// [`MAX_KEY_BYTES`].
    pub fn value(&self, headers: &HeaderMap) -> Result<Value<'static>, Why> {
        let line = one_line(headers, &self.header, MAX_KEY_BYTES)?;
        let key = match self.scheme {
            None => line,
            Some(scheme) => after_scheme(line, scheme).ok_or(Why::Absent)?,
        };
        if key.is_empty() {
            return Err(Why::Absent);
        }
        Ok(Value::short(self.hashing.hash(key)))
    }
}

/// The text after the scheme, without blanks around it.
fn after_scheme<'l>(line: &'l [u8], scheme: &str) -> Option<&'l [u8]> {
    let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t'))?;
    let (found, key) = line.split_at(end);
    found.eq_ignore_ascii_case(scheme.as_bytes()).then(|| key.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2 (its key is 4 bytes, so the check is of the function below the
    /// bound), and FIPS 180-2, appendix B.1.
    #[test]
    fn hashes_are_what_the_standards_say() {
        let jefe = Hashing(Kind::Keyed(Box::new(Hmac::new_from_slice(b"Jefe").unwrap())));
        let hash = jefe.hash(b"what do ya want for nothing?");
        assert_eq!(hash.as_str(), "5bdcc146bf60754e6a042426089575c7");
        let hash = Hashing::plain_for_random_keys().hash(b"abc");
        assert_eq!(hash.as_str(), "ba7816bf8f01cfea414140de5dae2223");
    }

    #[test]
    fn short_secrets_are_refused_and_not_shown() {
        let error = Hashing::keyed("hunter2").unwrap_err().to_string();
        assert!(error.contains("7 bytes") && !error.contains("hunter2"), "{error}");
        let hashing = Hashing::keyed("0123456789abcdef").unwrap();
        assert_eq!(format!("{hashing:?}"), "Hashing(keyed)");
    }
}
