//! The finished model of a run: the best checkpoint or an average of several, validated as it will be used.

use std::path::{Path, PathBuf};

use polyhead_tensor::Device;

use crate::Result;
use crate::average::{Averaged, average};
use crate::checkpoint::{Checkpoints, write_sums};
use crate::config::{FinalModel, RunConfig};
use crate::model_folder::ModelFolder;
use crate::objective::{Candidate, Objective, Validation, ValidationSet as _};
use crate::preparation::Preparation;
use crate::run_folder::MODEL;
use crate::state::TrainerState;
use crate::task::Task;

/// The finished model.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) path: PathBuf,
    /// The checkpoints that it is made of.
    pub(crate) made_of: String,
    /// Validation with the beam size that it will be used with.
    pub(crate) validation: Option<Validation>,
}

/// Writes the finished model of a run.
pub(crate) fn finish<O: Objective>(
    run: &RunConfig,
    preparation: &Preparation<O>,
    state: &TrainerState,
    (folder, device): (&Path, &Device),
) -> Result<Finished> {
    let checkpoints = Checkpoints::of_run(folder);
    let steps = chosen(run, state, &checkpoints);
    let folders: Vec<PathBuf> = steps.iter().map(|&step| checkpoints.path(step)).collect();
    let Averaged { model, parameters } = average(&folders)?;
    let config = model.config();
    let objective = O::new(model)?;
    let names: Vec<String> = steps.iter().map(u64::to_string).collect();
    let made_of = match names.as_slice() {
        [one] => format!("the checkpoint of step {one}"),
        several => format!("the mean of {} checkpoints, steps {}", several.len(), several.join(", ")),
    };
    let path = folder.join(MODEL);
    let dtype = run.checkpoint.dtype;
    let model_folder = ModelFolder { run, config: &config, vocabulary: &preparation.vocabulary };
    let readme = |validation: Option<&Validation>| model_card(run, state, &made_of, validation);
    model_folder.write(&path, &parameters, dtype, &readme(None))?;
    let validation = match &preparation.valid {
        None => None,
        Some(valid) => {
            let candidate =
                Candidate { objective: &objective, parameters: &parameters, folder: &path, device };
            let validation = valid.validate_finished(candidate, run.checkpoint.beam_size)?;
            model_folder.write(&path, &parameters, dtype, &readme(Some(&validation)))?;
            Some(validation)
        }
    };
    write_sums(&path)?;
    Ok(Finished { path, made_of, validation })
}

/// The steps whose checkpoints make the finished model, ascending.
fn chosen(run: &RunConfig, state: &TrainerState, checkpoints: &Checkpoints) -> Vec<u64> {
    let there = checkpoints.steps();
    let last = || there.last().copied().into_iter().collect::<Vec<u64>>();
    let those = |steps: &[u64]| {
        let mut steps: Vec<u64> = steps.iter().copied().filter(|step| there.contains(step)).collect();
        steps.sort_unstable();
        if steps.is_empty() { last() } else { steps }
    };
    match run.checkpoint.r#final {
        FinalModel::Best => those(&state.best_steps(1)),
        FinalModel::AverageBest => those(&state.best_steps(run.checkpoint.average)),
        FinalModel::AverageLast => those(state.last_milestones(run.checkpoint.average)),
        FinalModel::Last => last(),
    }
}

/// Text of the model's README.
fn model_card(
    run: &RunConfig,
    state: &TrainerState,
    made_of: &str,
    validation: Option<&Validation>,
) -> String {
    let mut text = format!(
        "Trained by Polyhead {} with seed {}: {} steps, {} target tokens, {:.0} minutes. These weights are {made_of}.\n",
        env!("CARGO_PKG_VERSION"),
        run.seed,
        state.step,
        state.target_tokens,
        state.seconds / 60.0
    );
    if let Some(found) = validation {
        text += &format!("\nOn the validation set: cross-entropy {:.4} per token", found.loss);
        for (name, score) in &found.scores {
            text += &format!(", {name} {score:.2}");
        }
        text += &match Task::of(&run.model) {
            Task::Translation => format!(" (beam {}).\n", run.checkpoint.beam_size),
            Task::Classification => ".\n".into(),
        };
    }
    format!("{text}\n{}\n", Task::of(&run.model).usage())
}
