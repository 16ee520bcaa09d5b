//! What came of one text.

use serde::Serialize;

use crate::languages::name;
use crate::request::MAX_NAMED;
use crate::route::Route;

/// The translations of a text. Of two steps, `n_best` and the scores are those of the second, made from the best of the
/// first, and the alignment leads through the words between.
#[derive(Debug, Clone, PartialEq)]
pub struct Translation {
    /// Best first, one at least; as many as were asked for, if the model has so many.
    pub n_best: Vec<Candidate>,
    /// Pairs of a source word and a target word of the best one, counted from 0; only if asked for.
    pub alignment: Option<Vec<(usize, usize)>>,
    /// What was done or went wrong.
    pub notes: Vec<Note>,
    /// Tokens that the model read, end tokens included; of two steps, in both.
    pub source_tokens: usize,
    /// From which language into which, where the model says what it was trained on and the text has letters.
    pub route: Option<Route>,
}

impl Translation {
    /// The best translation.
    pub fn best(&self) -> &Candidate {
        &self.n_best[0]
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.best().text
    }
}

/// One translation of a text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Candidate {
    /// The text.
    pub text: String,
    /// The sum of log-probabilities over the length penalty; of several sentences, their mean.
    pub score: f64,
    /// The sum of the log-probabilities of all tokens.
    pub log_probability: f64,
    /// Tokens that the model wrote, end tokens included.
    pub tokens: usize,
}

/// What was done to a text besides decoding, or went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Note {
    /// The text was translated sentence by sentence.
    Split {
        /// How many.
        sentences: usize,
    },
    /// Sentences were too long for the model and translated in parts.
    Cut {
        /// How many parts the text came to.
        parts: usize,
    },
    /// The text was translated in two steps, for which the model was trained.
    Through {
        /// The code of the language between them.
        language: String,
    },
    /// The text is of the language that was asked for, and was left as it is.
    Same {
        /// Its code.
        language: String,
    },
    /// The text clearly is of another language than it was said to be in.
    LooksLike {
        /// The code of the language that it looks like.
        language: String,
        /// Whether it was translated from that; not where it looks like the one that was asked for.
        is_believed: bool,
    },
    /// What went through unchanged: addresses, emoji, numbers, what the model cannot spell.
    Kept {
        /// The first of them, shortened.
        things: Vec<String>,
    },
    /// The model lost what must be kept, so what stands around it was translated by itself.
    Around {
        /// The sentence, shortened.
        sentence: String,
    },
    /// The translation of a sentence found no end, so it was translated in halves.
    Halved {
        /// The sentence, shortened.
        sentence: String,
    },
    /// The translation of a part found no end in halves either, so it was left as it is.
    Copied {
        /// The part, shortened.
        sentence: String,
    },
    /// A sentence stayed as it is, since the model has no pieces for its letters.
    Unspelled {
        /// The sentence, shortened.
        sentence: String,
    },
    /// Sentences in capitals were read in small letters.
    Capitals {
        /// How many.
        sentences: usize,
    },
    /// A loop was found in the translation, which was decoded again with rules against repetition.
    Repetition {
        /// The sentence, shortened.
        sentence: String,
        /// Whether the loop is gone.
        is_cured: bool,
    },
    /// A translation reached its maximum length and may lack its end.
    Limit {
        /// The sentence, shortened.
        sentence: String,
        /// Tokens.
        tokens: usize,
    },
    /// The translation of a sentence is empty.
    Empty {
        /// The sentence, shortened.
        sentence: String,
    },
    /// Parts of the source that the model has no entry for.
    Unknown {
        /// The pieces.
        pieces: Vec<String>,
    },
    /// The model wrote tokens for the unknown, which have no text.
    UnknownWritten {
        /// How many.
        tokens: usize,
    },
}

impl Note {
    /// Adds it to the notes of the whole text, once for all sentences.
    pub(crate) fn add_to(&self, notes: &mut Vec<Self>) {
        for own in notes.iter_mut() {
            match (own, self) {
                (Self::Cut { parts: own }, Self::Cut { parts: more })
                | (Self::Capitals { sentences: own }, Self::Capitals { sentences: more })
                | (Self::UnknownWritten { tokens: own }, Self::UnknownWritten { tokens: more }) => {
                    *own += more;
                    return;
                }
                (Self::Kept { things: own }, Self::Kept { things: more })
                | (Self::Unknown { pieces: own }, Self::Unknown { pieces: more }) => {
                    let is_new: Vec<&String> = more.iter().filter(|more| !own.contains(more)).collect();
                    let room = MAX_NAMED.saturating_sub(own.len());
                    own.extend(is_new.into_iter().take(room).cloned());
                    return;
                }
                (own, more) if own == more => return,
                _ => {}
            }
        }
        notes.push(self.clone());
    }

    /// Whether something may be missing or wrong, rather than having been done as usual.
    pub fn is_warning(&self) -> bool {
        !matches!(
            self,
            Self::Split { .. }
                | Self::Through { .. }
                | Self::Kept { .. }
                | Self::Around { .. }
                | Self::Capitals { .. }
        )
    }
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Split { sentences } => write!(f, "split into {sentences} sentences"),
            Self::Cut { parts } => write!(f, "too long for the model: translated in {parts} parts"),
            Self::Through { language } => write!(f, "through {}", name(language)),
            Self::Same { language } => write!(f, "the text is {} already: left as it is", name(language)),
            Self::LooksLike { language, is_believed: true } => {
                write!(f, "the text looks like {0}, and was taken for {0}", name(language))
            }
            Self::LooksLike { language, is_believed: false } => {
                write!(f, "the text looks like {}", name(language))
            }
            Self::Kept { things } => write!(f, "kept: {}", things.join(" ")),
            Self::Around { sentence } => {
                write!(f, "{sentence:?} was translated in pieces, around what must be kept")
            }
            Self::Halved { sentence } => {
                write!(f, "the translation of {sentence:?} found no end: translated in halves")
            }
            Self::Copied { sentence } => {
                write!(f, "the translation of {sentence:?} found no end: left as it is")
            }
            Self::Unspelled { sentence } => {
                write!(f, "the model does not know the letters of {sentence:?}: left as they are")
            }
            Self::Capitals { sentences } => {
                write!(f, "{sentences} sentences in capitals, read in small letters")
            }
            Self::Repetition { sentence, is_cured: true } => {
                write!(f, "repetition: {sentence:?} was decoded again")
            }
            Self::Repetition { sentence, is_cured: false } => {
                write!(f, "repetition: {sentence:?} was decoded again and still loops")
            }
            Self::Limit { sentence, tokens } => {
                write!(
                    f,
                    "the translation of {sentence:?} reached its limit of {tokens} tokens and may lack its end"
                )
            }
            Self::Empty { sentence } => write!(f, "the model wrote nothing for {sentence:?}"),
            Self::Unknown { pieces } => {
                // What could move the cursor is written as an escape.
                let shown = pieces.join(" ").chars().fold(String::new(), |shown, letter| {
                    if letter.is_control() {
                        shown + &letter.escape_default().to_string()
                    } else {
                        shown + &letter.to_string()
                    }
                });
                write!(f, "unknown to the model: {shown}")
            }
            Self::UnknownWritten { tokens } => {
                write!(f, "the model wrote {tokens} tokens for the unknown, which have no text")
            }
        }
    }
}

/// The beginning of a text, for notes.
pub(crate) fn shortened(text: &str) -> String {
    const LENGTH: usize = 40;
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
