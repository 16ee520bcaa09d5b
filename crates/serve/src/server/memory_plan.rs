//! What the memory of a process is for: the program and its models, the caches, working memory, and the rest for
//! all that waits for a client ([`MemoryBudget`](crate::front::budget::MemoryBudget)).

use crate::front::process::{available_bytes, resident_bytes};

/// Working memory of decoding, parsing and the allocator.
const WORK: u64 = 64 << 20;

/// The least for what waits, in bytes.
const LEAST: u64 = 8 << 20;

/// Memory for what waits where there is no limit, in bytes.
const UNLIMITED: u64 = 512 << 20;

/// The parts of a process's memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    /// Limit of the process; default: none.
    pub(crate) limit: Option<u64>,
    /// The program without its models.
    program: u64,
    /// Size of the caches of translations and of prompts.
    pub(crate) cache: usize,
    work: u64,
    /// Bytes for what waits where there is no limit.
    unlimited: u64,
}

impl MemoryPlan {
    /// The plan of this process, whose loaded models have `models` bytes. The cache gets at most a quarter of what is left.
    pub(crate) fn new(limit: Option<u64>, cache: usize, models: u64) -> Self {
        Self::at(limit, cache, models, resident_bytes().unwrap_or(models))
    }

    /// The same for a server of language models, which need memory for the states of their texts: without a limit, half of
    /// what the machine has free.
    pub(crate) fn with_free_memory(self) -> Self {
        let free = available_bytes().unwrap_or(0) / 2;
        Self { unlimited: self.unlimited.max(free), ..self }
    }

    fn at(limit: Option<u64>, cache: usize, models: u64, now: u64) -> Self {
        let quarter = limit.map_or(u64::MAX, |limit| limit.saturating_sub(now) / 4);
        let cache = cache.min(usize::try_from(quarter).unwrap_or(usize::MAX));
        Self {
            limit,
            program: now.saturating_sub(models),
            cache,
            work: WORK.min(quarter),
            unlimited: UNLIMITED,
        }
    }

    /// Bytes for what waits, while models of `models` bytes are loaded.
    pub(crate) fn waiting(&self, models: u64) -> usize {
        let Some(limit) = self.limit else { return self.unlimited as usize };
        let taken = self.program + models + self.cache as u64 + self.work;
        limit.saturating_sub(taken).max(LEAST) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_parts_add_up_to_the_limit() {
        let plan = MemoryPlan::at(Some(512 * MIB), 64 << 20, 30 * MIB, 50 * MIB);
        assert_eq!((plan.cache, plan.waiting(30 * MIB) as u64), (64 << 20, (512 - 50 - 64 - 64) * MIB));
        assert_eq!(plan.waiting(130 * MIB) as u64, (512 - 150 - 64 - 64) * MIB, "another model");
        let small = MemoryPlan::at(Some(150 * MIB), 64 << 20, 30 * MIB, 50 * MIB);
        assert_eq!((small.cache, small.waiting(30 * MIB) as u64), (25 << 20, 50 * MIB));
        assert_eq!(small.waiting(100 * MIB) as u64, LEAST);
        let none = MemoryPlan::at(None, 64 << 20, 30 * MIB, 50 * MIB);
        assert_eq!((none.cache, none.waiting(0) as u64), (64 << 20, UNLIMITED));
    }
}
