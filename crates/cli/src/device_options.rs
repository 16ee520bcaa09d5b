//! Options about graphics cards that several commands have.

use clap::ValueEnum;
use polyhead_tensor::{Device, Math};
use polyhead_train::config::Dtype;

/// A name that a device can have.
pub(crate) fn device_name(text: &str) -> Result<String, String> {
    Device::check_name(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

/// Numbers that a card computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CardDtype {
    /// f32 throughout
    F32,
    /// f32 whose products round their factors; cards only
    Tf32,
    /// Activations and factors of products in bf16, weights and sums in f32; cards only
    Bf16,
}

impl CardDtype {
    /// What a card is opened with.
    pub(crate) fn math(self) -> Math {
        Dtype::from(self).math()
    }
}

impl From<CardDtype> for Dtype {
    fn from(dtype: CardDtype) -> Self {
        match dtype {
            CardDtype::F32 => Self::F32,
            CardDtype::Tf32 => Self::Tf32,
            CardDtype::Bf16 => Self::Bf16,
        }
    }
}
