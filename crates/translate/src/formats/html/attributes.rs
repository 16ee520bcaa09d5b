//! Values of attributes that are translated (`alt`, `title`, `placeholder`, the description of a page), and the language
//! of the page, `<html lang>`.

use std::collections::BTreeSet;
use std::ops::Range;

use super::{entities, names};
use crate::formats::TranslatedText;

/// Attributes that are read by people, on any element.
const TEXTS: [&str; 4] = ["alt", "aria-label", "placeholder", "title"];
/// `name` or `property` of the elements `meta` whose content is read by people.
const DESCRIPTIONS: [&str; 7] = [
    "application-name",
    "description",
    "og:description",
    "og:image:alt",
    "og:title",
    "twitter:description",
    "twitter:title",
];

/// A value that is written anew.
#[derive(Debug, Clone)]
pub(super) struct AttributeEdit {
    /// Bytes of the value with its quotes.
    pub(super) bytes: Range<usize>,
    kind: EditKind,
}

#[derive(Debug, Clone)]
enum EditKind {
    Text {
        text: String,
        /// White space before and after the text.
        around: [String; 2],
        unknown: BTreeSet<String>,
    },
    /// The language of the page.
    Language,
}

impl AttributeEdit {
    /// The text to translate.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.kind {
            EditKind::Text { text, .. } => Some(text),
            EditKind::Language => None,
        }
    }
}

/// The edits of an opening tag, which is these bytes of a page.
pub(super) fn edits(page: &str, name: &str, tag: Range<usize>) -> Vec<AttributeEdit> {
    // Their titles are names of style sheets.
    if matches!(name, "link" | "style") {
        return Vec::new();
    }
    let attributes = names::attributes(&page[tag.clone()]);
    let value_of = |wanted: &str| {
        let is_wanted = |(name, _): &&(&str, &str)| name.eq_ignore_ascii_case(wanted);
        attributes.iter().find(is_wanted).map_or(String::new(), |(_, value)| value.to_ascii_lowercase())
    };
    let is_text = |attribute: &str| match attribute {
        "content" => {
            name == "meta"
                && ["name", "property"].iter().any(|key| DESCRIPTIONS.contains(&value_of(key).as_str()))
        }
        "value" => name == "input" && matches!(value_of("type").as_str(), "button" | "reset" | "submit"),
        "label" => matches!(name, "optgroup" | "option" | "track"),
        _ => TEXTS.contains(&attribute),
    };
    let edit = |(attribute, value): &(&str, &str)| {
        let attribute = attribute.to_ascii_lowercase();
        let kind = match attribute.as_str() {
            "lang" | "xml:lang" if name == "html" && !value.is_empty() => EditKind::Language,
            attribute if is_text(attribute) => text(value)?,
            _ => return None,
        };
        Some(AttributeEdit { bytes: with_quotes(page, value, &tag)?, kind })
    };
    attributes.iter().filter_map(edit).collect()
}

/// The text of a value; none without letters.
fn text(value: &str) -> Option<EditKind> {
    let mut unknown = BTreeSet::new();
    let decoded = entities::decode(value, &mut unknown);
    let text = decoded.trim();
    let lead = decoded.len() - decoded.trim_start().len();
    let around = [decoded[..lead].to_owned(), decoded[lead + text.len()..].to_owned()];
    let text = text.to_owned();
    text.contains(char::is_alphabetic).then_some(EditKind::Text { text, around, unknown })
}

/// Bytes of a value with its quotes; none if its quote is not closed in the tag.
fn with_quotes(page: &str, value: &str, tag: &Range<usize>) -> Option<Range<usize>> {
    let start = value.as_ptr() as usize - page.as_ptr() as usize;
    let end = start + value.len();
    let quote = *page.as_bytes().get(start.checked_sub(1)?)?;
    if !matches!(quote, b'"' | b'\'') {
        return Some(start..end);
    }
    (page.as_bytes().get(end) == Some(&quote) && end < tag.end).then_some(start - 1..end + 1)
}

/// The new value of each edit with its quotes; none where it stays.
pub(super) fn values(
    edits: &[AttributeEdit],
    translated: &[TranslatedText<'_>],
    language: Option<&str>,
) -> Vec<Option<String>> {
    let mut translated = translated.iter();
    let value = |edit: &AttributeEdit| match &edit.kind {
        EditKind::Language => language.map(|code| format!("\"{code}\"")),
        EditKind::Text { around: [lead, tail], unknown, .. } => {
            let mut value = String::new();
            entities::encode(&format!("{lead}{}{tail}", translated.next()?.text), unknown, &mut value);
            Some(format!("\"{}\"", value.replace('"', "&quot;")))
        }
    };
    edits.iter().map(value).collect()
}
