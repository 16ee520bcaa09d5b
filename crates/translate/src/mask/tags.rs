//! Inline tags: in a translation, as in its source, words stand between an opening tag and its closing one.
//!
//! A model that carries both placeholders may still write them side by side: *`<b></b>` tıklayın* for *Click `<b>`here`</b>`*.

use super::PLACEHOLDERS;
use crate::preserve::PreservedSpan;

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
    fn single_tags_have_words_on_their_inner_side() {
        assert!(is_right("the <b>big house", "das 0große Haus"));
        assert!(!is_right("the <b>big house", "das große Haus0"));
        assert!(!is_right("big</b> house", "0großes Haus"));
        assert!(is_right("one<br/>two<br>three", "eins01 zwei"));
        assert!(is_right("@tom and 😀 x", "01"));
    }
}
