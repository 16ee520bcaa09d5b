//! The end of a run: the best of several models is kept, and a stop meanwhile loses nothing.

use std::sync::atomic::{AtomicBool, Ordering};

use polyhead_train::event::{BetterCheckpoint, Comparison, Ending, Event};
use polyhead_train::metrics_file::ValidLine;
use polyhead_train::{RunOptions, Start, train};

use crate::toy;

/// The comparison, the better checkpoint and the scores of a finished run, and the losses of its validations.
#[derive(Debug, Default)]
struct End {
    comparison: Option<Comparison>,
    better: Option<BetterCheckpoint>,
    scores: Option<ValidLine>,
    losses: Vec<f64>,
}

fn end(folder: &std::path::Path, overrides: &[&str]) -> End {
    let config = toy::config(folder, overrides);
    let mut end = End::default();
    train(&config, RunOptions::default(), &mut |event| match event {
        Event::Validated { line, .. } => end.losses.push(line.loss),
        Event::Finished { comparison, better, scores, .. } => {
            (end.comparison, end.better, end.scores) = (comparison.clone(), *better, scores.clone());
        }
        _ => {}
    })
    .unwrap();
    end
}

#[test]
fn the_best_of_several_models_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    // While the loss still falls, a mean of the last checkpoints is worse than the last one.
    let by_loss = ["validation.metric=loss", "checkpoint.final=compare"];
    let found = end(folder.path(), &by_loss);
    let least = found.losses.iter().copied().fold(f64::INFINITY, f64::min);
    let comparison = found.comparison.unwrap();
    assert_eq!((comparison.metric, comparison.models.len()), ("loss", 2), "{comparison:?}");
    let [best, mean] = &comparison.models[..] else { panic!("{comparison:?}") };
    assert!(best.made_of == "the checkpoint of step 40" && best.is_chosen && !mean.is_chosen);
    assert!(best.score == least && mean.score > least, "{comparison:?}");
    assert_eq!(found.scores.unwrap().loss, least);
    assert_eq!(found.better, None);
    let kept = toy::weights(&folder.path().join("run"));
    let step = std::fs::read(folder.path().join("run/checkpoints/step-00000040/model.safetensors")).unwrap();
    assert!(kept == step, "the kept model is the checkpoint of step 40");
}

#[test]
fn a_recipe_that_names_a_worse_model_is_obeyed_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let found = end(folder.path(), &["validation.metric=loss", "checkpoint.final=average_last"]);
    let better = found.better.unwrap();
    assert_eq!((better.step, better.metric, found.comparison), (40, "loss", None));
    assert!(better.score < better.finished && better.finished == found.scores.unwrap().loss);
}

#[test]
fn a_stop_while_models_are_compared_changes_nothing() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let overrides = ["checkpoint.final=compare", "checkpoint.average=3"];
    let configs = folders.each_ref().map(|folder| toy::config(folder.path(), &overrides));
    train(&configs[0], RunOptions::default(), &mut |_| {}).unwrap();
    let stop = AtomicBool::new(false);
    let options = RunOptions { stop: Some(&stop), ..RunOptions::default() };
    let stopped = train(&configs[1], options, &mut |event| {
        if matches!(event, Event::Validating { model: Some(_), .. }) {
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert_eq!(stopped.unwrap().ending, Ending::Stopped);
    let run = folders[1].path().join("run");
    assert!(!run.join("model/SHA256SUMS").exists());
    let options = RunOptions { start: Start::Resume, ..RunOptions::default() };
    assert_eq!(train(&configs[1], options, &mut |_| {}).unwrap().ending, Ending::Steps);
    assert!(toy::weights(&run) == toy::weights(&folders[0].path().join("run")));
}
