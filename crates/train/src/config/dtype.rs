//! Dtypes in recipes: the compute dtype of `[train]`, which may be `auto`, and the storage dtype of `[checkpoint]`.

use polyhead_tensor::{Dtype, Math};

/// The compute mode that a GPU is opened with: bf16 for `auto` (`None`), the fastest that trains well.
pub fn math(dtype: Option<Dtype>) -> Math {
    match dtype {
        Some(Dtype::F32) => Math::F32,
        Some(Dtype::Tf32) => Math::Tf32,
        _ => Math::Bf16,
    }
}

/// Name of the compute dtype that the device chooses: bf16 on a GPU, f32 on the CPU.
const AUTO: &str = "auto";

/// One of `names`, as serde reports other ones.
fn one_of<'de, D: serde::Deserializer<'de>>(
    reader: D,
    names: &'static [&'static str],
) -> Result<String, D::Error> {
    let name: String = serde::Deserialize::deserialize(reader)?;
    if names.contains(&name.as_str()) {
        Ok(name)
    } else {
        Err(serde::de::Error::unknown_variant(&name, names))
    }
}

/// `train.dtype`: `auto`, f32, tf32 or bf16.
pub(super) mod compute {
    use super::{AUTO, Dtype, one_of};

    #[allow(
        clippy::ref_option,
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes fields by reference"
    )]
    pub(crate) fn serialize<S: serde::Serializer>(
        dtype: &Option<Dtype>,
        writer: S,
    ) -> Result<S::Ok, S::Error> {
        writer.serialize_str(dtype.map_or(AUTO, Dtype::name))
    }

    pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(
        reader: D,
    ) -> Result<Option<Dtype>, D::Error> {
        Ok(one_of(reader, &[AUTO, "f32", "tf32", "bf16"])?.parse().ok())
    }
}

/// `checkpoint.dtype`: f32 or bf16.
pub(super) mod stored {
    use super::{Dtype, one_of};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
    pub(crate) fn serialize<S: serde::Serializer>(dtype: &Dtype, writer: S) -> Result<S::Ok, S::Error> {
        writer.serialize_str(dtype.name())
    }

    pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Dtype, D::Error> {
        one_of(reader, &["f32", "bf16"])?.parse().map_err(serde::de::Error::custom)
    }
}
