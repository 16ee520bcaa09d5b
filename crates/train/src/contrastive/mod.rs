//! Contrastive training of text vectors (SimCSE, Gao et al. 2021; InfoNCE, van den Oord et al. 2018): of all targets of a batch, a
//! source is to be most similar to its own.
//!
//! v(x) = mean of the states of x, of length 1; loss = cross-entropy of softmax(v(sourceᵢ)·v(targetⱼ) / T) at j = i, and with
//! `symmetric` its mean with the same from targets to sources.

mod dataset;
mod judged;
pub(crate) mod modules;
mod validation;

use polyhead_attention::Pass;
use polyhead_attention::layers::Pooling;
use polyhead_models::{Encoder, Ids, Model};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::elementwise::{add, scale};
use polyhead_tensor::ops::matmul::{Layout, MatmulOptions, matmul};
use polyhead_tensor::ops::norm::NormOptions;
use polyhead_tensor::ops::rms_norm::rms_norm;
use polyhead_tensor::{Parameters, Tensor, Var};

pub(crate) use self::dataset::PairBatch;
use self::dataset::TextPairs;
use self::validation::PairValidation;
use crate::Result;
use crate::config::RunConfig;
use crate::objective::{LossOptions, Objective, Prepared};
use crate::preparation::{Corpora, encoder_facts, refuse_pair_settings};
use crate::vocabulary::Vocabulary;

/// Added to the mean of the squares of a vector, against division by zero.
const EPSILON: f32 = 1e-12;

/// The objective of a model whose vectors of paired texts are similar.
#[derive(Debug)]
pub(crate) struct Contrastive {
    model: Encoder,
}

impl Objective for Contrastive {
    type Batch = PairBatch;
    type Data = TextPairs;
    type Valid = PairValidation;

    fn new(model: Model) -> Result<Self> {
        Ok(Self { model: model.into_encoder()? })
    }

    fn prepare(
        config: &RunConfig,
        corpora: &Corpora,
        vocabulary: Option<&Vocabulary>,
    ) -> Result<Prepared<Self>> {
        let vocabulary = vocabulary.expect("a task on text has a vocabulary");
        refuse_pair_settings(config, "both texts of a pair are read by one encoder")?;
        let model = config.model.with_data(&encoder_facts(config, vocabulary))?;
        // Without weights: only its properties are needed here.
        let reader = Encoder::new(&model, &mut Parameters::default())?;
        let longest = config.data.max_length.min(model.max_len()).min(config.train.max_tokens);
        let read = |corpora| TextPairs::read(corpora, vocabulary, &reader, (longest, config.contrastive));
        let data = read(&corpora.train)?;
        let valid = (!corpora.valid.is_empty())
            .then(|| PairValidation::new(&read(&corpora.valid)?, &corpora.valid, config))
            .transpose()?;
        Ok(Prepared { model, data, valid })
    }

    fn loss(&self, pass: &Pass<'_>, batch: &PairBatch, options: LossOptions) -> Result<(Var, Tensor)> {
        let options = CrossEntropyOptions { label_smoothing: options.label_smoothing, ignored_id: None };
        let PairBatch { sources, targets, partners, config, .. } = batch;
        let [sources, targets] = [self.vectors(pass, sources)?, self.vectors(pass, targets)?];
        let [_, width] = *sources.shape() else { unreachable!("vectors are rows × width") };
        let transposed = MatmulOptions { right: Layout::Transposed, ..MatmulOptions::default() };
        let one_way = |from: &Var, to: &Var| -> Result<Var> {
            let products = matmul(pass.tape, from, to, transposed)?;
            // The vectors have length √width.
            let scores = scale(pass.tape, &products, 1.0 / (width as f32 * config.temperature));
            Ok(cross_entropy(pass.tape, &scores, partners, options)?)
        };
        let mut loss = one_way(&sources, &targets)?;
        if config.symmetric {
            let both = add(pass.tape, &loss, &one_way(&targets, &sources)?)?;
            loss = scale(pass.tape, &both, 0.5);
        }
        let value = loss.value().clone();
        Ok((loss, value))
    }
}

impl Contrastive {
    /// Vectors of texts, of length √width: rows × width.
    fn vectors(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        let states = self.model.states(pass, ids)?;
        let mean = Pooling::Mean.forward(pass, &states, ids.lengths())?;
        let width = mean.shape()[1];
        let ones = Tensor::new(&[width], vec![1.0; width]).to_device(&pass.parameters.device())?;
        let options = NormOptions { epsilon: EPSILON, dropout: 0.0 };
        Ok(rms_norm(pass.tape, &mean, None, &Var::constant(ones), options)?)
    }
}
