//! The rules of the normaliser: a compiled map from character sequences to replacements, longest match first.
//!
//! The bytes are `u32 size`, a double array of `size` bytes in the layout of darts-clone, and the replacements, each
//! terminated by a NUL byte. A unit of the array packs, from the lowest bit: the label (8 bits), a flag for the end of
//! a key (1), the scale of the offset (1) and the offset (22); the unit of a value has the highest bit set and holds
//! the position of the replacement. The child of unit `p` on byte `b` is `p ^ offset(p) ^ b`.

use super::proto::FormatError;

const VALUE: u32 = 1 << 31;

/// A parsed charsmap.
#[derive(Debug, Clone)]
pub(crate) struct Charsmap {
    units: Vec<u32>,
    replacements: String,
    /// Per ASCII character: true if no rule matches it alone or followed by another ASCII character.
    plain: [bool; 128],
}

impl Charsmap {
    /// Parses and validates the bytes.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let malformed =
            |found: String, expected: &str| Err((format!("normaliser rules: {found}"), expected.into()));
        let Some((size, rest)) = bytes.split_first_chunk::<4>() else {
            return malformed(format!("{} bytes", bytes.len()), "at least the 4 bytes of a size");
        };
        let size = u32::from_le_bytes(*size) as usize;
        if size > rest.len() || size == 0 || !size.is_multiple_of(4) {
            return malformed(
                format!("a trie of {size} bytes in {}", rest.len()),
                "a trie of 4-byte units that fits its field",
            );
        }
        let (trie, replacements) = rest.split_at(size);
        let Ok(replacements) = std::str::from_utf8(replacements) else {
            return malformed("replacements that are not UTF-8".into(), "replacements in UTF-8");
        };
        if !replacements.ends_with('\0') {
            return malformed("replacements without a NUL at the end".into(), "NUL-terminated replacements");
        }
        let units: Vec<u32> = trie
            .chunks_exact(4)
            .map(|unit| u32::from_le_bytes([unit[0], unit[1], unit[2], unit[3]]))
            .collect();
        let lost =
            |&&unit: &&u32| unit & VALUE != 0 && !replacements.is_char_boundary((unit & !VALUE) as usize);
        if let Some(unit) = units.iter().find(lost) {
            return malformed(
                format!("a rule with replacement at byte {} of {}", unit & !VALUE, replacements.len()),
                "the start of a replacement",
            );
        }
        let mut map = Self { units, replacements: replacements.to_owned(), plain: [false; 128] };
        for first in 0..128_u8 {
            let alone = map.longest(&[first]).is_none();
            map.plain[usize::from(first)] =
                alone && (0..128_u8).all(|second| map.walk(&[first, second], |_, _| ()) < 2);
        }
        Ok(map)
    }

    /// True if ASCII `byte`, followed by another ASCII character or the end, is unchanged.
    #[inline]
    pub(crate) fn keeps(&self, byte: u8) -> bool {
        self.plain[usize::from(byte & 127)]
    }

    /// The longest rule that matches at the start of `text`: its length in bytes and the replacement.
    pub(crate) fn longest(&self, text: &[u8]) -> Option<(usize, &str)> {
        let mut longest = None;
        self.walk(text, |length, position| longest = Some((length, position)));
        let (length, position) = longest?;
        let replacement = self.replacements.get(position as usize..)?;
        let end = memchr::memchr(0, replacement.as_bytes())?;
        Some((length, &replacement[..end]))
    }

    /// Traverses the array along `text`, calls `report(length, position)` for each key, and returns the number of bytes
    /// matched.
    fn walk(&self, text: &[u8], mut report: impl FnMut(usize, u32)) -> usize {
        let mut at = offset(self.units[0]);
        for (index, &byte) in text.iter().enumerate() {
            at ^= usize::from(byte);
            let Some(&unit) = self.units.get(at) else { return index };
            if unit & (VALUE | 0xff) != u32::from(byte) {
                return index;
            }
            at ^= offset(unit);
            if unit >> 8 & 1 == 1
                && let Some(value) = self.units.get(at)
            {
                report(index + 1, value & !VALUE);
            }
        }
        text.len()
    }
}

fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & (1 << 9)) >> 6)) as usize
}
