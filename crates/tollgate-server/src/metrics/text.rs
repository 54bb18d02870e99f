//! The older one of the two text formats, for readers that do not ask for OpenMetrics.

use core::fmt::Write as _;

/// The type of the newer format, which a scraper asks for by name.
pub(super) const OPEN_TYPE: &str = "application/openmetrics-text";

/// What is answered then.
pub(super) const OPEN: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What everybody else gets, browsers and `promtool` among them.
pub(super) const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// OpenMetrics as text of version 0.0.4: samples are the same in both, but there a family has the
/// name of its samples, no unit and no end, and what is `info` here is a gauge.
pub(super) fn plain(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    let mut help = "";
    for line in open.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                other => ("", other),
            };
            // Writing to a text does not fail.
            let _ = writeln!(text, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}");
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_get_the_names_of_their_samples() {
        let open = "# HELP a Counts.\n# TYPE a counter\na_total{b=\"# TYPE c d\"} 1\n\
                    # HELP i Tells.\n# TYPE i info\ni_info{v=\"1\"} 1\n\
                    # HELP h_seconds Takes.\n# TYPE h_seconds histogram\n# UNIT h_seconds seconds\n\
                    h_seconds_count 0\n# EOF\n";
        let text = "# HELP a_total Counts.\n# TYPE a_total counter\na_total{b=\"# TYPE c d\"} 1\n\
                    # HELP i_info Tells.\n# TYPE i_info gauge\ni_info{v=\"1\"} 1\n\
                    # HELP h_seconds Takes.\n# TYPE h_seconds histogram\nh_seconds_count 0\n";
        assert_eq!(plain(open), text);
    }
}
