//! The model and batch sizes of `polyhead bench train`.

use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;
use polyhead_models::vision::ImageSpec;
use polyhead_models::{DataSpec, Ids, ModelConfig};
use serde::Deserialize;
use serde_json::json;

use crate::input::{read_bytes, shown};
use crate::report::Failure;

const DROPOUT: f32 = 0.1;

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Workload {
    /// d_model 256, 4 heads, d_ff 1024, 3 + 3 layers, vocabulary 8000, 64 × (24 + 24) tokens
    Small,
    /// d_model 512, 8 heads, d_ff 2048, 6 + 6 layers, vocabulary 32000, 256 × (32 + 32) tokens
    Base,
    /// LSTM, d_model 512, 2 + 2 layers, additive attention after the cell, vocabulary 8000, 64 × (24 + 24) tokens
    Lstm,
    /// GPT-2: d_model 768, 12 heads, 12 layers, vocabulary 50304, 16 × 1024 tokens
    Lm,
    /// The same with d_model 384, 6 heads, 6 layers, vocabulary 256, 64 × 256 tokens
    LmSmall,
    /// ViT-S/16: d_model 384, 6 heads, 12 layers, 1000 classes, 128 images of 224 × 224 pixels
    Vit,
}

/// The kind of model of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Architecture {
    /// The encoder-decoder Transformer.
    #[default]
    Transformer,
    /// LSTM layers with additive attention after the cell, without input feeding.
    Lstm,
    /// The decoder-only Transformer of GPT-2.
    LanguageModel,
    /// The Vision Transformer.
    Vision,
}

/// Height and width of the images of a workload, and of their patches.
pub(super) const IMAGE: usize = 224;
const PATCH: usize = 16;

/// Sizes of a workload.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sizes {
    pub(super) d_model: usize,
    pub(super) n_heads: usize,
    pub(super) d_ff: usize,
    pub(super) n_layers: usize,
    pub(super) vocab_size: usize,
    pub(super) batch: usize,
    pub(super) length: usize,
    #[serde(skip)]
    pub(super) architecture: Architecture,
}

impl Sizes {
    /// Reads the sizes from a TOML file.
    pub(super) fn load(path: &Path) -> Result<Self> {
        let text = String::from_utf8_lossy(&read_bytes(path)?).into_owned();
        let name = shown(path).display();
        let sizes: Self = toml::from_str(&text).map_err(|error| Failure {
            message: format!("{name}: {}", error.message()),
            hint: "polyhead bench train --help lists the sizes".into(),
        })?;
        let Self { d_model, n_heads, d_ff, n_layers, vocab_size, batch, length, .. } = sizes;
        if [d_model, n_heads, d_ff, n_layers, vocab_size, batch, length].contains(&0)
            || d_model % n_heads != 0
        {
            return Err(Failure {
                message: format!(
                    "{name}: {sizes:?}, expected sizes above 0 and a d_model that n_heads divides"
                ),
                hint: "for example d_model = 256 with n_heads = 4".into(),
            }
            .into());
        }
        Ok(sizes)
    }
}

impl Sizes {
    /// The model of these sizes; other settings of the Transformer as in the paper.
    pub(super) fn config(self) -> Result<ModelConfig> {
        let Self { d_model, n_heads, d_ff, n_layers, vocab_size, .. } = self;
        let data = DataSpec { vocab_sizes: [vocab_size; 2], ..DataSpec::default() };
        if self.architecture == Architecture::LanguageModel {
            let dropout = json!({ "embedding": 0.0, "residual": 0.0 });
            let keys = json!({
                "model_type": "transformer_language_model", "d_model": d_model, "n_heads": n_heads, "d_ff": d_ff,
                "n_layers": n_layers, "max_len": self.length, "dropout": dropout,
            });
            return Ok(ModelConfig::from_recipe(keys.as_object().expect("an object"))?.with_data(&data)?);
        }
        if self.architecture == Architecture::Vision {
            let keys = json!({
                "model_type": "vit", "d_model": d_model, "n_heads": n_heads, "d_ff": d_ff, "n_layers": n_layers,
                "patch_size": PATCH, "activation": "gelu_new", "norm_epsilon": 1e-5,
            });
            let labels = (0..vocab_size).map(|class| class.to_string()).collect();
            let images = ImageSpec { size: [IMAGE; 2], channels: 3 };
            let data = DataSpec { labels, images, ..DataSpec::default() };
            return Ok(ModelConfig::from_recipe(keys.as_object().expect("an object"))?.with_data(&data)?);
        }
        if self.architecture == Architecture::Lstm {
            let keys = json!({
                "model_type": "recurrent", "d_model": d_model, "d_embedding": d_model, "n_layers": n_layers,
                "bidirectional": false, "score": "additive", "dropout": DROPOUT,
            });
            return Ok(ModelConfig::from_recipe(keys.as_object().expect("an object"))?.with_data(&data)?);
        }
        let dropout =
            json!({ "embedding": 0.0, "residual": DROPOUT, "attention": DROPOUT, "activation": DROPOUT });
        let keys = json!({
            "d_model": d_model, "n_heads": n_heads, "d_ff": d_ff, "n_layers": n_layers, "dropout": dropout,
        });
        let config = ModelConfig::from_recipe(keys.as_object().expect("an object"))?;
        Ok(config.with_data(&data)?)
    }

    /// Target tokens, or images, per step.
    pub(super) fn units(self) -> usize {
        if self.architecture == Architecture::Vision { self.batch } else { self.tokens() }
    }

    /// Target tokens per step.
    pub(super) fn tokens(self) -> usize {
        self.batch * self.length
    }

    /// Multiplications and additions of all products of a step: 2 forward and 4 backward per pair of factors. A query of
    /// causal attention attends to half of the keys on average.
    pub(super) fn operations(self) -> f64 {
        let [d, d_ff, n_layers, vocab_size, length] =
            [self.d_model, self.d_ff, self.n_layers, self.vocab_size, self.length].map(|size| size as f64);
        if self.architecture == Architecture::Lstm {
            // Eight d × d products for the gates of a layer; attention: two projections, the context and W·[context; h].
            let layers = n_layers * 16.0 * d * d;
            return 6.0 * self.tokens() as f64 * (layers + 4.0 * d * d + length * d + d * vocab_size);
        }
        let feed_forward = 2.0 * d * d_ff;
        if self.architecture == Architecture::Vision {
            let layers = n_layers * (4.0 * d * d + 2.0 * length * d + feed_forward);
            let pixels = (3 * PATCH * PATCH) as f64;
            return 6.0 * (self.tokens() as f64 * (layers + pixels * d) + self.batch as f64 * d * vocab_size);
        }
        if self.architecture == Architecture::LanguageModel {
            let layer = 4.0 * d * d + length * d + feed_forward;
            return 6.0 * self.tokens() as f64 * (n_layers * layer + d * vocab_size);
        }
        let encoder = 4.0 * d * d + 2.0 * length * d + feed_forward;
        let decoder = 8.0 * d * d + 3.0 * length * d + feed_forward;
        6.0 * self.tokens() as f64 * (n_layers * (encoder + decoder) + d * vocab_size)
    }

    /// A batch of full rows.
    pub(super) fn rows(self, ids: &[u32]) -> Ids {
        Ids::padded(&ids.chunks_exact(self.length).collect::<Vec<_>>(), 0)
    }
}

impl Workload {
    pub(super) fn sizes(self) -> Sizes {
        match self {
            Self::Small => Sizes {
                d_model: 256,
                n_heads: 4,
                d_ff: 1024,
                n_layers: 3,
                vocab_size: 8000,
                batch: 64,
                length: 24,
                architecture: Architecture::Transformer,
            },
            Self::Base => Sizes {
                d_model: 512,
                n_heads: 8,
                d_ff: 2048,
                n_layers: 6,
                vocab_size: 32000,
                batch: 256,
                length: 32,
                architecture: Architecture::Transformer,
            },
            Self::Lstm => Sizes {
                d_model: 512,
                n_heads: 1,
                d_ff: 512,
                n_layers: 2,
                vocab_size: 8000,
                batch: 64,
                length: 24,
                architecture: Architecture::Lstm,
            },
            Self::Lm => Sizes {
                d_model: 768,
                n_heads: 12,
                d_ff: 3072,
                n_layers: 12,
                vocab_size: 50_304,
                batch: 16,
                length: 1024,
                architecture: Architecture::LanguageModel,
            },
            Self::LmSmall => Sizes {
                d_model: 384,
                n_heads: 6,
                d_ff: 1536,
                n_layers: 6,
                vocab_size: 256,
                batch: 64,
                length: 256,
                architecture: Architecture::LanguageModel,
            },
            Self::Vit => Sizes {
                d_model: 384,
                n_heads: 6,
                d_ff: 1536,
                n_layers: 12,
                vocab_size: 1000,
                batch: 128,
                length: 1 + (IMAGE / PATCH).pow(2),
                architecture: Architecture::Vision,
            },
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Small => "T-small",
            Self::Base => "T-base",
            Self::Lstm => "LSTM",
            Self::Lm => "lm",
            Self::LmSmall => "lm-small",
            Self::Vit => "vit",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operations_of_the_base_workload() {
        // 8192 tokens, 60.7 million pairs of factors each.
        let found = Workload::Base.sizes().operations();
        assert!((found / (6.0 * 8192.0 * 60.9e6) - 1.0).abs() < 0.01, "{found}");
    }
}
