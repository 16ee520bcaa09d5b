//! Vocabulary shortlist: logits of selected target ids only, for texts whose words are known in advance.
//!
//! The output layer is a large part of a decoding step (two fifths of the base model's products at 32,000 tokens); with n
//! of V ids it shrinks to n/V. Ids that are not on the list get −∞ and are never generated. Jean et al. 2015 select
//! candidate words in a similar way.

use polyhead_tensor::ops::linear::Activation;
use polyhead_tensor::{Dtype, Parameters, Prepared, Tensor};

use crate::decode::NextToken;
use crate::sequence_to_sequence::{Decoding, DecodingState, SequenceToSequence};
use crate::{Error, Result};

/// The rows of the output layer for selected target ids.
#[derive(Debug, Clone)]
pub struct Shortlist {
    ids: Vec<u32>,
    rows: Prepared,
    bias: Option<Vec<f32>>,
    vocab_size: usize,
}

impl Shortlist {
    /// A shortlist of `ids`, in any order; the end token is always included, so that sentences can end.
    ///
    /// # Errors
    /// If an id is outside the target vocabulary.
    pub fn new(model: &SequenceToSequence, parameters: &Parameters, ids: &[u32]) -> Result<Self> {
        let ([_, vocab_size], end_id) = (model.vocab_sizes(), model.special_ids().end_id);
        let mut ids: Vec<u32> = ids.iter().copied().chain([end_id]).collect();
        ids.sort_unstable();
        ids.dedup();
        if let Some(id) = ids.iter().find(|id| **id as usize >= vocab_size) {
            let message = format!("id {id} is on the shortlist, expected ids below {vocab_size}");
            return Err(Error::Request { message });
        }
        let (weight, bias) = model.output_parameters();
        let rows = match parameters.prepared(weight) {
            Some(prepared) => prepared.select(&ids),
            None => Prepared::new(&parameters.value(weight).to_host()?, Dtype::F32).select(&ids),
        };
        let bias = bias.map(|bias| parameters.value(bias).to_host()).transpose()?;
        let bias = bias.map(|bias| ids.iter().map(|&id| bias.data()[id as usize]).collect());
        Ok(Self { ids, rows, bias, vocab_size })
    }

    /// Number of ids on the list.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// True if the list is empty, which it never is: it holds at least the end token.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Logits: x (rows × d_model) → rows × vocab_size, −∞ for ids that are not on the list.
    fn logits(&self, x: &Tensor) -> Tensor {
        let few = self.rows.linear(x, self.bias.as_deref(), Activation::None);
        let rows = few.len() / self.ids.len();
        let mut all = Tensor::new(&[rows, self.vocab_size], vec![f32::NEG_INFINITY; rows * self.vocab_size]);
        let rows = all.data_mut().chunks_exact_mut(self.vocab_size);
        for (all, few) in rows.zip(few.data().chunks_exact(self.ids.len())) {
            self.ids.iter().zip(few).for_each(|(&id, &logit)| all[id as usize] = logit);
        }
        all
    }
}

/// A model restricted to a shortlist.
#[derive(Debug, Clone, Copy)]
pub struct Shortlisted<'a> {
    /// The model.
    pub decoding: Decoding<'a>,
    /// The target ids it may generate.
    pub shortlist: &'a Shortlist,
}

impl NextToken for Shortlisted<'_> {
    type State = DecodingState;

    fn start(&self, sources: &[&[u32]], n_rows: usize) -> Result<DecodingState> {
        self.decoding.start(sources, n_rows)
    }

    fn step(&self, state: &mut DecodingState, tokens: &[u32]) -> Result<Tensor> {
        Ok(self.shortlist.logits(&self.decoding.hidden(state, tokens)?))
    }

    fn reorder(&self, state: &mut DecodingState, rows: &[usize]) {
        self.decoding.reorder(state, rows);
    }
}
