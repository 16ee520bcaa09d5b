//! Character n-grams of words, numbered as fastText numbers them (Bojanowski et al. 2017, *Enriching word vectors with subword
//! information*).
//!
//! A word stands between `<` and `>`; its n-grams of `min_n` to `max_n` characters, less lone `<` and `>`, are hashed (FNV-1a,
//! over signed bytes as fastText does it) to buckets.

use super::SubwordOptions;

/// Passes the bucket of each character n-gram of `word` to `take`.
pub(crate) fn buckets(word: &str, options: &SubwordOptions, mut take: impl FnMut(u32)) {
    let marked = format!("<{word}>");
    let starts: Vec<usize> = marked.char_indices().map(|(at, _)| at).chain([marked.len()]).collect();
    let n_chars = starts.len() - 1;
    for first in 0..n_chars {
        for n in options.min_n..=options.max_n.min(n_chars - first) {
            let is_mark = n == 1 && (first == 0 || first + 1 == n_chars);
            if !is_mark {
                let gram = &marked.as_bytes()[starts[first]..starts[first + n]];
                take(hash(gram) % options.buckets as u32);
            }
        }
    }
}

/// FNV-1a of 32 bits; bytes above 127 are sign-extended, as in fastText.
pub(crate) fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(2_166_136_261, |hash: u32, &byte| {
        (hash ^ i32::from(byte.cast_signed()).cast_unsigned()).wrapping_mul(16_777_619)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grams_of_a_short_word() {
        let options = SubwordOptions { min_n: 3, max_n: 4, buckets: 1 << 30 };
        let mut found = Vec::new();
        buckets("éa", &options, |bucket| found.push(bucket));
        let expected: Vec<u32> =
            ["<éa", "<éa>", "éa>"].iter().map(|gram| hash(gram.as_bytes()) % (1 << 30)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn hash_is_fnv() {
        assert_eq!(hash(b""), 2_166_136_261);
        assert_eq!(hash(b"a"), 0xe40c_292c);
    }
}
