//! Memory, open files and start time of this process, under the names that Prometheus' own clients use. On Linux only.

use super::metrics::MetricInfo;

/// The metrics: memory, open files, start time.
pub const METRICS: [MetricInfo; 3] = [
    MetricInfo {
        name: "process_resident_memory_bytes",
        help: "Resident memory of the process.",
        labels: &[],
    },
    MetricInfo { name: "process_open_fds", help: "Open files and sockets of the process.", labels: &[] },
    MetricInfo {
        name: "process_start_time_seconds",
        help: "Start time of the process in seconds since 1970.",
        labels: &[],
    },
];

/// Resident memory of the process in bytes.
pub fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Memory that the machine has free for programs, in bytes.
pub fn available_bytes() -> Option<u64> {
    let information = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = information.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Open files and sockets of the process.
pub fn open_files() -> Option<usize> {
    // Listing the folder opens one file itself.
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1))
}

/// Start time of the process, in seconds since 1970.
#[cfg(target_os = "linux")]
pub fn start_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name is in brackets and may contain anything; the start time is the 20th word after it.
    let ticks: f64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let system = std::fs::read_to_string("/proc/stat").ok()?;
    let boot: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot + ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// Unknown on other systems.
#[cfg(not(target_os = "linux"))]
pub fn start_seconds() -> Option<f64> {
    None
}
