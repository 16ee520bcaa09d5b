//! Base64 (RFC 4648, with padding): three bytes as four letters.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The letters of `bytes`.
pub fn base64(bytes: impl ExactSizeIterator<Item = u8>) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    let (mut held, mut count) = (0_u32, 0);
    let mut push = |held: u32, letters: usize| {
        let letter = |place: usize| LETTERS[(held >> (18 - 6 * place)) as usize & 63] as char;
        out.extend((0..4).map(|place| if place < letters { letter(place) } else { '=' }));
    };
    for byte in bytes {
        held = held << 8 | u32::from(byte);
        count += 1;
        if count == 3 {
            push(held, 4);
            (held, count) = (0, 0);
        }
    }
    if count > 0 {
        push(held << (8 * (3 - count)), count as usize + 1);
    }
    out
}

/// f32 numbers, little-endian.
pub fn of_floats(numbers: &[f32]) -> String {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    base64(bytes.into_iter())
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
