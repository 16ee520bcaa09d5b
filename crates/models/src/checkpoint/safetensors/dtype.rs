//! Names of dtypes in safetensors files and in Hugging Face's configs.

use polyhead_tensor::Dtype;

/// Every dtype that a file may hold, by its name in the header. Values of F64 and BOOL are skipped, never read.
pub(super) const HEADER_NAMES: [(&str, Dtype); 9] = [
    ("F32", Dtype::F32),
    ("F16", Dtype::F16),
    ("BF16", Dtype::Bf16),
    ("I64", Dtype::I64),
    ("I32", Dtype::I32),
    ("F64", Dtype::F64),
    ("I8", Dtype::Int8),
    ("U8", Dtype::U8),
    ("BOOL", Dtype::Bool),
];

/// The name in the header of a safetensors file.
pub fn header_name(dtype: Dtype) -> &'static str {
    // TF32 is a way to compute: what is stored is F32.
    HEADER_NAMES.iter().find(|(_, known)| *known == dtype).map_or("F32", |(name, _)| name)
}

/// The dtype called `name` in the header of a safetensors file.
pub(super) fn from_header_name(name: &str) -> Option<Dtype> {
    HEADER_NAMES.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype)
}

/// The name in Hugging Face's configs.
pub(crate) fn torch_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 | Dtype::Tf32 => "float32",
        Dtype::F16 => "float16",
        Dtype::Bf16 => "bfloat16",
        Dtype::I64 => "int64",
        Dtype::I32 => "int32",
        Dtype::F64 => "float64",
        Dtype::Int8 => "int8",
        Dtype::U8 => "uint8",
        Dtype::Bool => "bool",
    }
}
