//! BPE-dropout: at each step of encoding a word, every possible merge is skipped with probability p.
//!
//! Provilkov, Emelianenko & Voita 2020, *BPE-dropout: simple and effective subword regularization*. The same text is
//! segmented differently in each epoch, which exposes the composition of subwords to the model. The segmentation is a
//! pure function of the text and (seed, stream), on any machine and in any order.

use std::cell::Cell;

use ahash::AHashMap;
use polyhead_random::Random;
use tokenizers::models::bpe::BPE;
use tokenizers::{Encoding, OffsetType, PreTokenizer as _, Token, Tokenizer};

use super::hugging_face::bpe_json;
use crate::Error;

/// Options of BPE-dropout.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BpeDropout {
    /// Probability of skipping a merge; the paper uses 0.1.
    pub probability: f64,
    /// Random numbers: one stream per text and epoch.
    pub random: Random,
}

impl BpeDropout {
    /// The error for a tokeniser other than BPE.
    pub(crate) fn unsupported() -> Error {
        Error::Option {
            name: "--dropout",
            found: "a tokeniser without merges".into(),
            expected: "kind bpe".into(),
            hint: "train one with: polyhead tokenizer train --kind bpe".into(),
        }
    }
}

/// A BPE model in the form that dropout needs.
#[derive(Debug, Clone)]
pub(crate) struct MergeTable {
    /// (left, right) → (rank, merged).
    merges: AHashMap<(u32, u32), (u32, u32)>,
    ids: AHashMap<String, u32>,
    pieces: AHashMap<u32, String>,
    unknown: Option<u32>,
    byte_fallback: bool,
    fuse_unknown: bool,
    prefix: String,
    suffix: String,
}

/// A subword during the merging of a word.
#[derive(Clone, Copy)]
struct Symbol {
    id: u32,
    /// Length in bytes.
    len: usize,
}

impl MergeTable {
    /// Reads the merges and vocabulary of a model; the error names what is missing.
    pub(crate) fn new(bpe: &BPE) -> Result<Self, String> {
        let json = bpe_json(bpe);
        let ids: AHashMap<String, u32> = bpe.get_vocab().into_iter().collect();
        let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        let prefix = text("continuing_subword_prefix");
        let mut merges = AHashMap::new();
        for (rank, pair) in json["merges"].as_array().map_or(&[][..], Vec::as_slice).iter().enumerate() {
            let [Some(left), Some(right)] = [0, 1].map(|side| pair[side].as_str()) else {
                return Err(format!("merge {pair} instead of two tokens"));
            };
            let joined = format!("{left}{}", right.strip_prefix(&prefix).unwrap_or(right));
            let id = |piece: &str| {
                ids.get(piece).copied().ok_or(format!("merge of {piece:?}, which has no entry"))
            };
            merges.insert((id(left)?, id(right)?), (rank as u32, id(&joined)?));
        }
        let pieces = ids.iter().map(|(piece, &id)| (id, piece.clone())).collect();
        let unknown = bpe.get_unk_token().as_ref().and_then(|token| ids.get(token).copied());
        let (byte_fallback, fuse_unknown) = (bpe.byte_fallback, bpe.fuse_unk);
        Ok(Self {
            merges,
            ids,
            pieces,
            unknown,
            byte_fallback,
            fuse_unknown,
            prefix,
            suffix: text("end_of_word_suffix"),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.merges.len()
    }

    /// Encodes `text` with the normaliser and word boundaries of `tokenizer`, and these merges.
    pub(crate) fn encode(
        &self,
        tokenizer: &Tokenizer,
        text: &str,
        dropout: &BpeDropout,
    ) -> tokenizers::Result<Encoding> {
        let mut words =
            tokenizer.get_added_vocabulary().extract_and_normalize(tokenizer.get_normalizer(), text);
        if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut words)?;
        }
        let drawn = Cell::new(0);
        let skip = || {
            drawn.set(drawn.get() + 1);
            dropout.random.uniform(drawn.get()) < dropout.probability
        };
        words.tokenize(|word| Ok(self.tokens(word.get(), &skip)))?;
        words.into_encoding(None, 0, OffsetType::Byte)
    }

    fn tokens(&self, word: &str, skip: &dyn Fn() -> bool) -> Vec<Token> {
        let mut symbols = self.spell(word);
        loop {
            let possible = symbols.windows(2).enumerate().filter_map(|(at, pair)| {
                let &(rank, id) = self.merges.get(&(pair[0].id, pair[1].id))?;
                (!skip()).then_some((rank, at, id))
            });
            let Some((_, at, id)) = possible.min() else { break };
            symbols[at] = Symbol { id, len: symbols[at].len + symbols[at + 1].len };
            symbols.remove(at + 1);
        }
        let mut start = 0;
        let token = |symbol: Symbol| {
            let end = start + symbol.len;
            let token = Token::new(symbol.id, self.pieces[&symbol.id].clone(), (start, end));
            start = end;
            token
        };
        symbols.into_iter().map(token).collect()
    }

    /// The characters of `word` as ids: of the character, of its bytes, or of the unknown token.
    fn spell(&self, word: &str) -> Vec<Symbol> {
        let mut symbols: Vec<Symbol> = Vec::with_capacity(word.len());
        let mut last_unknown = false;
        for (at, c) in word.char_indices() {
            let len = c.len_utf8();
            let prefix = if at == 0 { "" } else { &self.prefix };
            let suffix = if at + len == word.len() { &self.suffix } else { "" };
            let known = self.ids.get(&format!("{prefix}{c}{suffix}"));
            let was_unknown = std::mem::replace(&mut last_unknown, false);
            if let Some(&id) = known {
                symbols.push(Symbol { id, len });
            } else if let Some(bytes) = self.bytes(c) {
                symbols.extend(bytes.into_iter().map(|id| Symbol { id, len: 1 }));
            } else if let Some(id) = self.unknown {
                last_unknown = true;
                match symbols.last_mut().filter(|_| self.fuse_unknown && was_unknown) {
                    Some(last) => last.len += len,
                    None => symbols.push(Symbol { id, len }),
                }
            }
        }
        symbols
    }

    fn bytes(&self, c: char) -> Option<Vec<u32>> {
        let mut buffer = [0; 4];
        let bytes = c.encode_utf8(&mut buffer).bytes();
        self.byte_fallback
            .then(|| bytes.map(|byte| self.ids.get(&format!("<0x{byte:02X}>")).copied()).collect())?
    }
}
