//! The older Prometheus text format, for scrapers that do not ask for OpenMetrics.

use core::fmt::Write as _;

/// The media type of OpenMetrics, which a scraper requests by name.
pub(super) const OPEN_TYPE: &str = "application/openmetrics-text";

/// The `Content-Type` of an OpenMetrics response.
pub(super) const OPEN: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The `Content-Type` for all other clients, including browsers and `promtool`.
pub(super) const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Converts OpenMetrics into text version 0.0.4. Samples are the same in both. In 0.0.4 a family is
/// named like its samples, has no unit and no end marker, and `info` becomes a gauge.
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
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            // Writing to a string cannot fail.
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
                    h_seconds_count 0\n# HELP u Is.\n# TYPE u unknown\nu 1\n# EOF\n";
        let text = "# HELP a_total Counts.\n# TYPE a_total counter\na_total{b=\"# TYPE c d\"} 1\n\
                    # HELP i_info Tells.\n# TYPE i_info gauge\ni_info{v=\"1\"} 1\n\
                    # HELP h_seconds Takes.\n# TYPE h_seconds histogram\nh_seconds_count 0\n\
                    # HELP u Is.\n# TYPE u untyped\nu 1\n";
        assert_eq!(plain(open), text);
    }
}
