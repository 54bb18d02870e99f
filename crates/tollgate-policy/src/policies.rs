//! Checked policies: after this stage, they cannot be invalid.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;
use tollgate::ParseError;

use crate::check::check;
use crate::clock::Moment;
use crate::field::{Field, Fields, advice, closest};
use crate::index::{Found, Index};
use crate::model::{Absent, Combine, Dimension, Policy};
use crate::pattern::{Condition, Pattern};
use crate::problem::{Problem, Problems};
use crate::read::keys::{Files, Unlisted};
use crate::read::read;
use crate::ready::{Ready, SingleCheck, ready, single_check};
use crate::source::Format;
use crate::spans::FileSpans;

/// Checked policies, ready for use. Clones are cheap.
///
/// ```
/// use tollgate_policy::{Format, Policies};
/// let text = r#"
///     version = 1
///     [[policies]]
///     name = "hourly"
///     on_failure = "allow"
///     limits = [{ subject = "ip", limit = "1000/1h via token_bucket" }]
/// "#;
/// let policies = Policies::parse(text, Format::Toml)?;
/// assert!(policies.warnings().is_empty());
/// let found = policies.matching(&[("ip", "10.0.0.1")]);
/// assert_eq!(found[0].name, "hourly");
/// # Ok::<(), tollgate_policy::Problems>(())
/// ```
#[derive(Clone)]
pub struct Policies(Arc<Inner>);

struct Inner {
    head: Head,
    policies: Vec<Policy>,
    ready: Vec<Ready>,
    index: Index,
    /// For each policy, the check that it always makes.
    singles: Vec<Option<SingleCheck>>,
    places: HashMap<String, usize, foldhash::fast::RandomState>,
    fields: BTreeSet<Field>,
    /// The fields in conditions of policies that are not in shadow.
    conditions: BTreeSet<Field>,
    /// Whether some condition is on a time or a day.
    has_times: bool,
    /// Whether some charge may reach a threshold.
    notifies: bool,
}

/// The fields of the file as a whole.
#[derive(Clone)]
struct Head {
    combine: Combine,
    nodes: Option<u32>,
    hash: String,
    hash_number: u64,
    warnings: Problems,
    cluster_warnings: Problems,
}

/// The policies that match a request, by their positions in [`Policies::policies`].
#[derive(Debug, Default)]
pub(crate) struct Matched {
    pub(crate) enforced: SmallVec<[usize; 4]>,
    pub(crate) shadows: SmallVec<[usize; 4]>,
}

impl Policies {
    /// Parses the text of a policy file.
    ///
    /// # Errors
    /// All problems in it, including warnings.
    pub fn parse(text: &str, format: Format) -> Result<Self, Problems> {
        Self::parse_named("policies", text, format)
    }

    /// As [`Policies::parse`], with the name of the file for problems.
    ///
    /// # Errors
    /// As [`Policies::parse`].
    pub fn parse_named(file: &str, text: &str, format: Format) -> Result<Self, Problems> {
        let mut files = |file: &str| {
            Err(Unlisted {
                what: format!(
                    "`{file}` must be beside a policy file, but this text was not read from a file"
                ),
                remedy: "read the policies with `Policies::load`, or write the values here",
            })
        };
        Self::parse_with(file, text, format, &mut files)
    }

    /// As [`Policies::parse_named`], with the files that the text refers to.
    pub(crate) fn parse_with<'l>(
        file: &str,
        text: &'l str,
        format: Format,
        files: &'l mut Files<'l>,
    ) -> Result<Self, Problems> {
        let read = read(text, format, files);
        let (mut policies, mut places, mut problems) = (read.policies, read.places, read.problems);
        if !policies.is_empty() {
            problems.extend(check((read.combine, read.nodes), &mut policies, &mut places));
        }
        let problems = Problems::new(file, text, problems);
        let mut content = text.as_bytes().to_vec();
        conditions(&policies).for_each(|condition| add_lists(condition, &mut content));
        policies.iter().filter_map(|policy| policy.tiers.as_ref()).for_each(|tiers| {
            tiers.write(&mut content);
        });
        Self::build((read.combine, read.nodes), policies, problems, &content)
    }

    /// Checks policies built by a program. Their content hash is that of their debug output.
    ///
    /// # Errors
    /// All problems in them; they have no positions.
    pub fn new(combine: Combine, mut policies: Vec<Policy>) -> Result<Self, Problems> {
        let mut places = FileSpans::nowhere(&policies);
        let problems = check((combine, None), &mut policies, &mut places);
        let problems = Problems::new("policies", "", problems);
        let text = format!("{combine:?} {policies:?}");
        Self::build((combine, None), policies, problems, text.as_bytes())
    }

    fn build(
        (combine, nodes): (Combine, Option<u32>),
        policies: Vec<Policy>,
        problems: Problems,
        content: &[u8],
    ) -> Result<Self, Problems> {
        if problems.has_errors() {
            return Err(problems);
        }
        let file = problems.file().to_owned();
        let hash_number = short_hash(content);
        // As printed by `sha1sum`.
        let hash = format!("{hash_number:012x}");
        let (warnings, cluster_warnings) = problems.by_store();
        let head = Head { combine, nodes, hash, hash_number, warnings, cluster_warnings };
        Self::assemble(head, policies).map_err(|error| {
            let problem = Problem::error(None, error.what(), error.remedy());
            Problems::new(&file, "", vec![problem])
        })
    }

    /// The policies in the forms that requests are answered by.
    fn assemble(head: Head, policies: Vec<Policy>) -> Result<Self, ParseError> {
        let has_times = conditions(&policies).any(|condition| condition.field.is_clock());
        let sharded = head.combine == Combine::First || one_shard(&policies);
        let ready = policies.iter().map(|policy| ready(policy, sharded));
        let ready = ready.collect::<Result<Vec<Ready>, _>>()?;
        let index = Index::new(policies.iter().map(|policy| policy.when.clone()).collect());
        let (mut fields, mut conditions) = (BTreeSet::new(), BTreeSet::new());
        for policy in &policies {
            add_fields_of(policy, &mut fields);
            if !policy.shadow {
                conditions.extend(policy.when.iter().map(|condition| condition.field.clone()));
            }
        }
        fields.retain(Field::is_of_request);
        let mut entries = policies.iter().flat_map(|policy| &policy.entries);
        let notifies = entries.any(|entry| !entry.notify.is_empty());
        let singles = ready.iter().enumerate().map(single_check).collect();
        let names = policies.iter().map(|policy| policy.name.clone());
        let places = names.zip(0..).collect();
        Ok(Self(Arc::new(Inner {
            head,
            policies,
            ready,
            index,
            singles,
            places,
            fields,
            conditions,
            has_times,
            notifies,
        })))
    }

    /// The same policies, with a hash in place of each API key in a condition.
    pub(crate) fn with_hashed_keys(&self, hash: &dyn Fn(&str) -> String) -> Self {
        if !conditions(self.policies()).any(Condition::has_keys) {
            return self.clone();
        }
        let mut policies = self.0.policies.clone();
        for policy in &mut policies {
            let overrides = policy.entries.iter_mut().flat_map(|entry| &mut entry.overrides);
            let of_overrides = overrides.flat_map(|other| &mut other.when);
            of_overrides.chain(&mut policy.when).for_each(|condition| condition.hash_keys(hash));
        }
        // Cannot fail: the limits and subjects were assembled before, and only conditions differ.
        Self::assemble(self.0.head.clone(), policies).unwrap_or_else(|_| self.clone())
    }

    /// Which of the policies that apply are checked.
    #[must_use]
    pub fn combine(&self) -> Combine {
        self.0.head.combine
    }

    /// The number of nodes, if the file has it: what `local` without a share is a part of.
    #[must_use]
    pub fn nodes(&self) -> Option<u32> {
        self.0.head.nodes
    }

    /// The policies in order. Entries with the same subject are joined.
    #[must_use]
    pub fn policies(&self) -> &[Policy] {
        &self.0.policies
    }

    /// Warnings: valid, but certainly unintended.
    #[must_use]
    pub fn warnings(&self) -> &Problems {
        &self.0.head.warnings
    }

    /// Warnings that apply only if the store is a cluster.
    #[must_use]
    pub fn cluster_warnings(&self) -> &Problems {
        &self.0.head.cluster_warnings
    }

    /// The first 12 hexadecimal digits of the SHA-1 of the file, its lists and its tiers.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.0.head.hash
    }

    /// The same hash as a number.
    pub(crate) fn hash_number(&self) -> u64 {
        self.0.head.hash_number
    }

    /// Every field that these policies read: in conditions, subjects, substitutes and costs. A
    /// front that cannot provide one of them should report that at its start.
    #[must_use]
    pub fn fields(&self) -> &BTreeSet<Field> {
        &self.0.fields
    }

    /// Why a ruling on this field is likely a mistake: callers name it freely, and no policy reads
    /// it.
    #[must_use]
    pub fn unread(&self, field: &Field) -> Option<ParseError> {
        let is_named = matches!(field, Field::Custom(_) | Field::Header(_));
        if !is_named || self.fields().contains(field) {
            return None;
        }
        let names: Vec<String> = self.fields().iter().map(Field::to_string).collect();
        let names = || names.iter().map(String::as_str);
        let field = field.to_string();
        let right = format!("the policies read `{}`", names().collect::<Vec<_>>().join("`, `"));
        let remedy = advice(&field, names(), &right);
        Some(ParseError::whole(&field, format!("no policy reads `{field}`"), remedy))
    }

    /// True when a policy that is not in shadow has a condition on this field.
    pub(crate) fn is_condition(&self, field: &Field) -> bool {
        self.0.conditions.contains(field)
    }

    /// True when this policy reads the field.
    pub(crate) fn reads(&self, place: usize, field: &Field) -> bool {
        let mut fields = BTreeSet::new();
        if let Some(policy) = self.policy(place) {
            add_fields_of(policy, &mut fields);
        }
        fields.contains(field)
    }

    /// The policies that match a request, including shadow policies.
    #[must_use]
    pub fn matching(&self, fields: &dyn Fields) -> Vec<&Policy> {
        let Matched { enforced, shadows } = self.matched(fields);
        let mut all: Vec<usize> = enforced.into_iter().chain(shadows).collect();
        all.sort_unstable();
        all.into_iter().filter_map(|number| self.0.policies.get(number)).collect()
    }

    /// The number of policies that match a request: as [`Policies::matching`], without an
    /// allocation.
    #[must_use]
    pub fn count_matching(&self, fields: &dyn Fields) -> usize {
        let Matched { enforced, shadows } = self.matched(fields);
        enforced.len() + shadows.len()
    }

    /// Finds the policies that match a request. They are written in place: moving freshly written
    /// lists takes longer than finding them.
    #[inline]
    pub(crate) fn find(&self, fields: &dyn Fields, matched: &mut Matched) {
        let Inner { head: Head { combine, .. }, index, .. } = &*self.0;
        let mut room = Found::new();
        for &number in index.candidates(fields, &mut room) {
            let Ok(place) = usize::try_from(number) else { continue };
            let shadow = self.ready(place).is_some_and(|ready| ready.shadow);
            // With `first`, one shadow policy is checked: the one that would decide if it were not
            // in shadow.
            let of_no_interest =
                *combine == Combine::First && shadow && !matched.shadows.is_empty();
            if of_no_interest || !index.holds(number, fields) {
                continue;
            }
            if shadow {
                matched.shadows.push(place);
                continue;
            }
            matched.enforced.push(place);
            if *combine == Combine::First {
                break;
            }
        }
    }

    /// The request at one moment, if these policies go by the time.
    #[inline]
    pub(crate) fn moment<'f>(&self, fields: &'f dyn Fields) -> Option<Moment<'f>> {
        self.0.has_times.then(|| Moment::new(fields))
    }

    pub(crate) fn matched(&self, fields: &dyn Fields) -> Matched {
        let moment = self.moment(fields);
        let fields = moment.as_ref().map_or(fields, |moment| moment as &dyn Fields);
        let mut matched = Matched::default();
        self.find(fields, &mut matched);
        matched
    }

    /// The position of the policy of this name.
    pub(crate) fn place_of(&self, name: &str) -> Option<usize> {
        self.0.places.get(name).copied()
    }

    /// The most similar name of a policy, to suggest for a name that no policy has.
    #[must_use]
    pub fn similar(&self, name: &str) -> Option<&str> {
        closest(name, self.policies().iter().map(|policy| policy.name.as_str()))
    }

    /// The match of a request that meets this one policy.
    pub(crate) fn matched_alone(&self, place: usize) -> Matched {
        let mut matched = Matched::default();
        match self.ready(place).is_some_and(|ready| ready.shadow) {
            true => matched.shadows.push(place),
            false => matched.enforced.push(place),
        }
        matched
    }

    /// The check of a request that meets one policy alone, if that always makes the same check.
    /// Without fields, it is the check of every request.
    #[inline]
    pub(crate) fn single_check(&self, fields: Option<&dyn Fields>) -> Option<&SingleCheck> {
        if let ([Policy { when, .. }], [single]) = (self.policies(), &self.0.singles[..])
            && when.is_empty()
        {
            return single.as_ref();
        }
        let fields = fields?;
        let moment = self.moment(fields);
        let fields = moment.as_ref().map_or(fields, |moment| moment as &dyn Fields);
        let mut matched = Matched::default();
        self.find(fields, &mut matched);
        match (&matched.enforced[..], &matched.shadows[..]) {
            ([place], []) => self.0.singles.get(*place)?.as_ref(),
            _ => None,
        }
    }

    /// Whether some request may have a [`Policies::single_check`].
    pub(crate) fn has_single_checks(&self) -> bool {
        self.0.singles.iter().any(Option::is_some)
    }

    /// Whether some charge may reach a threshold.
    #[inline]
    pub(crate) fn notifies(&self) -> bool {
        self.0.notifies
    }

    #[inline]
    pub(crate) fn ready(&self, place: usize) -> Option<&Ready> {
        self.0.ready.get(place)
    }

    #[inline]
    pub(crate) fn policy(&self, place: usize) -> Option<&Policy> {
        self.0.policies.get(place)
    }
}

impl core::fmt::Debug for Policies {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Policies")
            .field("hash", &self.0.head.hash)
            .field("policies", &self.0.policies.len())
            .finish_non_exhaustive()
    }
}

/// The conditions of all policies, and of their overrides.
fn conditions(policies: &[Policy]) -> impl Iterator<Item = &Condition> {
    policies.iter().flat_map(|policy| {
        let overrides = policy.entries.iter().flat_map(|entry| &entry.overrides);
        overrides.flat_map(|other| &other.when).chain(&policy.when)
    })
}

/// The content of a list is part of the policies' content: it must change the hash.
fn add_lists(condition: &Condition, content: &mut Vec<u8>) {
    for pattern in &condition.any_of {
        if let Pattern::Listed(list) = pattern {
            list.write(content);
        }
    }
}

/// The first 12 hexadecimal digits of a SHA-1, as a number.
fn short_hash(content: &[u8]) -> u64 {
    use sha1::Digest as _;
    let digest = sha1::Sha1::digest(content);
    digest.iter().take(6).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// True when all policies have the same shard. If each check is over all policies that apply, the
/// name of a count must not depend on which those are.
fn one_shard(policies: &[Policy]) -> bool {
    let mut enforced = policies.iter().filter(|policy| !policy.shadow && !policy.unlimited);
    let first = enforced.next().map(|policy| &policy.shard);
    enforced.all(|policy| Some(&policy.shard) == first)
}

/// Adds every field that a policy reads.
fn add_fields_of(policy: &Policy, fields: &mut BTreeSet<Field>) {
    fn add(conditions: &[Condition], fields: &mut BTreeSet<Field>) {
        fields.extend(conditions.iter().map(|condition| condition.field.clone()));
    }
    add(&policy.when, fields);
    fields.extend(policy.cost.fields().cloned());
    fields.extend(policy.tiers.as_ref().map(|tiers| tiers.by().clone()));
    for entry in &policy.entries {
        let instead = entry.absent.values().filter_map(|absent| match absent {
            Absent::Instead(dimension) => Some(dimension),
            Absent::Skip | Absent::Deny => None,
        });
        let dimensions = entry.subject.iter().chain(instead);
        fields.extend(dimensions.filter_map(Dimension::field).cloned());
        for other in &entry.overrides {
            add(&other.when, fields);
        }
    }
}
