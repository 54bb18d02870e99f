//! What people bring from other tools: read where it means one of our limits and no other, and
//! translated in the error where the tool counts in a way of its own.

/// The digits of a whole number with an exponent: `1e3` is `1000`, `1.5e3` is `1500`.
pub(super) fn digits(text: &str) -> Option<String> {
    let (number, exponent) = text.split_once(['e', 'E'])?;
    let exponent: usize = exponent.strip_prefix('+').unwrap_or(exponent).parse().ok()?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    // More digits than any quota has are too large in whatever form.
    let zeros = exponent.checked_sub(fraction.len()).filter(|zeros| *zeros <= 20)?;
    let digits = [whole, fraction, &"0".repeat(zeros)].concat();
    let digits = digits.trim_start_matches('0');
    Some(if digits.is_empty() { "0".to_owned() } else { digits.to_owned() })
}

/// A quota of nginx, `5r/s`, or of tools that write `10-M`: what it is, and what to write.
pub(super) fn quota(text: &str) -> Option<(&'static str, String)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if let Some((number, unit)) = text.split_once("r/")
        && is_number(number)
        && matches!(unit, "s" | "m")
    {
        return Some((
            "a rate of nginx spaces requests evenly",
            format!(
                "write `{number}/{unit} via uniform`; with nginx's `burst=20 nodelay` beside it, \
                 `{number}/{unit} burst 21 via gcra`"
            ),
        ));
    }
    let (number, unit) = text.split_once('-')?;
    let unit = match unit {
        "S" | "s" => "s",
        "M" | "m" => "m",
        "H" | "h" => "h",
        "D" | "d" => "d",
        _ => return None,
    };
    is_number(number).then(|| {
        (
            "tools that write so count in windows that open with the first request",
            format!(
                "write `{number}/{unit} anchor first-hit via fixed_window` for the same, \
                 `{number}/{unit}` for at most {number} in any such time"
            ),
        )
    })
}

/// A window of a `RateLimit-Policy` header, `w=60` behind `100;`: what to write for it.
pub(super) fn window(part: &str) -> Option<String> {
    let seconds = part.trim().strip_prefix("w=")?;
    let is_number = !seconds.is_empty() && seconds.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| {
        format!(
            "write `N/{seconds}s` for at most N in any {seconds} s, and `via fixed_window` behind \
             it where the other side counts in windows"
        )
    })
}

/// The strategy that an algorithm is here, by the names that it has elsewhere.
pub(super) fn strategy(name: &str) -> Option<&'static str> {
    let plain: String = name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).collect();
    let ours = match &*plain.to_ascii_lowercase() {
        "leakybucket" | "leaky" => {
            "a leaky bucket that meters is `via gcra`, one that spaces events evenly `via \
             uniform`; one that workers drain is `tollgate queue`"
        }
        "fixedwindowcounter" | "fixed" | "window" => "write `via fixed_window`",
        "slidingwindowlog" | "movingwindow" | "log" => "write `via sliding_log`",
        "slidingwindowcounter" | "sliding" | "rollingwindow" => {
            "write `via sliding_window`, or `via sliding_log` for exact counts"
        }
        "bucket" | "tokens" => "write `via token_bucket`",
        "spikearrest" | "smooth" | "pacing" => "write `via uniform`",
        "concurrency" | "concurrent" => {
            "limits here count events over time; how many are at work at once is what `tollgate \
             queue` bounds"
        }
        // Among them what is nearly one of our names.
        _ => return None,
    };
    Some(ours)
}
