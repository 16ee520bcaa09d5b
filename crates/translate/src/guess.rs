//! The language of texts where nobody says it, and doubts about what is said.
//!
//! The lines of a file are mostly of one language, and short ones say little about theirs. Read in order, a line is taken
//! for another language than those before it only if it is clear by itself. What comes later never changes a guess, so
//! the same lines are guessed alike however they arrive.
//!
//! What is said is doubted only where the text leaves no doubt, for a model that reads a language which it does not expect
//! writes a mixture. Of 28,000 sentences of Tatoeba and FLORES none is doubted wrongly, of 30,000 of WMT's news 9, most of
//! them lists of names.

use polyhead_text::language::{Guess, Identifier};

use crate::options::{Guessing, TranslateOptions};

/// Bytes of the texts before a text that its guess looks at.
pub(crate) const CONTEXT_BYTES: usize = 600;
/// A text is of another language than those before it from this probability on.
const CLEAR: f64 = 0.95;
/// A text is of the very language that it is to be translated into from this probability on.
const ALREADY: f64 = 0.8;
/// A text is doubted to be of the language that was said from this probability of another on.
const DOUBTED: f64 = 0.99;
/// Letters without which a text is not clear.
const CLEAR_LETTERS: usize = 12;
/// Letters without which a text is not doubted.
const DOUBTED_LETTERS: usize = 20;

/// What was found out about the language of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Nothing: no letters, or no reason to doubt.
    None,
    /// Its code, guessed.
    Guess(String),
    /// The code of another than was said.
    Doubt(String),
}

/// Guesses the language of each text among `known`; `targets` are those that they are to be translated into.
pub(crate) fn languages(
    identifier: &Identifier,
    texts: &[&str],
    known: &[&str],
    targets: &[Option<String>],
    options: &TranslateOptions,
) -> Vec<Reading> {
    let mut context = options.context.clone();
    let mut guess = |(text, target): (&&str, Option<&str>)| {
        let own = identifier.identify_among(text, known);
        let found = match (own, options.guessing) {
            (Some(own), Guessing::InOrder) if !is_sure(&own, CLEAR, text, CLEAR_LETTERS) => {
                let found = identifier.identify_among(&format!("{context}\n{text}"), known);
                extend_context(&mut context, text);
                found
            }
            (own, Guessing::InOrder) => {
                extend_context(&mut context, text);
                own
            }
            (own, Guessing::Each) => own,
        };
        found.map_or(Reading::None, |guess| Reading::Guess(likely(guess, target)))
    };
    texts.iter().zip(targets.iter().map(Option::as_deref)).map(&mut guess).collect()
}

/// Texts that clearly are not in the language `from`.
pub(crate) fn doubts(identifier: &Identifier, texts: &[&str], known: &[&str], from: &str) -> Vec<Reading> {
    let doubt = |text: &&str| {
        let guess = identifier.identify_among(text, known).filter(|guess| guess.code != from);
        let clear = guess.filter(|guess| is_sure(guess, DOUBTED, text, DOUBTED_LETTERS));
        clear.map_or(Reading::None, |guess| Reading::Doubt(guess.code))
    };
    texts.iter().map(doubt).collect()
}

/// Adds a text to what comes before the next one.
pub(crate) fn extend_context(context: &mut String, text: &str) {
    if text.contains(char::is_alphabetic) {
        context.push('\n');
        context.push_str(text);
        let mut start = context.len().saturating_sub(CONTEXT_BYTES);
        while !context.is_char_boundary(start) {
            start += 1;
        }
        context.drain(..start);
    }
}

fn is_sure(guess: &Guess, probability: f64, text: &str, letters: usize) -> bool {
    guess.probability >= probability
        && text.chars().filter(|letter| letter.is_alphabetic()).count() >= letters
}

/// The best guess. Who asks for a language has hardly a text of that language, so there the next best may be likelier.
fn likely(guess: Guess, target: Option<&str>) -> String {
    let is_doubtful = Some(guess.code.as_str()) == target && guess.probability < ALREADY;
    let next = guess.others.into_iter().next();
    match next {
        Some((next, _)) if is_doubtful => next,
        _ => guess.code,
    }
}
