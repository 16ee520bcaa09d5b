//! Normalisation: characters are replaced by rules, white space is collapsed and written as `▁` (U+2581).
//!
//! In this order, as in SentencePiece (Kudo and Richardson 2018): leading spaces are removed, a `▁` is inserted in
//! front (or at the end, if white space is a suffix), the longest matching rule is applied from left to right, runs of
//! spaces become one, trailing spaces are removed. User-defined symbols are unchanged. Each step is optional.

use super::charsmap::Charsmap;
use super::proto::{FormatError, NormalizerSpec};
use super::trie::Trie;

/// The mark that represents a space inside pieces.
pub(crate) const SPACE: char = '\u{2581}';

/// Position of the inserted `▁`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whitespace {
    /// `▁word`.
    Prefix,
    /// `word▁`.
    Suffix,
}

/// Normaliser of a model.
#[derive(Debug, Clone)]
pub(crate) struct Normalizer {
    rules: Option<Charsmap>,
    symbols: Option<UserSymbols>,
    dummy: Option<Whitespace>,
    remove_extra: bool,
    space: &'static str,
}

/// The user-defined symbols, and the bytes with which they start.
#[derive(Debug, Clone)]
struct UserSymbols {
    trie: Trie,
    starts: [bool; 256],
}

/// Byte of the original text for each byte of the normalised text. `()` records nothing.
pub(crate) trait Origins {
    /// The next `count` bytes come from `at`.
    fn push(&mut self, count: usize, at: usize);
    /// The next `count` bytes come from `at`, `at + 1` and so on.
    fn run(&mut self, count: usize, at: usize);
    /// Removes all bytes from `length` on; returns the origin of the first of them.
    fn truncate(&mut self, length: usize) -> usize;
}

impl Origins for () {
    fn push(&mut self, _: usize, _: usize) {}
    fn run(&mut self, _: usize, _: usize) {}
    fn truncate(&mut self, _: usize) -> usize {
        0
    }
}

impl Origins for Vec<usize> {
    fn push(&mut self, count: usize, at: usize) {
        self.extend(std::iter::repeat_n(at, count));
    }

    fn run(&mut self, count: usize, at: usize) {
        self.extend(at..at + count);
    }

    fn truncate(&mut self, length: usize) -> usize {
        let origin = self[length];
        self.truncate(length);
        origin
    }
}

impl Normalizer {
    /// Parses the rules; `symbols` are the user-defined symbols.
    pub(crate) fn new<'a>(
        spec: &NormalizerSpec,
        whitespace: Whitespace,
        symbols: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<Self, FormatError> {
        let rules = match spec.precompiled_charsmap.as_slice() {
            [] => None,
            bytes => Some(Charsmap::parse(bytes)?),
        };
        let mut starts = [false; 256];
        for symbol in symbols.clone() {
            starts[usize::from(symbol.as_bytes()[0])] = true;
        }
        let symbols = starts
            .contains(&true)
            .then(|| UserSymbols { trie: Trie::new(symbols.map(|text| (text, 0))), starts });
        Ok(Self {
            rules,
            symbols,
            dummy: spec.add_dummy_prefix.then_some(whitespace),
            remove_extra: spec.remove_extra_whitespaces,
            space: if spec.escape_whitespaces { "\u{2581}" } else { " " },
        })
    }

    /// True if a `▁` is inserted before or after the text.
    pub(crate) fn adds_dummy(&self) -> bool {
        self.dummy.is_some()
    }

    /// True if runs of spaces become one.
    pub(crate) fn removes_extra(&self) -> bool {
        self.remove_extra
    }

    /// Length in bytes of the user-defined symbol at the start of `text`.
    pub(crate) fn symbol(&self, text: &str) -> Option<usize> {
        let symbols = self.symbols.as_ref()?;
        let bytes = text.as_bytes();
        if !symbols.starts[usize::from(*bytes.first()?)] {
            return None;
        }
        symbols.trie.longest_prefix(bytes).map(|(length, _)| length)
    }

    /// Normalises `text`; `origins` receives one entry per byte of the result and one for its end.
    pub(crate) fn normalize(&self, text: &str, origins: &mut impl Origins) -> String {
        let mut at = if self.remove_extra { self.leading_spaces(text) } else { 0 };
        let mut out = String::new();
        if at == text.len() {
            return out;
        }
        out.reserve((text.len() - at) * 3 / 2 + 8);
        let add_space = |out: &mut String, origins: &mut _, at: usize| {
            out.push_str(self.space);
            Origins::push(origins, self.space.len(), at);
        };
        if self.dummy == Some(Whitespace::Prefix) {
            add_space(&mut out, origins, at);
        }
        let mut after_space = self.remove_extra;
        while at < text.len() {
            let run = self.plain_run(&text.as_bytes()[at..]);
            if run > 0 {
                out.push_str(&text[at..at + run]);
                origins.run(run, at);
                after_space = false;
                at += run;
                continue;
            }
            let (length, replacement) = self.next(&text[at..]);
            let kept = if after_space { replacement.trim_start_matches(' ') } else { replacement };
            for (index, part) in kept.split(' ').enumerate() {
                if index > 0 {
                    add_space(&mut out, origins, at);
                }
                out.push_str(part);
                origins.push(part.len(), at);
            }
            if !kept.is_empty() {
                after_space = self.remove_extra && kept.ends_with(' ');
            }
            at += length;
        }
        if self.remove_extra {
            while out.ends_with(self.space) {
                out.truncate(out.len() - self.space.len());
                at = origins.truncate(out.len());
            }
        }
        if self.dummy == Some(Whitespace::Suffix) {
            add_space(&mut out, origins, at);
        }
        origins.push(1, at);
        out
    }

    fn leading_spaces(&self, text: &str) -> usize {
        let mut at = 0;
        while at < text.len() {
            let (length, replacement) = self.next(&text[at..]);
            if replacement != " " {
                break;
            }
            at += length;
        }
        at
    }

    /// Number of leading ASCII characters other than space that no rule and no symbol affects.
    fn plain_run(&self, bytes: &[u8]) -> usize {
        let plain = |byte: u8| {
            byte != b' '
                && self.rules.as_ref().is_none_or(|rules| rules.keeps(byte))
                && self.symbols.as_ref().is_none_or(|symbols| !symbols.starts[usize::from(byte)])
        };
        let mut length = 0;
        while length < bytes.len()
            && bytes[length].is_ascii()
            && plain(bytes[length])
            && (self.rules.is_none() || bytes.get(length + 1).is_none_or(u8::is_ascii))
        {
            length += 1;
        }
        length
    }

    /// Length in bytes of the next unit of `text` and its replacement.
    fn next<'a>(&'a self, text: &'a str) -> (usize, &'a str) {
        if let Some(length) = self.symbol(text) {
            return (length, &text[..length]);
        }
        if let Some(rules) = &self.rules
            && let Some((length, replacement)) = rules.longest(text.as_bytes())
            && text.is_char_boundary(length)
        {
            return (length, replacement);
        }
        let length = text.chars().next().map_or(0, char::len_utf8);
        (length, &text[..length])
    }
}
