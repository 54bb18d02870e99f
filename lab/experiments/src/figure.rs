//! Numbers in readable form.

const MS: Unit = Unit { us: 1_000, name: "ms" };
const SECOND: Unit = Unit { us: 1_000_000, name: "s" };

struct Unit {
    us: u64,
    name: &'static str,
}

/// A time in microseconds as `1.2 s`: rounded up, as every wait is.
///
/// ```
/// use tollgate_experiments::report::span;
/// assert_eq!((span(1_150_000), span(90_000_000)), ("1.2 s".to_owned(), "1 min 30 s".to_owned()));
/// ```
#[must_use]
pub fn span(us: u64) -> String {
    // Each bound is where the text would reach the next unit.
    match us {
        0 => "0 s".into(),
        1..=999 => format!("{us} us"),
        1_000..=999_900 => tenths(us, &MS),
        999_901..=59_900_000 => tenths(us, &SECOND),
        _ => whole(us.div_ceil(SECOND.us)),
    }
}

/// A given time, exactly: in the largest unit that divides it.
pub(crate) fn length(us: u64) -> String {
    const UNITS: [(u64, &str); 6] = [
        (86_400_000_000, "d"),
        (3_600_000_000, "h"),
        (60_000_000, "min"),
        (1_000_000, "s"),
        (1_000, "ms"),
        (1, "us"),
    ];
    let unit = UNITS.into_iter().find(|(unit, _)| us >= *unit && us.is_multiple_of(*unit));
    unit.map_or_else(|| "0 s".to_owned(), |(unit, name)| format!("{} {name}", us / unit))
}

/// With one decimal, which is omitted if it is 0.
fn tenths(us: u64, unit: &Unit) -> String {
    let tenths = us.div_ceil(unit.us / 10);
    match tenths % 10 {
        0 => format!("{} {}", tenths / 10, unit.name),
        part => format!("{}.{part} {}", tenths / 10, unit.name),
    }
}

/// The two largest units of a minute and more.
fn whole(seconds: u64) -> String {
    let (large, small, names) = match seconds {
        0..3_600 => (seconds / 60, seconds % 60, ["min", "s"]),
        3_600..86_400 => (seconds / 3_600, (seconds % 3_600).div_ceil(60), ["h", "min"]),
        _ => (seconds / 86_400, (seconds % 86_400).div_ceil(3_600), ["d", "h"]),
    };
    // Rounding up can fill the large unit: 1 h 60 min.
    let full = if names[0] == "d" { 24 } else { 60 };
    let (large, small) = if small == full { (large + 1, 0) } else { (large, small) };
    let [large_name, small_name] = names;
    match small {
        0 => format!("{large} {large_name}"),
        _ => format!("{large} {large_name} {small} {small_name}"),
    }
}

/// A number of bytes, rounded up, in a suitable unit.
///
/// ```
/// use tollgate_experiments::report::bytes;
/// assert_eq!((bytes(999), bytes(142_000)), ("999 B".to_owned(), "142 kB".to_owned()));
/// ```
#[must_use]
pub fn bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    let unit = UNITS.into_iter().find(|(unit, _)| bytes >= 10 * unit);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(unit, name)| format!("{} {name}", bytes.div_ceil(unit)),
    )
}

/// A fraction of 1 as `97.3%`.
pub(crate) fn share(part: f64) -> String {
    format!("{:.1}%", part * 100.0)
}

/// `part` of `whole` as `0.06%`: with as many decimals as one part needs, and not 0 for some.
pub(crate) fn parts(part: u64, whole: u64) -> String {
    let percent = 100.0 * real(part) / real(whole.max(1));
    match part {
        0 => "0%".into(),
        _ if percent >= 0.1 => format!("{percent:.1}%"),
        _ if percent >= 0.001 => format!("{percent:.3}%"),
        _ => "less than 0.001%".into(),
    }
}

/// `1 client`, `2 clients`.
pub(crate) fn plural(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

/// A count as a float for drawing, for which 53 bits suffice.
pub(crate) fn real(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_and_short() {
        for (us, text) in [
            (0, "0 s"),
            (1, "1 us"),
            (999, "999 us"),
            (1_000, "1 ms"),
            (1_001, "1.1 ms"),
            (999_900, "999.9 ms"),
            (999_901, "1 s"),
            (1_000_000, "1 s"),
            (1_150_000, "1.2 s"),
            (59_900_000, "59.9 s"),
            (59_900_001, "1 min"),
            (125_000_000, "2 min 5 s"),
            (3_599_000_001, "1 h"),
            (3_661_000_000, "1 h 2 min"),
            (7_199_000_000, "2 h"),
            (86_399_000_000, "24 h"),
            (90_000_000_000, "1 d 1 h"),
            (172_799_000_000, "2 d"),
        ] {
            assert_eq!(span(us), text, "{us}");
        }
        assert!(span(u64::MAX).ends_with(" h"));
    }

    #[test]
    fn lengths_are_exact() {
        for (us, text) in [
            (0, "0 s"),
            (1_234, "1234 us"),
            (10_000_000, "10 s"),
            (90_000_000, "90 s"),
            (120_000_000, "2 min"),
            (3_600_000_000, "1 h"),
        ] {
            assert_eq!(length(us), text);
        }
    }

    #[test]
    fn shares_are_percent() {
        assert_eq!(share(0.973_4), "97.3%");
        assert_eq!(share(1.0), "100.0%");
        for (part, whole, text) in [
            (0, 1_753, "0%"),
            (1, 1_753, "0.057%"),
            (2, 1_753, "0.1%"),
            (1_753, 1_753, "100.0%"),
            (1, 10_000_000, "less than 0.001%"),
            (0, 0, "0%"),
        ] {
            assert_eq!(parts(part, whole), text);
        }
    }
}
