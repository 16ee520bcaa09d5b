//! Any model: a closed enum over views, each a closed enum over families.
//!
//! A family is its folder in this crate, its `impl Family`, its variant in [`ModelConfig`] and in a view, and its entry
//! in `ModelConfig::families`, by which the law tests find it. Crates above this one never name a family: a caller
//! requests the view that it needs.
//!
//! ```
//! use polyhead_models::{Model, ModelConfig};
//! use polyhead_tensor::Parameters;
//! let config = ModelConfig::preset("tiny", 100).expect("a preset");
//! let mut parameters = Parameters::default();
//! let model = Model::new(&config, &mut parameters)?;
//! assert_eq!(model.sites().all().count(), 9); // three encoder layers with one attention each, three decoder layers with two
//! assert!(model.into_encoder().is_err());
//! # Ok::<(), polyhead_models::Error>(())
//! ```

mod convert;

use polyhead_attention::Sites;
use polyhead_tensor::Parameters;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::averaging::{AveragingEncoder, AveragingEncoderConfig};
use crate::caption::{CaptionConfig, Captioner};
use crate::checkpoint::CheckpointLayout;
use crate::copying::Copying;
use crate::encoder::Encoder;
use crate::family::Family;
use crate::language_model::LanguageModel;
use crate::pointer::{PointSpec, PointerConfig, PointerNetwork};
use crate::recipe;
use crate::recurrent::{
    RecurrentConfig, RecurrentEncoder, RecurrentEncoderConfig, RecurrentLanguageModel,
    RecurrentLanguageModelConfig, RecurrentTranslator,
};
use crate::sequence_to_sequence::{SequenceToSequence, SpecialIds};
use crate::speech::{SpeechConfig, SpeechRecognizer};
use crate::transformer::bert::{BertConfig, BertEncoder, BertHead};
use crate::transformer::config::Tie;
use crate::transformer::{
    TransformerConfig, TransformerEncoder, TransformerEncoderConfig, TransformerLanguageModel,
    TransformerLanguageModelConfig, Translator,
};
use crate::view::View;
use crate::vision::{ImageEncoder, ImageSpec, VisionConfig};
use crate::window::{WindowEncoder, WindowEncoderConfig, WindowLanguageModel, WindowLanguageModelConfig};
use crate::{Error, Result};

/// A model of any family, by its view.
#[derive(Debug, Clone)]
pub enum Model {
    /// Maps a source sequence to a target sequence.
    SequenceToSequence(SequenceToSequence),
    /// Maps a sequence to a vector and class scores.
    Encoder(Encoder),
    /// Predicts the next token of a sequence.
    LanguageModel(LanguageModel),
    /// Maps a sequence of points to a sequence of their positions.
    Pointer(PointerNetwork),
    /// Maps an image to class scores.
    Image(ImageEncoder),
    /// Maps a sound to a text.
    Speech(SpeechRecognizer),
    /// Maps an image to a text.
    Caption(Captioner),
}

/// The config of a model of any family; `model_type` names the family in files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model_type")]
pub enum ModelConfig {
    /// The encoder-decoder Transformer.
    #[serde(rename = "polyhead_transformer")]
    Transformer(TransformerConfig),
    /// A recurrent sequence-to-sequence model.
    #[serde(rename = "polyhead_recurrent")]
    Recurrent(RecurrentConfig),
    /// A Transformer encoder with class scores.
    #[serde(rename = "polyhead_transformer_encoder")]
    TransformerEncoder(TransformerEncoderConfig),
    /// A fixed-window network with class scores.
    #[serde(rename = "polyhead_window_encoder")]
    WindowEncoder(WindowEncoderConfig),
    /// A deep averaging network.
    #[serde(rename = "polyhead_averaging_encoder")]
    AveragingEncoder(AveragingEncoderConfig),
    /// A decoder-only Transformer.
    #[serde(rename = "polyhead_transformer_language_model")]
    TransformerLanguageModel(TransformerLanguageModelConfig),
    /// A fixed-window language model.
    #[serde(rename = "polyhead_window_language_model")]
    WindowLanguageModel(WindowLanguageModelConfig),
    /// Recurrent layers with class scores.
    #[serde(rename = "polyhead_recurrent_encoder")]
    RecurrentEncoder(RecurrentEncoderConfig),
    /// A recurrent language model.
    #[serde(rename = "polyhead_recurrent_language_model")]
    RecurrentLanguageModel(RecurrentLanguageModelConfig),
    /// A pointer network.
    #[serde(rename = "polyhead_pointer")]
    Pointer(PointerConfig),
    /// A BERT-like encoder.
    #[serde(rename = "polyhead_bert")]
    Bert(BertConfig),
    /// A Vision Transformer.
    #[serde(rename = "polyhead_vit")]
    Vision(VisionConfig),
    /// A speech recogniser.
    #[serde(rename = "polyhead_speech")]
    Speech(SpeechConfig),
    /// A captioner.
    #[serde(rename = "polyhead_captioner")]
    Caption(CaptionConfig),
}

/// The part of a config that the training data determines.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DataSpec {
    /// Vocabulary sizes of source and target; the first is that of an encoder's text.
    pub vocab_sizes: [usize; 2],
    /// Id of padding; decoding also starts from it.
    pub pad_id: u32,
    /// Id that ends a sequence.
    pub end_id: u32,
    /// Id of words that the vocabulary lacks; only models that copy need it.
    pub unknown_id: u32,
    /// The names of the classes; empty for sequence-to-sequence models.
    pub labels: Vec<String>,
    /// True if a BERT-like encoder reads texts with the special tokens of the tokeniser around them.
    pub special_tokens: bool,
    /// The points of a pointer network.
    pub points: PointSpec,
    /// The images of an image classifier or captioner.
    pub images: ImageSpec,
}

/// How an encoder reads texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextFormat {
    /// Id of padding.
    pub pad_id: u32,
    /// True if the special tokens of the tokeniser's template are around a text.
    pub special_tokens: bool,
}

/// Evaluates `$body` with `$own` bound to the config of the family.
macro_rules! of_family {
    ($config:expr, $own:ident => $body:expr) => {
        match $config {
            ModelConfig::Transformer($own) => $body,
            ModelConfig::Recurrent($own) => $body,
            ModelConfig::TransformerEncoder($own) => $body,
            ModelConfig::WindowEncoder($own) => $body,
            ModelConfig::AveragingEncoder($own) => $body,
            ModelConfig::TransformerLanguageModel($own) => $body,
            ModelConfig::WindowLanguageModel($own) => $body,
            ModelConfig::RecurrentEncoder($own) => $body,
            ModelConfig::RecurrentLanguageModel($own) => $body,
            ModelConfig::Pointer($own) => $body,
            ModelConfig::Bert($own) => $body,
            ModelConfig::Vision($own) => $body,
            ModelConfig::Speech($own) => $body,
            ModelConfig::Caption($own) => $body,
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

    /// The default config of every family, the default family first.
    fn families() -> [Self; 14] {
        [
            Self::Transformer(TransformerConfig::default()),
            Self::Recurrent(RecurrentConfig::default()),
            Self::TransformerEncoder(TransformerEncoderConfig::default()),
            Self::WindowEncoder(WindowEncoderConfig::default()),
            Self::AveragingEncoder(AveragingEncoderConfig::default()),
            Self::TransformerLanguageModel(TransformerLanguageModelConfig::default()),
            Self::WindowLanguageModel(WindowLanguageModelConfig::default()),
            Self::RecurrentEncoder(RecurrentEncoderConfig::default()),
            Self::RecurrentLanguageModel(RecurrentLanguageModelConfig::default()),
            Self::Pointer(PointerConfig::default()),
            Self::Bert(BertConfig::default()),
            Self::Vision(VisionConfig::default()),
            Self::Speech(SpeechConfig::default()),
            Self::Caption(CaptionConfig::default()),
        ]
    }

    /// Very small configs of every family, not yet completed from data, for the law tests.
    pub fn examples() -> Vec<Self> {
        fn examples<C: Family + Into<ModelConfig>>(_: &C) -> Vec<ModelConfig> {
            std::iter::once(C::example()).chain(C::more_examples()).map(Into::into).collect()
        }
        Self::families().iter().flat_map(|family| of_family!(family, own => examples(own))).collect()
    }

    /// The default config of the family called `model_type` in files.
    pub(crate) fn of_type(model_type: &str) -> Option<Self> {
        Self::families().into_iter().find(|family| family.model_type() == model_type)
    }

    /// All values of `model_type` in Polyhead's own files.
    pub(crate) fn model_types() -> [&'static str; 14] {
        Self::families().map(|family| family.model_type())
    }

    /// All keys of the config.
    pub(crate) fn keys(&self) -> Vec<String> {
        of_family!(self, own => recipe::table(own).keys().cloned().collect())
    }

    /// A config of the same family from the keys of a file; `error` turns a key and a message into an error.
    pub(crate) fn read(&self, map: &Map<String, Value>, error: &dyn Fn(&str, &str) -> Error) -> Result<Self> {
        of_family!(self, own => recipe::from_file(own, map, error).map(Self::from))
    }

    /// The text of Polyhead's own `config.json`; the same config gives the same bytes.
    pub(crate) fn file_text(&self, layout: CheckpointLayout) -> String {
        #[derive(Serialize)]
        struct File<'a, C> {
            model_type: &'static str,
            layout: CheckpointLayout,
            #[serde(flatten)]
            config: &'a C,
        }
        let model_type = self.model_type();
        let text =
            of_family!(self, config => serde_json::to_string_pretty(&File { model_type, layout, config }));
        text.expect("a config always serialises") + "\n"
    }

    /// The config that the section `[model]` of a recipe describes: `model_type` (default: `transformer`), a `preset`
    /// (default: `small`), and the keys that differ from it. Keys derived from the data are not yet set.
    ///
    /// # Errors
    /// If a key or value is unknown; the error names the key.
    pub fn from_recipe(section: &Map<String, Value>) -> Result<Self> {
        Self::from_recipe_of(View::SequenceToSequence, section)
    }

    /// The same for a recipe whose task needs models of a view: its first family is the default of `model_type`.
    ///
    /// # Errors
    /// If a key or value is unknown; the error names the key.
    pub fn from_recipe_of(view: View, section: &Map<String, Value>) -> Result<Self> {
        let families = Self::families();
        let names = families.each_ref().map(|family| recipe::short(family.model_type()));
        let default = families.iter().position(|family| family.view() == view).unwrap_or(0);
        let name = match section.get(recipe::MODEL_TYPE) {
            None => names[default],
            Some(Value::String(name)) => name,
            Some(other) => return Err(recipe::unknown(recipe::MODEL_TYPE, &other.to_string(), &names)),
        };
        let family = names.iter().zip(&families).find(|(own, _)| **own == name);
        let (_, family) = family.ok_or_else(|| recipe::unknown(recipe::MODEL_TYPE, name, &names))?;
        of_family!(family, own => recipe::complete(own, section).map(Self::from))
    }

    /// The section `[model]` with every key except those derived from the data.
    pub fn to_recipe(&self) -> Map<String, Value> {
        of_family!(self, own => recipe::written(own))
    }

    /// The same config with other values of some keys, as a recipe names them; a table changes the keys that it has.
    ///
    /// # Errors
    /// If a value is invalid.
    pub fn with_keys(&self, keys: &Map<String, Value>) -> Result<Self> {
        of_family!(self, own => recipe::changed(own, keys).map(Self::from))
    }

    /// The preset `name` of the encoder-decoder Transformer, with a shared vocabulary of `vocab_size` ids.
    pub fn preset(name: &str, vocab_size: usize) -> Option<Self> {
        TransformerConfig::named(name, vocab_size).map(Self::Transformer)
    }

    /// The same config completed from the training data.
    ///
    /// # Errors
    /// If the completed config is invalid.
    pub fn with_data(&self, data: &DataSpec) -> Result<Self> {
        let config: Self = of_family!(self, own => Family::with_data(own, data).into());
        config.validate()?;
        Ok(config)
    }

    /// Checks that the config is consistent.
    ///
    /// # Errors
    /// If it is not; the message lists all problems.
    pub fn validate(&self) -> Result<()> {
        of_family!(self, own => own.check())
    }

    /// The view of models of this config.
    pub fn view(&self) -> View {
        match self {
            Self::Transformer(_) | Self::Recurrent(_) => View::SequenceToSequence,
            Self::TransformerEncoder(_)
            | Self::WindowEncoder(_)
            | Self::AveragingEncoder(_)
            | Self::RecurrentEncoder(_)
            | Self::Bert(_) => View::Encoder,
            Self::TransformerLanguageModel(_)
            | Self::WindowLanguageModel(_)
            | Self::RecurrentLanguageModel(_) => View::LanguageModel,
            Self::Pointer(_) => View::Pointer,
            Self::Vision(_) => View::Image,
            Self::Speech(_) => View::Speech,
            Self::Caption(_) => View::Caption,
        }
    }

    /// Width of embeddings.
    pub fn d_model(&self) -> usize {
        match self {
            Self::Recurrent(own) => own.d_embedding,
            Self::RecurrentEncoder(own) => own.d_embedding,
            Self::RecurrentLanguageModel(own) => own.d_embedding,
            other => of_family!(other, own => own.d_model),
        }
    }

    /// Longest sequence in tokens; of an image classifier, the number of learned tokens and patches.
    pub fn max_len(&self) -> usize {
        of_family!(self, own => Family::max_len(own))
    }

    /// Vocabulary sizes of source and target; twice the same for a model of one text, 0 for a model that reads no
    /// text.
    pub fn vocab_sizes(&self) -> [usize; 2] {
        match self {
            Self::Transformer(own) => [own.source_vocab_size, own.target_vocab_size],
            Self::Recurrent(own) => [own.source_vocab_size, own.target_vocab_size],
            Self::TransformerEncoder(own) => [own.vocab_size; 2],
            Self::WindowEncoder(own) => [own.vocab_size; 2],
            Self::AveragingEncoder(own) => [own.vocab_size; 2],
            Self::TransformerLanguageModel(own) => [own.vocab_size; 2],
            Self::WindowLanguageModel(own) => [own.vocab_size; 2],
            Self::RecurrentEncoder(own) => [own.vocab_size; 2],
            Self::RecurrentLanguageModel(own) => [own.vocab_size; 2],
            Self::Pointer(_) | Self::Vision(_) => [0; 2],
            Self::Bert(own) => [own.vocab_size; 2],
            Self::Speech(own) => [own.vocab_size; 2],
            Self::Caption(own) => [own.vocab_size; 2],
        }
    }

    /// Number of outcomes that the loss is over: target ids, labels, or at most as many points as the model accepts.
    pub fn n_outcomes(&self) -> usize {
        match self {
            Self::Transformer(own) => own.target_vocab_size,
            Self::Recurrent(own) => own.target_vocab_size,
            Self::TransformerEncoder(own) => own.labels.len(),
            Self::WindowEncoder(own) => own.labels.len(),
            Self::AveragingEncoder(own) => own.labels.len(),
            Self::TransformerLanguageModel(own) => own.vocab_size,
            Self::WindowLanguageModel(own) => own.vocab_size,
            Self::RecurrentEncoder(own) => own.labels.len(),
            Self::RecurrentLanguageModel(own) => own.vocab_size,
            Self::Pointer(own) => 1 + own.max_len,
            Self::Bert(own) if own.head == BertHead::MaskedLanguageModel => own.vocab_size,
            // The texts of a batch, of which there are fewer than this.
            Self::Bert(own) if own.head == BertHead::None => 1 << 16,
            Self::Bert(own) => own.labels.len(),
            Self::Vision(own) => own.labels.len(),
            Self::Speech(own) => own.vocab_size,
            Self::Caption(own) => own.vocab_size,
        }
    }

    /// Size and channels of images; `None` for a model of text.
    pub fn images(&self) -> Option<ImageSpec> {
        match self {
            Self::Vision(own) => Some(ImageSpec { size: own.image_size, channels: own.channels }),
            Self::Caption(own) => Some(ImageSpec { size: own.image_size, channels: own.channels }),
            _ => None,
        }
    }

    /// Channels, rows and columns of a patch; none for a model of text.
    pub(crate) fn patch_shape(&self) -> Vec<usize> {
        match self {
            Self::Vision(own) => vec![own.channels, own.patch_size, own.patch_size],
            Self::Caption(own) => vec![own.channels, own.patch_size, own.patch_size],
            _ => Vec::new(),
        }
    }

    /// The special ids of a model that generates.
    pub fn special_ids(&self) -> Option<SpecialIds> {
        match self {
            &Self::Transformer(TransformerConfig { pad_id, end_id, start_id, .. })
            | &Self::Recurrent(RecurrentConfig { pad_id, end_id, start_id, .. })
            | &Self::TransformerLanguageModel(TransformerLanguageModelConfig {
                pad_id,
                end_id,
                start_id,
                ..
            })
            | &Self::WindowLanguageModel(WindowLanguageModelConfig { pad_id, end_id, start_id, .. })
            | &Self::Speech(SpeechConfig { pad_id, end_id, start_id, .. })
            | &Self::Caption(CaptionConfig { pad_id, end_id, start_id, .. })
            | &Self::RecurrentLanguageModel(RecurrentLanguageModelConfig {
                pad_id, end_id, start_id, ..
            }) => Some(SpecialIds { pad_id, end_id, start_id }),
            Self::TransformerEncoder(_)
            | Self::WindowEncoder(_)
            | Self::AveragingEncoder(_)
            | Self::RecurrentEncoder(_)
            | Self::Pointer(_)
            | Self::Bert(_)
            | Self::Vision(_) => None,
        }
    }

    /// How an encoder reads texts.
    pub fn text_format(&self) -> TextFormat {
        let special_tokens = matches!(self, Self::Bert(own) if own.special_tokens);
        let pad_id = match self {
            Self::TransformerEncoder(own) => own.pad_id,
            Self::WindowEncoder(own) => own.pad_id,
            Self::AveragingEncoder(own) => own.pad_id,
            Self::RecurrentEncoder(own) => own.pad_id,
            Self::Bert(own) => own.pad_id,
            other => other.special_ids().map_or(0, |special| special.pad_id),
        };
        TextFormat { pad_id, special_tokens }
    }

    /// True if source and target share embeddings and hence need one vocabulary.
    pub fn shares_vocabulary(&self) -> bool {
        match self {
            Self::Transformer(own) => matches!(own.tie, Tie::All | Tie::SourceTarget),
            Self::Recurrent(own) => matches!(own.tie, Tie::All | Tie::SourceTarget),
            _ => false,
        }
    }

    /// Number of sources that a model reads together.
    pub fn n_sources(&self) -> usize {
        if let Self::Transformer(own) = self { own.sources } else { 1 }
    }

    /// True if the decoder copies source words.
    pub fn copies(&self) -> bool {
        match self {
            Self::Transformer(own) => own.copy != Copying::None,
            Self::Recurrent(own) => own.copy != Copying::None,
            _ => false,
        }
    }

    /// Elements of the K/V cache per target token and per source token during decoding.
    pub fn cache_elements(&self) -> [usize; 2] {
        match self {
            Self::Transformer(own) => own.cache_elements(),
            Self::Recurrent(own) => own.cache_elements(),
            Self::TransformerLanguageModel(own) => [own.cache_elements(), 0],
            Self::Speech(own) => own.cache_elements(),
            Self::Caption(own) => own.cache_elements(),
            _ => [0; 2],
        }
    }

    /// Activations, in elements, that a training step stores for the backward pass of a batch of `rows` rows with
    /// `source` and `target` tokens each; measured on encoder-decoder Transformers.
    pub fn activation_elements(&self, [rows, source, target]: [usize; 3]) -> usize {
        match self {
            Self::Transformer(own) => {
                let [per_source, per_target] = own.activation_elements();
                rows * (source * per_source + target * per_target)
            }
            Self::Recurrent(own) => {
                let [per_source, per_target] = own.activation_elements();
                rows * (source * per_source + target * per_target)
            }
            Self::TransformerEncoder(own) => rows * source * own.activation_elements(),
            Self::WindowEncoder(own) => rows * 2 * own.activation_elements(),
            Self::AveragingEncoder(own) => rows * own.activation_elements(source),
            Self::TransformerLanguageModel(own) => rows * source * own.activation_elements(),
            Self::WindowLanguageModel(own) => rows * source * 2 * own.activation_elements(),
            Self::RecurrentEncoder(own) => rows * source * own.activation_elements(),
            Self::RecurrentLanguageModel(own) => rows * source * own.activation_elements(),
            Self::Pointer(own) => own.activation_elements([rows, source, target]),
            Self::Speech(own) => {
                let [per_frame, per_target] = own.activation_elements();
                rows * (source * per_frame + target * per_target)
            }
            Self::Caption(own) => {
                let [per_patch, per_target] = own.activation_elements();
                rows * (source * per_patch + target * per_target)
            }
            Self::Bert(own) => {
                // Without a head a row is a pair of texts.
                let second = if own.head == BertHead::None { target } else { 0 };
                rows * (source + second) * own.activation_elements()
            }
            Self::Vision(own) => rows * source * own.activation_elements(),
        }
    }

    /// A human-readable description, as (label, text).
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        of_family!(self, own => own.describe())
    }
}

impl Model {
    /// Builds the model and declares all parameters, still without values.
    ///
    /// # Errors
    /// If the config is invalid.
    pub fn new(config: &ModelConfig, parameters: &mut Parameters) -> Result<Self> {
        Ok(match config {
            ModelConfig::Transformer(own) => {
                Self::SequenceToSequence(Translator::new(own, parameters)?.into())
            }
            ModelConfig::Recurrent(own) => {
                Self::SequenceToSequence(RecurrentTranslator::new(own, parameters)?.into())
            }
            ModelConfig::TransformerEncoder(own) => {
                Self::Encoder(TransformerEncoder::new(own, parameters)?.into())
            }
            ModelConfig::WindowEncoder(own) => Self::Encoder(WindowEncoder::new(own, parameters)?.into()),
            ModelConfig::AveragingEncoder(own) => {
                Self::Encoder(AveragingEncoder::new(own, parameters)?.into())
            }
            ModelConfig::TransformerLanguageModel(own) => {
                Self::LanguageModel(TransformerLanguageModel::new(own, parameters)?.into())
            }
            ModelConfig::WindowLanguageModel(own) => {
                Self::LanguageModel(WindowLanguageModel::new(own, parameters)?.into())
            }
            ModelConfig::RecurrentEncoder(own) => {
                Self::Encoder(RecurrentEncoder::new(own, parameters)?.into())
            }
            ModelConfig::RecurrentLanguageModel(own) => {
                Self::LanguageModel(RecurrentLanguageModel::new(own, parameters)?.into())
            }
            ModelConfig::Pointer(own) => Self::Pointer(PointerNetwork::new(own, parameters)?),
            ModelConfig::Bert(own) => Self::Encoder(BertEncoder::new(own, parameters)?.into()),
            ModelConfig::Vision(own) => Self::Image(ImageEncoder::new(own, parameters)?),
            ModelConfig::Speech(own) => Self::Speech(SpeechRecognizer::new(own, parameters)?),
            ModelConfig::Caption(own) => Self::Caption(Captioner::new(own, parameters)?),
        })
    }

    /// The config of the model.
    pub fn config(&self) -> ModelConfig {
        match self {
            Self::SequenceToSequence(model) => model.config(),
            Self::Encoder(model) => model.config(),
            Self::LanguageModel(model) => model.config(),
            Self::Pointer(model) => model.config().into(),
            Self::Image(model) => model.config().into(),
            Self::Speech(model) => model.config().into(),
            Self::Caption(model) => model.config().into(),
        }
    }

    /// The attention layers of the model.
    pub fn sites(&self) -> Sites {
        match self {
            Self::SequenceToSequence(model) => model.sites(),
            Self::Encoder(model) => model.sites(),
            Self::LanguageModel(model) => model.sites(),
            Self::Pointer(model) => model.sites(),
            Self::Image(model) => model.sites(),
            Self::Speech(model) => model.sites(),
            Self::Caption(model) => model.sites(),
        }
    }

    /// The model as a sequence-to-sequence model.
    ///
    /// # Errors
    /// If it is not one.
    pub fn into_sequence_to_sequence(self) -> Result<SequenceToSequence> {
        match self {
            Self::SequenceToSequence(model) => Ok(model),
            other => Err(other.config().instead_of(View::SequenceToSequence)),
        }
    }

    /// The model as an encoder with class scores.
    ///
    /// # Errors
    /// If it is not one.
    pub fn into_encoder(self) -> Result<Encoder> {
        match self {
            Self::Encoder(model) => Ok(model),
            other => Err(other.config().instead_of(View::Encoder)),
        }
    }

    /// The model as a language model.
    ///
    /// # Errors
    /// If it is not one.
    pub fn into_language_model(self) -> Result<LanguageModel> {
        match self {
            Self::LanguageModel(model) => Ok(model),
            other => Err(other.config().instead_of(View::LanguageModel)),
        }
    }

    /// The model as a speech recogniser.
    ///
    /// # Errors
    /// If it is not one.
    pub fn into_speech(self) -> Result<SpeechRecognizer> {
        match self {
            Self::Speech(model) => Ok(model),
            other => Err(other.config().instead_of(View::Speech)),
        }
    }

    /// The model as a captioner.
    ///
    /// # Errors
    /// If it is not one.
    pub fn into_caption(self) -> Result<Captioner> {
        match self {
            Self::Caption(model) => Ok(model),
            other => Err(other.config().instead_of(View::Caption)),
        }
    }

    /// The model as an image classifier.
    ///
    /// # Errors
    /// If it is not one.
    pub fn into_image(self) -> Result<ImageEncoder> {
        match self {
            Self::Image(model) => Ok(model),
            other => Err(other.config().instead_of(View::Image)),
        }
    }

    /// The model as a pointer network.
    ///
    /// # Errors
    /// If it is not one.
    pub fn into_pointer(self) -> Result<PointerNetwork> {
        match self {
            Self::Pointer(model) => Ok(model),
            other => Err(other.config().instead_of(View::Pointer)),
        }
    }
}
