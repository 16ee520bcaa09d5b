//! Any model: a closed enum over what models can do, each a closed enum over families.
//!
//! A family is its folder in this crate, its `impl Family`, its variant in [`ModelConfig`] and in a view, and its place in
//! `ModelConfig::families`, by which the laws find it. Above this crate nobody names one: a caller asks for the view that it
//! needs.
//!
//! ```
//! use polyhead_models::{Model, ModelConfig};
//! use polyhead_tensor::Parameters;
//! let config = ModelConfig::preset("tiny", 100).expect("a preset");
//! let mut parameters = Parameters::default();
//! let model = Model::new(&config, &mut parameters)?;
//! assert_eq!(model.sites().all().count(), 9); // three layers with one attention, three with two
//! assert!(model.into_encoder().is_err());
//! # Ok::<(), polyhead_models::Error>(())
//! ```

use polyhead_attention::Sites;
use polyhead_tensor::Parameters;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::checkpoint::Layout;
use crate::encoder::Encoder;
use crate::family::Family;
use crate::recipe;
use crate::sequence_to_sequence::{SequenceToSequence, SpecialIds};
use crate::transformer::config::Tie;
use crate::transformer::{TransformerConfig, TransformerEncoder, TransformerEncoderConfig, Translator};
use crate::window::{WindowEncoder, WindowEncoderConfig};
use crate::{Error, Result};

/// A model, by what it can do.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a program holds few models and hardly moves them")]
pub enum Model {
    /// Reads a sequence and writes another.
    SequenceToSequence(SequenceToSequence),
    /// Reads a sequence and gives a vector and class scores.
    Encoder(Encoder),
}

/// Sizes and choices of a model of any family; `model_type` names the family in files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model_type")]
pub enum ModelConfig {
    /// The encoder-decoder Transformer.
    #[serde(rename = "polyhead_transformer")]
    Transformer(TransformerConfig),
    /// A Transformer encoder with classes.
    #[serde(rename = "polyhead_transformer_encoder")]
    TransformerEncoder(TransformerEncoderConfig),
    /// A fixed-window network with classes.
    #[serde(rename = "polyhead_window_encoder")]
    WindowEncoder(WindowEncoderConfig),
}

/// What a model can do: which view of it there is, and which objective it is trained by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// See [`SequenceToSequence`].
    SequenceToSequence,
    /// See [`Encoder`].
    Encoder,
}

/// What the text decides about a model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextFacts {
    /// Ids of source and target, or of the one text.
    pub vocab_sizes: [usize; 2],
    /// Id of padding, from which writing starts too.
    pub pad_id: u32,
    /// Id that ends a sequence.
    pub end_id: u32,
    /// The names of classes; none where a sequence is written.
    pub labels: Vec<String>,
}

/// Calls a function with the config of whatever family it is.
macro_rules! of_family {
    ($config:expr, $own:ident => $body:expr) => {
        match $config {
            ModelConfig::Transformer($own) => $body,
            ModelConfig::TransformerEncoder($own) => $body,
            ModelConfig::WindowEncoder($own) => $body,
        }
    };
}

impl ModelConfig {
    /// `model_type` in `config.json`.
    pub fn model_type(&self) -> &'static str {
        fn of<C: Family>(_: &C) -> &'static str {
            C::MODEL_TYPE
        }
        of_family!(self, own => of(own))
    }

    /// The defaults of every family, the usual one first.
    fn families() -> [Self; 3] {
        [
            Self::Transformer(TransformerConfig::default()),
            Self::TransformerEncoder(TransformerEncoderConfig::default()),
            Self::WindowEncoder(WindowEncoderConfig::default()),
        ]
    }

    /// A very small model of every family, its text still open: what holds for one family is tested for all.
    pub fn examples() -> Vec<Self> {
        fn example<C: Family>(_: &C) -> C {
            C::example()
        }
        Self::families().iter().map(|family| of_family!(family, own => example(own).into())).collect()
    }

    /// The defaults of the family that a file calls `model_type`.
    pub(crate) fn of_type(model_type: &str) -> Option<Self> {
        Self::families().into_iter().find(|family| family.model_type() == model_type)
    }

    /// All names that `model_type` may have in a file of ours.
    pub(crate) fn model_types() -> [&'static str; 3] {
        Self::families().map(|family| family.model_type())
    }

    /// All its keys.
    pub(crate) fn keys(&self) -> Vec<String> {
        of_family!(self, own => recipe::table(own).keys().cloned().collect())
    }

    /// A config of the same family from the keys of a file; `fault` makes an error of a key and a message.
    pub(crate) fn read(&self, map: &Map<String, Value>, fault: &dyn Fn(&str, &str) -> Error) -> Result<Self> {
        of_family!(self, own => recipe::from_file(own, map, fault).map(Self::from))
    }

    /// The text of our own `config.json`; the same config gives the same bytes.
    pub(crate) fn file_text(&self, layout: Layout) -> String {
        #[derive(Serialize)]
        struct File<'a, C> {
            model_type: &'static str,
            layout: Layout,
            #[serde(flatten)]
            config: &'a C,
        }
        let model_type = self.model_type();
        let text =
            of_family!(self, config => serde_json::to_string_pretty(&File { model_type, layout, config }));
        text.expect("a config is always JSON") + "\n"
    }

    /// The config that the section `[model]` of a recipe means: `model_type` (default: `transformer`), a `preset` (default:
    /// `small`), and what differs from it. What the text decides is still open.
    ///
    /// # Errors
    /// If a key or value is unknown; the error names the key.
    pub fn from_recipe(given: &Map<String, Value>) -> Result<Self> {
        let families = Self::families();
        let names = families.each_ref().map(|family| recipe::short(family.model_type()));
        let name = match given.get(recipe::MODEL_TYPE) {
            None => names[0],
            Some(Value::String(name)) => name,
            Some(other) => return Err(recipe::unknown(recipe::MODEL_TYPE, &other.to_string(), &names)),
        };
        let family = names.iter().zip(&families).find(|(own, _)| **own == name);
        let (_, family) = family.ok_or_else(|| recipe::unknown(recipe::MODEL_TYPE, name, &names))?;
        of_family!(family, own => recipe::complete(own, given).map(Self::from))
    }

    /// The section `[model]` with every key but those that the text decides.
    pub fn to_recipe(&self) -> Map<String, Value> {
        of_family!(self, own => recipe::written(own))
    }

    /// The encoder-decoder Transformer called `name`, with one vocabulary.
    pub fn preset(name: &str, vocab_size: usize) -> Option<Self> {
        TransformerConfig::named(name, vocab_size).map(Self::Transformer)
    }

    /// The same with what the text decides.
    ///
    /// # Errors
    /// If that describes no model.
    pub fn with_text(&self, text: &TextFacts) -> Result<Self> {
        let config: Self = of_family!(self, own => Family::with_text(own, text).into());
        config.validate()?;
        Ok(config)
    }

    /// Checks that sizes and choices fit together; the error lists all that do not.
    ///
    /// # Errors
    /// If they do not.
    pub fn validate(&self) -> Result<()> {
        of_family!(self, own => own.check())
    }

    /// What models of it can do.
    pub fn view(&self) -> View {
        match self {
            Self::Transformer(_) => View::SequenceToSequence,
            Self::TransformerEncoder(_) | Self::WindowEncoder(_) => View::Encoder,
        }
    }

    /// Width of embeddings.
    pub fn d_model(&self) -> usize {
        of_family!(self, own => own.d_model)
    }

    /// Most tokens of a sequence.
    pub fn max_len(&self) -> usize {
        of_family!(self, own => own.max_len)
    }

    /// Ids of source and target, or twice those of the one text.
    pub fn vocab_sizes(&self) -> [usize; 2] {
        match self {
            Self::Transformer(own) => [own.source_vocab_size, own.target_vocab_size],
            Self::TransformerEncoder(own) => [own.vocab_size; 2],
            Self::WindowEncoder(own) => [own.vocab_size; 2],
        }
    }

    /// Outcomes that a loss chooses among: target ids, or labels.
    pub fn n_outcomes(&self) -> usize {
        match self {
            Self::Transformer(own) => own.target_vocab_size,
            Self::TransformerEncoder(own) => own.labels.len(),
            Self::WindowEncoder(own) => own.labels.len(),
        }
    }

    /// The special ids of a model that writes.
    pub fn special_ids(&self) -> Option<SpecialIds> {
        match self {
            &Self::Transformer(TransformerConfig { pad_id, end_id, start_id, .. }) => {
                Some(SpecialIds { pad_id, end_id, start_id })
            }
            Self::TransformerEncoder(_) | Self::WindowEncoder(_) => None,
        }
    }

    /// True if source and target share embeddings, so that they need one vocabulary.
    pub fn shares_vocabulary(&self) -> bool {
        match self {
            Self::Transformer(own) => matches!(own.tie, Tie::All | Tie::SourceTarget),
            Self::TransformerEncoder(_) | Self::WindowEncoder(_) => false,
        }
    }

    /// Numbers that the K/V cache holds for each target token and for each source token while a sequence is written.
    pub fn cache_numbers(&self) -> [usize; 2] {
        match self {
            Self::Transformer(own) => own.cache_numbers(),
            Self::TransformerEncoder(_) | Self::WindowEncoder(_) => [0; 2],
        }
    }

    /// Numbers that a training step keeps for the backward pass of a batch of so many rows, of so many tokens on each side;
    /// measured on encoder-decoder Transformers.
    pub fn training_numbers(&self, [rows, source, target]: [usize; 3]) -> usize {
        match self {
            Self::Transformer(own) => {
                let [of_source, of_target] = own.training_numbers();
                rows * (source * of_source + target * of_target)
            }
            Self::TransformerEncoder(own) => rows * source * own.training_numbers(),
            Self::WindowEncoder(own) => rows * 2 * (own.window * own.d_model + own.d_ff),
        }
    }

    /// Rows of a table for people: what it is.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        of_family!(self, own => own.describe())
    }
}

/// Conversions between a config and that of its family.
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
family!(TransformerEncoderConfig, TransformerEncoder);
family!(WindowEncoderConfig, WindowEncoder);

impl From<&ModelConfig> for ModelConfig {
    fn from(config: &ModelConfig) -> Self {
        config.clone()
    }
}

impl Model {
    /// Declares all parameters; they have no values yet.
    ///
    /// # Errors
    /// If the config describes no model.
    pub fn new(config: &ModelConfig, parameters: &mut Parameters) -> Result<Self> {
        Ok(match config {
            ModelConfig::Transformer(own) => {
                Self::SequenceToSequence(Translator::new(own, parameters)?.into())
            }
            ModelConfig::TransformerEncoder(own) => {
                Self::Encoder(TransformerEncoder::new(own, parameters)?.into())
            }
            ModelConfig::WindowEncoder(own) => Self::Encoder(WindowEncoder::new(own, parameters)?.into()),
        })
    }

    /// Its sizes and choices.
    pub fn config(&self) -> ModelConfig {
        match self {
            Self::SequenceToSequence(model) => model.config(),
            Self::Encoder(model) => model.config(),
        }
    }

    /// Its attentions.
    pub fn sites(&self) -> Sites {
        match self {
            Self::SequenceToSequence(model) => model.sites(),
            Self::Encoder(model) => model.sites(),
        }
    }

    /// The model as one that writes a sequence for another.
    ///
    /// # Errors
    /// If it does not.
    pub fn into_sequence_to_sequence(self) -> Result<SequenceToSequence> {
        match self {
            Self::SequenceToSequence(model) => Ok(model),
            Self::Encoder(_) => Err(Error::View {
                found: "a model that classifies text",
                expected: "one that writes text for text",
                hint: "polyhead classify uses it",
            }),
        }
    }

    /// The model as one that gives vectors and class scores.
    ///
    /// # Errors
    /// If it does not.
    pub fn into_encoder(self) -> Result<Encoder> {
        match self {
            Self::Encoder(model) => Ok(model),
            Self::SequenceToSequence(_) => Err(Error::View {
                found: "a model that writes text for text",
                expected: "one that classifies text",
                hint: "polyhead translate uses it",
            }),
        }
    }
}
