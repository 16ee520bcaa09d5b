//! Dtypes of safetensors files.

use std::fmt;

/// The element type of a stored tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dtype {
    /// 32-bit floating point.
    F32,
    /// 16-bit floating point: 5 bits of exponent, 10 of fraction.
    F16,
    /// bfloat16: the upper half of an f32.
    Bf16,
    /// 64-bit signed integer.
    I64,
    /// 32-bit signed integer.
    I32,
    /// 64-bit floating point; skipped, never read.
    F64,
    /// 8-bit signed integer.
    I8,
    /// 8-bit unsigned integer; skipped, never read.
    U8,
    /// One byte per boolean; skipped, never read.
    Bool,
}

impl Dtype {
    const ALL: [(&'static str, Self, usize); 9] = [
        ("F32", Self::F32, 4),
        ("F16", Self::F16, 2),
        ("BF16", Self::Bf16, 2),
        ("I64", Self::I64, 8),
        ("I32", Self::I32, 4),
        ("F64", Self::F64, 8),
        ("I8", Self::I8, 1),
        ("U8", Self::U8, 1),
        ("BOOL", Self::Bool, 1),
    ];

    /// The name in a safetensors header.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The dtype called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, ..)| *known == name).map(|(_, dtype, _)| *dtype)
    }

    /// All supported names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().map(|(name, ..)| *name)
    }

    /// Size of one element in bytes.
    pub fn size(self) -> usize {
        self.row().2
    }

    /// The name in Hugging Face's configs.
    pub(crate) fn torch_name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
            Self::I64 => "int64",
            Self::I32 => "int32",
            Self::F64 => "float64",
            Self::I8 => "int8",
            Self::U8 => "uint8",
            Self::Bool => "bool",
        }
    }

    fn row(self) -> (&'static str, Self, usize) {
        *Self::ALL.iter().find(|(_, dtype, _)| *dtype == self).expect("every dtype is in the list")
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
