//! The bytes that a single token adds to a text, which may be only a part of a character.

use tokenizers::DecoderWrapper;

use super::normalization::WORD_MARK;
use super::{HuggingFace, Tokenizer};

impl Tokenizer {
    /// The bytes that a token adds inside of a text; none for a special token. `None` for an id without a token.
    pub fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        let piece = self.piece(id)?;
        let text = self.decode(&[id]).unwrap_or_default();
        let byte = || {
            let digits = piece.strip_prefix("<0x")?.strip_suffix('>')?;
            u8::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 2)
        };
        match self {
            Self::HuggingFace(tokenizer) if tokenizer.is_special(id) => Some(Vec::new()),
            Self::HuggingFace(tokenizer) if tokenizer.is_byte_level() => Some(bytes_of_level(&piece)),
            Self::HuggingFace(tokenizer) if !tokenizer.has_byte_fallback() && !piece.contains(WORD_MARK) => {
                Some(text.into_bytes())
            }
            Self::Fairseq { .. } => Some(text.into_bytes()),
            // A space in front is lost where a token is decoded alone.
            _ if text.is_empty() && !piece.contains(WORD_MARK) => Some(Vec::new()),
            _ => Some(byte().map_or_else(|| piece.replace(WORD_MARK, " ").into_bytes(), |byte| vec![byte])),
        }
    }
}

impl HuggingFace {
    /// True if each character of a token stands for a byte.
    fn is_byte_level(&self) -> bool {
        match self.decoder() {
            Some(DecoderWrapper::ByteLevel(_)) => true,
            Some(DecoderWrapper::Sequence(all)) => {
                all.get_decoders().iter().any(|decoder| matches!(decoder, DecoderWrapper::ByteLevel(_)))
            }
            _ => false,
        }
    }
}

/// The bytes that the characters of a byte-level token stand for: printable characters of Latin-1 themselves, the others those
/// from U+0100 on, in order.
fn bytes_of_level(piece: &str) -> Vec<u8> {
    let is_printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let others: Vec<u8> = (0..=255_u8).filter(|byte| !is_printable(byte)).collect();
    let mut bytes = Vec::with_capacity(piece.len());
    for c in piece.chars() {
        let code = c as u32;
        match u8::try_from(code).ok().filter(is_printable) {
            Some(byte) => bytes.push(byte),
            // An added token is spelled as it is.
            None => match code.checked_sub(0x100).and_then(|index| others.get(index as usize)) {
                Some(&byte) => bytes.push(byte),
                None => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
            },
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_of_byte_level_tokens_are_bytes() {
        assert_eq!(bytes_of_level("Ġthe"), b" the");
        assert_eq!(bytes_of_level("Ċ"), b"\n");
        assert_eq!(bytes_of_level("Ã©"), "é".as_bytes());
        assert_eq!(bytes_of_level("ðŁĺ"), [0xf0, 0x9f, 0x98]);
        // All 256 bytes, each once.
        let all: String = (0x21..=0x7e_u32)
            .chain(0xa1..=0xac)
            .chain(0xae..=0xff)
            .chain(0x100..0x144)
            .filter_map(char::from_u32)
            .collect();
        let mut bytes = bytes_of_level(&all);
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
    }
}
