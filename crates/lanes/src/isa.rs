//! Vector instruction sets, detected at run time, so that one binary serves all machines.

use std::sync::OnceLock;

/// A vector instruction set. All give the same bits and differ only in speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Plain Rust, for any machine.
    Portable,
    /// 256-bit vectors with fused multiply-add.
    Avx2,
    /// 512-bit vectors.
    Avx512,
}

impl Isa {
    /// All sets, the simplest first.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// The best set of this machine; the environment variable `POLYHEAD_ISA` (portable, avx2, avx512) limits it.
    pub fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| {
            let wanted = std::env::var("POLYHEAD_ISA").ok();
            let limit = Self::ALL.into_iter().find(|isa| wanted.as_deref() == Some(isa.name()));
            let usable = Self::ALL.into_iter().filter(|isa| isa.is_usable()).max().unwrap_or(Self::Portable);
            limit.map_or(usable, |limit| limit.min(usable))
        })
    }

    /// True if the machine supports it.
    pub fn is_usable(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_usable()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// Name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}
