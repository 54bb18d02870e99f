//! Tiers of keys, in a separate file beside the policies.

use core::fmt;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use tollgate::Time;

use crate::field::{Field, Fields, value};
use crate::key_table::KeyTable;
use crate::network::client_address;
use crate::pattern::normal;

/// The tier of each key of a file, for the overrides of a policy that have a condition on `tier`.
/// Clones are cheap.
///
/// ```
/// use tollgate_policy::{Field, Tiers};
/// let text = "key,tier\nacme,gold\nglobex,free\n";
/// let tiers = Tiers::parse(&Field::parse("field.tenant")?, "tiers.csv", text)?;
/// assert_eq!(tiers.tier_of(&[("field.tenant", "acme")]), Some("gold"));
/// assert_eq!(tiers.tier_of(&[("field.tenant", "other")]), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Tiers {
    file: Arc<TierFile>,
    otherwise: Option<Box<str>>,
}

/// The content of a file.
pub(crate) struct TierFile {
    pub(crate) name: Box<str>,
    pub(crate) by: Field,
    /// The tiers with the first line of each. The number of a key is a place here.
    pub(crate) tiers: Vec<(Box<str>, u64)>,
    pub(crate) keys: KeyTable,
    /// The hash of the file.
    pub(crate) hash: u64,
}

impl Tiers {
    pub(crate) fn of_file(file: TierFile) -> Self {
        Self { file: Arc::new(file), otherwise: None }
    }

    /// Sets the tier of the requests whose key the file does not name, and of those without one.
    #[must_use]
    pub fn otherwise(self, tier: impl Into<Box<str>>) -> Self {
        Self { otherwise: Some(tier.into()), ..self }
    }

    /// The name of the file: its path as written in the policy file.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file.name
    }

    /// The field whose values are the keys.
    #[must_use]
    pub fn by(&self) -> &Field {
        &self.file.by
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.file.keys.len()
    }

    /// True when no key has a tier.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tier of a request; `None` if its key has none, and there is no other.
    #[must_use]
    #[inline]
    pub fn tier_of(&self, fields: &(impl Fields + ?Sized)) -> Option<&str> {
        let number = value(fields, &self.file.by).and_then(|key| {
            let key = normal(&self.file.by, key);
            match self.file.by {
                Field::Ip => match client_address(fields, &key) {
                    Some(address) => self.file.keys.get(&address.to_string()),
                    None => self.file.keys.get(&key),
                },
                _ => self.file.keys.get(&key),
            }
        });
        let tier = number.and_then(|number| self.file.tiers.get(usize::from(number)));
        tier.map_or(self.otherwise.as_deref(), |(tier, _)| Some(tier))
    }

    /// The tiers that the file names, with the first line of each.
    pub(crate) fn named(&self) -> &[(Box<str>, u64)] {
        &self.file.tiers
    }

    /// The tier of keys that are not in the file.
    pub(crate) fn default_tier(&self) -> Option<&str> {
        self.otherwise.as_deref()
    }

    /// Appends the content, for a hash.
    pub(crate) fn write(&self, content: &mut Vec<u8>) {
        content.extend_from_slice(&self.file.hash.to_le_bytes());
    }
}

impl PartialEq for Tiers {
    fn eq(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.file.name.clone(), it.file.by.clone(), it.file.hash);
        self.otherwise == other.otherwise
            && (Arc::ptr_eq(&self.file, &other.file) || key(self) == key(other))
    }
}

impl Eq for Tiers {}

impl fmt::Debug for Tiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tiers({self}, {:x})", self.file.hash)
    }
}

impl fmt::Display for Tiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.len() == 1 { "" } else { "s" };
        write!(f, "{} ({} key{plural}) by {}", self.file(), self.len(), self.by())?;
        match &self.otherwise {
            Some(tier) => write!(f, ", otherwise {tier}"),
            None => Ok(()),
        }
    }
}

/// A request with its tier.
pub(crate) struct Tiered<'f> {
    pub(crate) fields: &'f dyn Fields,
    pub(crate) tier: Option<&'f str>,
}

impl Fields for Tiered<'_> {
    #[inline]
    fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
        match field {
            Field::Tier => self.tier.map(Cow::Borrowed),
            field => self.fields.field(field),
        }
    }

    fn address(&self) -> Option<IpAddr> {
        self.fields.address()
    }

    fn now(&self) -> Time {
        self.fields.now()
    }
}
