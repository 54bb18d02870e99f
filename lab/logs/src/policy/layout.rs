//! Which values of a line the policies need, and which of them only decide whether a condition
//! holds.

use std::collections::BTreeSet;

use tollgate_policy::{Absent, Condition, Dimension, Entry, Field, Policies};

use super::request::{BY, COST};
use crate::error::Error;
use crate::parse::{By, Column};

/// The most fields of policies that are taken from a log.
const MAX_FIELDS: usize = 10;

/// The values of a key: those of `--by`, then those of the fields.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) by: By,
    pub(super) fields: Vec<Field>,
    /// Whether each field is read in conditions alone.
    pub(super) is_only_condition: Vec<bool>,
    /// The column of each field; `None` for one that is absent on purpose.
    pub(super) columns: Vec<Option<Column>>,
    /// The field of costs that is kept as a number and not in the key, and its column.
    pub(super) cost: Option<(Field, Column)>,
}

impl Layout {
    /// The layout for these policies; `given` are fields with the field of the log that has them,
    /// or an empty text for an absent one. `cost` is the field of `--cost`.
    pub(super) fn new(
        by: &By,
        policies: &[&Policies],
        given: &[(Field, String)],
        cost: Option<&By>,
    ) -> Result<Self, Error> {
        let counted: BTreeSet<Field> = policies.iter().copied().flat_map(counted).collect();
        let costs: BTreeSet<Field> = policies.iter().copied().flat_map(costs).collect();
        let all: BTreeSet<Field> =
            policies.iter().flat_map(|it| it.fields().iter().cloned()).collect();
        let is_ours = |field: &Field| [BY, COST].contains(&field.to_string().as_str());
        // One field that is only a cost would make each request a different combination.
        let conditions: BTreeSet<Field> =
            policies.iter().copied().flat_map(conditions).map(|it| it.field.clone()).collect();
        let is_only_cost = |field: &Field| !counted.contains(field) && !conditions.contains(field);
        let cost = match (cost, costs.iter().collect::<Vec<_>>().as_slice()) {
            (Some(by), _) => Some((cost_field()?, Column::optional(by))),
            (None, [field]) if is_only_cost(field) && !is_ours(field) => {
                column(field, given)?.map(|column| ((*field).clone(), column))
            }
            _ => None,
        };
        let is_cost = |field: &Field| cost.as_ref().is_some_and(|(it, _)| it == field);
        let fields: Vec<Field> =
            all.into_iter().filter(|field| !is_ours(field) && !is_cost(field)).collect();
        if fields.len() > MAX_FIELDS {
            let names: Vec<String> = fields.iter().map(ToString::to_string).collect();
            let why = format!(
                "the policies read {} fields of a request, and at most {MAX_FIELDS} are taken from a \
                 log: {}",
                fields.len(),
                names.join(", ")
            );
            return Err(Error::Policies { why });
        }
        if let Some((unused, _)) = given.iter().find(|(it, _)| !fields.contains(it) && !is_cost(it))
        {
            return Err(Error::Policies {
                why: format!("no policy reads `{unused}`: leave it out"),
            });
        }
        let is_only_condition =
            fields.iter().map(|field| !counted.contains(field) && !costs.contains(field)).collect();
        let columns =
            fields.iter().map(|field| column(field, given)).collect::<Result<Vec<_>, Error>>()?;
        Ok(Self { by: by.clone(), fields, is_only_condition, columns, cost })
    }

    /// How many values of `--by` a key begins with.
    pub(super) fn by_len(&self) -> usize {
        if self.by == By::All { 0 } else { self.by.fields().len() }
    }
}

fn cost_field() -> Result<Field, Error> {
    Field::parse(COST).map_err(|why| Error::Policies { why: why.to_string() })
}

/// The column of a field.
fn column(field: &Field, given: &[(Field, String)]) -> Result<Option<Column>, Error> {
    match given.iter().find(|(it, _)| it == field) {
        None => Ok(Some(Column::of_policy(field))),
        Some((_, name)) if name.is_empty() => Ok(None),
        Some((_, name)) => match name.parse::<By>() {
            Ok(by @ (By::Ip | By::Path | By::User | By::Field(_))) => {
                Ok(Some(Column::optional(&by)))
            }
            _ => {
                let why = format!("`{field}` is taken from one field of the log, not `{name}`");
                Err(Error::Policies { why })
            }
        },
    }
}

/// The fields of subjects, their possible replacements, and those that tiers go by.
fn counted(policies: &Policies) -> Vec<Field> {
    let of_entry = |entry: &Entry| {
        let instead = entry.absent.values().filter_map(|absent| match absent {
            Absent::Instead(dimension) => Some(dimension),
            _ => None,
        });
        let all: Vec<Field> =
            entry.subject.iter().chain(instead).filter_map(Dimension::field).cloned().collect();
        all
    };
    let all = policies.policies().iter();
    let tiers = all.clone().filter_map(|policy| Some(policy.tiers.as_ref()?.by().clone()));
    all.flat_map(|policy| &policy.entries).flat_map(of_entry).chain(tiers).collect()
}

fn costs(policies: &Policies) -> Vec<Field> {
    let of_policy = policies.policies().iter().flat_map(|policy| policy.cost.fields().cloned());
    of_policy.collect()
}

/// All conditions: those of policies, and those of overrides.
pub(super) fn conditions(policies: &Policies) -> impl Iterator<Item = &Condition> {
    policies.policies().iter().flat_map(|policy| {
        let others = policy.entries.iter().flat_map(|entry| &entry.overrides);
        policy.when.iter().chain(others.flat_map(|other| &other.when))
    })
}
