//! Sentences as people type them, read as they are usually spelled: English with its apostrophes, other languages with
//! their accents.

use super::accents::Accents;
use super::contractions::contraction;

/// The words of a sentence that the model reads in another spelling.
#[derive(Debug, Clone, Copy)]
pub(super) enum Respelling {
    /// None.
    None,
    /// English contractions.
    Contractions,
    /// Words with accents.
    Accents(&'static Accents),
}

impl Respelling {
    /// The respelling of a sentence in a language, where it is known.
    pub(super) fn of(sentence: &str, language: Option<&str>) -> Self {
        match language {
            Some("en") => Self::Contractions,
            Some(language) => match Accents::of(language) {
                Some(accents) if accents.are_missing_in(sentence) => Self::Accents(accents),
                _ => Self::None,
            },
            None => Self::None,
        }
    }

    /// The usual spelling of a word between two characters; none if it is spelled so.
    pub(super) fn word(self, word: &str, [previous, next]: [Option<char>; 2]) -> Option<String> {
        match self {
            Self::None => None,
            Self::Contractions => {
                let stands_alone = !previous.is_some_and(|mark| matches!(mark, '\'' | '’' | '-' | '.'));
                contraction(word, next).filter(|_| stands_alone)
            }
            Self::Accents(accents) => accents.restored(word),
        }
    }

    /// A word of a sentence in capitals, in small letters, with its accents.
    pub(super) fn accented(self, word: String) -> String {
        match self {
            Self::Accents(accents) => accents.restored(&word).unwrap_or(word),
            _ => word,
        }
    }
}
