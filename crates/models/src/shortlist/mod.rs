//! Vocabulary shortlist: logits of selected target ids only.
//!
//! The output layer is a large part of a decoding step (two fifths of the base model's products at 32,000 tokens); with n
//! of V ids it shrinks to n/V. Ids that are not on the list get −∞ and are never generated. The list is the same for all
//! sentences, for texts whose words are known in advance, or each sentence has its own ([`LexicalShortlist`]). Jean et al.
//! 2015 select candidate words in a similar way.
//!
//! A batch computes the logits of all ids that any of its sentences lists, by one product; each sentence then reads those
//! of its own list, so its result does not depend on its batch.

pub mod lexical;

use polyhead_tensor::ops::linear::Activation;
use polyhead_tensor::{Dtype, Parameters, Prepared, Tensor};

pub use self::lexical::{LexicalShortlist, LexicalTable};
use crate::copying::unsupported;
use crate::decode::rows::spread;
use crate::decode::{ListedLogits, NextToken, StepLogits};
use crate::sequence_to_sequence::{Decoding, DecodingState, SequenceToSequence};
use crate::{Error, Result};

/// The rows of the output layer for selected target ids.
#[derive(Debug, Clone)]
pub struct Shortlist {
    /// The ids of all lists, ascending.
    ids: Vec<u32>,
    rows: Prepared,
    bias: Option<Vec<f32>>,
    vocab_size: usize,
    /// The list of each sentence; empty if all sentences have the list `ids`.
    lists: Vec<SentenceList>,
}

/// The ids of one sentence, ascending, and where they are among those of all lists.
#[derive(Debug, Clone)]
struct SentenceList {
    ids: Vec<u32>,
    columns: Vec<u32>,
}

impl Shortlist {
    /// A shortlist of `ids`, in any order; the end token is always included, so that sentences can end.
    ///
    /// # Errors
    /// If an id is outside the target vocabulary.
    pub fn new(model: &SequenceToSequence, parameters: &Parameters, ids: &[u32]) -> Result<Self> {
        let ([_, vocab_size], end_id) = (model.vocab_sizes(), model.special_ids().end_id);
        if model.copies() {
            let reason = "it writes words that no list has; leave out the shortlist";
            return Err(unsupported("a shortlist", reason));
        }
        let ids = ascending(ids.iter().copied().chain([end_id]).collect());
        if let Some(id) = ids.iter().find(|id| **id as usize >= vocab_size) {
            return Err(outside(*id, vocab_size));
        }
        let (weight, bias) = model.output_parameters();
        let rows = match parameters.prepared(weight) {
            Some(prepared) => prepared.select(&ids),
            None => Prepared::new(&parameters.value(weight).to_host()?, Dtype::F32).select(&ids),
        };
        let bias = bias.map(|bias| parameters.value(bias).to_host()).transpose()?;
        let bias = bias.map(|bias| ids.iter().map(|&id| bias.data()[id as usize]).collect());
        Ok(Self { ids, rows, bias, vocab_size, lists: Vec::new() })
    }

    /// A shortlist for each sentence of a batch, in the order of the sources that decoding starts from.
    ///
    /// # Errors
    /// If an id is outside the target vocabulary.
    pub fn of_sentences(
        model: &SequenceToSequence,
        parameters: &Parameters,
        lists: &[Vec<u32>],
    ) -> Result<Self> {
        let ([_, vocab_size], end_id) = (model.vocab_sizes(), model.special_ids().end_id);
        // The column of each id; sorting the ids of all lists would take longer.
        let mut columns = vec![u32::MAX; vocab_size];
        for &id in lists.iter().flatten().chain([&end_id]) {
            *columns.get_mut(id as usize).ok_or_else(|| outside(id, vocab_size))? = 0;
        }
        let ids: Vec<u32> =
            (0..).zip(&columns).filter(|(_, column)| **column == 0).map(|(id, _)| id).collect();
        ids.iter().zip(0..).for_each(|(&id, column)| columns[id as usize] = column);
        let all = Self::new(model, parameters, &ids)?;
        let list = |ids: &Vec<u32>| {
            let ids = ascending(ids.iter().copied().chain([end_id]).collect());
            SentenceList { columns: ids.iter().map(|&id| columns[id as usize]).collect(), ids }
        };
        let lists = lists.iter().map(list).collect();
        Ok(Self { lists, ..all })
    }

    /// Number of ids on all lists together.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// True if the list is empty, which it never is: it holds at least the end token.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Logits: x (rows × d_model) → the logits of each row's list; row i belongs to `sentences[i]`.
    fn logits(&self, x: &Tensor, sentences: &[usize]) -> Vec<ListedLogits<'_>> {
        let logits = self.rows.linear(x, self.bias.as_deref(), Activation::None);
        if self.lists.len() < 2 {
            return vec![ListedLogits { logits, ids: &self.ids }];
        }
        let mut rows = logits.data().chunks_exact(self.ids.len());
        let of_sentence = |group: &[usize]| {
            let SentenceList { ids, columns } = &self.lists[group[0]];
            let mut own = Vec::with_capacity(group.len() * ids.len());
            for row in rows.by_ref().take(group.len()) {
                own.extend(columns.iter().map(|&column| row[column as usize]));
            }
            ListedLogits { logits: Tensor::new(&[group.len(), ids.len()], own), ids }
        };
        sentences.chunk_by(|a, b| a == b).map(of_sentence).collect()
    }
}

fn outside(id: u32, vocab_size: usize) -> Error {
    let message = format!("id {id} is on the shortlist, expected ids below {vocab_size}");
    Error::Request { message }
}

/// Sorts ids and removes repetitions.
fn ascending(mut ids: Vec<u32>) -> Vec<u32> {
    ids.sort_unstable();
    ids.dedup();
    ids
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
        let n_lists = self.shortlist.lists.len();
        if n_lists != 0 && n_lists != sources.len() {
            let message = format!("{n_lists} shortlists for {} sources, expected one each", sources.len());
            return Err(Error::Request { message });
        }
        self.decoding.start(sources, n_rows)
    }

    fn step(&self, state: &mut DecodingState, tokens: &[u32]) -> Result<Tensor> {
        let x = self.decoding.hidden(state, tokens)?;
        let groups = self.shortlist.logits(&x, state.sentences());
        Ok(spread(groups.iter().map(|group| (group.ids, &group.logits)), self.shortlist.vocab_size))
    }

    fn step_listed(&self, state: &mut DecodingState, tokens: &[u32]) -> Result<StepLogits<'_>> {
        let x = self.decoding.hidden(state, tokens)?;
        let groups = self.shortlist.logits(&x, state.sentences());
        Ok(StepLogits::Listed { groups, vocab_size: self.shortlist.vocab_size })
    }

    fn reorder(&self, state: &mut DecodingState, rows: &[usize]) {
        self.decoding.reorder(state, rows);
    }
}
