//! Preserve and encode: from a sentence to the ids that the decoder reads.

use std::ops::Range;

use polyhead_text::tokenizer::Encoding;

use crate::mask::{Case, HopLanguages, MaskedSentence};
use crate::options::Mode;
use crate::pipeline::{HopInput, Pipeline};
use crate::preserve::alphabet::Alphabet;
use crate::preserve::numbers::{missing, numbers};
use crate::preserve::{self, PreservedKind, PreservedSpan};
use crate::quantities::{self, Language, Quantity};
use crate::route::Hop;
use crate::search::{DecoderInput, ForcedTokens};
use crate::segment::{HopText, Segment, Sentence, Split, cut, split};
use crate::translation::{MAX_NAMED, shortened};
use crate::{Error, Result};

/// Characters of the longest number that is never cut; a longer one might be too long for the model.
const MAX_NUMBER_LEN: usize = 40;

/// The hop of a sentence, or of a part of one, and the case of its letters.
#[derive(Clone, Copy)]
pub(crate) struct SentenceContext<'a> {
    pub(crate) hop: &'a Hop,
    pub(crate) case: Case,
}

impl Pipeline<'_> {
    pub(crate) fn alphabet(&self) -> &Alphabet {
        &self.engine.alphabet
    }

    /// The sentences of a text; in raw mode the text as one.
    pub(crate) fn split<'t>(&self, text: &'t str) -> Split<'t> {
        match self.options.mode {
            Mode::Raw => Split::whole(text),
            Mode::Guarded => split(text),
        }
    }

    /// The spans of a sentence to preserve; none where the model has no placeholders.
    pub(crate) fn preserve(
        &self,
        sentence: &str,
        SentenceContext { hop, case }: SentenceContext<'_>,
    ) -> Vec<PreservedSpan> {
        if self.alphabet().n_placeholders() == 0 {
            return Vec::new();
        }
        let has = |letter: char| self.alphabet().has(letter, &self.engine.tokenizers);
        // Capitals are going to be read as small letters.
        let is_lowered = hop.languages.is_some() && case.is_capitals(sentence);
        let found =
            preserve::find(sentence, &|letter| has(letter) || (is_lowered && letter.to_lowercase().all(has)));
        match rules(hop) {
            Some(languages) if !found.is_empty() => joined_quantities(sentence, &found, languages),
            _ => found,
        }
    }

    /// True if there is something to translate outside of the preserved spans, and of quantities such as *5 km*.
    pub(crate) fn has_text(&self, sentence: &str, preserved: &[PreservedSpan], hop: &Hop) -> bool {
        if self.alphabet().n_placeholders() == 0 {
            return sentence.contains(char::is_alphanumeric);
        }
        let is_text = |ranges: &[Range<usize>]| {
            // Both are in order, so that one pass is enough.
            let mut rest = ranges.iter().peekable();
            sentence.char_indices().any(|(at, letter)| {
                while rest.next_if(|range| range.end <= at).is_some() {}
                letter.is_alphabetic() && !rest.peek().is_some_and(|range| range.contains(&at))
            })
        };
        let preserved: Vec<Range<usize>> = preserved.iter().map(|span| span.range.clone()).collect();
        if !is_text(&preserved) {
            return false;
        }
        let Some([from, _]) = rules(hop).filter(|_| sentence.contains(|digit: char| digit.is_ascii_digit()))
        else {
            return true;
        };
        let marked = quantities::find(sentence, from).into_iter().filter(Quantity::is_marked);
        let marked: Vec<Range<usize>> = marked.map(|quantity| quantity.range).collect();
        is_text(&merged(preserved, marked))
    }

    /// A sentence without text to translate as a segment. Of a part of a sentence, and where quantities have letters (*5 km*,
    /// *11:45 p.m.*), quantities take the form of the target language; numbers and signs alone are copied: they may be data.
    pub(crate) fn copied<'t>(
        &self,
        sentence: Sentence<'t>,
        preserved: &[PreservedSpan],
        SentenceContext { hop, case }: SentenceContext<'_>,
    ) -> Segment<'t> {
        let text = sentence.text;
        let Some([from, to]) = rules(hop).filter(|_| self.alphabet().n_placeholders() > 0) else {
            return Segment::copied(sentence);
        };
        let is_free =
            |quantity: &Quantity| !preserved.iter().any(|span| overlap(&span.range, &quantity.range));
        let found = quantities::find(text, from).into_iter().filter(is_free);
        let found = found.map(|quantity| quantity_span(text, &quantity, to));
        let mut spans: Vec<PreservedSpan> = preserved.iter().cloned().chain(found).collect();
        let has_letters = |span: &PreservedSpan| {
            span.kind == PreservedKind::Quantity && text[span.range.clone()].contains(char::is_alphabetic)
        };
        if case == Case::Detect && !spans.iter().any(has_letters) {
            return Segment::copied(sentence);
        }
        spans.sort_by_key(|span| span.range.start);
        let (mut written, mut at) = (String::new(), 0);
        for span in &spans {
            written += &text[at..span.range.start];
            written += span.text(text);
            at = span.range.end;
        }
        written += &text[at..];
        Segment::replaced(sentence, (written != text).then_some(written))
    }

    /// The sentence with placeholders; none where the model reads the sentence as it is.
    pub(crate) fn mask(
        &self,
        sentence: &str,
        preserved: &[PreservedSpan],
        SentenceContext { hop, case }: SentenceContext<'_>,
    ) -> Option<MaskedSentence> {
        let languages = hop.languages.as_ref().map(|(from, to)| HopLanguages { from, to });
        let n_tokens =
            |word: &str| self.engine.tokenizers.source().encode(word).map_or(usize::MAX, |found| found.len());
        let masked = MaskedSentence::new(sentence, preserved, (languages.as_ref(), case), &n_tokens);
        (!masked.is_plain(sentence)).then_some(masked)
    }

    /// A sentence with more preserved spans than placeholders, in parts with at most as many; otherwise no parts.
    pub(crate) fn split_at_placeholders<'t>(
        &self,
        sentence: Sentence<'t>,
        masked: Option<&MaskedSentence>,
    ) -> Vec<Sentence<'t>> {
        let preserved = masked.map_or(&[][..], MaskedSentence::preserved);
        let starts = preserved.iter().step_by(self.alphabet().n_placeholders().max(1)).skip(1);
        let starts: Vec<usize> = starts.map(|span| span.range.start).collect();
        if starts.is_empty() {
            return Vec::new();
        }
        let ends = starts.iter().copied().chain([sentence.text.len()]);
        let ranges = std::iter::once(0).chain(starts.iter().copied()).zip(ends);
        let trimmed =
            |(start, end): (usize, usize)| start..start + sentence.text[start..end].trim_end().len();
        sentence.parts(&ranges.map(trimmed).collect::<Vec<_>>())
    }

    /// A sentence with too many tokens in parts, otherwise the sentence alone.
    pub(crate) fn split_by_length<'t>(
        &self,
        sentence: Sentence<'t>,
        masked: Option<&MaskedSentence>,
        encoding: &Encoding,
        hop: &Hop,
    ) -> Vec<Sentence<'t>> {
        cut(sentence, encoding, self.max_tokens, &self.uncut(sentence.text, masked, hop))
    }

    /// The ranges of a sentence that are never cut: preserved spans, and quantities, which could not be found again.
    pub(crate) fn uncut(
        &self,
        sentence: &str,
        masked: Option<&MaskedSentence>,
        hop: &Hop,
    ) -> Vec<Range<usize>> {
        if self.alphabet().n_placeholders() == 0 {
            return Vec::new();
        }
        let quantities: Vec<Range<usize>> = match rules(hop) {
            Some([from, _]) => {
                quantities::find(sentence, from).into_iter().map(|quantity| quantity.range).collect()
            }
            None => numbers(sentence),
        };
        let short = quantities.into_iter().filter(|range| range.len() <= MAX_NUMBER_LEN);
        let unread = masked.map_or_else(Vec::new, |masked| masked.unread(sentence));
        unread.into_iter().map(|span| span.range).chain(short).collect()
    }

    /// The ids of what the model reads; offsets are bytes of the sentence.
    pub(crate) fn encode(&self, sentence: &str, masked: Option<&MaskedSentence>) -> Result<Encoding> {
        let end_id = self.engine.model.special_ids().end_id;
        let Some(masked) = masked else { return self.engine.tokenizers.encode_source(sentence, end_id) };
        let mut encoding = self.engine.tokenizers.encode_source(&masked.text, end_id)?;
        encoding.offsets.iter_mut().for_each(|span| *span = masked.origin.map(span));
        Ok(encoding)
    }

    /// A text as one segment, as it is (raw mode).
    pub(crate) fn encode_whole<'t>(&self, HopInput { text, hop, .. }: HopInput<'t>) -> Result<HopText<'t>> {
        let Split { lead, sentences } = Split::whole(text);
        let mut whole = HopText::new(text, lead, hop);
        for sentence in sentences {
            if self.engine.model.n_sources() > 1 && text.trim().is_empty() {
                whole.segments.push(Segment::replaced(sentence, Some(String::new())));
                continue;
            }
            let encoding = self.encode(sentence.text, None)?;
            self.add_unknown(sentence.text, &encoding, &mut whole.unknown);
            let input = self.decoder_input(encoding, hop)?;
            let (length, max_len) = (input.source.len(), self.engine.model.max_len());
            if length > max_len {
                let message =
                    format!("{:?} has {length} tokens, expected at most {max_len}", shortened(text));
                return Err(Error::request(message, "leave out --raw to have it translated in parts"));
            }
            whole.segments.push(Segment::new(sentence, None, input));
        }
        whole.note_unknown();
        Ok(whole)
    }

    /// A part of a sentence as a segment, with the forced tokens if they still wait; copied where nothing is to be translated.
    pub(crate) fn segment<'t>(
        &self,
        sentence: Sentence<'t>,
        preserved: &[PreservedSpan],
        context: SentenceContext<'_>,
        forced: &mut ForcedTokens,
    ) -> Result<Segment<'t>> {
        if !self.has_text(sentence.text, preserved, context.hop) {
            return Ok(self.copied(sentence, preserved, context));
        }
        let masked = self.mask(sentence.text, preserved, context);
        let mut input = self.decoder_input(self.encode(sentence.text, masked.as_ref())?, context.hop)?;
        input.forced = std::mem::take(forced);
        Ok(Segment::new(sentence, masked, input))
    }

    /// The ids of a sentence after the tag of its hop, with the forced tokens of the options.
    pub(crate) fn decoder_input(&self, encoding: Encoding, hop: &Hop) -> Result<DecoderInput> {
        let words = self.engine.tokenizers.unknown_words(&encoding)?;
        let mut source = encoding.ids;
        source.splice(0..0, hop.tag);
        Ok(DecoderInput { source, words, forced: self.forced.clone() })
    }

    /// Adds the pieces of `text` that the vocabulary lacks to `pieces`.
    pub(crate) fn add_unknown(&self, text: &str, encoding: &Encoding, pieces: &mut Vec<String>) {
        let unknown = self.engine.tokenizers.source().unknown_id();
        for (id, span) in encoding.ids.iter().zip(&encoding.offsets) {
            if Some(*id) == unknown {
                let piece = shortened(text[span.clone()].trim());
                if pieces.len() == MAX_NAMED {
                    pieces.push("…".into());
                }
                if pieces.len() > MAX_NAMED {
                    return;
                }
                if !piece.is_empty() && !pieces.contains(&piece) {
                    pieces.push(piece);
                }
            }
        }
    }
}

/// The quantities of a sentence that `target` lacks, with their forms in the target language.
pub(crate) fn missing_quantities(sentence: &str, target: &str, hop: &Hop) -> Vec<PreservedSpan> {
    if let Some([from, to]) = rules(hop) {
        let lost = quantities::lost(sentence, target, [from, to]);
        return lost.iter().map(|quantity| quantity_span(sentence, quantity, to)).collect();
    }
    let lost = missing(sentence, target).into_iter();
    lost.map(|range| PreservedSpan::unchanged(range, PreservedKind::Quantity)).collect()
}

/// The languages of a hop, if the quantities of both have rules.
fn rules(hop: &Hop) -> Option<[Language; 2]> {
    let (from, to) = hop.languages.as_ref()?;
    Some([Language::from_code(from)?, Language::from_code(to)?])
}

/// A quantity as a span that becomes its form in a language.
fn quantity_span(sentence: &str, quantity: &Quantity, to: Language) -> PreservedSpan {
    let (range, kind) = (quantity.range.clone(), PreservedKind::Quantity);
    let written = quantity.written(sentence, to);
    let replacement = (written != sentence[range.clone()]).then_some(written);
    PreservedSpan { range, kind, replacement }
}

/// True if two ranges have a byte in common.
pub(crate) fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Two lists of ranges as one, in order; a range that overlaps with the one before it is left out.
fn merged(a: Vec<Range<usize>>, b: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = a.into_iter().chain(b).collect();
    ranges.sort_by_key(|range| range.start);
    ranges.dedup_by(|next, before| {
        before.end = if next.start < before.end { before.end.max(next.end) } else { before.end };
        next.start < before.end
    });
    ranges
}

/// Preserved spans, with the whole quantity in place of a sign, a letter or an entity inside it that the model cannot read
/// (6,05 *€*, 5*`&nbsp;`*km).
fn joined_quantities(
    sentence: &str,
    found: &[PreservedSpan],
    languages: [Language; 2],
) -> Vec<PreservedSpan> {
    // Digits of an address or of an emoji are no quantity.
    let is_sign = |span: &PreservedSpan| {
        let text = &sentence[span.range.clone()];
        let is_address = span.kind == PreservedKind::Address && text != "&nbsp;";
        !is_address && !text.contains(|digit: char| digit.is_ascii_digit())
    };
    let is_own = |quantity: &Quantity| {
        let first = found.partition_point(|span| span.range.end <= quantity.range.start);
        let mut others = found[first..].iter().take_while(|span| span.range.start < quantity.range.end);
        others.all(is_sign)
    };
    let quantities: Vec<Quantity> =
        quantities::find(sentence, languages[0]).into_iter().filter(is_own).collect();
    let mut quantities = quantities.iter().peekable();
    let mut joined: Vec<PreservedSpan> = Vec::with_capacity(found.len());
    for span in found {
        let taken = joined.last().map_or(0, |last| last.range.end);
        let mut rest = span.range.start.max(taken)..span.range.end.max(taken);
        while quantities.next_if(|quantity| quantity.range.end <= rest.start).is_some() {}
        while let Some(quantity) = quantities.next_if(|quantity| overlap(&quantity.range, &rest)) {
            let before = trimmed(sentence, rest.start..quantity.range.start.max(rest.start));
            joined.extend((!before.is_empty()).then(|| PreservedSpan::unchanged(before, span.kind)));
            joined.push(quantity_span(sentence, quantity, languages[1]));
            rest.start = quantity.range.end.min(rest.end);
        }
        let is_inside = joined.last().is_some_and(|last| last.range.end >= rest.end);
        if rest.start == span.range.start && !is_inside {
            joined.push(span.clone());
        } else if !is_inside {
            let rest = trimmed(sentence, rest);
            joined.extend((!rest.is_empty()).then(|| PreservedSpan::unchanged(rest, span.kind)));
        }
    }
    joined
}

/// A range without the white space at its ends.
pub(crate) fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let slice = &text[range.clone()];
    let start = range.start + slice.len() - slice.trim_start().len();
    start..start + slice.trim().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::PLACEHOLDERS;

    #[test]
    fn quantities_have_their_signs() {
        let found = |sentence: &str| -> Vec<String> {
            let spans = preserve::find(sentence, &|letter| letter.is_ascii());
            let spans = joined_quantities(sentence, &spans, [Language::French, Language::English]);
            spans.iter().map(|span| span.text(sentence).to_owned()).collect()
        };
        assert_eq!(found("J'ai vu 6,05 € hier"), ["€6.05"]);
        assert_eq!(found("5&nbsp;km et 6&nbsp;€ ou 7 £"), ["5&nbsp;km", "€6", "£7"]);
        assert_eq!(found("😀 6,05 € 🎉 x €"), ["😀", "€6.05", "🎉", "€"]);
        assert_eq!(found("@tom 5 € &amp; &nbsp; x"), ["@tom", "€5", "&amp;", "&nbsp;"]);
        assert_eq!(found("a 20 km, x"), [""; 0]);
        assert_eq!(found("0&nbsp;€€ ou 1️⃣"), ["€0", "€", "1️⃣"]);
    }

    proptest::proptest! {
        /// A model that writes anything: placeholders in any order, dropped or doubled. Either the mask notices, or every
        /// value is in the restored sentence.
        #[test]
        fn a_carried_quantity_is_not_lost(
            parts in proptest::collection::vec(
                "\\$[1-9][0-9]?(\\.[0-9]{2})?|[1-9]:[0-5][0-9] p\\.m\\.|[1-9][0-9]%|[1-9][0-9]{2}\\.[0-9] km|1[0-2]/[12][1-9]/2024",
                1..=4,
            ),
            written in proptest::collection::vec("\u{e000}|\u{e001}|\u{e002}|\u{e003}|Wort|,|'da| ", 0..12),
            is_ordered: bool,
        ) {
            let sentence = format!("the {} end", parts.join(" and "));
            let mut written: String = written.concat();
            if is_ordered {
                written.retain(|letter| !('\u{e000}'..='\u{e003}').contains(&letter));
                written.extend(('\u{e000}'..='\u{e003}').take(parts.len()));
            }
            for to in [Language::German, Language::French, Language::Turkish] {
                let found = quantities::find(&sentence, Language::English);
                proptest::prop_assert_eq!(found.len(), parts.len());
                let spans: Vec<PreservedSpan> =
                    found.iter().map(|quantity| quantity_span(&sentence, quantity, to)).collect();
                let masked = MaskedSentence::new(&sentence, &spans, (None, Case::Mixed), &|word| word.len());
                if masked.is_carried_by(&sentence, &written) {
                    let restored = masked.restore(&sentence, &written).text;
                    for part in &spans {
                        proptest::prop_assert!(restored.contains(part.text(&sentence)), "{} in {}", sentence, restored);
                    }
                } else {
                    let counts = PLACEHOLDERS.iter().map(|mark| written.matches(*mark).count());
                    let is_exact = counts.enumerate().all(|(index, count)| count == usize::from(index < parts.len()));
                    proptest::prop_assert!(!is_exact);
                }
            }
        }

        #[test]
        fn joined_spans_are_in_order(sentence in "([0-9]|[ ,a@]|€|😀|&nbsp;| km|\\$|漢){0,24}") {
            let spans = preserve::find(&sentence, &|letter| letter.is_ascii());
            let joined = joined_quantities(&sentence, &spans, [Language::French, Language::English]);
            let mut end = 0;
            for span in &joined {
                proptest::prop_assert!(span.range.start >= end && !span.range.is_empty(), "{:?}", joined);
                end = span.range.end;
            }
            // No preserved character is given to the model.
            for at in spans.into_iter().flat_map(|span| trimmed(&sentence, span.range)) {
                let is_white = sentence.as_bytes()[at] == b' ';
                proptest::prop_assert!(is_white || joined.iter().any(|span| span.range.contains(&at)), "{:?}", joined);
            }
        }
    }
}
