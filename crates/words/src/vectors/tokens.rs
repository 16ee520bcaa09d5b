//! Words of a line of text.

use crate::{Error, Result};

/// How a line becomes words. Default: `Words`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tokenization {
    /// Letters and digits in lower case, joined by single inner apostrophes, hyphens and full stops; the rest is dropped.
    #[default]
    Words,
    /// Whatever stands between spaces and tabs, unchanged: for text that is tokenised already.
    Spaces,
}

impl Tokenization {
    /// The tokenisation called `name`: `words` or `spaces`.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "words" => Ok(Self::Words),
            "spaces" => Ok(Self::Spaces),
            _ => Err(Error::request(
                format!("unknown tokenisation {name:?}, expected words or spaces"),
                "use --tokenize words for raw text, --tokenize spaces for text that is tokenised already",
            )),
        }
    }

    /// Passes each word of `line` to `take`, in order.
    ///
    /// ```
    /// use polyhead_words::vectors::Tokenization;
    /// let mut found = Vec::new();
    /// Tokenization::Words.split("The student's e-mail: 3.5 pages!", |word| found.push(word.to_owned()));
    /// assert_eq!(found, ["the", "student's", "e-mail", "3.5", "pages"]);
    /// ```
    pub fn split(self, line: &str, mut take: impl FnMut(&str)) {
        match self {
            Self::Spaces => line.split_ascii_whitespace().for_each(take),
            Self::Words => {
                let mut word = String::new();
                let mut rest = line;
                while let Some(start) = rest.find(char::is_alphanumeric) {
                    rest = &rest[start..];
                    let end = word_end(rest);
                    let found = &rest[..end];
                    let is_plain =
                        found.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
                    if is_plain {
                        take(found);
                    } else {
                        word.clear();
                        word.extend(found.chars().flat_map(char::to_lowercase).map(plain_apostrophe));
                        take(&word);
                    }
                    rest = &rest[end..];
                }
            }
        }
    }
}

/// Bytes of the word at the start of `text`, which begins with a letter or a digit.
fn word_end(text: &str) -> usize {
    let mut end = 0;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let joins = matches!(letter, '\'' | '’' | '-' | '.');
        let goes_on = letters.peek().is_some_and(|(_, next)| next.is_alphanumeric());
        if !(is_word_letter(letter) || joins && goes_on) {
            break;
        }
        end = at + letter.len_utf8();
    }
    end
}

/// True for letters, digits and combining marks.
fn is_word_letter(letter: char) -> bool {
    letter.is_alphanumeric() || ('\u{300}'..='\u{36f}').contains(&letter)
}

fn plain_apostrophe(letter: char) -> char {
    if letter == '’' { '\'' } else { letter }
}
