//! How work is best given to a device. Code above this crate asks here instead of asking which device it has.

use super::Device;

/// How work is best given to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Steps of training that are queued before their results are read. 1 if each is done when it returns; else the device works
    /// beside the threads of this process, which can prepare what comes next meanwhile.
    pub steps_ahead: usize,
    /// True if every shape of a batch is recorded once and replayed, so that few shapes are worth some padding.
    pub wants_few_shapes: bool,
    /// True if weights that do not change are packed once, as f32 or int8; otherwise they are read as they are.
    pub packs_weights: bool,
    /// True if one batch after the other has the whole device; otherwise each thread takes one.
    pub takes_turns: bool,
    /// Source tokens of a batch in decoding.
    pub batch_tokens: usize,
    /// Most hypotheses followed at once in decoding.
    pub rows: usize,
    /// Texts that fill batches of sentences of like length, where many are translated.
    pub texts: usize,
}

/// Products of 24 rows are as fast as they get, and more rows would drive each other's keys and values out of the cache.
const CPU: Policy = Policy {
    steps_ahead: 1,
    wants_few_shapes: false,
    packs_weights: true,
    takes_turns: false,
    batch_tokens: 1024,
    rows: 24,
    texts: 1024,
};

/// Products want many rows; each hypothesis needs memory for all that was written, and for its logits.
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
    /// How work is best given to it.
    pub fn policy(&self) -> Policy {
        match self {
            Self::Cpu => CPU,
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => GPU,
        }
    }
}
