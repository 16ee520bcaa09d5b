//! The modules of a sentence-transformers folder (Reimers & Gurevych 2019): `modules.json` lists a Transformer, a pooling of its
//! states to one vector, and linear layers and normalisation of the vector.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use polyhead_models::checkpoint::safetensors::Weights;
use polyhead_tensor::Tensor;
use serde_json::{Map, Value};

use crate::settings::{Settings, positive};
use crate::{Error, Result};

/// The list of modules.
const MODULES: &str = "modules.json";
/// Names of the settings of a Transformer; the program writes the first.
const TRANSFORMER_SETTINGS: [&str; 7] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];

/// The modules after tokenisation.
#[derive(Debug)]
pub struct SentenceModules {
    /// The folder of the Transformer.
    pub folder: PathBuf,
    /// Longest text in tokens; `None` if the model decides.
    pub max_len: Option<usize>,
    /// True if texts are put in lower case before they are tokenised.
    pub lower_case: bool,
    /// Text before every text; usually empty.
    pub prompt: String,
    /// Texts that a request may put before a text instead, by their names.
    pub prompts: BTreeMap<String, String>,
    /// Vectors of the text, side by side.
    pub pooling: Vec<SentencePooling>,
    steps: Vec<Step>,
}

/// A vector of a text from the states of its tokens, special tokens included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SentencePooling {
    /// The state of the first token.
    First,
    /// The largest value of each component.
    Max,
    /// The mean.
    Mean,
    /// The sum divided by the root of the number of tokens.
    MeanOfRoot,
    /// The mean weighted by the position, from 1.
    WeightedMean,
    /// The state of the last token.
    Last,
}

/// The length of vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Normalisation {
    /// As the folder's modules say.
    #[default]
    AsModel,
    /// 1.
    Unit,
    /// That before the normalisation at the end of the modules.
    Left,
}

impl SentencePooling {
    /// Its name in a pooling module.
    pub fn name(self) -> &'static str {
        POOLING.iter().find(|(.., pooling)| *pooling == self).map_or("", |(_, name, _)| name)
    }
}

/// Keys of a pooling module with their modes, in the order in which vectors are put side by side.
const POOLING: [(&str, &str, SentencePooling); 6] = [
    ("pooling_mode_cls_token", "cls", SentencePooling::First),
    ("pooling_mode_max_tokens", "max", SentencePooling::Max),
    ("pooling_mode_mean_tokens", "mean", SentencePooling::Mean),
    ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", SentencePooling::MeanOfRoot),
    ("pooling_mode_weightedmean_tokens", "weightedmean", SentencePooling::WeightedMean),
    ("pooling_mode_lasttoken", "lasttoken", SentencePooling::Last),
];

#[derive(Debug)]
enum Step {
    Dense { weight: Tensor, bias: Option<Tensor>, activation: fn(f32) -> f32 },
    Normalise,
}

impl SentenceModules {
    /// The modules of a folder; `None` if it has no `modules.json`.
    ///
    /// # Errors
    /// If a module is unknown, or its files are missing or malformed.
    pub fn of_folder(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(MODULES);
        if !path.exists() {
            return Ok(None);
        }
        let bytes = polyhead_text::whole::read(&path, polyhead_text::whole::MAX_SETTINGS)
            .map_err(|error| polyhead_text::Error::io(&path, "read", error))?;
        let listed: Vec<Map<String, Value>> = serde_json::from_slice(&bytes).map_err(|error| {
            Error::file(&path, format!("{error}, expected a list of modules"), "download the file again")
        })?;
        let mut found: Option<Self> = None;
        for (index, module) in listed.iter().enumerate() {
            let get = |key: &str| module.get(key).and_then(Value::as_str).unwrap_or_default();
            let own = folder.join(get("path"));
            match (get("type").rsplit('.').next().unwrap_or_default(), &mut found) {
                ("Transformer", None) => found = Some(Self::transformer(folder, own)?),
                ("Pooling", Some(modules)) if modules.pooling.is_empty() => modules.pooling = pooling(&own)?,
                ("Dense", Some(modules)) if !modules.pooling.is_empty() => modules.steps.push(dense(&own)?),
                ("Normalize", Some(modules)) if !modules.pooling.is_empty() => {
                    modules.steps.push(Step::Normalise);
                }
                _ => {
                    let message = format!(
                        "module {index} is {:?}, expected a Transformer, a Pooling, then Dense or Normalize",
                        get("type")
                    );
                    return Err(Error::file(&path, message, "other modules are not supported"));
                }
            }
        }
        let found = found.filter(|modules| !modules.pooling.is_empty());
        found.map(Some).ok_or_else(|| {
            let message = format!("{} modules, expected a Transformer and a Pooling", listed.len());
            Error::file(&path, message, "download the file again")
        })
    }

    fn transformer(folder: &Path, own: PathBuf) -> Result<Self> {
        let path = TRANSFORMER_SETTINGS.map(|name| own.join(name)).into_iter().find(|path| path.exists());
        let (mut max_len, mut lower_case) = (None, false);
        if let Some(path) = path {
            let settings = Settings::load(path)?;
            max_len = settings.get("max_seq_length", "a whole number above 0", positive)?;
            lower_case = settings.get("do_lower_case", "true or false", Value::as_bool)?.unwrap_or(false);
        }
        if max_len.is_none() {
            max_len = tokenizer_limit(&own.join("tokenizer_config.json"))?;
        }
        let (prompt, prompts) = prompts(&folder.join("config_sentence_transformers.json"))?;
        let (pooling, steps) = (Vec::new(), Vec::new());
        Ok(Self { folder: own, max_len, lower_case, prompt, prompts, pooling, steps })
    }

    /// The text as the Transformer reads it, after a prompt; default: that of the folder.
    pub(super) fn prepared(&self, text: &str, prompt: Option<&str>) -> String {
        let text = format!("{}{text}", prompt.unwrap_or(&self.prompt));
        if self.lower_case { text.to_lowercase() } else { text }
    }

    /// True if the modules end with a normalisation.
    pub fn normalises(&self) -> bool {
        matches!(self.steps.last(), Some(Step::Normalise))
    }

    /// The vector of a text from the states of its tokens, n_tokens × `width`.
    pub(super) fn vector(&self, states: &[f32], width: usize, normalisation: Normalisation) -> Vec<f32> {
        let mut vector: Vec<f32> =
            self.pooling.iter().flat_map(|pooling| pooling.vector(states, width)).collect();
        let n_steps = match normalisation {
            Normalisation::Left if self.normalises() => self.steps.len() - 1,
            _ => self.steps.len(),
        };
        for step in &self.steps[..n_steps] {
            match step {
                Step::Normalise => normalise(&mut vector),
                Step::Dense { weight, bias, activation } => {
                    let bias = bias.as_ref().map(Tensor::data);
                    let rows = weight.data().chunks_exact(vector.len().max(1)).enumerate();
                    let product = |(row, weights): (usize, &[f32])| {
                        let sum: f32 = weights.iter().zip(&vector).map(|(weight, x)| weight * x).sum();
                        activation(sum + bias.map_or(0.0, |bias| bias[row]))
                    };
                    vector = rows.map(product).collect();
                }
            }
        }
        if normalisation == Normalisation::Unit && !self.normalises() {
            normalise(&mut vector);
        }
        vector
    }

    /// Checks that the modules fit a model of this width.
    ///
    /// # Errors
    /// If the input of a linear layer has another width than the vector before it.
    pub fn check(&self, d_model: usize) -> Result<()> {
        let mut width = d_model * self.pooling.len();
        for step in &self.steps {
            if let Step::Dense { weight, .. } = step {
                let &[d_out, d_in] = weight.shape() else { unreachable!("checked when it was read") };
                if d_in != width {
                    let message =
                        format!("a Dense module of {d_in} inputs after a vector of {width} numbers");
                    return Err(Error::file(
                        &self.folder,
                        message,
                        "does the module belong to another model?",
                    ));
                }
                width = d_out;
            }
        }
        Ok(())
    }
}

impl SentencePooling {
    /// The vector from states, n_tokens × `width`.
    pub(super) fn vector(self, states: &[f32], width: usize) -> Vec<f32> {
        let n_tokens = states.len() / width;
        let weighted = |weight: fn(usize) -> f32, total: f32| {
            let mut sum = vec![0.0_f32; width];
            for (token, state) in states.chunks_exact(width).enumerate() {
                sum.iter_mut().zip(state).for_each(|(sum, x)| *sum += weight(token) * x);
            }
            for sum in &mut sum {
                *sum /= total;
            }
            sum
        };
        match self {
            Self::First => states[..width].to_vec(),
            Self::Last => states[(n_tokens - 1) * width..].to_vec(),
            Self::Max => {
                let mut most = states[..width].to_vec();
                for state in states.chunks_exact(width) {
                    most.iter_mut().zip(state).for_each(|(most, x)| *most = most.max(*x));
                }
                most
            }
            Self::Mean => weighted(|_| 1.0, n_tokens as f32),
            Self::MeanOfRoot => weighted(|_| 1.0, (n_tokens as f32).sqrt()),
            Self::WeightedMean => {
                weighted(|token| token as f32 + 1.0, (n_tokens * (n_tokens + 1) / 2) as f32)
            }
        }
    }
}

/// Divides a vector by its length.
pub(crate) fn normalise(vector: &mut [f32]) {
    let length = vector.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt().max(1e-12) as f32;
    for x in vector {
        *x /= length;
    }
}

/// The longest text by the settings of the tokeniser, where newer versions write it; a limit beyond all texts is none.
fn tokenizer_limit(path: &Path) -> Result<Option<usize>> {
    if !path.exists() {
        return Ok(None);
    }
    let number = |value: &Value| value.as_f64();
    let stated = Settings::load(path.to_owned())?.get("model_max_length", "a number", number)?;
    Ok(stated.filter(|limit| (1.0..1e9).contains(limit)).map(|limit| limit as usize))
}

/// The default prompt of the folder, which is empty if there is none, and all prompts by their names.
fn prompts(path: &Path) -> Result<(String, BTreeMap<String, String>)> {
    if !path.exists() {
        return Ok(Default::default());
    }
    let settings = Settings::load(path.to_owned())?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let texts = |value: &Value| -> Option<BTreeMap<String, String>> {
        let prompt = |(name, prompt): (&String, &Value)| Some((name.clone(), text(prompt)?));
        Some(value.as_object()?.iter().filter_map(prompt).collect())
    };
    let prompts = settings.get("prompts", "an object of texts", texts)?.unwrap_or_default();
    let name = settings.get("default_prompt_name", "a name", text)?;
    let prompt = name.map_or(Ok(String::new()), |name| {
        prompts.get(&name).cloned().ok_or_else(|| {
            let message = format!("default_prompt_name is {name:?}, expected a name in prompts");
            Error::file(path, message, "correct the name, or set it to null")
        })
    })?;
    Ok((prompt, prompts))
}

/// The modes of a pooling module.
fn pooling(folder: &Path) -> Result<Vec<SentencePooling>> {
    let path = folder.join("config.json");
    let settings = Settings::load(path.clone())?;
    if settings.get("include_prompt", "true or false", Value::as_bool)? == Some(false) {
        let message = "include_prompt is false, expected true";
        return Err(Error::file(&path, message, "pooling without the prompt is not supported"));
    }
    let mut found = Vec::new();
    for (key, name, pooling) in POOLING {
        let is_named = |value: &Value| match value {
            Value::Array(names) => Some(names.iter().any(|value| value == name)),
            Value::String(own) => Some(own == name),
            _ => None,
        };
        let old = settings.get(key, "true or false", Value::as_bool)?;
        let new = settings.get("pooling_mode", "a name or a list of names", is_named)?;
        if old == Some(true) || new == Some(true) {
            found.push(pooling);
        }
    }
    if found.is_empty() {
        let known = POOLING.map(|(_, name, _)| name).join(", ");
        let message = format!("no known pooling mode, expected one of {known}");
        return Err(Error::file(&path, message, "other modes are not supported"));
    }
    Ok(found)
}

/// A linear layer.
fn dense(folder: &Path) -> Result<Step> {
    let path = folder.join("config.json");
    let settings = Settings::load(path.clone())?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    for key in ["module_input_name", "module_output_name"] {
        if let Some(name) = settings.get(key, "a name", text)?.filter(|name| name != "sentence_embedding") {
            let message = format!("{key} is {name:?}, expected \"sentence_embedding\"");
            return Err(Error::file(&path, message, "linear layers for tokens are not supported"));
        }
    }
    let name = settings.get("activation_function", "the name of a class", text)?;
    let name = name.unwrap_or_else(|| "torch.nn.modules.activation.Tanh".into());
    let activation: fn(f32) -> f32 = match name.rsplit('.').next().unwrap_or_default() {
        "Tanh" => f32::tanh,
        "Identity" => |x| x,
        "ReLU" => |x: f32| x.max(0.0),
        "Sigmoid" => |x: f32| 1.0 / (1.0 + (-x).exp()),
        _ => {
            let message =
                format!("activation_function is {name:?}, expected Tanh, Identity, ReLU or Sigmoid");
            return Err(Error::file(&path, message, "other activations are not supported"));
        }
    };
    let weights = Weights::open(folder)?;
    let weight = weights.tensor("linear.weight")?;
    let &[d_out, _] = weight.shape() else {
        let message = format!("linear.weight is {:?}, expected a matrix", weight.shape());
        return Err(Error::file(folder, message, "download the file again"));
    };
    let has_bias = settings.get("bias", "true or false", Value::as_bool)?.unwrap_or(true);
    let bias = has_bias.then(|| weights.tensor("linear.bias")).transpose()?;
    if let Some(bias) = bias.as_ref().filter(|bias| bias.shape() != [d_out]) {
        let message = format!("linear.bias is {:?}, expected [{d_out}]", bias.shape());
        return Err(Error::file(folder, message, "download the file again"));
    }
    Ok(Step::Dense { weight, bias, activation })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poolings_are_those_of_their_definitions() {
        let states = [1.0, 8.0, 3.0, -4.0, 5.0, 2.0, 7.0, 2.0];
        let found = |pooling: SentencePooling| pooling.vector(&states, 2);
        assert_eq!(found(SentencePooling::First), [1.0, 8.0]);
        assert_eq!(found(SentencePooling::Last), [7.0, 2.0]);
        assert_eq!(found(SentencePooling::Max), [7.0, 8.0]);
        assert_eq!(found(SentencePooling::Mean), [4.0, 2.0]);
        assert_eq!(found(SentencePooling::MeanOfRoot), [8.0, 4.0]);
        assert_eq!(found(SentencePooling::WeightedMean), [5.0, 1.4]);
        let mut vector = [3.0, 4.0];
        normalise(&mut vector);
        assert_eq!(vector, [0.6, 0.8]);
    }
}
