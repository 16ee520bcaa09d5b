//! The model that a run starts from: the folder of `init`, its config for the task of the run, and its weights.
//!
//! A language model is taken as it is. An encoder keeps its embeddings and layers; a head of another task, or with other labels, is
//! left out, and the new head has random weights. Class scores begin with the pooling layer of the folder, where it has one.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use polyhead_engine::encoder::modules::SentenceModules;
use polyhead_models::checkpoint::{Checkpoint, load, load_parameters, read_config, with_head};
use polyhead_models::{Model, ModelConfig, View};
use polyhead_tensor::{Parameters, Tensor};

use crate::task::Task;
use crate::{Error, Result};

/// First parts of the names of parameters between the states and the output.
const HEADS: [&str; 7] =
    ["classes", "distilled_classes", "token_classes", "output", "transform", "classifier", "pooler"];

/// Parts of a model that do not come from the folder that it starts from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Adopted {
    /// Parts with random weights.
    pub(crate) fresh: Vec<String>,
    /// Parts of the folder that are left out.
    pub(crate) dropped: Vec<String>,
}

/// The folder with the weights: of a sentence-transformers folder, that of its Transformer.
pub(crate) fn model_folder(init: &Path) -> Result<PathBuf> {
    Ok(SentenceModules::of_folder(init)?.map_or_else(|| init.to_owned(), |modules| modules.folder))
}

/// The config of a folder's model for a task, by default that of the model.
pub(crate) fn config(init: &Path, task: Option<Task>) -> Result<(ModelConfig, Task)> {
    let (model, layout) = read_config(model_folder(init)?)?;
    let task = task.unwrap_or_else(|| Task::of(&model));
    match task.head() {
        Some(head) if model.view() == View::Encoder => Ok((with_head(&model, layout, head)?, task)),
        _ => Ok((model, task)),
    }
}

/// Sets the parameters of a model to the weights of a folder, as far as it has them.
pub(crate) fn adopt(init: &Path, config: &ModelConfig, parameters: &mut Parameters) -> Result<Adopted> {
    let folder = &model_folder(init)?;
    if !matches!(config.view(), View::Encoder | View::Image) {
        let (own, layout) = read_config(folder)?;
        load_parameters(folder, own, layout, parameters)?;
        // An int8 model is dequantised.
        parameters.unprepare();
        return Ok(Adopted::default());
    }
    let Checkpoint { model, parameters: mut theirs, .. } = load(folder, None)?;
    theirs.unprepare();
    let own = Model::new(config, &mut Parameters::default())?;
    let has_same_head = if config.view() == View::Image {
        model.into_image()?.labels() == own.into_image()?.labels()
    } else {
        let (theirs, own) = (model.into_encoder()?, own.into_encoder()?);
        theirs.head() == own.head() && theirs.labels() == own.labels()
    };
    let found: HashMap<&str, &Tensor> = theirs.iter().map(|(_, name, value)| (name, value)).collect();
    let source = |name: &str| {
        if has_same_head || !HEADS.contains(&part(name).as_str()) {
            return Some(name.to_owned()).filter(|name| found.contains_key(name.as_str()));
        }
        let rest = name.strip_prefix("classifier.")?;
        let layers = [name.to_owned(), format!("pooler.{rest}")];
        layers.into_iter().find(|name| found.contains_key(name.as_str()))
    };
    let declared: Vec<_> =
        parameters.declared().map(|(id, name, shape)| (id, name.to_owned(), shape.to_vec())).collect();
    let (mut fresh, mut used) = (BTreeSet::new(), BTreeSet::new());
    for (id, name, shape) in declared {
        let Some(source) = source(&name) else {
            fresh.insert(part(&name));
            continue;
        };
        let value = found[source.as_str()];
        if value.shape() != shape {
            let message = format!("{source} is {:?}, expected {shape:?}", value.shape());
            return Err(Error::run(folder, message, "leave [model] out: the folder has its config"));
        }
        parameters.set(id, value.clone());
        used.insert(source);
    }
    let dropped: BTreeSet<String> =
        found.keys().filter(|name| !used.contains(**name)).map(|name| part(name)).collect();
    Ok(Adopted { fresh: fresh.into_iter().collect(), dropped: dropped.into_iter().collect() })
}

/// The part of a model that a parameter belongs to: the first part of its name.
fn part(name: &str) -> String {
    name.split('.').next().unwrap_or_default().to_owned()
}
