//! A request that its caller describes with the field names of a policy file.

use std::borrow::Cow;
use std::net::IpAddr;

use http::HeaderMap;
use tollgate_policy::{Field, Fields};
use tollgate_tower::identity::{ClientAddress, Missing, PathReading, host_name};

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
                    "`ip` is no address: write it without a port, as `192.0.2.7`".to_owned()
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

    /// The request with its path normalized by `paths`, or why the path is rejected.
    pub(crate) fn read(mut self, paths: PathReading) -> Result<DescribedFields<'a>, String> {
        if let Some((_, path)) = self.fields.iter_mut().find(|(field, _)| *field == Field::Path) {
            let form = paths.read(path).map_err(|why| Missing::path(why).to_string())?;
            if let Cow::Owned(form) = form {
                *path = Cow::Owned(form);
            }
        }
        Ok(DescribedFields(self))
    }
}
