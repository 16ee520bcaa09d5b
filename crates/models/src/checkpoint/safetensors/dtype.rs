//! How numbers are stored.

use std::fmt;

/// The type of an array's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dtype {
    /// Four bytes, floating point.
    F32,
    /// Two bytes: five of exponent, ten of fraction.
    F16,
    /// Two bytes: the upper half of an f32.
    Bf16,
    /// Eight bytes, whole numbers.
    I64,
    /// Four bytes, whole numbers.
    I32,
    /// Eight bytes, floating point; skipped, never read.
    F64,
    /// One byte, whole numbers from −128 to 127.
    I8,
    /// One byte; skipped, never read.
    U8,
    /// One byte; skipped, never read.
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

    /// Its name in a header.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, ..)| *known == name).map(|(_, dtype, _)| *dtype)
    }

    /// The names that are understood.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().map(|(name, ..)| *name)
    }

    /// Bytes of one number.
    pub fn size(self) -> usize {
        self.row().2
    }

    /// Its name in Hugging Face's configs.
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
        *Self::ALL.iter().find(|(_, dtype, _)| *dtype == self).expect("every type is in the list")
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
