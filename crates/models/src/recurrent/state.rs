//! The decoder state of a batch of hypotheses: the state of every layer, and the source that each row attends to.

use polyhead_attention::Memory;
use polyhead_tensor::ops::embedding::{EmbeddingOptions, embedding};
use polyhead_tensor::{Device, Indices, Result, Tape, Var};

use super::decoder::StepState;
use crate::copying::CopySources;
use crate::ids::Ids;

/// Decoder state: h and c of every row, and the encoder's states of its sentence.
#[derive(Debug)]
pub struct RecurrentState {
    step: StepState,
    /// Keys and values, one row per sentence.
    sentence_memory: Option<Memory>,
    /// The same, one row per hypothesis; `None` if it has to be gathered again.
    row_memory: Option<Memory>,
    /// The sources, for lengths and copying.
    sources: CopySources,
    /// Number of tokens of each sentence.
    lengths: Vec<u32>,
    /// The sentence of each row.
    sentences: Vec<usize>,
    /// Rows of the previous step that the next one continues; `None`: all, in order.
    parents: Option<Vec<usize>>,
}

impl RecurrentState {
    /// A state with one row per sentence.
    pub(super) fn new(step: StepState, memory: Option<Memory>, source: &Ids) -> Self {
        let (row_memory, sentences) = (memory.clone(), (0..source.rows()).collect());
        Self {
            step,
            sentence_memory: memory,
            row_memory,
            sources: CopySources::new(source, None),
            lengths: source.lengths().host().to_vec(),
            sentences,
            parents: None,
        }
    }

    /// The source sentence of each row.
    pub fn sentences(&self) -> &[usize] {
        &self.sentences
    }

    /// The ids of the source of each row.
    pub(super) fn source_ids(&self) -> Indices {
        self.sources.ids(&self.sentences)
    }

    /// Replaces row i by row `rows[i]`, at the next step.
    pub fn reorder(&mut self, rows: &[usize]) {
        let sentences: Vec<usize> = rows.iter().map(|&row| self.sentences[row]).collect();
        if sentences != self.sentences {
            (self.sentences, self.row_memory) = (sentences, None);
        }
        self.parents = Some(match self.parents.take() {
            None => rows.to_vec(),
            Some(before) => rows.iter().map(|&row| before[row]).collect(),
        });
    }

    /// The state and the memory of the rows of the next step.
    pub(super) fn for_step(&mut self, device: &Device) -> Result<(&mut StepState, Option<&Memory>)> {
        if let Some(parents) = self.parents.take() {
            let rows: Indices = parents.iter().map(|&row| row as u32).collect();
            let rows = rows.to_device(device)?;
            let layers = self.step.layers.iter_mut();
            let all = layers
                .flat_map(|layer| layer.tape.iter_mut().chain(&mut layer.output).chain([&mut layer.state]));
            for state in all.chain(&mut self.step.vector).chain(&mut self.step.covered) {
                *state = gathered(state, &rows)?;
            }
        }
        if let (None, Some(memory)) = (&self.row_memory, &self.sentence_memory) {
            self.row_memory = Some(gathered_memory(memory, &self.sentences, &self.lengths, device)?);
        }
        Ok((&mut self.step, self.row_memory.as_ref()))
    }
}

/// The memory of rows, given the sentence of each and the lengths of the sentences.
pub(crate) fn gathered_memory(
    memory: &Memory,
    sentences: &[usize],
    lengths: &[u32],
    device: &Device,
) -> Result<Memory> {
    let lengths: Indices = sentences.iter().map(|&sentence| lengths[sentence]).collect();
    let rows: Indices = sentences.iter().map(|&sentence| sentence as u32).collect();
    let rows = rows.to_device(device)?;
    Ok(Memory {
        keys: gathered(&memory.keys, &rows)?,
        values: gathered(&memory.values, &rows)?,
        lengths: lengths.to_device(device)?,
    })
}

/// Entries of the first axis of `x`, in the order of `rows`.
pub(super) fn gathered(x: &Var, rows: &Indices) -> Result<Var> {
    let mut shape = x.shape().to_vec();
    let count = shape[0];
    shape[0] = rows.len();
    let table = x.reshaped(&[count, x.value().len() / count.max(1)]);
    let found = embedding(&Tape::inference(), rows, 1, &table, &EmbeddingOptions::default())?;
    Ok(found.reshaped(&shape))
}
