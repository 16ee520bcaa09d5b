//! Any bytes as a `.spm` file: an error or a model, and a model that loads encodes and decodes any text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use polyhead_text::tokenizer::sentencepiece::SentencePiece;

const TEXTS: [&str; 4] =
    ["", "  Je suis\u{a0}étudiant, ok? ", "▁a▁▁b\0ab\tabab ﬁ ＡＢ e\u{301}", "<s>漢字🙂<0x41> <unk>aaaaaaaa"];

fuzz_target!(|bytes: &[u8]| {
    let Ok(model) = SentencePiece::from_bytes(bytes, "fuzz.spm") else { return };
    for text in TEXTS {
        let encoding = model.encode(text);
        assert_eq!(model.encode_ids(text), encoding.ids);
        for span in &encoding.offsets {
            assert!(text.get(span.clone()).is_some(), "{span:?} does not slice {text:?}");
        }
        model.decode(&encoding.ids).expect("ids of this model");
        model.decode_pieces(encoding.pieces.iter().map(String::as_str));
    }
    let all: Vec<u32> = (0..model.vocab_size() as u32).collect();
    model.decode(&all).expect("ids of this model");
    assert!(model.decode(&[model.vocab_size() as u32]).is_err());
});
