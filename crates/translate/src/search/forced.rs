//! Tokens that a translation must have: its beginning, and lexical constraints anywhere in it.

use polyhead_models::decode::constrained::Constraints;

use super::Search;
use crate::options::TranslateOptions;
use crate::pipeline::Pipeline;
use crate::segment::TextPlan;
use crate::translation::shortened;
use crate::{Engine, Error, Result};

/// Maximum number of constraint tokens: each adds a beam to the search.
const MAX_CONSTRAINT_TOKENS: usize = 64;

/// Tokens that a translation must have.
#[derive(Debug, Clone, Default)]
pub(crate) struct ForcedTokens {
    /// The tokens that it begins with.
    pub(crate) prefix: Vec<u32>,
    /// Sequences that it contains, in any order.
    pub(crate) constraints: Constraints,
}

impl ForcedTokens {
    /// The tokens of the prefix and the lexical constraints of the options.
    pub(crate) fn new(engine: &Engine, options: &TranslateOptions, search: &Search) -> Result<Self> {
        let prefix = engine.tokenizers.encode_target(&options.prefix)?.ids;
        let max = search.max_length(prefix.len());
        if prefix.len() >= max {
            let message = format!("a prefix of {} tokens, expected fewer than {max}", prefix.len());
            return Err(Error::request(message, "shorten it or raise the maximum length"));
        }
        let constraints = options.lexical.iter().map(|phrase| constraint(engine, phrase));
        let constraints = constraints.collect::<Result<Constraints>>()?;
        let n_tokens: usize = constraints.iter().map(Vec::len).sum();
        let room = MAX_CONSTRAINT_TOKENS.min(max - 1 - prefix.len());
        if n_tokens > room {
            let message = format!("lexical constraints of {n_tokens} tokens, expected at most {room}");
            return Err(Error::request(message, "ask for fewer or shorter phrases"));
        }
        Ok(Self { prefix, constraints })
    }

    /// True without a prefix and constraints.
    pub(crate) fn is_empty(&self) -> bool {
        self.prefix.is_empty() && self.constraints.is_empty()
    }

    /// All tokens.
    pub(crate) fn ids(&self) -> Vec<u32> {
        [self.prefix.as_slice(), &self.constraints.concat()].concat()
    }
}

/// The tokens of a phrase, which the model must be able to write.
fn constraint(engine: &Engine, phrase: &str) -> Result<Vec<u32>> {
    if phrase.trim().is_empty() {
        return Err(Error::request(
            "an empty lexical constraint, expected a word or a phrase",
            "leave it out, or name a word of the target language",
        ));
    }
    let encoding = engine.tokenizers.encode_target(phrase.trim())?;
    let unknown = engine.tokenizers.target().unknown_id();
    match encoding.ids.iter().position(|&id| Some(id) == unknown) {
        Some(index) => {
            let piece = &phrase.trim()[encoding.offsets[index].clone()];
            let message = format!(
                "lexical constraint {:?}: the model cannot write {:?}, expected text of its vocabulary",
                shortened(phrase),
                piece.trim()
            );
            Err(Error::request(message, "polyhead tokenizer encode shows the tokens of a text"))
        }
        None => Ok(encoding.ids),
    }
}

impl Pipeline<'_> {
    /// An error if a text with lexical constraints is not one sentence: it would be open which one has them.
    pub(crate) fn check_constraints(&self, text: &str, plan: &TextPlan) -> Result<()> {
        let found = plan.n_sentences();
        if self.forced.constraints.is_empty() || found == 1 || text.trim().is_empty() {
            return Ok(());
        }
        Err(Self::not_one(text, found))
    }

    /// The error of a text, or of a sentence, that the model translates in more or fewer than one part.
    pub(crate) fn not_one(text: &str, found: usize) -> Error {
        let parts =
            if found == 0 { "nothing to translate".into() } else { format!("{found} sentences or parts") };
        let message =
            format!("{:?} has {parts}, expected one sentence with lexical constraints", shortened(text));
        Error::request(message, "pass one sentence at a time, or leave out the constraints")
    }

    /// The error of a sentence whose constraints no hypothesis can meet.
    pub(super) fn unmet(&self, sentence: &str) -> Error {
        let phrases: Vec<String> = self.options.lexical.iter().map(|phrase| format!("{phrase:?}")).collect();
        let message =
            format!("the translation of {:?} cannot contain {}", shortened(sentence), phrases.join(" and "));
        Error::request(
            message,
            "a prefix, a shortlist, or a rule against repeated n-grams may forbid it; leave that out",
        )
    }
}
