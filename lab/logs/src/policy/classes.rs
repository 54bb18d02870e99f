//! Values that differ and decide the same: fields that are read in conditions alone.
//!
//! A log has as many paths as its clients like, and a policy asks whether one begins with `/login`.
//! So all requests that meet the same conditions are one class, which keeps its first request.

use std::borrow::Cow;

use hashbrown::HashMap;
use tollgate::Time;
use tollgate_policy::{Combine, Condition, Entry, Field, OnFailure, Policies, Policy};

use super::layout::{Layout, conditions};
use super::request::Request;
use crate::error::Error;

/// The classes of values that were seen.
pub(super) struct Classes {
    /// A policy for each condition. `None` if there is none.
    tester: Option<Policies>,
    known: HashMap<Vec<usize>, usize>,
    /// The values of the first request of each class.
    firsts: Vec<Vec<Vec<u8>>>,
}

impl Classes {
    pub(super) fn new(layout: &Layout, policies: &[&Policies]) -> Result<Self, Error> {
        let is_classed = |field: &Field| {
            let each = layout.fields.iter().zip(&layout.is_only_condition);
            each.into_iter().any(|(it, is_only)| it == field && *is_only)
        };
        let mut all: Vec<&Condition> = Vec::new();
        for condition in policies.iter().copied().flat_map(conditions) {
            if is_classed(&condition.field) && !all.contains(&condition) {
                all.push(condition);
            }
        }
        let tester = match all.as_slice() {
            [] => None,
            all => Some(tester(all)?),
        };
        Ok(Self { tester, known: HashMap::new(), firsts: Vec::new() })
    }

    /// The class of these values, which are those of `fields`.
    pub(super) fn class(&mut self, fields: &[Field], values: &[Cow<'_, [u8]>]) -> usize {
        let request = Request {
            fields,
            values: values.iter().map(|value| super::request::as_text(value.clone())).collect(),
            by: Cow::Borrowed(""),
            cost: None,
            // No class goes by the time: that is not a value of a line.
            now: Time::from_micros(0),
        };
        let holding: Vec<usize> = match &self.tester {
            None => Vec::new(),
            Some(tester) => {
                let names = tester.matching(&request);
                names.iter().filter_map(|policy| policy.name.parse().ok()).collect()
            }
        };
        let firsts = &mut self.firsts;
        *self.known.entry(holding).or_insert_with(|| {
            firsts.push(values.iter().map(|value| value.to_vec()).collect());
            firsts.len() - 1
        })
    }

    /// The values of the first request of this class.
    pub(super) fn values(&self, class: usize) -> &[Vec<u8>] {
        self.firsts.get(class).map_or(&[], Vec::as_slice)
    }
}

/// Policies whose names are the numbers of the conditions: those that match are those that hold.
fn tester(all: &[&Condition]) -> Result<Policies, Error> {
    let failed = |why: String| Error::Policies { why };
    let mut policies = Vec::with_capacity(all.len());
    for (number, condition) in all.iter().enumerate() {
        let entry = Entry::new(["condition=all"], "1/s").map_err(|why| failed(why.to_string()))?;
        let mut policy = Policy::new(number.to_string(), OnFailure::Allow).entry(entry);
        policy.when.push((*condition).clone());
        policies.push(policy);
    }
    Policies::new(Combine::All, policies).map_err(|problems| failed(problems.to_string()))
}
