//! What a run is going to be, told before its first step; what cannot fit is refused.

use polyhead_models::Model;
use polyhead_tensor::{Device, Parameters};

use crate::config::RunConfig;
use crate::event::{Event, Plan};
use crate::learner::{EpochOf, LearnerOptions};
use crate::memory::{Forecast, available};
use crate::objective::{Dataset as _, EpochBatches as _, Objective, rounding};
use crate::preparation::{Preparation, batches};
use crate::{Error, Result};

/// Tells what the run is going to be; refuses what cannot fit. Gives the first epoch, which it had to make for that.
pub(super) fn plan<O: Objective>(
    config: &RunConfig,
    preparation: &Preparation<O>,
    device: &Device,
    tell: &mut dyn FnMut(&Event),
) -> Result<EpochOf<O>> {
    let options = LearnerOptions::new(config);
    let mut parameters = Parameters::default();
    Model::new(&preparation.model, &mut parameters)?;
    let epoch = preparation.data.epoch(batches(config), 0)?;
    let rounding = rounding(device, preparation.model.max_len());
    let [rows, source, target] = epoch.largest(rounding);
    // A value, a gradient, two moments, and a moving average if one is kept.
    let copies = if options.ema > 0.0 { 5 } else { 4 };
    let data = preparation.data.tokens().iter().sum::<usize>() * size_of::<u32>();
    let largest = [rows * options.copies(), source, target];
    let mut forecast = Forecast::new(&preparation.model, (parameters.count(), copies), largest, data);
    let (mut free, mut place) = (available(), "this machine".to_owned());
    let mut needed = forecast.total();
    if let Some([own, _]) = device.memory()? {
        forecast = forecast.on_gpu(device.math());
        // A GPU says itself what did not fit; the forecast of a batch is a CPU's.
        (free, place, needed) = (Some(own), device.name(), forecast.parameters);
    }
    tell(&Event::Planned(Plan {
        parameters: parameters.count(),
        vocab_sizes: preparation.vocabulary.sizes(),
        batches: epoch.len(),
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
