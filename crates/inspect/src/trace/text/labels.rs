//! Readable labels of vocabulary entries: without the mark of a word's beginning or of its continuation, with `·` before letters
//! that continue a word.

use polyhead_text::tokenizer::Tokenizer;

/// The mark of a word's beginning in SentencePiece.
const WORD_START: char = '▁';
/// The space in byte-level BPE, where every byte is a printable character.
const BYTE_LEVEL: char = 'Ġ';
/// The mark of a word's continuation in WordPiece.
const CONTINUES: &str = "##";

/// The labels of a vocabulary.
pub(in crate::trace) struct PieceLabels<'a> {
    tokenizer: &'a Tokenizer,
    mark: Option<char>,
}

impl<'a> PieceLabels<'a> {
    pub(in crate::trace) fn new(tokenizer: &'a Tokenizer) -> Self {
        let mut pieces = (0..tokenizer.vocab_size() as u32).filter_map(|id| tokenizer.piece(id));
        let mark = pieces.find_map(|piece| {
            let first = piece.chars().next()?;
            ([WORD_START, BYTE_LEVEL].contains(&first)
                && piece.chars().nth(1).is_some_and(char::is_alphanumeric))
            .then_some(first)
        });
        Self { tokenizer, mark }
    }

    /// The vocabulary entry of an id; a model may have more ids than its tokeniser.
    pub(in crate::trace) fn piece(&self, id: u32) -> String {
        self.tokenizer.piece(id).unwrap_or_else(|| format!("#{id}"))
    }

    /// The label of an id.
    pub(in crate::trace) fn label(&self, id: u32) -> String {
        let piece = self.piece(id);
        let Some(mark) = self.mark else {
            let continued =
                piece.strip_prefix(CONTINUES).filter(|text| text.starts_with(char::is_alphanumeric));
            return continued.map_or(piece.clone(), |text| format!("·{text}"));
        };
        let text = if mark == BYTE_LEVEL {
            // Pieces spell bytes as other characters.
            match self.tokenizer.decode(&[id]) {
                Ok(text) if !text.is_empty() && !text.contains('\u{fffd}') => text,
                _ => return piece,
            }
        } else {
            piece.replace(mark, " ")
        };
        if text.trim().is_empty() {
            return text.chars().map(blank).collect();
        }
        let text = text.trim();
        let continues = !piece.starts_with(mark) && text.starts_with(char::is_alphanumeric);
        if continues { format!("·{text}") } else { text.to_owned() }
    }
}

/// A visible character in place of white space.
fn blank(space: char) -> char {
    match space {
        ' ' => '␣',
        '\n' => '⏎',
        '\t' => '⇥',
        other => other,
    }
}
