//! An advice as text for a terminal.

use tollgate_experiments::report::{advice_curve, bytes, group_name, outliers, page_views, span};
use tollgate_logs::advise::{
    Advice, AdvisedLimit, BusyClient, Checked, EachAdvice, Group, WindowAdvice,
};
use tollgate_logs::text::printable;

use crate::command::log::share;
use crate::show::{self, Table, wrapped};

/// The most characters of an agent or a path: a line has 80.
const SHOWN_VALUE: usize = 65;
/// The most characters of a value in a table.
const SHOWN_NAME: usize = 40;

/// The policy file, indented.
pub(super) fn policy(text: &str) -> String {
    let lines = text.lines();
    let indented = lines.map(|line| format!("{}\n", format!("  {line}").trim_end()));
    indented.collect::<String>().trim_end().to_owned()
}

/// An advice as text.
pub(super) fn text(advice: &Advice) -> String {
    let mut text = String::new();
    let sampled = advice.sampled;
    if sampled.one_in > 1 {
        text.push_str(&format!(
            "SAMPLED: {} of the clients, one of {} by a hash of the name, with all of their \
             requests;\n  {} events of the others are left out (--max-clients looks at more)\n",
            advice.clients, sampled.one_in, sampled.events_left_out
        ));
    }
    text.push_str(&format!(
        "half of the load is made by {} ({})\n",
        show::count(advice.half_of_load, "client"),
        share(advice.half_of_load, advice.clients)
    ));
    text.push_str("\nThe busiest clients\n");
    for client in &advice.busiest {
        text.push_str(&busy_client(client));
    }
    text.push_str(&format!(
        "\nThe demand of clients in their busiest window\n\n{}\n",
        busy(advice)
    ));
    text.push_str(&format!("\n{}\n", wrapped(&page_views(advice.page_views), 0)));
    text.push_str(&if advice.rates.is_empty() { of_windows(advice) } else { of_rates(advice) });
    let recommended = &advice.recommended;
    let bold = anstyle::Style::new().bold();
    text.push_str(&format!(
        "\n{}\n{bold}Recommended: {}{bold:#}\n  {}\n  {}\n",
        advice_curve(advice),
        recommended.limit,
        wrapped(&recommended.reason, 2),
        wrapped(&denials(advice), 2),
    ));
    if !recommended.doubts.is_empty() {
        text.push_str(&format!("\n{bold}Too little to rely on{bold:#}\n"));
        for doubt in &recommended.doubts {
            text.push_str(&format!("  - {}\n", wrapped(doubt, 4)));
        }
    }
    if recommended.groups.len() > 1 {
        let groups = groups(&recommended.groups);
        text.push_str(&format!("\nWho is denied\n\n{groups}\n"));
    }
    if let Some(it) = &advice.checked {
        text.push_str(&checked(it, advice));
    }
    text.push_str("\nFacts that are not in the log\n");
    for line in &advice.cannot_know {
        text.push_str(&format!("  - {}\n", wrapped(line, 4)));
    }
    text
}

/// Whether the limit in force held.
fn checked(it: &Checked, advice: &Advice) -> String {
    let bold = anstyle::Style::new().bold();
    let verdict = if it.holds { "held" } else { "did not hold" };
    let words = format!(
        "It denies {} that are no outliers; {} keeps to at most {}. The longest wait is {}.",
        show::count(it.clients_denied, "client"),
        it.may_be_denied,
        advice.target,
        span(it.longest_wait_us)
    );
    let groups = groups(&it.groups);
    format!(
        "\n{bold}In force: {} {verdict}{bold:#}\n  {}\n\n{groups}\n",
        it.limit,
        wrapped(&words, 2)
    )
}

/// The limits of all values of a field.
pub(super) fn each_text(advice: &EachAdvice) -> String {
    let mut table = show::table([
        &*advice.each,
        "requests",
        "clients",
        "limit",
        "longest wait",
        "clients denied",
        "outliers denied",
        "requests denied",
    ]);
    for row in &advice.values {
        table.add_row([
            printable(row.value.as_bytes(), SHOWN_NAME),
            row.requests.to_string(),
            row.clients.to_string(),
            row.limit.clone(),
            span(row.wait_us),
            row.clients_denied.to_string(),
            format!("{} of {}", row.outliers_denied, row.outliers),
            format!("{} ({})", row.requests_denied, share(row.requests_denied, row.requests)),
        ]);
    }
    let others = match advice.others {
        0 => String::new(),
        others => format!(
            "\n{} of {} have no limit here\n",
            show::count(advice.others_requests, "request"),
            show::count(others, "other value")
        ),
    };
    let heading = format!(
        "A limit by {} for each {}, which denies at most {} of that {}",
        advice.by, advice.each, advice.target, advice.each
    );
    format!("{}\n\n{table}\n{others}", wrapped(&heading, 0))
}

/// The kinds of clients under a limit.
fn groups(groups: &[Group]) -> Table {
    let mut table =
        show::table(["who", "clients", "requests", "burst", "clients denied", "requests denied"]);
    for row in groups {
        table.add_row([
            group_name(row.why).to_owned(),
            row.clients.to_string(),
            row.requests.to_string(),
            row.burst.to_string(),
            format!("{} ({})", row.clients_denied, share(row.clients_denied, row.clients)),
            format!("{} ({})", row.requests_denied, share(row.requests_denied, row.requests)),
        ]);
    }
    table
}

/// The limits with a burst, and the outliers under the recommended one.
fn of_rates(advice: &Advice) -> String {
    let it = &advice.recommended;
    let mut text = String::new();
    if it.outliers_count > 0 {
        let named = outliers("its burst", &it.outliers, it.outliers_count);
        text.push_str(&format!("\n{}\n", wrapped(&format!("outliers: {named}"), 2)));
    }
    text.push_str(&format!(
        "\nLimits with a burst that deny at most {} (--per shows windows)\n\n{}\n",
        advice.target,
        rates(advice)
    ));
    text
}

/// The outliers in each window, and the limits of all strategies.
fn of_windows(advice: &Advice) -> String {
    let mut text = String::new();
    for window in advice.windows.iter().filter(|window| window.outliers_count > 0) {
        let named = outliers(&window.window, &window.outliers, window.outliers_count);
        let words = format!("outliers in any {}: {named}", window.window);
        text.push_str(&format!("\n{}\n", wrapped(&words, 2)));
    }
    text.push_str(&format!("\nLimits that deny at most {}\n", advice.target));
    for window in &advice.windows {
        let per = format!("per {}", window.window);
        text.push_str(&format!("\n{per}\n{}\n", limits(window)));
        for row in window.limits.iter().filter(|row| row.limit.is_none()) {
            let why = row.refused.as_deref().unwrap_or_default();
            text.push_str(&format!("  {}: {}\n", row.strategy, wrapped(why, 4)));
        }
    }
    text
}

/// A busy client: its statuses, and its agents and paths, each with the number of its requests.
fn busy_client(client: &BusyClient) -> String {
    let name = printable(client.client.as_bytes(), 60);
    let mut text = format!("  {name}: {}", show::count(client.requests, "request"));
    if client.units != client.requests {
        text.push_str(&format!(" of {} units", client.units));
    }
    let Some(it) = &client.description else { return text + "\n" };
    if let Some(kind) = it.kind {
        text.push_str(&format!(", {}", kind.one()));
    }
    if it.looked_at < client.requests {
        text.push_str(&format!(", {} of them looked at", it.looked_at));
    }
    let statuses = it.statuses.iter().map(|(status, count)| format!("{status} ({count})"));
    let statuses: Vec<String> = statuses.collect();
    if !statuses.is_empty() {
        text.push_str(&format!("; status {}", statuses.join(", ")));
    }
    text.push('\n');
    for (value, count) in it.agents.iter().chain(&it.paths) {
        text.push_str(&format!("{count:>10}  {}\n", printable(value.as_bytes(), SHOWN_VALUE)));
    }
    text
}

fn busy(advice: &Advice) -> Table {
    let mut table =
        show::table(["any", "p50", "p90", "p99", "p99.9", "most", "outliers", "bursts"]);
    for window in &advice.windows {
        let busiest = window.busiest;
        let bursts = window.burst_tenths.map(|tenths| format!("{}.{} x", tenths / 10, tenths % 10));
        table.add_row([
            window.window.clone(),
            busiest.p50.to_string(),
            busiest.p90.to_string(),
            busiest.p99.to_string(),
            busiest.p99_9.to_string(),
            busiest.max.to_string(),
            window.outliers_count.to_string(),
            bursts.unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table
}

/// The denials of a replay of the recommended limit, among all requests of the log.
fn denials(advice: &Advice) -> String {
    let it = &advice.recommended;
    let requests = it.requests_denied + it.outliers_requests_denied;
    if requests == 0 {
        return format!(
            "A replay of it denies none of {}.",
            show::count(advice.requests, "request")
        );
    }
    let mut text = format!(
        "A replay of it denies {} of {} ({}), of {} of {}",
        show::count(requests, "request"),
        advice.requests,
        share(requests, advice.requests),
        show::count(it.clients_denied + it.outliers_denied, "client"),
        advice.clients,
    );
    if it.outliers_requests_denied > 0 {
        text.push_str(&format!(
            ": {} are of {} of {}",
            it.outliers_requests_denied,
            it.outliers_denied,
            show::count(it.outliers_count, "outlier")
        ));
    }
    text + &format!(". The longest wait is {}.", span(it.longest_wait_us))
}

/// The rates with their bursts.
fn rates(advice: &Advice) -> Table {
    let mut table = show::table([
        "limit",
        "longest wait",
        "in an hour at worst",
        "clients denied",
        "outliers denied",
    ]);
    for row in &advice.rates {
        table.add_row([
            format!("{} burst {}", row.rate, row.burst),
            span(row.wait_us),
            row.worst_hour.to_string(),
            row.clients_denied.to_string(),
            row.outliers_denied.to_string(),
        ]);
    }
    table
}

fn limits(window: &WindowAdvice) -> Table {
    let mut table = show::table([
        "strategy",
        "units",
        "at its worst",
        "clients denied",
        "outliers denied",
        "requests denied",
        "longest wait",
        "memory",
        "Redis",
    ]);
    for row in window.limits.iter().filter(|row| row.limit.is_some()) {
        table.add_row(cells(row));
    }
    table
}

fn cells(row: &AdvisedLimit) -> [String; 9] {
    let requests = row.requests_denied.zip(row.outliers_requests_denied);
    let requests = requests.map(|(ordinary, outliers)| (ordinary + outliers).to_string());
    [
        row.strategy.to_owned(),
        row.units.to_string(),
        row.worst_window.to_string(),
        row.clients_denied.to_string(),
        row.outliers_denied.to_string(),
        requests.unwrap_or_else(|| "-".to_owned()),
        row.longest_wait_us.map_or_else(|| "-".to_owned(), span),
        bytes(row.bytes_memory),
        bytes(row.bytes_redis),
    ]
}
