//! Cuts a sentence that is too long for the model: at clause marks, else at spaces, else anywhere.

use std::ops::Range;

use polyhead_text::tokenizer::Encoding;

use super::Sentence;

/// Parts of `sentence` of about `limit` tokens each; the sentence itself if it has no more.
///
/// `encoding` is the sentence's. A part may be tokenised otherwise than within the sentence, and so be a little longer.
/// Nothing is cut inside the ranges `whole`.
pub(crate) fn cut<'a>(
    sentence: Sentence<'a>,
    encoding: &Encoding,
    limit: usize,
    whole: &[Range<usize>],
) -> Vec<Sentence<'a>> {
    let text = sentence.text;
    let (mut ranges, mut start, mut first) = (Vec::new(), 0, 0);
    while encoding.len() - first > limit {
        let end = encoding.offsets[first + limit].start.max(start);
        let earliest = encoding.offsets[first + limit / 2].start.clamp(start, end);
        let at = clause(text, earliest..end)
            .or_else(|| space(text, start..end))
            .unwrap_or_else(|| character(text, start, end));
        let at = match whole.iter().find(|range| range.start < at && at < range.end) {
            Some(range) if range.start > start => range.start,
            Some(range) => range.end,
            None => at,
        };
        let rest = text[at..].trim_start();
        let next = text.len() - rest.len();
        if rest.is_empty() {
            break;
        }
        ranges.push(start..start + text[start..at].trim_end().len());
        start = next;
        first = encoding.offsets.partition_point(|span| span.end <= start).max(first + 1);
    }
    ranges.push(start..text.len());
    sentence.parts(&ranges)
}

/// The byte after the last clause mark of a range; white space must follow the mark, unless it needs none.
fn clause(text: &str, range: Range<usize>) -> Option<usize> {
    let found = text[range.clone()].char_indices().rev().find(|&(at, mark)| {
        let after = range.start + at + mark.len_utf8();
        let is_clause = matches!(mark, ',' | ';' | ':' | '.' | '!' | '?' | '–' | '—' | ')' | '،' | '؛');
        matches!(mark, '，' | '、' | '；' | '：')
            || (is_clause && text[after..].starts_with(char::is_whitespace))
    });
    found.map(|(at, mark)| range.start + at + mark.len_utf8())
}

/// The byte before the last space of a range, if text precedes it.
fn space(text: &str, range: Range<usize>) -> Option<usize> {
    let at = text[range.clone()].rfind(char::is_whitespace).map(|at| range.start + at)?;
    (!text[range.start..at].trim().is_empty()).then_some(at)
}

/// The first character boundary at or after `end`, at least one character after `start`.
fn character(text: &str, start: usize, end: usize) -> usize {
    let mut at = end;
    while !text.is_char_boundary(at) {
        at += 1;
    }
    let first = text[start..].chars().next().map_or(0, char::len_utf8);
    at.max(start + first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token for every character.
    fn characters(text: &str) -> Encoding {
        let mut encoding = Encoding::default();
        for (at, character) in text.char_indices() {
            encoding.ids.push(0);
            encoding.pieces.push(character.into());
            encoding.offsets.push(at..at + character.len_utf8());
        }
        encoding
    }

    fn parts(text: &str, limit: usize) -> Vec<&str> {
        let sentence = Sentence { text, separator: "" };
        cut(sentence, &characters(text), limit, &[]).iter().map(|part| part.text).collect()
    }

    #[test]
    fn clauses_come_first_then_spaces_then_characters() {
        assert_eq!(parts("one two, three four", 12), ["one two,", "three four"]);
        assert_eq!(parts("one two three four", 12), ["one two", "three four"]);
        assert_eq!(parts("onetwothreefour", 6), ["onetwo", "threef", "our"]);
        assert_eq!(parts("short", 12), ["short"]);
        assert_eq!(parts("一二三，四五六", 6), ["一二三，", "四五六"]);
    }

    #[test]
    fn whole_ranges_are_not_cut() {
        let text = "onetwothreefour";
        let cut = |whole: Range<usize>| {
            let found = cut(Sentence { text, separator: "" }, &characters(text), 6, &[whole]);
            found.iter().map(|part| part.text).collect::<Vec<_>>()
        };
        assert_eq!(cut(3..11), ["one", "twothree", "four"]);
        assert_eq!(cut(0..8), ["onetwoth", "reefou", "r"]);
    }

    proptest::proptest! {
        #[test]
        fn joined_parts_are_the_sentence(text in "[a-z ,;éß漢，]{0,80}", limit in 1_usize..20) {
            let text = text.trim();
            let found = cut(Sentence { text, separator: "\n" }, &characters(text), limit, &[]);
            let joined: String = found.iter().flat_map(|part| [part.text, part.separator]).collect();
            proptest::prop_assert_eq!(joined, format!("{text}\n"));
            for part in &found {
                proptest::prop_assert!(part.text.chars().count() <= limit, "{:?}", part.text);
                proptest::prop_assert!(!part.text.is_empty() || text.is_empty());
            }
        }
    }
}
