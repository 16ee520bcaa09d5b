//! Where numbers live and operations run.
//!
//! This is the seam for other devices: above this crate, code calls [`ops`](crate::ops) on [`Tensor`](crate::Tensor)s and
//! never sees a buffer, a kernel or a thread. A further device adds a variant here, a kind of buffer in `tensor.rs` and a
//! body beside the CPU's in each operation; a tensor knows its device, and an operation runs where its inputs are.

/// A device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Device {
    /// The processor, all threads of the current pool.
    #[default]
    Cpu,
}

impl Device {
    /// Its name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
        }
    }
}
