//! Notations of other tools. They are accepted if they mean exactly one of our limits. If the tool
//! counts differently, the error contains a translation.

/// The digits of a whole number with an exponent: `1e3` is `1000`, `1.5e3` is `1500`.
pub(super) fn digits(text: &str) -> Option<String> {
    let (number, exponent) = text.split_once(['e', 'E'])?;
    let exponent: usize = exponent.strip_prefix('+').unwrap_or(exponent).parse().ok()?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    // More digits than any quota has are out of range in any case.
    let zeros = exponent.checked_sub(fraction.len()).filter(|zeros| *zeros <= 20)?;
    let digits = [whole, fraction, &"0".repeat(zeros)].concat();
    let digits = digits.trim_start_matches('0');
    Some(if digits.is_empty() { "0".to_owned() } else { digits.to_owned() })
}

/// A quota of nginx, `5r/s`, or of tools that write `10-M`: its name, and the translation.
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

/// A sentence, such as `100 requests per minute`, `5 req/s` or `20 calls every 10 minutes`: the
/// quota that it says. A noun of ours (`tokens`) is a unit, which is written otherwise.
pub(super) fn sentence(text: &str) -> Option<String> {
    let spaced = text.to_ascii_lowercase().replace('/', " / ");
    let mut words = spaced.split_ascii_whitespace().peekable();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = words.next().filter(|word| is_number(word))?;
    let nouns =
        ["request", "requests", "req", "reqs", "call", "calls", "hit", "hits", "time", "times"];
    words.next_if(|word| nouns.contains(word));
    let over = ["per", "/", "a", "an", "each", "every", "in"];
    words.next().filter(|word| over.contains(word))?;
    words.next_if(|word| over.contains(word));
    let many = words.next_if(|word| is_number(word)).unwrap_or_default();
    let unit = match words.next()?.trim_end_matches([',', '.', ';']) {
        "s" | "sec" | "secs" | "second" | "seconds" => "s",
        "m" | "min" | "mins" | "minute" | "minutes" => "m",
        "h" | "hr" | "hrs" | "hour" | "hours" => "h",
        "d" | "day" | "days" => "d",
        _ => return None,
    };
    Some(format!("write `{number}/{many}{unit}`"))
}

/// How many at once, such as `20 concurrent` or `5 in flight`: the limit that it says.
pub(super) fn slots(text: &str) -> Option<String> {
    let (number, words) = text.trim().split_once([' ', '-'])?;
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    let words = words.trim().to_ascii_lowercase();
    let says = ["concurrent", "in flight", "in-flight", "parallel", "connections", "simultaneous"];
    let is_one = is_number && says.iter().any(|word| words.starts_with(word));
    is_one.then(|| format!("write `{number} at once`, with `hold 30s` for the longest"))
}

/// A `RateLimit-Policy` header, such as `100;w=60` or `"api";q=100;w=60`: the translation of its
/// first window.
pub(super) fn header(text: &str) -> Option<String> {
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.split(',').find_map(|policy| {
        let parts = || policy.split(';').map(str::trim);
        let seconds = parts().find_map(|part| part.strip_prefix("w=")).filter(is_number)?;
        // Drafts before the eighth have the quota first; later ones use the key `q`.
        let said = parts().find_map(|part| part.strip_prefix("q=")).or_else(|| parts().next());
        let units = said.filter(is_number).unwrap_or("N");
        Some(format!(
            "write `{units}/{seconds}s` for at most {units} in any {seconds} s, and `via \
             fixed_window` behind it where the other side counts in windows"
        ))
    })
}

/// The strategy that corresponds to another tool's name for an algorithm.
pub(super) fn strategy(name: &str) -> Option<&'static str> {
    let plain: String = name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).collect();
    let ours = match &*plain.to_ascii_lowercase() {
        "leakybucket" | "leaky" => {
            "a leaky bucket that meters is `via gcra`, one that spaces events evenly `via \
             uniform`; one that workers drain is `tollgate queue`"
        }
        "fixedwindow" | "fixedwindowcounter" | "fixed" | "window" => "write `via fixed_window`",
        "slidinglog" | "slidingwindowlog" | "movingwindow" | "log" => "write `via sliding_log`",
        "slidingwindowcounter" | "sliding" | "rollingwindow" => {
            "write `via sliding_window`, or `via sliding_log` for exact counts"
        }
        "slidingwindow" => "write `via sliding_window`",
        "tokenbucket" | "bucket" | "tokens" => "write `via token_bucket`",
        "spikearrest" | "smooth" | "pacing" => "write `via uniform`",
        "concurrency" | "concurrent" => {
            "how many are at work at once is a limit of its own, written `20 at once`"
        }
        // Includes misspellings of our own names.
        _ => return None,
    };
    Some(ours)
}
