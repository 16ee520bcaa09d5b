//! The trace of a classification.

use polyhead_attention::{Filter, Intervention};
use polyhead_engine::Classifier;
use polyhead_tensor::ops::softmax::softmax;
use polyhead_tensor::{Tape, Var};

use super::{CaptureVectors, ObserveOptions, Trace, TraceOutcome, TraceSide, observe_classes};
use crate::Result;

/// Name of the only sequence.
const SIDE: &str = "text";

impl Trace {
    /// Classifies `text` and records the trace.
    ///
    /// # Errors
    /// If the text is empty or too long.
    pub fn of_classes(
        classifier: &Classifier,
        text: &str,
        filter: &Filter,
        intervention: &Intervention,
    ) -> Result<Self> {
        let encoding = classifier.encode(text)?;
        let model = classifier.model();
        let options = ObserveOptions {
            filter: filter.clone(),
            vectors: CaptureVectors::Yes,
            intervention: Some(intervention).filter(|changed| !changed.is_empty()),
        };
        let seen = observe_classes(model, classifier.parameters(), &encoding.ids, &options)?;
        let probabilities = softmax(&Tape::inference(), &Var::constant(seen.logits));
        let probabilities = probabilities.value().to_host().map_err(polyhead_models::Error::from)?;
        Ok(Self {
            sites: model.sites(),
            d_model: model.config().d_model(),
            sides: vec![TraceSide::new(SIDE, text, encoding)],
            outcome: TraceOutcome::Classes(classifier.classes(probabilities.data())),
            attentions: seen.attentions,
            vectors: seen.vectors,
            intervention: intervention.clone(),
        })
    }
}
