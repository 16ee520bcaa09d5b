//! Scheduling policy of a device. Code above this crate asks here instead of asking which device it has.

use super::Device;

/// Scheduling parameters of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Training steps queued before their results are read. 1 if each step is done when it returns; otherwise the
    /// device works beside the threads of this process, which can prepare the next batches meanwhile.
    pub steps_ahead: usize,
    /// True if each batch shape is recorded once and replayed, so that few shapes are worth some padding.
    pub wants_few_shapes: bool,
    /// True if weights that do not change are packed once, as f32 or int8; otherwise they are used in place.
    pub packs_weights: bool,
    /// True if batches run one after the other, each on the whole device; otherwise each thread takes one.
    pub takes_turns: bool,
    /// Source tokens per batch in decoding.
    pub batch_tokens: usize,
    /// Maximum number of hypotheses decoded at once.
    pub rows: usize,
    /// Texts collected to fill batches of sentences of similar length, when many are translated.
    pub texts: usize,
}

/// Products reach full speed at 24 rows; more rows would evict each other's keys and values from the cache.
const CPU: Policy = Policy {
    steps_ahead: 1,
    wants_few_shapes: false,
    packs_weights: true,
    takes_turns: false,
    batch_tokens: 1024,
    rows: 24,
    texts: 1024,
};

/// Products need many rows; each hypothesis needs memory for its K/V cache and its logits.
#[cfg(feature = "cuda")]
const GPU: Policy = Policy {
    steps_ahead: 32,
    wants_few_shapes: true,
    packs_weights: false,
    takes_turns: true,
    batch_tokens: 16_384,
    rows: 4096,
    texts: 8192,
};

impl Device {
    /// Scheduling policy of this device.
    pub fn policy(&self) -> Policy {
        match self {
            Self::Cpu => CPU,
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => GPU,
        }
    }
}
