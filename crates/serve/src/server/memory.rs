//! How much memory the program has, and how much it may have.

use std::path::Path;

/// Bytes that the program has in memory, as the system counts them; none where it does not tell.
pub fn resident() -> Option<u64> {
    let pages: u64 = std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Bytes that a model is going to take: those of its weights, a quarter more for their order in memory and the tokeniser's
/// tables.
pub(crate) fn forecast(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let weights = files.filter(|file| {
        let name = file.file_name();
        [".safetensors", ".bin", ".pt"].iter().any(|end| name.to_string_lossy().ends_with(end))
    });
    let bytes: u64 = weights.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    bytes + bytes / 4 + TABLES
}

/// Bytes of a tokeniser's tables.
const TABLES: u64 = 16 << 20;
