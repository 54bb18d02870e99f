//! A request that its caller describes with the field names of a policy file.

use std::borrow::Cow;
use std::net::IpAddr;

use http::HeaderMap;
use tollgate::Subject;
use tollgate_policy::{Field, Fields, read_hash};
use tollgate_tower::identity::{ClientAddress, Hashing, Missing, PathReading, host_name};

use super::refusal::Refusal;

/// The most fields of a described request.
const MAX_FIELDS: usize = 64;

/// A request as its caller describes it, with the field names of a policy file.
#[derive(Debug, Default)]
pub(crate) struct Description<'a> {
    fields: Vec<(Field, Cow<'a, str>)>,
    /// The full address of the client.
    address: Option<IpAddr>,
}

/// The same with its path normalized: the fields that policies match.
#[derive(Debug, Default)]
pub(crate) struct DescribedFields<'a>(Description<'a>);

impl Fields for DescribedFields<'_> {
    #[inline]
    fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
        let found = self.0.fields.iter().find(|(known, _)| known == field)?;
        Some(Cow::Borrowed(&found.1))
    }

    fn address(&self) -> Option<IpAddr> {
        self.0.address
    }
}

/// Why an administrator has to say what 32 hexadecimal digits are.
pub(crate) const HASH_OR_KEY: &str = "32 hexadecimal digits may be a key, or the hash of one as \
                                      logs and `admin top` show it: write \
     `hash:DIGITS` for the hash; `tollgate hash-key` makes the hash of a key";

/// True for an API key that an administrator may have copied from where hashes are shown.
pub(crate) fn looks_hashed(key: &str) -> bool {
    key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// How described requests are read.
#[derive(Debug)]
pub(crate) struct Reading {
    /// How paths are normalized.
    pub(crate) paths: PathReading,
    /// How API keys are hashed.
    pub(crate) keys: Hashing,
}

impl Reading {
    /// The hash of an API key, as every front provides it; a hashed one begins with `hash:`. An
    /// empty key is not a key.
    ///
    /// # Errors
    /// No hash behind `hash:`.
    fn hashed(&self, key: &str) -> Result<String, String> {
        match read_hash(key) {
            Ok(Some(hash)) => Ok(hash.into()),
            Ok(None) if key.is_empty() => Ok(String::new()),
            Ok(None) => Ok(self.keys.hash(key.as_bytes()).into()),
            Err(error) => Err(format!("`api_key`: {}: {}", error.what(), error.remedy())),
        }
    }

    /// The subject under which a policy counts what an administrator names: with the hash of an API
    /// key in place of the key.
    ///
    /// # Errors
    /// No hash behind `hash:`, or 32 digits that may be a key or a hash.
    pub(crate) fn key_hashed(&self, subject: &Subject) -> Result<Subject, Refusal> {
        let name = Field::ApiKey.to_string();
        let mut all: Vec<(&str, Cow<'_, [u8]>)> = subject.dimensions().collect();
        let Some((_, value)) = all.iter_mut().find(|(dimension, _)| *dimension == name) else {
            return Ok(subject.clone());
        };
        let key = String::from_utf8_lossy(value).into_owned();
        if looks_hashed(&key) {
            return Err(Refusal::invalid(HASH_OR_KEY.to_owned()));
        }
        let hash = self.hashed(&key).map_err(Refusal::invalid)?;
        *value = Cow::Owned(hash.into_bytes());
        let named = all.iter().map(|(dimension, value)| (*dimension, value.as_ref()));
        Subject::from_dimensions(named).map_err(|error| Refusal::invalid(error.to_string()))
    }
}

impl<'a> Description<'a> {
    /// Adds a field in the canonical form that every front uses, so that all count the same
    /// subject. [`Description::read`] normalizes the path later.
    pub(crate) fn add(&mut self, name: &str, value: Cow<'a, str>) -> Result<(), String> {
        let field = Field::parse(name).map_err(|e| format!("{}: {}", e.what(), e.remedy()))?;
        if self.fields.iter().any(|(known, _)| *known == field) {
            return Err(format!("`{field}` is given twice: give it once"));
        }
        if self.fields.len() >= MAX_FIELDS {
            return Err(format!("a request has at most {MAX_FIELDS} fields here"));
        }
        let value = match &field {
            // As everywhere, an empty value means no value.
            Field::Ip if value.is_empty() => value,
            Field::Ip => {
                let ip: IpAddr = value.parse().map_err(|_| {
                    "`ip` is not an address: write it without a port, e.g. `192.0.2.7`".to_owned()
                })?;
                let client = ClientAddress::peer().client(ip, &HeaderMap::new());
                self.address = Some(client.address());
                Cow::Owned(client.value().as_str().to_owned())
            }
            Field::Path if value.contains(['?', '#']) => {
                return Err(
                    "`path` is more than a path: leave out what follows `?` and `#`".to_owned()
                );
            }
            Field::Host => Cow::Owned(host_name(&value).to_ascii_lowercase()),
            _ => value,
        };
        self.fields.push((field, value));
        Ok(())
    }

    /// The request with its path normalized and its API key hashed, or why one is rejected.
    pub(crate) fn read(mut self, reading: &Reading) -> Result<DescribedFields<'a>, String> {
        if let Some((_, key)) = self.fields.iter_mut().find(|(field, _)| *field == Field::ApiKey) {
            *key = Cow::Owned(reading.hashed(key)?);
        }
        if let Some((_, path)) = self.fields.iter_mut().find(|(field, _)| *field == Field::Path) {
            let form = reading.paths.read(path).map_err(|why| Missing::path(why).to_string())?;
            if let Cow::Owned(form) = form {
                *path = Cow::Owned(form);
            }
        }
        Ok(DescribedFields(self))
    }
}
