//! A limit for each value of a field, such as each endpoint.

use std::collections::HashMap;

use serde::Serialize;

use super::burst::{Buckets, Bursts};
use super::each_policies::EachPolicies;
use super::outliers::apart_kinds;
use super::scan::{Sample, events};
use super::{Go, Options, check};
use crate::describe::Kind;
use crate::error::Error;
use crate::event::ClientId;
use crate::parse::{By, joined, parts};
use crate::read::Traffic;
use crate::text;

/// The most values with a limit of their own.
const MOST: usize = 20;

/// The values among which those are found that a condition can name.
const TRIED: usize = 100;

/// A limit for each value of a field: the object of `advise --each --json`.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct EachAdvice {
    /// The field whose values have limits.
    pub each: String,
    /// The field that tells clients apart.
    pub by: String,
    /// Lines of the log that are events.
    pub events: u64,
    /// The share of the clients of each value that may be denied.
    pub target: String,
    /// The values with the most requests, at most 20.
    pub values: Vec<ValueAdvice>,
    /// The other values.
    pub others: u64,
    /// Their requests.
    pub others_requests: u64,
    /// A policy file with all limits.
    pub policy: String,
}

/// The limit for one value.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ValueAdvice {
    /// The value in printable form.
    pub value: String,
    /// Its requests.
    pub requests: u64,
    /// Its clients.
    pub clients: u64,
    /// The text of the limit.
    pub limit: String,
    /// The longest wait of a denied request of one unit, in microseconds.
    pub wait_us: u64,
    /// The most units of one client in an hour, whatever it does.
    pub worst_hour: u64,
    /// Clients that are denied at least once, without outliers.
    pub clients_denied: u64,
    /// Outliers: robots, scanners and much busier clients.
    pub outliers: u64,
    /// Outliers that are denied at least once.
    pub outliers_denied: u64,
    /// Its requests that are denied, of all clients.
    pub requests_denied: u64,
}

/// A value of the log.
struct Value {
    name: Vec<u8>,
    requests: u64,
    /// Its pairs with clients, by their dense numbers.
    pairs: Vec<usize>,
}

/// A client under the policy of one value: a pair with that value, or with others that match it.
#[derive(Debug, Clone, Default)]
struct Counted {
    buckets: Buckets,
    requests: u64,
    last_us: u64,
    pairs: Vec<ClientId>,
}

/// Advises on a limit for each value of `each`, for traffic that was read with that field. The
/// policies are made first, so that each row is about the requests that its policy gets.
///
/// # Errors
/// Those of [`super::advise`], and options that do not ask for rates with a burst.
pub fn advise_each(
    traffic: &Traffic,
    (options, each): (&Options, &By),
    go: &mut Go<'_>,
) -> Result<EachAdvice, Error> {
    let sample = Sample::new(traffic);
    check(traffic, &sample, &Options { by: By::All, ..options.clone() })?;
    if !options.wants_rate() {
        let why = "each value gets a rate with a burst: leave out --per, --cost and \
                   --deny-requests, and give no other strategy than `gcra`";
        return Err(Error::Advice { why: why.to_owned() });
    }
    let ids: Vec<ClientId> =
        traffic.clients.ids().filter(|id| traffic.clients.is_sampled(*id)).collect();
    let mut requests = vec![0_u64; sample.len()];
    events(traffic, &sample, go, |place, _| {
        requests.get_mut(place).into_iter().for_each(|it| *it += 1);
        Ok(())
    })?;
    let values = values(traffic, &requests, &ids, each.fields().len());
    let names = values.iter().map(|value| &value.name[..]);
    let conditions = EachPolicies::new(options, each, names.take(TRIED), MOST);
    let mut counting = Counting::new(traffic, &ids, each.fields().len(), sample.len());
    let (mut others, mut others_requests) = (0, 0);
    for value in &values {
        match conditions.of(&value.name) {
            Some(policy) => counting.add(policy, &value.pairs),
            None => {
                others += 1;
                others_requests += value.requests;
            }
        }
    }
    let Counting { place_of, mut counted, policy_of, .. } = counting;
    events(traffic, &sample, go, |place, event| {
        let counted = place_of.get(place).and_then(|it| counted.get_mut((*it)?));
        if let Some(counted) = counted {
            counted.buckets.count(u64::from(event.cost), event.at_us - counted.last_us);
            counted.last_us = event.at_us;
            counted.requests += 1;
        }
        Ok(())
    })?;
    let kind = |it: &Counted| traffic.descriptions.as_ref()?.kind_of(&it.pairs);
    let kinds = apart_kinds(options, counted.iter().map(kind).collect());
    // The backlog that each may have, and the time in which a unit comes back.
    let mut bounds = vec![(0, 0); counted.len()];
    let mut rows = Vec::new();
    for (policy, name) in conditions.names().enumerate() {
        let of: Vec<usize> =
            (0..counted.len()).filter(|it| policy_of.get(*it) == Some(&policy)).collect();
        let row = advised(name, &of, options, (&counted, &kinds), &mut bounds);
        rows.push((row.ok_or_else(no_rate)?, of));
    }
    let denied = denied(traffic, &sample, (&place_of, &bounds), go)?;
    for (row, of) in &mut rows {
        row.requests_denied = of.iter().filter_map(|it| denied.get(*it)).sum();
    }
    let mut rows: Vec<ValueAdvice> = rows.into_iter().map(|(row, _)| row).collect();
    let policy = conditions.text(rows.iter().map(|row| &*row.limit));
    rows.sort_by_key(|row| std::cmp::Reverse(row.requests));
    Ok(EachAdvice {
        each: each.to_string(),
        by: options.by.to_string(),
        events: traffic.summary.events,
        target: options.target.to_string(),
        values: rows,
        others,
        others_requests,
        policy,
    })
}

fn no_rate() -> Error {
    Error::Advice { why: "no rate keeps to the longest wait: give a longer --max-wait".to_owned() }
}

/// The clients under the policies.
struct Counting<'t> {
    traffic: &'t Traffic,
    ids: &'t [ClientId],
    /// The number of parts of a key that are the value.
    fields: usize,
    /// Where each pair is counted; `None` without a policy.
    place_of: Vec<Option<usize>>,
    counted: Vec<Counted>,
    /// The policy of each of these.
    policy_of: Vec<usize>,
    places: HashMap<(usize, Vec<u8>), usize>,
}

impl<'t> Counting<'t> {
    fn new(traffic: &'t Traffic, ids: &'t [ClientId], fields: usize, pairs: usize) -> Self {
        Self {
            traffic,
            ids,
            fields,
            place_of: vec![None; pairs],
            counted: Vec::new(),
            policy_of: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// Counts the pairs of a value by this policy.
    fn add(&mut self, policy: usize, pairs: &[usize]) {
        for pair in pairs {
            let Some(id) = self.ids.get(*pair) else { continue };
            let key = self.traffic.clients.name(*id).unwrap_or_default();
            let client: Vec<_> = parts(key).skip(self.fields).collect();
            let client = joined(client.iter().map(|it| &**it));
            let next = self.counted.len();
            let place = *self.places.entry((policy, client)).or_insert(next);
            if place == next {
                self.counted.push(Counted::default());
                self.policy_of.push(policy);
            }
            if let Some(counted) = self.counted.get_mut(place) {
                counted.pairs.push(*id);
            }
            if let Some(it) = self.place_of.get_mut(*pair) {
                *it = Some(place);
            }
        }
    }
}

/// The values, those with the most requests first.
fn values(traffic: &Traffic, requests: &[u64], ids: &[ClientId], fields: usize) -> Vec<Value> {
    let mut found: HashMap<Vec<u8>, Value> = HashMap::new();
    for (pair, (id, requests)) in ids.iter().zip(requests).enumerate() {
        let key = traffic.clients.name(*id).unwrap_or_default();
        let name: Vec<_> = parts(key).take(fields).collect();
        let name = match name.as_slice() {
            [one] => one.to_vec(),
            several => joined(several.iter().map(|it| &**it)),
        };
        let value = found.entry(name.clone()).or_insert(Value { name, requests: 0, pairs: vec![] });
        value.requests += requests;
        value.pairs.push(pair);
    }
    let mut all: Vec<Value> = found.into_values().collect();
    all.sort_unstable_by(|one, other| {
        other.requests.cmp(&one.requests).then_with(|| one.name.cmp(&other.name))
    });
    all
}

/// The limit for a value, without its denied requests; `None` if no rate keeps to the wait.
fn advised(
    name: &[u8],
    of: &[usize],
    options: &Options,
    (counted, kinds): (&[Counted], &[Option<Kind>]),
    bounds: &mut [(u64, u64)],
) -> Option<ValueAdvice> {
    let all = || of.iter().filter_map(|at| counted.get(*at));
    let buckets: Vec<Buckets> = all().map(|it| it.buckets.clone()).collect();
    let kinds: Vec<Option<Kind>> = of.iter().filter_map(|at| kinds.get(*at).copied()).collect();
    let bursts = Bursts::new(&buckets, options, &kinds);
    let best = bursts.best()?;
    let advice = best.advice;
    for place in of {
        if let Some(bound) = bounds.get_mut(*place) {
            *bound = (advice.burst.saturating_mul(advice.wait_us), advice.wait_us);
        }
    }
    Some(ValueAdvice {
        value: text::printable(name, usize::MAX),
        requests: all().map(|it| it.requests).sum(),
        clients: of.len() as u64,
        limit: advice.limit.clone(),
        wait_us: advice.wait_us,
        worst_hour: advice.worst_hour,
        clients_denied: advice.clients_denied,
        outliers: best.is_outlier.iter().filter(|is| **is).count() as u64,
        outliers_denied: advice.outliers_denied,
        requests_denied: 0,
    })
}

/// The denied requests of each client: those that would make its backlog longer than it may be. The
/// limits differ from value to value, so one pass does what a replay of each would.
fn denied(
    traffic: &Traffic,
    sample: &Sample,
    (place_of, bounds): (&[Option<usize>], &[(u64, u64)]),
    go: &mut Go<'_>,
) -> Result<Vec<u64>, Error> {
    let mut denied = vec![0_u64; bounds.len()];
    let mut backlogs = vec![(0_u64, 0_u64); bounds.len()];
    events(traffic, sample, go, |place, event| {
        let Some(place) = place_of.get(place).copied().flatten() else { return Ok(()) };
        if let (Some((most_us, step_us)), Some((now_us, at_us)), Some(denied)) =
            (bounds.get(place), backlogs.get_mut(place), denied.get_mut(place))
        {
            *now_us = now_us.saturating_sub(event.at_us - *at_us);
            *at_us = event.at_us;
            let with = now_us.saturating_add(u64::from(event.cost).saturating_mul(*step_us));
            if with <= *most_us {
                *now_us = with;
            } else {
                *denied += 1;
            }
        }
        Ok(())
    })?;
    Ok(denied)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use tollgate_policy::{Format, Policies};

    use super::*;
    use crate::policy::{PolicyReading, replay};
    use crate::read::Reading;

    /// Thirty people log in three times, and read themselves and 25 users with a picture and a
    /// script each; one logs in 150 times at once.
    fn guessed(folder: &tempfile::TempDir) -> PathBuf {
        let line = |client: u64, at: u64, path: &str| {
            format!("{{\"ip\":\"10.0.0.{client}\",\"ts\":{at},\"path\":\"{path}\"}}\n")
        };
        let mut log = String::new();
        for client in 0..30 {
            for n in 0..3 {
                log.push_str(&line(client, 1_000_000_000 + n * 60, "/login"));
            }
            for n in 0..2 {
                log.push_str(&line(client, 1_000_009_000 + n, "/users/me"));
            }
            for n in 0..25 {
                log.push_str(&line(client, 1_000_003_000 + n, &format!("/users/{n}/")));
                log.push_str(&line(client, 1_000_003_000 + n, &format!("/users/{n}/a{n}.png")));
                log.push_str(&line(client, 1_000_006_000 + n, &format!("/{n}.js")));
            }
        }
        log += &line(99, 1_000_000_000, "/login").repeat(150);
        let path = folder.path().join("guessed.log");
        std::fs::write(&path, log).unwrap();
        path
    }

    fn of_paths(log: &Path) -> EachAdvice {
        let reading = Reading::by(By::Ip).with_descriptions().with_each(Some(By::Path));
        let traffic = reading.read(log, |_| ()).unwrap();
        let options = Options::by(By::Ip);
        advise_each(&traffic, (&options, &By::Path), &mut |_| Ok(())).unwrap()
    }

    /// The rows are what the gate does with the policies of the file, over the whole log.
    #[test]
    fn each_row_is_what_its_policy_gets_and_denies() {
        let folder = tempfile::tempdir().unwrap();
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../examples/data/semicomplete_access.log.gz");
        for (log, most_denied) in [(shipped, 0), (guessed(&folder), 140)] {
            let advice = of_paths(&log);
            assert_eq!(advice.values.len(), MOST);
            let policies = Policies::parse(&advice.policy, Format::Toml).unwrap();
            let reading = PolicyReading::by(By::Ip);
            let requests = reading.read(&log, &[&policies], |_| ()).unwrap();
            let report = replay(&requests, &policies, &mut |_| Ok(()), &mut |_| Ok(())).unwrap();
            let each = report.policies.iter().map(|it| (it.admitted + it.denied, it.denied));
            let mut policies: Vec<(u64, u64)> = each.collect();
            let each = advice.values.iter().map(|row| (row.requests, row.requests_denied));
            let mut rows: Vec<(u64, u64)> = each.collect();
            policies.sort_unstable();
            rows.sort_unstable();
            assert_eq!(policies, rows);
            assert_eq!(report.no_policy, advice.others_requests);
            assert_eq!(rows.iter().map(|(_, denied)| *denied).max(), Some(most_denied));
        }
    }

    #[test]
    fn an_endpoint_gets_what_no_longer_one_does() {
        let folder = tempfile::tempdir().unwrap();
        let advice = of_paths(&guessed(&folder));
        let row = |value: &str| {
            let row = advice.values.iter().find(|row| row.value == value).unwrap();
            (row.requests, row.clients, row.outliers)
        };
        // No picture is among the 20, since 17 scripts are: they are below the users.
        assert_eq!(row("/users/*"), (1_500, 30, 0));
        assert_eq!(row("/users/me"), (60, 30, 0), "before the users");
        assert_eq!(row("/login"), (240, 31, 1));
        assert_eq!((advice.others, advice.others_requests), (8, 8 * 30));
    }
}
