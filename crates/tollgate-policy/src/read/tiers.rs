//! Reads the tiers of a policy, which a separate file has.

use super::keys::{Reader, Unlisted};
use crate::field::Field;
use crate::source::Node;
use crate::tiers::Tiers;

/// The keys of tiers in a file.
pub(crate) const TIERS_KEYS: [&str; 3] = ["file", "by", "otherwise"];

/// Reads the tiers of keys: `{ file = "tiers.csv", by = "field.tenant" }`.
pub(super) fn tiers(reader: &mut Reader<'_>, node: &Node) -> Option<Tiers> {
    let keys = reader.keys(node, "`tiers`", &TIERS_KEYS)?;
    let file = reader.file(&keys, "tiers.csv");
    let remedy = "name the field whose values are the keys, e.g. `by = \"field.tenant\"`";
    let by = reader.required(&keys, keys.at, "by", remedy).and_then(|node| {
        let text = reader.text(node, "by", "a field, e.g. `\"field.tenant\"`")?;
        match Field::parse(text) {
            Ok(field) if field.is_secret() => {
                let what = format!("`{field}` cannot have tiers: it holds a secret");
                reader.error(node.at, what, "use `api_key`, which the front hashes");
                None
            }
            Ok(field) => Some(field),
            Err(error) => {
                reader.refused(node, text, &error);
                None
            }
        }
    });
    let otherwise = keys.get("otherwise").map_or(Some(None), |node| {
        reader.text(node, "otherwise", "the name of a tier, e.g. `\"free\"`").map(Some)
    });
    let ((path, at), by, otherwise) = (file?, by?, otherwise?);
    let known = (path.to_owned(), by.clone());
    let tiers = match reader.tiers.get(&known) {
        Some(tiers) => tiers.clone(),
        None => {
            let tiers = (reader.files)(path).and_then(|text| {
                let remedy =
                    "correct the file: `key,tier`, and below it a key and its tier in each line";
                Tiers::parse(&by, path, &text).map_err(|what| Unlisted { what, remedy })
            });
            reader.tiers.insert(known, tiers.clone());
            tiers
        }
    };
    let tiers = tiers.map_err(|Unlisted { what, remedy }| reader.error(at, what, remedy)).ok()?;
    Some(match otherwise {
        Some(tier) => tiers.otherwise(tier),
        None => tiers,
    })
}
