//! Conversions between the config of a model and that of its family.

use super::ModelConfig;
use crate::averaging::AveragingEncoderConfig;
use crate::caption::CaptionConfig;
use crate::family::Family;
use crate::pointer::PointerConfig;
use crate::recurrent::{RecurrentConfig, RecurrentEncoderConfig, RecurrentLanguageModelConfig};
use crate::speech::SpeechConfig;
use crate::transformer::bert::BertConfig;
use crate::transformer::{TransformerConfig, TransformerEncoderConfig, TransformerLanguageModelConfig};
use crate::vision::VisionConfig;
use crate::window::{WindowEncoderConfig, WindowLanguageModelConfig};
use crate::{Error, Result};

/// Conversions between [`ModelConfig`] and the config of a family.
macro_rules! family {
    ($config:ident, $variant:ident) => {
        impl From<$config> for ModelConfig {
            fn from(config: $config) -> Self {
                Self::$variant(config)
            }
        }

        impl From<&$config> for ModelConfig {
            fn from(config: &$config) -> Self {
                Self::$variant(config.clone())
            }
        }

        impl TryFrom<ModelConfig> for $config {
            type Error = Error;

            fn try_from(config: ModelConfig) -> Result<Self> {
                let found = config.model_type();
                match config {
                    ModelConfig::$variant(own) => Ok(own),
                    _ => Err(Error::Config {
                        message: format!("a {found}, expected a {}", <$config as Family>::MODEL_TYPE),
                    }),
                }
            }
        }
    };
}

family!(TransformerConfig, Transformer);
family!(RecurrentConfig, Recurrent);
family!(TransformerEncoderConfig, TransformerEncoder);
family!(WindowEncoderConfig, WindowEncoder);
family!(AveragingEncoderConfig, AveragingEncoder);
family!(TransformerLanguageModelConfig, TransformerLanguageModel);
family!(WindowLanguageModelConfig, WindowLanguageModel);
family!(RecurrentEncoderConfig, RecurrentEncoder);
family!(RecurrentLanguageModelConfig, RecurrentLanguageModel);
family!(PointerConfig, Pointer);
family!(BertConfig, Bert);
family!(VisionConfig, Vision);
family!(SpeechConfig, Speech);
family!(CaptionConfig, Caption);

impl From<&ModelConfig> for ModelConfig {
    fn from(config: &ModelConfig) -> Self {
        config.clone()
    }
}
