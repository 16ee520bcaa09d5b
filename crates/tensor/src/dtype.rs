//! Number formats of tensors, stored weights and computations.
//!
//! ```
//! use polyhead_tensor::Dtype;
//! let dtype: Dtype = "bf16".parse()?;
//! assert_eq!((dtype, dtype.size_in_bytes(), dtype.to_string()), (Dtype::Bf16, 2, "bf16".into()));
//! # Ok::<(), polyhead_tensor::dtype::ParseDtypeError>(())
//! ```

use std::fmt;
use std::str::FromStr;

/// Number format of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Dtype {
    /// 64-bit floating point (IEEE 754 double precision).
    F64,
    /// 32-bit floating point (IEEE 754 single precision).
    #[default]
    F32,
    /// TF32: stored as f32; products read 8 exponent and 10 fraction bits.
    Tf32,
    /// 16-bit floating point (IEEE 754 half precision): 5 exponent and 10 fraction bits.
    F16,
    /// bfloat16: the upper half of an f32, 8 exponent and 7 fraction bits.
    Bf16,
    /// Signed 64-bit integer.
    I64,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 8-bit integer.
    U8,
    /// Boolean, one byte.
    Bool,
    /// Quantised to signed 8-bit integers with scales.
    Int8,
}

impl Dtype {
    /// All formats.
    pub const ALL: [Self; 10] = [
        Self::F64,
        Self::F32,
        Self::Tf32,
        Self::F16,
        Self::Bf16,
        Self::I64,
        Self::I32,
        Self::U8,
        Self::Bool,
        Self::Int8,
    ];

    /// Bytes of one value; scales of `Int8` are not counted.
    pub const fn size_in_bytes(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::Tf32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::U8 | Self::Bool | Self::Int8 => 1,
        }
    }

    /// Name in options, files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::I64 => "i64",
            Self::I32 => "i32",
            Self::U8 => "u8",
            Self::Bool => "bool",
            Self::Int8 => "int8",
        }
    }

    /// True for floating-point formats.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F64 | Self::F32 | Self::Tf32 | Self::F16 | Self::Bf16)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Dtype {
    type Err = ParseDtypeError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|dtype| dtype.name() == name);
        known.ok_or_else(|| ParseDtypeError { found: name.into() })
    }
}

/// The error of a name that is no [`Dtype`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown dtype {found:?}, expected {}", Dtype::ALL.map(Dtype::name).join(", "))]
pub struct ParseDtypeError {
    /// The name.
    pub found: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for dtype in Dtype::ALL {
            assert_eq!(dtype.name().parse(), Ok(dtype));
            assert_eq!(dtype.to_string(), dtype.name());
        }
        assert_eq!(format!("{:<5}|", Dtype::F16), "f16  |");
    }

    #[test]
    fn an_unknown_name_is_an_error_that_lists_the_names() {
        let error = "F32".parse::<Dtype>().unwrap_err().to_string();
        let expected = "unknown dtype \"F32\", expected f64, f32, tf32, f16, bf16, i64, i32, u8, bool, int8";
        assert_eq!(error, expected);
    }

    #[test]
    fn sizes_and_kinds() {
        assert_eq!(Dtype::ALL.map(Dtype::size_in_bytes), [8, 4, 4, 2, 2, 8, 4, 1, 1, 1]);
        let floats: Vec<Dtype> = Dtype::ALL.into_iter().filter(|dtype| dtype.is_float()).collect();
        assert_eq!(floats, [Dtype::F64, Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16]);
    }
}
