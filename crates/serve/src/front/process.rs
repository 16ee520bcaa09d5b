//! What the system says about this process, under the names that Prometheus' own clients use. Only Linux tells.

use super::metrics::About;

/// What each number is: memory, open files, start.
pub const ABOUT: [About; 3] = [
    About { name: "process_resident_memory_bytes", help: "Memory that the process holds.", labels: &[] },
    About { name: "process_open_fds", help: "Files and sockets that the process has open.", labels: &[] },
    About {
        name: "process_start_time_seconds",
        help: "When the process was started, since 1970.",
        labels: &[],
    },
];

/// Bytes of memory that the process holds.
pub fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Files and sockets that the process has open.
pub fn open_files() -> Option<usize> {
    // Listing them takes one itself.
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1))
}

/// When the process was started, in seconds since 1970.
#[cfg(target_os = "linux")]
pub fn start_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program stands in brackets and may hold anything; the time is the 20th word after it.
    let ticks: f64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let system = std::fs::read_to_string("/proc/stat").ok()?;
    let boot: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot + ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// Elsewhere it is not told.
#[cfg(not(target_os = "linux"))]
pub fn start_seconds() -> Option<f64> {
    None
}
