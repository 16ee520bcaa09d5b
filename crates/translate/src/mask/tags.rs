//! Inline tags: in a translation, as in its source, words stand between an opening tag and its closing one.
//!
//! A model that carries both placeholders may still write them side by side: *`<b></b>` tıklayın* for *Click `<b>`here`</b>`*.
//! Then it reads the sentence without its tags, and they are placed around the words that are aligned with theirs.

use std::ops::Range;

use super::PLACEHOLDERS;
use crate::preserve::PreservedSpan;
use crate::words::words;

/// Elements without a closing tag.
const VOID: &[&str] = &["area", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"];

/// A tag of a sentence, or another preserved span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag<'a> {
    Open(&'a str),
    Close(&'a str),
}

/// True if the tags of `written` are nested as well as those of `sentence`, with words between them where it has words. A
/// tag whose partner is in another part of the sentence must have words on its inner side.
pub(super) fn enclose_words(sentence: &str, spans: &[PreservedSpan], written: &str) -> bool {
    let tags: Vec<Option<Tag<'_>>> = spans.iter().map(|span| tag(&sentence[span.range.clone()])).collect();
    if tags.iter().all(Option::is_none) {
        return true;
    }
    let places = PLACEHOLDERS.iter().take(spans.len()).map(|mark| {
        let at = written.find(*mark)?;
        Some(at..at + mark.len_utf8())
    });
    let Some(places) = places.collect::<Option<Vec<_>>>() else { return false };
    let has_words = |text: &str| text.contains(char::is_alphanumeric);
    // Between two tags another placeholder is as good as a word.
    let has_text =
        |text: &str| text.contains(|letter: char| letter.is_alphanumeric() || is_content(letter, &tags));
    let pairs = pairs(&tags);
    let is_enclosing = |&(open, close): &(Option<usize>, Option<usize>)| {
        let inside = |start: Option<usize>, end: Option<usize>| {
            let start = start.map_or(0, |index| spans[index].range.end);
            let end = end.map_or(sentence.len(), |index| spans[index].range.start);
            start <= end && has_words(&sentence[start..end])
        };
        let start = open.map_or(0, |index| places[index].end);
        let end = close.map_or(written.len(), |index| places[index].start);
        start <= end && (has_text(&written[start..end]) || !inside(open, close))
    };
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by_key(|index| places[*index].start);
    pairs.iter().all(is_enclosing) && is_nested(&order, &pairs)
}

/// A masked sentence without the placeholders of its tags.
#[derive(Debug, Clone)]
pub(crate) struct StrippedSentence {
    /// The text that the model reads.
    pub(crate) text: String,
    /// Placeholder of each tag and its byte in `text`.
    tags: Vec<(char, usize)>,
    /// Pairs of indices of `tags`; none for the partner of a single tag.
    pairs: Vec<(Option<usize>, Option<usize>)>,
    /// The placeholders that are left.
    others: Vec<char>,
}

impl StrippedSentence {
    /// Strips `masked`, the text with placeholders of the `spans` of `sentence`; none if it has no tags.
    pub(super) fn new(sentence: &str, masked: &str, spans: &[PreservedSpan]) -> Option<Self> {
        let kinds: Vec<Option<Tag<'_>>> =
            spans.iter().map(|span| tag(&sentence[span.range.clone()])).collect();
        let (mut text, mut tags, mut others) = (String::new(), Vec::new(), Vec::new());
        for letter in masked.chars() {
            match PLACEHOLDERS.iter().position(|mark| *mark == letter).map(|index| kinds.get(index)) {
                Some(Some(Some(_))) => tags.push((letter, text.len())),
                Some(_) => {
                    others.push(letter);
                    text.push(letter);
                }
                None => text.push(letter),
            }
        }
        // Placeholders are in the order of their spans, and so are the tags among them.
        let tag_kinds: Vec<Option<Tag<'_>>> = kinds.into_iter().flatten().map(Some).collect();
        let pairs = pairs(&tag_kinds);
        (!tags.is_empty() && tags.len() == tag_kinds.len()).then_some(Self { text, tags, pairs, others })
    }

    /// True if `written` has each placeholder that is left once, and no other.
    pub(crate) fn is_carried_by(&self, written: &str) -> bool {
        let expected = |mark: &char| usize::from(self.others.contains(mark));
        PLACEHOLDERS.iter().all(|mark| written.matches(*mark).count() == expected(mark))
    }

    /// A translation of the text with the placeholders of the tags around the words that `alignment` pairs with theirs;
    /// none if no words are paired with those of a tag.
    pub(crate) fn placed(&self, written: &str, alignment: &[(usize, usize)]) -> Option<String> {
        let (source_words, target_words) = (words(&self.text), words(written));
        let mut places: Vec<(usize, usize)> = Vec::new();
        for &(open, close) in &self.pairs {
            let start = open.map_or(0, |index| self.tags[index].1);
            let end = close.map_or(self.text.len(), |index| self.tags[index].1);
            let is_inside = |word: &Range<usize>| word.start < end && word.end > start;
            let aligned = alignment.iter().filter(|pair| source_words.get(pair.0).is_some_and(is_inside));
            let targets: Vec<usize> = aligned.map(|pair| pair.1).collect();
            let first = target_words.get(*targets.iter().min()?)?;
            let last = target_words.get(*targets.iter().max()?)?;
            let own = self.text[start..end].trim();
            if let Some(index) = open {
                places.push((first.start + lead_len(&written[first.clone()], own), index));
            }
            if let Some(index) = close {
                places.push((last.end - tail_len(&written[last.clone()], own), index));
            }
        }
        places.sort_unstable();
        let (mut placed, mut at) = (String::with_capacity(written.len() + 3 * places.len()), 0);
        for (place, index) in places {
            placed.push_str(written.get(at..place)?);
            placed.push(self.tags[index].0);
            at = place;
        }
        placed.push_str(&written[at..]);
        Some(placed)
    }
}

/// The bytes of marks before a word that stay outside of a tag whose own text begins without one.
fn lead_len(word: &str, own: &str) -> usize {
    let lead = word.find(char::is_alphanumeric).unwrap_or(0);
    if own.starts_with(char::is_alphanumeric) { lead } else { 0 }
}

/// The bytes of marks after a word that stay outside of a tag whose own text ends without one.
fn tail_len(word: &str, own: &str) -> usize {
    let tail = word
        .rfind(char::is_alphanumeric)
        .map_or(0, |at| word[at..].chars().skip(1).map(char::len_utf8).sum());
    if own.ends_with(char::is_alphanumeric) { tail } else { 0 }
}

/// True for the placeholder of something other than a tag.
fn is_content(letter: char, tags: &[Option<Tag<'_>>]) -> bool {
    let index = PLACEHOLDERS.iter().position(|mark| *mark == letter);
    index.is_some_and(|index| tags.get(index).is_some_and(Option::is_none))
}

/// The opening and closing tags that belong together, as indices; none for the partner of a single tag.
fn pairs(tags: &[Option<Tag<'_>>]) -> Vec<(Option<usize>, Option<usize>)> {
    let (mut open, mut pairs): (Vec<(usize, &str)>, Vec<_>) = (Vec::new(), Vec::new());
    for (index, tag) in tags.iter().enumerate() {
        match tag {
            Some(Tag::Open(name)) => open.push((index, name)),
            Some(Tag::Close(name)) => {
                match open.iter().rposition(|(_, own)| own.eq_ignore_ascii_case(name)) {
                    Some(place) => pairs.push((Some(open.remove(place).0), Some(index))),
                    None => pairs.push((None, Some(index))),
                }
            }
            None => {}
        }
    }
    pairs.extend(open.into_iter().map(|(index, _)| (Some(index), None)));
    pairs
}

/// True if no pair of tags ends inside another that it began before; `order` has the spans as they are written.
fn is_nested(order: &[usize], pairs: &[(Option<usize>, Option<usize>)]) -> bool {
    let mut open = Vec::new();
    for index in order {
        for (start, end) in pairs {
            if start == &Some(*index) && end.is_some() {
                open.push(*index);
            } else if end == &Some(*index) && start.is_some() && open.pop() != *start {
                return false;
            }
        }
    }
    true
}

/// The tag that a preserved span is; none for any other span, and for elements without words.
fn tag(text: &str) -> Option<Tag<'_>> {
    let inside = text.strip_prefix('<')?.strip_suffix('>')?;
    let (is_closing, inside) = inside.strip_prefix('/').map_or((false, inside), |inside| (true, inside));
    let end =
        inside.find(|letter: char| !(letter.is_alphanumeric() || letter == '-')).unwrap_or(inside.len());
    let name = &inside[..end];
    let is_void = inside.ends_with('/') || VOID.iter().any(|void| name.eq_ignore_ascii_case(void));
    if name.is_empty() || is_void {
        return None;
    }
    Some(if is_closing { Tag::Close(name) } else { Tag::Open(name) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preserve::find;

    fn is_right(sentence: &str, written: &str) -> bool {
        let spans = find(sentence, &|_| true);
        let written = written.chars().map(|letter| match letter {
            '0'..='3' => PLACEHOLDERS[letter as usize - '0' as usize],
            _ => letter,
        });
        enclose_words(sentence, &spans, &written.collect::<String>())
    }

    #[test]
    fn tags_enclose_words() {
        let sentence = "Click <b>here</b> to continue.";
        assert!(is_right(sentence, "Devam etmek için 0buraya1 tıklayın."));
        for wrong in ["Devam etmek için 01 tıklayın.", "Devam 1etmek0 için", "Devam 0 1 için", "Devam 0, 1"]
        {
            assert!(!is_right(sentence, wrong), "{wrong}");
        }
        assert!(is_right("See <a></a> it", "Bak 01"), "no words in the source");
        assert!(is_right("See <b>@tom</b> it", "Bak 012"));
    }

    #[test]
    fn tags_stay_nested() {
        let sentence = "A <b>bold <i>word</i></b> here";
        assert!(is_right(sentence, "Ein 0fettes 1Wort23 hier"));
        assert!(is_right(sentence, "Ein 01Wort2 fett3 hier"));
        assert!(!is_right(sentence, "Ein 0fettes 1Wort32 hier"));
        assert!(!is_right(sentence, "Ein 1fettes 0Wort23 hier"));
    }

    #[test]
    fn tags_are_placed_around_aligned_words() {
        let placed = |sentence: &str, written: &str, alignment: &[(usize, usize)]| {
            let spans = find(sentence, &|_| true);
            let mut masked = sentence.to_owned();
            for (index, span) in spans.iter().enumerate().rev() {
                masked.replace_range(span.range.clone(), &PLACEHOLDERS[index].to_string());
            }
            let stripped = StrippedSentence::new(sentence, &masked, &spans)?;
            let mut placed = stripped.placed(written, alignment)?;
            for (index, span) in spans.iter().enumerate() {
                placed = placed.replace(PLACEHOLDERS[index], &sentence[span.range.clone()]);
            }
            Some(placed)
        };
        let sentence = "Click <b>here</b> to continue.";
        let alignment = [(2, 0), (1, 1), (0, 2)];
        let expected = Some("Fortfahren: <b>hier</b>, klicken.".into());
        assert_eq!(placed(sentence, "Fortfahren: hier, klicken.", &alignment), expected);
        assert_eq!(placed(sentence, "Fortfahren: hier, klicken.", &[(0, 1)]), None);
        let sentence = "A <b>bold <i>word</i></b> by Tom";
        let expected = Some("Tom: <b><i>Wort</i> fett</b>.".into());
        assert_eq!(placed(sentence, "Tom: Wort fett.", &[(1, 2), (2, 1)]), expected);
        assert_eq!(placed("no tags @tom", "x", &[]), None);
    }

    #[test]
    fn single_tags_have_words_on_their_inner_side() {
        assert!(is_right("the <b>big house", "das 0große Haus"));
        assert!(!is_right("the <b>big house", "das große Haus0"));
        assert!(!is_right("big</b> house", "0großes Haus"));
        assert!(is_right("one<br/>two<br>three", "eins01 zwei"));
        assert!(is_right("@tom and 😀 x", "01"));
    }
}
