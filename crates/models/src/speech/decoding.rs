//! A speech recogniser for the searches of [`crate::decode`]. A source is the index of an encoded sound, so that several
//! searches share one pass of the encoder.

use polyhead_attention::{Capture, Pass, Watch};
use polyhead_tensor::{Parameters, Tape, Tensor};

use super::recognizer::{EncodedSpeech, SpeechRecognizer};
use crate::Result;
use crate::decode::NextToken;
use crate::transformer::decoder::DecoderState;

/// A speech recogniser with its parameters and encoded sounds, ready to decode.
#[derive(Debug, Clone, Copy)]
pub struct SpeechDecoding<'a> {
    /// The model.
    pub model: &'a SpeechRecognizer,
    /// The values of its parameters.
    pub parameters: &'a Parameters,
    /// Captured weights and activations.
    pub capture: &'a Capture,
    /// The sounds; the source of a search is the index of one.
    pub encoded: &'a EncodedSpeech,
    /// Whether the tokens are still wanted, asked before each step; default: always.
    pub watch: Option<Watch<'a>>,
}

impl SpeechDecoding<'_> {
    fn with_pass<T>(&self, work: impl FnOnce(&Pass<'_>) -> Result<T>) -> Result<T> {
        let tape = Tape::inference();
        work(&Pass::new(&tape, self.parameters, self.capture))
    }
}

impl NextToken for SpeechDecoding<'_> {
    type State = DecoderState;

    fn start(&self, sources: &[&[u32]], n_rows: usize) -> Result<DecoderState> {
        let rows: Vec<usize> = sources.iter().map(|source| source[0] as usize).collect();
        self.with_pass(|pass| self.model.start(pass, &self.encoded.select(pass, &rows)?, n_rows))
    }

    fn step(&self, state: &mut DecoderState, tokens: &[u32]) -> Result<Tensor> {
        if self.watch.is_some_and(|Watch(is_wanted)| !is_wanted()) {
            return Err(polyhead_tensor::Error::Cancelled.into());
        }
        self.with_pass(|pass| self.model.step(pass, state, tokens))
    }

    fn reorder(&self, state: &mut DecoderState, rows: &[usize]) {
        state.reorder(rows);
    }
}
