//! The plan of a run, reported before its first step; a run that does not fit into memory is refused.

use polyhead_models::Model;
use polyhead_models::checkpoint::CheckpointLayout;
use polyhead_tensor::{Device, Parameters};

use crate::config::RunConfig;
use crate::event::{Event, RunPlan};
use crate::init::StepForecast;
use crate::learner::{EpochOf, LearnerOptions};
use crate::memory::{Forecast, available};
use crate::objective::{Dataset as _, EpochBatches as _, Objective, rounding};
use crate::preparation::{Preparation, batches};
use crate::{Error, Result};

/// Reports the plan of a run and refuses one that does not fit into memory. Returns epoch 0, which was built for the estimate.
pub(super) fn plan<O: Objective>(
    config: &RunConfig,
    preparation: &Preparation<O>,
    device: &Device,
    on_event: &mut dyn FnMut(&Event),
) -> Result<EpochOf<O>> {
    let options = LearnerOptions::new(config);
    let mut parameters = Parameters::default();
    Model::new(&preparation.model, &mut parameters)?;
    let epoch = preparation.data.epoch(batches(config), 0)?;
    let rounding = rounding(device, preparation.model.max_len());
    let [rows, source, target] = epoch.largest(rounding);
    // A value, a gradient, two Adam moments, and a moving average if there is one.
    let copies = if options.ema > 0.0 { 5 } else { 4 };
    let data = preparation.data.bytes();
    let largest = [rows * options.copies(), source, target];
    let mut forecast = Forecast::new(&preparation.model, (parameters.count(), copies), largest, data);
    let (mut free, mut place) = (available(), "this machine".to_owned());
    let mut needed = forecast.total();
    if let Some([own, _]) = device.memory()? {
        forecast = forecast.on_gpu(device.math());
        // A GPU reports by itself what did not fit; the forecast of a batch is that of a CPU.
        (free, place, needed) = (Some(own), device.name(), forecast.parameters);
    }
    let steps = StepForecast::of_batches(&config.train, epoch.len() as u64);
    on_event(&Event::Planned(RunPlan {
        parameters: parameters.count(),
        vocab_sizes: preparation.model.vocab_sizes(),
        batches: epoch.len(),
        steps,
        layout: CheckpointLayout::fitting(&preparation.model),
        sizes: device.policy().wants_few_shapes.then(|| epoch.n_sizes(rounding)),
        padding: epoch.padding(rounding),
        forecast,
        available: free,
        threads: rayon::current_num_threads(),
        out: config.out.clone(),
    }));
    match free {
        Some(free) if needed > free => Err(Error::Memory {
            message: format!(
                "the run needs about {:.1} GB ({:.1} for parameters, {:.1} for the largest batch of {} × ({source} + \
                 {target}) tokens), and {:.1} GB are free on {place}",
                forecast.total() as f64 / 1e9,
                forecast.parameters as f64 / 1e9,
                forecast.batch as f64 / 1e9,
                largest[0],
                free as f64 / 1e9,
            ),
        }),
        _ => Ok(epoch),
    }
}
