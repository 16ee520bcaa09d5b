//! What a run is going to be, told before its first step; what cannot fit is refused.

use polyhead_models::transformer::Translator;
use polyhead_tensor::Parameters;

use crate::config::RunConfig;
use crate::event::{Event, Plan};
use crate::learner::LearnerOptions;
use crate::memory::{Forecast, available};
use crate::preparation::Preparation;
use crate::{Error, Result};

/// Tells what the run is going to be; refuses what cannot fit.
pub(super) fn plan(
    config: &RunConfig,
    preparation: &Preparation,
    options: LearnerOptions,
    tell: &mut dyn FnMut(&Event),
) -> Result<()> {
    let mut parameters = Parameters::default();
    Translator::new(&preparation.model, &mut parameters)?;
    let epoch = preparation.data.epoch(Preparation::batches(config), 0)?;
    let [rows, source, target] = epoch.largest();
    // A value, a gradient, two moments, and a moving average if one is kept.
    let copies = if options.ema > 0.0 { 5 } else { 4 };
    let data = preparation.data.tokens().iter().sum::<usize>() * size_of::<u32>();
    let largest = [rows * options.copies(), source, target];
    let forecast = Forecast::new(&preparation.model, (parameters.count(), copies), largest, data);
    let available = available();
    tell(&Event::Planned(Plan {
        parameters: parameters.count(),
        vocab_sizes: preparation.vocabulary.sizes(),
        batches: epoch.len(),
        padding: epoch.padding(),
        forecast,
        available,
        threads: rayon::current_num_threads(),
        out: config.out.clone(),
    }));
    match available {
        Some(available) if forecast.total() > available => Err(Error::Memory {
            message: format!(
                "the run needs about {:.1} GB ({:.1} for parameters, {:.1} for the largest batch of {} × ({source} + \
                 {target}) tokens), and {:.1} GB are free",
                forecast.total() as f64 / 1e9,
                forecast.parameters as f64 / 1e9,
                forecast.batch as f64 / 1e9,
                largest[0],
                available as f64 / 1e9
            ),
        }),
        _ => Ok(()),
    }
}
