//! Any bytes as an HTML, SRT or PO document: an error or texts, and what is written with the texts is a document, too.
//! The first byte chooses the format.
#![no_main]

use libfuzzer_sys::fuzz_target;
use polyhead_translate::formats::{Format, Layout, TranslatedText};

const FORMATS: [Format; 4] = [Format::Html, Format::Srt, Format::Po, Format::Text];

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, body)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(body) else { return };
    let format = FORMATS[usize::from(first) % FORMATS.len()];
    let Ok(layout) = Layout::read(format, text) else { return };
    let texts: Vec<String> = layout.texts().iter().map(|text| (*text).to_owned()).collect();
    let alignments: Vec<Vec<(usize, usize)>> = texts
        .iter()
        .map(|text| (0..text.split_whitespace().count()).map(|word| (word, word)).collect())
        .collect();
    let filled: Vec<TranslatedText<'_>> =
        texts.iter().zip(&alignments).map(|(text, alignment)| TranslatedText { text, alignment }).collect();
    let written = layout.write_in(&filled, Some("de"));
    let _ = Layout::read(format, &written);
});
