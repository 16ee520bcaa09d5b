//! The text of an encoded input: what speech recognition and captioning share. Settings of the folder, search, and the
//! cross-attention of a text.

use polyhead_attention::{Capture, Filter, Pass, Site};
use polyhead_models::decode::beam::{BeamOptions, beam};
use polyhead_models::decode::greedy::greedy;
use polyhead_models::decode::length_penalty::LengthPenalty;
use polyhead_models::decode::rules::Rules;
use polyhead_models::decode::sample::{SampleOptions, sample};
use polyhead_models::decode::{DecodeOptions, Hypothesis};
use polyhead_models::text_decoder::{Encoded, EncodedDecoding, TextDecoder};
use polyhead_models::{Ids, SpecialIds};
use polyhead_tensor::{Parameters, Tape, Tensor};
use serde_json::Value;

use crate::settings::{Settings, ids, positive};
use crate::{Error, Result};

/// How the model of a folder writes (`generation_config.json`).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TextSettings {
    /// Forbidden and forced tokens.
    pub(crate) rules: Rules,
    /// Most tokens of a text, the start token included.
    pub(crate) max_length: usize,
    /// Beam size; default: 1.
    pub(crate) beam_size: usize,
    /// The exponent of the length penalty of beam search; default: 1.
    pub(crate) length_penalty: f64,
}

impl TextSettings {
    /// Those of a folder without a file.
    pub(crate) fn new(max_len: usize) -> Self {
        Self { rules: Rules::default(), max_length: max_len, beam_size: 1, length_penalty: 1.0 }
    }

    /// Reads those of a model with `max_len` positions.
    pub(crate) fn read(settings: &Settings, end_id: u32, max_len: usize) -> Result<Self> {
        let ends = settings.get("eos_token_id", "an id or a list of ids", ids)?;
        let ends = ends.unwrap_or_else(|| vec![end_id]);
        let length = settings.get("max_length", "a whole number of 1 or more", positive)?;
        Ok(Self {
            rules: settings.rules(Rules::default(), &ends, end_id)?,
            max_length: length.map_or(max_len, |most| most.min(max_len)),
            beam_size: settings.get("num_beams", "a whole number of 1 or more", positive)?.unwrap_or(1),
            length_penalty: settings.get("length_penalty", "a number", Value::as_f64)?.unwrap_or(1.0),
        })
    }

    /// The beam size of a search.
    ///
    /// # Errors
    /// If it is 0.
    pub(crate) fn beam_size(&self, given: Option<usize>) -> Result<usize> {
        match given.unwrap_or(self.beam_size) {
            0 => Err(Error::request("a beam size of 0, expected 1 or more", "1 is greedy decoding")),
            size => Ok(size),
        }
    }
}

/// A search for texts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextSearch {
    /// Beam size; 1 for greedy search.
    pub(crate) beam_size: usize,
    /// The exponent of the length penalty.
    pub(crate) length_penalty: f64,
    /// Temperature of sampling; 0 for none.
    pub(crate) temperature: f32,
    /// Random seed of sampling.
    pub(crate) seed: u64,
}

impl TextSearch {
    /// True if scores are divided by the length already.
    pub(crate) fn is_beam(&self) -> bool {
        self.temperature == 0.0 && self.beam_size > 1
    }

    /// The best text of each source.
    pub(crate) fn run(
        &self,
        decoding: &EncodedDecoding<'_>,
        sources: &[&[u32]],
        decode: DecodeOptions,
    ) -> Result<Vec<Hypothesis>> {
        let &Self { beam_size, length_penalty, temperature, seed } = self;
        if temperature > 0.0 {
            let options = SampleOptions { decode, temperature, seed, ..SampleOptions::default() };
            let drawn = sample(decoding, sources, &options)?;
            return Ok(drawn.into_iter().map(|mut samples| samples.remove(0)).collect());
        }
        if !self.is_beam() {
            return Ok(greedy(decoding, sources, &decode)?);
        }
        let length_penalty = LengthPenalty::Power(length_penalty);
        let options = BeamOptions { decode, beam_size, length_penalty, ..BeamOptions::default() };
        let best = beam(decoding, sources, &options)?;
        Ok(best.into_iter().map(|mut hypotheses| hypotheses.remove(0)).collect())
    }
}

/// The tokens of a hypothesis after a prefix, without the end token, and the mean log-probability of its tokens.
pub(crate) fn scored(
    hypothesis: &Hypothesis,
    (prefix, end_id): (usize, u32),
    search: &TextSearch,
) -> (Vec<u32>, f64) {
    let after = hypothesis.ids.get(prefix..).unwrap_or_default();
    // The score of a beam is divided by its length already.
    let length = if search.is_beam() { 1 } else { after.len().max(1) };
    let ids = after.strip_suffix(&[end_id]).unwrap_or(after).to_vec();
    (ids, hypothesis.score / length as f64)
}

/// The cross-attention of a text: which positions of the input each token attends to.
#[derive(Debug, Clone)]
pub struct TextAttention {
    /// The site that computed it.
    pub site: Site,
    /// heads × tokens × positions; the last row is that of the end token.
    pub weights: Tensor,
}

/// The cross-attention from each token of a text after a prefix, and from the end token, to one encoded input. Each row is that of
/// the position which predicts a token.
pub(crate) fn attend(
    (decoder, parameters): (&TextDecoder, &Parameters),
    (encoded, row): (&Encoded, usize),
    (prefix, text): (&[u32], &[u32]),
    (special, max_len): (SpecialIds, usize),
) -> Result<Vec<TextAttention>> {
    let wanted = Filter { kind: Some(decoder.cross_attention().kind), ..Filter::default() };
    let (tape, capture) = (Tape::inference(), Capture::on(wanted));
    let pass = Pass::new(&tape, parameters, &capture);
    let first = prefix.len();
    let given: Vec<u32> = std::iter::once(special.start_id).chain([prefix, text].concat()).collect();
    let given = &given[..given.len().min(max_len)];
    let one = encoded.one(&pass, row)?;
    let target = Ids::padded_to(std::iter::once(Some(given)), given.len(), special.pad_id);
    decoder.forward_encoded(&pass, &one, &target)?;
    let found = capture.take().weights.into_iter().map(|found| {
        let weights = found.weights.to_host()?;
        let &[_, n_heads, tokens, length] = weights.shape() else { unreachable!("four axes") };
        let kept = weights.data().chunks_exact(tokens * length).flat_map(|head| &head[first * length..]);
        let kept = kept.copied().collect();
        let weights = Tensor::new(&[n_heads, tokens - first, length], kept);
        Ok(TextAttention { site: found.site, weights })
    });
    found.collect()
}
