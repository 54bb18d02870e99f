//! A limit in force, judged by another log than the one that it was made from.

use tollgate::LimitSet;

use super::advice::Checked;
use super::burst::Concerned;
use super::groups::groups;
use super::of_rate::Seen;
use super::simulate::{Who, simulate};
use super::{Go, Options};
use crate::error::Error;
use crate::read::Traffic;

/// Replays a limit over the clients, of whom the best rate tells the outliers.
pub(super) fn check(
    traffic: &Traffic,
    seen: &Seen<'_>,
    (options, limits): (&Options, &LimitSet),
    best: &Concerned<'_>,
    go: &mut Go<'_>,
) -> Result<Checked, Error> {
    let everybody = vec![true; seen.sample.len()];
    let is_outlier = best.is_outlier;
    let who = Who { sample: seen.sample, is_outlier, is_denied: &everybody };
    let strategy = options.burst_strategy();
    let denied = simulate(traffic, who, (limits, strategy), u64::MAX, go)?.unwrap_or_default();
    let ordinary = is_outlier.iter().filter(|is| !**is).count() as u64;
    let may_be_denied = options.target.clients_of(ordinary);
    let kinds = (is_outlier, seen.kinds);
    Ok(Checked {
        limit: limits.to_string(),
        holds: denied.clients <= may_be_denied,
        may_be_denied,
        clients_denied: denied.clients,
        longest_wait_us: denied.longest_wait_us,
        groups: groups(&seen.scan.profiles, kinds, (&best.least, &denied.by_client)),
    })
}
