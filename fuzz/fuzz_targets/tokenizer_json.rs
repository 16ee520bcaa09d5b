//! Any bytes as a `tokenizer.json`: an error or a tokeniser, and one that loads encodes and decodes any text or says
//! why it cannot.
#![no_main]

use libfuzzer_sys::fuzz_target;
use polyhead_random::Random;
use polyhead_text::tokenizer::{BpeDropout, Encoding, HuggingFace};

const TEXTS: [&str; 4] = [
    "",
    "  Hello\u{a0}wörld, ok? ",
    "▁a▁▁b\0ab\tabab ﬁ ＡＢ e\u{301}\r\n12",
    "[CLS]<s>漢字🙂<0x41> <unk>aaaaaaaa",
];

// Each file has a thread of its own: the crate `tokenizers` keeps a cache per thread and tokeniser until the thread ends,
// and a thread's stack is the smallest that a reader may find itself on.
fuzz_target!(|bytes: &[u8]| {
    std::thread::scope(|scope| {
        // Joined by hand, since the scope alone does not wait for the caches to be dropped.
        scope.spawn(|| read(bytes)).join().expect("a panic ends the process");
    });
});

fn read(bytes: &[u8]) {
    let Ok(tokenizer) = HuggingFace::from_bytes(bytes, "tokenizer.json") else { return };
    let dropout = BpeDropout { probability: 0.3, random: Random::new(0) };
    for text in TEXTS {
        let _ = tokenizer.normalize(text);
        check(&tokenizer, text, tokenizer.encode(text));
        check(&tokenizer, text, tokenizer.encode_with_special(text));
        check(&tokenizer, text, tokenizer.encode_with_dropout(text, &dropout));
    }
    let _ = tokenizer.decode(&[0, 1, 2, 3, u32::MAX]);
    tokenizer.to_json();
}

fn check(tokenizer: &HuggingFace, text: &str, encoding: polyhead_text::Result<Encoding>) {
    let Ok(encoding) = encoding else { return };
    for span in &encoding.offsets {
        assert!(text.get(span.clone()).is_some(), "{span:?} does not slice {text:?}");
    }
    let _ = tokenizer.decode(&encoding.ids);
}
