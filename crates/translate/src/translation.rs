//! Translations of a text, and notes on how they were made.

use polyhead_text::figures::{agreeing, counted};
use serde::Serialize;

use crate::copies::CopiedWord;
use crate::languages::name;
use crate::route::Route;

/// Maximum number of unknown tokens, or preserved spans, that a note names.
pub(crate) const MAX_NAMED: usize = 20;

/// The translations of a text. Of two hops, `n_best` and the scores are those of the second, made from the best of the
/// first, and the alignment is composed over the words between.
#[derive(Debug, Clone, PartialEq)]
pub struct Translation {
    /// Best first, one at least; as many as requested, if the model finds so many.
    pub n_best: Vec<Candidate>,
    /// Pairs of a source word and a target word of the best one, counted from 0; only if requested.
    pub alignment: Option<Vec<(usize, usize)>>,
    /// The words of the best one that the model copied; only if requested.
    pub copied: Option<Vec<CopiedWord>>,
    /// Notes on what was done or went wrong.
    pub notes: Vec<Note>,
    /// Tokens that the model read, end tokens included; of two hops, in both.
    pub source_tokens: usize,
    /// The languages, where the model states its directions and the text has letters.
    pub route: Option<Route>,
    /// The segments of the best one, in order, those of the first hop before those of the second; only if requested.
    pub segments: Vec<DecodedSegment>,
}

/// A sentence, or a part of one, that the model decoded at once, or that was copied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecodedSegment {
    /// Its sentence in the text, from 0.
    pub sentence: usize,
    /// Its hop, from 0.
    pub hop: usize,
    /// Source and target language of the hop, where they are known.
    pub languages: Option<(String, String)>,
    /// Its text before the hop.
    pub text: String,
    /// The text that the model read: preserved text as placeholders, capitals as small letters.
    pub read: String,
    /// The ids that the model read: the tag of the target language, `read` and the end token. Empty where it was copied.
    pub source: Vec<u32>,
    /// The ids that the model wrote, the end token last.
    pub target: Vec<u32>,
    /// Its translation, preserved text and capitals in place.
    pub translation: String,
}

impl Translation {
    /// The best translation.
    pub fn best(&self) -> &Candidate {
        &self.n_best[0]
    }

    /// The text of the best translation.
    pub fn text(&self) -> &str {
        &self.best().text
    }

    /// True if the model gave the translation of a sentence a low probability ([`Note::Unsure`]).
    pub fn is_unsure(&self) -> bool {
        self.notes.iter().any(|note| matches!(note, Note::Unsure { .. }))
    }
}

/// One translation of a text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Candidate {
    /// The text.
    pub text: String,
    /// Sum of log-probabilities over the length penalty; of several sentences, their mean.
    pub score: f64,
    /// Sum of the log-probabilities of all tokens.
    pub log_probability: f64,
    /// Tokens that the model wrote, end tokens included.
    pub tokens: usize,
}

/// A note on processing besides decoding, or on a problem. The names of its JSON are stable.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Note {
    /// The text was translated sentence by sentence.
    Split {
        /// Number of sentences.
        sentences: usize,
    },
    /// Sentences were too long for the model and translated in parts.
    Cut {
        /// Number of parts of the text.
        parts: usize,
    },
    /// The text was translated in two hops.
    Through {
        /// Code of the language between them.
        language: String,
    },
    /// The text is in the target language already and was copied.
    Same {
        /// Code of the language.
        language: String,
    },
    /// The text clearly is in another language than the given one.
    LooksLike {
        /// Code of the detected language.
        language: String,
        /// True if it was translated from that; false where there is no route from it.
        is_believed: bool,
    },
    /// The text looks like a language that the model does not translate; it was translated all the same.
    OtherLanguage {
        /// Code of the language.
        language: String,
    },
    /// Most letters of the text belong to a script that no language of the model is written in.
    OtherScript {
        /// Name of the script, such as `Cyrillic`.
        script: String,
    },
    /// Text that was preserved: addresses, emoji, numbers, what the model cannot spell.
    #[serde(rename = "kept")]
    Preserved {
        /// The first spans, shortened.
        #[serde(rename = "things")]
        spans: Vec<String>,
    },
    /// The model lost preserved text, so the text around it was translated by itself.
    Around {
        /// The sentence, shortened.
        sentence: String,
    },
    /// Numbers, amounts, times, dates or names that the translation lacks.
    Lost {
        /// The first ones as they are in the source, shortened.
        spans: Vec<String>,
    },
    /// The translation of a sentence found no end, so it was translated in halves.
    Halved {
        /// The sentence, shortened.
        sentence: String,
    },
    /// The translation of a part found no end in halves either, so it was copied.
    Copied {
        /// The part, shortened.
        sentence: String,
    },
    /// A sentence was copied, since the vocabulary lacks its letters.
    Unspelled {
        /// The sentence, shortened.
        sentence: String,
    },
    /// Sentences in capitals were read in small letters.
    Capitals {
        /// Number of sentences.
        sentences: usize,
    },
    /// The translation of a sentence looped, and was decoded again with rules against repetition.
    Repetition {
        /// The sentence, shortened.
        sentence: String,
        /// True if the loop is gone.
        is_cured: bool,
    },
    /// A translation reached its maximum length and may lack its end.
    Limit {
        /// The sentence, shortened.
        sentence: String,
        /// The limit in tokens.
        tokens: usize,
    },
    /// The translation of a sentence is empty.
    Empty {
        /// The sentence, shortened.
        sentence: String,
    },
    /// The model gave the translation of a sentence a low probability.
    Unsure {
        /// The sentence, shortened.
        sentence: String,
        /// Mean log-probability of a token of the translation.
        log_probability: f64,
    },
    /// Pieces of the source that the vocabulary lacks.
    Unknown {
        /// The pieces.
        pieces: Vec<String>,
    },
    /// The model wrote unknown tokens, which have no text.
    UnknownWritten {
        /// Number of tokens.
        tokens: usize,
    },
}

impl Note {
    /// Adds the note of a sentence to those of its text, merging notes of the same kind.
    pub(crate) fn add_to(&self, notes: &mut Vec<Self>) {
        for own in notes.iter_mut() {
            match (own, self) {
                (Self::Cut { parts: own }, Self::Cut { parts: more })
                | (Self::Split { sentences: own }, Self::Split { sentences: more })
                | (Self::Capitals { sentences: own }, Self::Capitals { sentences: more })
                | (Self::UnknownWritten { tokens: own }, Self::UnknownWritten { tokens: more }) => {
                    *own += more;
                    return;
                }
                (Self::Preserved { spans: own }, Self::Preserved { spans: more })
                | (Self::Lost { spans: own }, Self::Lost { spans: more })
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

    /// True if something may be missing or wrong in the translation.
    pub fn is_warning(&self) -> bool {
        !matches!(
            self,
            Self::Split { .. }
                | Self::Through { .. }
                | Self::Preserved { .. }
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
            Self::Through { language } => write!(f, "via {}", name(language)),
            Self::Same { language } => write!(f, "the text is {} already: copied", name(language)),
            Self::LooksLike { language, is_believed: true } => {
                write!(f, "the text looks like {0}: translated from {0}", name(language))
            }
            Self::LooksLike { language, is_believed: false } => {
                write!(f, "the text looks like {}", name(language))
            }
            Self::OtherLanguage { language } => {
                write!(f, "the text looks like {}, which this model does not translate", name(language))
            }
            Self::OtherScript { script } => {
                write!(f, "the text is in {script} script, which this model does not translate")
            }
            Self::Preserved { spans } => write!(f, "preserved: {}", spans.join(" ")),
            Self::Around { sentence } => {
                write!(f, "{sentence:?} was translated in parts around its preserved text")
            }
            Self::Lost { spans } => write!(f, "the translation may lack: {}", spans.join(", ")),
            Self::Halved { sentence } => {
                write!(f, "the translation of {sentence:?} found no end: translated in halves")
            }
            Self::Copied { sentence } => {
                write!(f, "the translation of {sentence:?} found no end: copied")
            }
            Self::Unspelled { sentence } => {
                write!(f, "the vocabulary lacks the letters of {sentence:?}: copied")
            }
            Self::Capitals { sentences } => {
                let (n, verb) = (*sentences as u64, agreeing(*sentences as u64, ["was", "were"]));
                write!(f, "{} in capitals {verb} read in small letters", counted(n, "sentence"))
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
            Self::Unsure { sentence, .. } => write!(f, "unsure: {sentence:?}"),
            Self::Unknown { pieces } => {
                // Control characters could move the cursor.
                let shown = pieces.join(" ").chars().fold(String::new(), |shown, letter| {
                    if letter.is_control() {
                        shown + &letter.escape_default().to_string()
                    } else {
                        shown + &letter.to_string()
                    }
                });
                write!(f, "not in the vocabulary: {shown}")
            }
            Self::UnknownWritten { tokens } => {
                write!(f, "the model wrote {tokens} unknown tokens, which have no text")
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
