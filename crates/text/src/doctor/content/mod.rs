//! Problems of the text itself, found by reading both sides of a pair: encoding, markup, script, language, numbers.
//!
//! Every check is a pure function of the pair, so pairs are examined in parallel.

mod language;
mod markup;
mod mojibake;
mod number_words;
mod numbers;
mod script;

use self::language::Expected;
use super::CheckOptions;
use super::examine::{SIDES, excerpt};
use super::problem::Problem;
use crate::Result;

/// Bytes of a side above which a pair is no pair of sentences and is not read.
const MAX_BYTES: usize = 1 << 14;

/// The checks that are wanted, and the languages of the sides.
#[derive(Debug)]
pub(super) struct ContentChecks {
    languages: Option<Expected>,
    ignore: Vec<Problem>,
}

impl ContentChecks {
    pub(super) fn new(options: &CheckOptions) -> Result<Self> {
        let languages = options.languages.as_ref().map(Expected::of).transpose()?;
        Ok(Self { languages, ignore: options.ignore.clone() })
    }

    /// Calls `found` with each problem of the pair and its detail.
    pub(super) fn examine(&self, sides: [&str; 2], mut found: impl FnMut(Problem, String)) {
        if sides.iter().any(|side| side.len() > MAX_BYTES) {
            return;
        }
        let mut check = |problem, find: &dyn Fn() -> Option<String>| {
            if !self.ignore.contains(&problem)
                && let Some(detail) = find()
            {
                found(problem, detail);
            }
        };
        let either = |find: &dyn Fn(usize) -> Option<String>| find(0).or_else(|| find(1));
        check(Problem::Mojibake, &|| {
            either(&|side| {
                let (at, wrong) = mojibake::find(sides[side])?;
                Some(format!("{wrong} at byte {} of the {}", at + 1, SIDES[side]))
            })
        });
        check(Problem::Markup, &|| {
            let (name, side) = markup::difference(sides)?;
            Some(format!("{name} only in the {}", SIDES[side]))
        });
        check(Problem::Script, &|| either(&|side| self.foreign_script(side, sides)));
        check(Problem::Untranslated, &|| {
            (sides[0] != sides[1] && language::is_copy(sides)).then(|| excerpt(Some(sides[0].as_bytes())))
        });
        check(Problem::Language, &|| either(&|side| self.other_language(side, sides)));
        check(Problem::Numbers, &|| {
            let [source, target] = numbers::difference(sides)?.map(|numbers| listed(&numbers));
            Some(format!("only in the source: {source}; only in the target: {target}"))
        });
    }

    fn foreign_script(&self, side: usize, sides: [&str; 2]) -> Option<String> {
        self.languages.filter(|expected| expected.is_latin(side))?;
        let [n_foreign, n_letters] = script::foreign(sides[side], sides[1 - side])?;
        Some(format!("{n_foreign} of {n_letters} letters of the {} are not Latin", SIDES[side]))
    }

    fn other_language(&self, side: usize, sides: [&str; 2]) -> Option<String> {
        let [found, expected] = self.languages?.other_language(side, sides)?;
        Some(format!("the {} is not {expected}, most like {found}", SIDES[side]))
    }
}

/// `text` with mojibake repaired and character references decoded; `None` if there is nothing to repair, or mojibake
/// cannot be repaired with certainty.
pub(super) fn repair(text: &str) -> Option<String> {
    let encoded = if mojibake::find(text).is_some() { Some(mojibake::repair(text)?) } else { None };
    markup::decode(encoded.as_deref().unwrap_or(text)).or(encoded)
}

fn listed(numbers: &[String]) -> String {
    if numbers.is_empty() { "none".into() } else { numbers.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repair_undoes_the_encoding_and_then_the_references() {
        assert_eq!(repair("CafÃ© &amp; th&eacute;").as_deref(), Some("Café & thé"));
        assert_eq!(repair("Café"), None);
        assert_eq!(repair("ş &amp; CafÃ©"), None);
    }
}
