//! How even shares are, and how bursty a series is.

/// Rounded to four decimals: more would be noise.
pub(in crate::experiment) fn rounded(number: f64) -> f64 {
    libm::round(number * 10_000.0) / 10_000.0
}

/// Jain's index of each client's admitted units, relative to its fair share. That is the max-min
/// fair division of all admitted units: no client receives more than it asks for, and unneeded
/// units are divided among the others.
///
/// Source: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness", DEC TR-301, 1984.
pub(super) fn fairness(clients: &[(u32, u32)]) -> Option<f64> {
    let mut wanted: Vec<u32> =
        clients.iter().map(|(wanted, _)| *wanted).filter(|n| *n > 0).collect();
    let mut left: u64 = clients.iter().map(|(_, got)| u64::from(*got)).sum();
    if wanted.is_empty() || left == 0 {
        return None;
    }
    wanted.sort_unstable();
    // Water filling: the clients with the smallest demand are served fully, the others to one
    // level.
    let mut level = f64::INFINITY;
    for (place, want) in wanted.iter().enumerate() {
        let others = (wanted.len() - place) as u64;
        if u64::from(*want) * others > left {
            level = left as f64 / others as f64;
            break;
        }
        left -= u64::from(*want);
    }
    let (mut sum, mut squares, mut number) = (0.0, 0.0, 0.0);
    for (wanted, got) in clients.iter().filter(|(wanted, _)| *wanted > 0) {
        let share = f64::from(*got) / f64::from(*wanted).min(level);
        sum += share;
        squares += share * share;
        number += 1.0;
    }
    Some(sum * sum / (number * squares))
}

/// The most in a bucket divided by the mean, from the first admitted attempt to the last.
pub(super) fn burstiness(buckets: &[u64]) -> Option<f64> {
    let first = buckets.iter().position(|count| *count > 0)?;
    let last = buckets.iter().rposition(|count| *count > 0)?;
    let span = buckets.get(first..=last)?;
    let most = span.iter().max()?;
    let sum: u64 = span.iter().sum();
    Some(*most as f64 * span.len() as f64 / sum as f64)
}
