//! Base64 of bytes and of f32 arrays (RFC 4648, with padding).

use ::base64::Engine as _;
use ::base64::engine::general_purpose::STANDARD;

/// Base64 of bytes.
pub fn base64(bytes: impl Iterator<Item = u8>) -> String {
    STANDARD.encode(bytes.collect::<Vec<u8>>())
}

/// Base64 of little-endian f32 numbers.
pub fn of_floats(numbers: &[f32]) -> String {
    base64(numbers.iter().flat_map(|number| number.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_those_of_the_standard() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, letters) in cases {
            assert_eq!(base64(plain.bytes()), letters);
        }
        assert_eq!(base64([255, 254, 253].into_iter()), "//79");
        // 1.0 is 00 00 80 3f.
        assert_eq!(of_floats(&[1.0, 0.5]), "AACAPwAAAD8=");
    }
}
