//! From the pass over the log to the advice: outliers, percentiles, limits, and the recommendation.

use tollgate::{MAX_BARE_UNITS, Period, Strategy};

use super::advice::{Advice, AdvisedLimit, Busiest, Recommended, Sampled, WindowAdvice};
use super::burst::Bursts;
use super::checked;
use super::clients;
use super::cost::Subjects;
use super::named::named;
use super::of_rate;
use super::outliers::{apart, kinds, ordinary};
use super::policy::{self, dimensions};
use super::scan::{Busy, Profile, Sample, Scan, Window};
use super::search::search;
use super::simulate::{Denied, Who, simulate};
use super::table::{Clients, limit_of};
use super::{Go, Options, Target};
use crate::describe::Kind;
use crate::error::Error;
use crate::event::ClientId;
use crate::read::Traffic;

/// The fewest requests of a client whose bursts say something.
const FEWEST_FOR_BURSTS: u64 = 10;

/// A limit with fewer units is not recommended where another window has more: the log then shows
/// only single requests.
const FEWEST_UNITS: u64 = 5;

/// The pass and its input.
pub(super) type Seen<'s> = (&'s Sample, &'s Scan, &'s [Period]);

/// The advice.
pub(super) fn advice(
    traffic: &Traffic,
    options: &Options,
    (sample, scan, periods): Seen<'_>,
    go: &mut Go<'_>,
) -> Result<Advice, Error> {
    let ids: Vec<ClientId> =
        traffic.clients.ids().filter(|id| traffic.clients.is_sampled(*id)).collect();
    let subjects = subjects(traffic, options, &ids);
    let (first_us, last_us) = traffic.summary.first_last_us.unwrap_or_default();
    let kinds = kinds(traffic, options, &ids);
    let apart = |window: &Window| {
        // Costs may be of any size.
        let ordinary = if options.cost.is_some() { 0 } else { ordinary(window.period_us) };
        let demand: Vec<u64> = window.busy.iter().map(Busy::busiest).collect();
        apart(options, (&demand, &kinds), ordinary)
    };
    let apart: Vec<Vec<bool>> = scan.windows.iter().map(apart).collect();
    let each = scan.windows.iter().zip(periods).zip(&apart);
    let all: Vec<Clients<'_>> = each
        .map(|((window, period), is_outlier)| Clients {
            window,
            period: *period,
            unit: options.unit,
            profiles: &scan.profiles,
            is_outlier,
        })
        .collect();
    let mut windows = of_windows(traffic, &all, (&ids, &kinds), options, &subjects);
    let bursts = Bursts::new(&scan.buckets, options, &kinds);
    let seen = of_rate::Seen { sample, scan, ids: &ids, kinds: &kinds };
    let best = bursts.best();
    let checked = match (&best, &options.in_force) {
        (Some(best), Some(limits)) => {
            Some(checked::check(traffic, &seen, (options, limits), best, go)?)
        }
        _ => None,
    };
    let recommended = match best {
        Some(best) => of_rate::recommend(traffic, &seen, options, &best, go)?,
        None => {
            let chosen = chosen_window(&windows, options)?;
            let (Some(clients), Some(window)) = (all.get(chosen), windows.get_mut(chosen)) else {
                return Err(none_fits(options));
            };
            measure(traffic, sample, clients, (options, &subjects), window, go)?;
            recommend(&windows, chosen, options, clients)?
        }
    };
    Ok(Advice {
        events: traffic.summary.events,
        unparsed: traffic.summary.unparsed,
        out_of_order: traffic.summary.out_of_order,
        by: options.by.to_string(),
        clients: sample.len() as u64,
        requests: scan.profiles.iter().map(|profile| profile.requests).sum(),
        units: scan.profiles.iter().map(|profile| profile.units).sum(),
        first_us,
        last_us,
        sampled: Sampled {
            one_in: traffic.clients.one_in(),
            events_left_out: traffic.summary.events
                - scan.profiles.iter().map(|profile| profile.requests).sum::<u64>(),
        },
        target: options.target.to_string(),
        half_of_load: half_of_load(&scan.profiles),
        busiest: clients::busiest(traffic, scan),
        page_views: Busiest::of(
            scan.profiles.iter().map(|profile| profile.view),
            apart.first().map_or(&[][..], |it| it),
        ),
        rates: bursts.rates,
        recommended,
        checked,
        cannot_know: cannot_know(traffic, options, &windows),
        rows: match options.lists_clients {
            true => clients::rows(traffic, sample, scan),
            false => Vec::new(),
        },
        windows,
    })
}

/// The demand in each window, and the limits with it.
fn of_windows(
    traffic: &Traffic,
    all: &[Clients<'_>],
    (ids, kinds): (&[ClientId], &[Option<Kind>]),
    options: &Options,
    subjects: &Subjects,
) -> Vec<WindowAdvice> {
    let (first_us, last_us) = traffic.summary.first_last_us.unwrap_or_default();
    let of_window = |(place, clients): (usize, &Clients<'_>)| {
        let row = |strategy: &Strategy| {
            clients.row(*strategy, clients.units(*strategy, options.target), subjects)
        };
        let demand: Vec<u64> = clients.window.busy.iter().map(Busy::busiest).collect();
        let apart = (clients.is_outlier, kinds);
        WindowAdvice {
            window: clients.period.to_string(),
            window_us: clients.period.as_micros(),
            is_longer_than_log: clients.period.as_micros() > last_us - first_us,
            busiest: Busiest::of(demand.iter().copied(), clients.is_outlier),
            burst_tenths: all.get(place + 1).and_then(|next| burst(clients, next)),
            outliers_count: clients.is_outlier.iter().filter(|is| **is).count() as u64,
            outliers: named(traffic, ids, (&demand, clients.profiles), apart),
            limits: Strategy::RATES.iter().map(row).collect(),
        }
    };
    all.iter().enumerate().map(of_window).collect()
}

/// The lengths of the subjects that a policy would count.
fn subjects(traffic: &Traffic, options: &Options, ids: &[ClientId]) -> Subjects {
    let names = dimensions(&options.by).iter().map(|dimension| dimension.len() + 1).sum::<usize>();
    let length = |id: &ClientId| (traffic.clients.name(*id).map_or(0, <[u8]>::len) + names) as u64;
    Subjects { lengths: ids.iter().map(length).collect() }
}

/// The median of how many times its mean of the longer window a client asked for in its busiest
/// shorter one, in tenths.
fn burst(short: &Clients<'_>, long: &Clients<'_>) -> Option<u64> {
    let (short_us, long_us) = (short.window.period_us, long.window.period_us);
    let each = short.window.busy.iter().zip(&long.window.busy).zip(short.profiles);
    let mut all: Vec<u64> = each
        .filter(|(_, profile)| profile.requests >= FEWEST_FOR_BURSTS)
        .map(|((short, long), _)| {
            let times = u128::from(short.busiest()) * u128::from(long_us) * 10
                / (u128::from(long.busiest().max(1)) * u128::from(short_us));
            u64::try_from(times).unwrap_or(u64::MAX)
        })
        .collect();
    all.sort_unstable();
    all.get(all.len().div_ceil(2).checked_sub(1)?).copied()
}

fn half_of_load(profiles: &[Profile]) -> u64 {
    let mut all: Vec<u64> = profiles.iter().map(|profile| profile.units).collect();
    all.sort_unstable_by(|one, other| other.cmp(one));
    let total: u64 = all.iter().sum();
    let mut sum = 0;
    let below_half = all.iter().take_while(|units| {
        let is_below = sum < total.div_ceil(2);
        sum += **units;
        is_below
    });
    below_half.count() as u64
}

fn row_of(window: &WindowAdvice, strategy: Strategy) -> Option<&AdvisedLimit> {
    let row = window.limits.iter().find(|row| row.strategy == strategy.name());
    row.filter(|row| row.limit.is_some())
}

/// The window with the least product of burst and rate.
fn chosen_window(windows: &[WindowAdvice], options: &Options) -> Result<usize, Error> {
    let strategy = options.strategy.unwrap_or(Strategy::SlidingLog);
    let usable = windows.iter().enumerate().filter_map(|(place, window)| {
        row_of(window, strategy)?;
        Some((place, window, row_of(window, Strategy::SlidingLog)?.units))
    });
    // Of windows that the log does not fill the shortest one is the best guess.
    let least = usable.min_by(|(_, one, units), (_, other, others)| {
        let square = |units: u64| u128::from(units) * u128::from(units);
        let product = (square(*units).saturating_mul(other.window_us.into()))
            .cmp(&square(*others).saturating_mul(one.window_us.into()));
        let flaws =
            |window: &WindowAdvice, units: u64| (window.is_longer_than_log, units < FEWEST_UNITS);
        flaws(one, *units).cmp(&flaws(other, *others)).then(product)
    });
    least.map(|(place, ..)| place).ok_or_else(|| none_fits(options))
}

fn none_fits(options: &Options) -> Error {
    let strategy = options.strategy.map_or("no strategy", Strategy::name);
    Error::Advice {
        why: format!(
            "no limit fits: in every window {strategy} has none that keeps to the share; give \
             other \
             windows by `--per`, or another `--strategy`"
        ),
    }
}

/// Replays the limits of the chosen window, and searches for them if the target is of requests.
fn measure(
    traffic: &Traffic,
    sample: &Sample,
    clients: &Clients<'_>,
    (options, subjects): (&Options, &Subjects),
    window: &mut WindowAdvice,
    go: &mut Go<'_>,
) -> Result<(), Error> {
    let mut hint = None;
    for (strategy, row) in Strategy::RATES.iter().zip(&mut window.limits) {
        if row.limit.is_none() {
            continue;
        }
        // Clients that the pass over the log has shown to be admitted are left out.
        let replay = |units: u64, most: u64, go: &mut Go<'_>| {
            let refused = |why: tollgate::ParseError| Error::Advice { why: why.to_string() };
            let limits =
                limit_of(*strategy, units, clients.period, clients.unit).map_err(refused)?;
            let is_denied = clients.are_denied(*strategy, units);
            let who = Who { sample, is_outlier: clients.is_outlier, is_denied: &is_denied };
            simulate(traffic, who, (&limits, *strategy), most, go)
        };
        let mut measured: Option<Denied> = None;
        if let Target::Requests(share) = options.target {
            let may_be_denied = clients.may_deny(share);
            let found = search(row.units, hint, |units| replay(units, may_be_denied, go))?;
            *row = clients.row(*strategy, Some(found.units), subjects);
            row.too_few = Some(found.too_few);
            measured = found.measured;
            hint = Some(found.units);
        }
        let denied = match measured {
            Some(denied) => denied,
            None => replay(row.units, u64::MAX, go)?.unwrap_or_default(),
        };
        row.clients_denied = denied.clients;
        row.outliers_denied = denied.outliers;
        row.requests_denied = Some(denied.requests);
        row.outliers_requests_denied = Some(denied.outliers_requests);
        row.longest_wait_us = Some(denied.longest_wait_us);
    }
    Ok(())
}

fn recommend(
    windows: &[WindowAdvice],
    chosen: usize,
    options: &Options,
    clients: &Clients<'_>,
) -> Result<Recommended, Error> {
    let none = || none_fits(options);
    let window = windows.get(chosen).ok_or_else(none)?;
    let is_large = |row: &AdvisedLimit| row.units > MAX_BARE_UNITS;
    let log = Strategy::SlidingLog.name();
    let may = |row: &&AdvisedLimit| match options.strategy {
        Some(strategy) => row.strategy == strategy.name(),
        None => row.strategy != Strategy::Uniform.name() && !(row.strategy == log && is_large(row)),
    };
    let fitting = window.limits.iter().filter(|row| row.limit.is_some()).filter(may);
    let row = fitting
        .min_by_key(|row| (row.worst_window, row.strategy != log, row.bytes_memory))
        .ok_or_else(none)?;
    let limit = row.limit.clone().ok_or_else(none)?;
    let reason = reason(windows, window, row, options, clients);
    let ordinary = clients.is_outlier.iter().filter(|is| !**is).count();
    Ok(Recommended {
        policy: policy::text(options, (&limit, &reason), ordinary, clients.profiles),
        limit,
        reason,
        window: window.window.clone(),
        strategy: row.strategy,
        units: row.units,
        worst_window: row.worst_window,
        clients_denied: row.clients_denied,
        outliers_denied: row.outliers_denied,
        requests_denied: row.requests_denied.unwrap_or_default(),
        outliers_requests_denied: row.outliers_requests_denied.unwrap_or_default(),
        longest_wait_us: row.longest_wait_us.unwrap_or_default(),
        outliers: window.outliers.clone(),
        outliers_count: window.outliers_count,
        groups: Vec::new(),
        confidence: None,
        doubts: Vec::new(),
    })
}

/// Why this window, this number and this strategy.
fn reason(
    windows: &[WindowAdvice],
    window: &WindowAdvice,
    row: &AdvisedLimit,
    options: &Options,
    clients: &Clients<'_>,
) -> String {
    let mut reason = String::new();
    let others: Vec<&str> = windows.iter().map(|it| it.window.as_str()).collect();
    if others.len() > 1 {
        reason += &format!(
            "Of the windows {}, {} has the smallest product of a client's burst and its lasting \
             rate. ",
            others.join(", "),
            window.window
        );
    }
    let ordinary = clients.is_outlier.iter().filter(|is| !**is).count();
    reason += &match options.target {
        Target::Clients(_) => format!(
            "{} denies {} of {ordinary} clients, which is at most {}",
            with_units(row, window),
            row.clients_denied,
            options.target
        ),
        Target::Requests(_) => format!(
            "{} denies {} requests of {ordinary} clients, which is at most {}",
            with_units(row, window),
            row.requests_denied.unwrap_or_default(),
            options.target
        ),
    };
    if let (Target::Requests(_), Some(too_few)) = (options.target, row.too_few.filter(|it| *it > 0))
    {
        reason += &format!("; {too_few} denies more");
    }
    if window.outliers_count > 0 {
        reason += &format!(", and {} of {} outliers", row.outliers_denied, window.outliers_count);
    }
    reason += &match options.strategy {
        Some(strategy) => format!(
            ". {} was asked for: it lets at most {} through in any {}.",
            strategy.name(),
            row.worst_window,
            window.window
        ),
        None => format!(
            ". {} lets at most {} through in any {}, the least of the strategies that were \
             considered.",
            row.strategy, row.worst_window, window.window
        ),
    };
    reason
}

fn with_units(row: &AdvisedLimit, window: &WindowAdvice) -> String {
    format!("{}/{}", row.units, window.window)
}

fn cannot_know(traffic: &Traffic, options: &Options, windows: &[WindowAdvice]) -> Vec<String> {
    let mut all = vec![
        "The demand under a limit: denied clients retry, or ask less.".to_owned(),
        "Requests that were denied or lost before they reached this log.".to_owned(),
    ];
    if traffic.summary.whole_seconds {
        all.push(
            "When within a second a request came: all stamps are whole seconds, so those of one \
             second look simultaneous. `--spread 1` places each at random within it."
                .to_owned(),
        );
    }
    if options.by.fields().contains(&crate::parse::By::Ip) {
        all.push(
            "Who is behind an address: it can be many people, and one person can have many."
                .to_owned(),
        );
    }
    for window in windows.iter().filter(|window| window.is_longer_than_log) {
        all.push(format!("The demand in {}: the log is shorter.", window.window));
    }
    if traffic.clients.one_in() > 1 {
        all.push(format!(
            "The demand of clients outside of the sample: one of {} was looked at.",
            traffic.clients.one_in()
        ));
    }
    all.push("Loud days, if these were quiet ones.".to_owned());
    all
}
