//! The memory, processor time and files of the process, under the names that Prometheus' clients
//! use.
//!
//! Linux tells it in `/proc`; elsewhere these families are absent, as is a figure that cannot be
//! read.

use core::fmt;
use std::fs;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::family::{family, gauge};

/// The ticks of `/proc/PID/stat` in a second: the same on every architecture that Rust has for
/// Linux, whatever the kernel's own clock is. So nobody needs `sysconf`, which is unsafe code.
const TICKS: f64 = 100.0;

pub(super) fn write(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    if let Some(seconds) = read("stat").and_then(|text| cpu_seconds(&text)) {
        let name = ("process_cpu", "The time that all threads of the process took of processors.");
        family(encoder, name, Some(&Unit::Seconds), MetricType::Counter)?.amount(seconds)?;
    }
    if let Some(bytes) = read("status").and_then(|text| resident_bytes(&text)) {
        let name = ("process_resident_memory", "The memory of the process that is in RAM.");
        family(encoder, name, Some(&Unit::Bytes), MetricType::Gauge)?.value(bytes)?;
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // Without the one by which the folder is read.
        let open = open.count().saturating_sub(1);
        let name = ("process_open_fds", "Open file descriptors: connections and files.");
        gauge(encoder, name, None, open as u64)?;
    }
    if let Some(most) = read("limits").and_then(|text| max_fds(&text)) {
        let name = ("process_max_fds", "The most file descriptors that may be open.");
        family(encoder, name, None, MetricType::Gauge)?.value(most)?;
    }
    Ok(())
}

fn read(name: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/self/{name}")).ok()
}

/// The user's and the kernel's part together. The name of the program may have blanks and
/// parentheses in it, so the fields are counted from its end.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / TICKS)
}

fn resident_bytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1_024.0)
}

/// The soft limit, the one in force; infinite for `unlimited`.
fn max_fds(limits: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_ascii_whitespace().next()? {
        "unlimited" => Some(f64::INFINITY),
        most => most.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_what_the_kernel_writes() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 9 8 7 6 250 50 3 4 20 0 5 0 99 1 2 3";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("7 (a) S 1"), None);
        let status = "Name:\ttollgate\nVmHWM:\t  9000 kB\nVmRSS:\t    8192 kB\nThreads:\t5\n";
        assert_eq!(resident_bytes(status), Some(8_388_608.0));
        assert_eq!(resident_bytes("Name:\tkthreadd\n"), None);
        let limits = |most: &str| {
            format!("Limit          Soft Limit  Hard Limit  Units\nMax open files {most}  9  files")
        };
        assert_eq!(max_fds(&limits("1024")), Some(1_024.0));
        assert_eq!(max_fds(&limits("unlimited")), Some(f64::INFINITY));
        assert_eq!(max_fds("Max cpu time unlimited"), None);
    }
}
