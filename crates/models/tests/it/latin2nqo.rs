//! A trained fairseq model with known outputs: Latin-script Manding to N'Ko, five pre-norm layers in each stack.
//!
//! The folder (weights, args.json, BPE codes, dictionaries, golden.greedy.tsv) is given by `POLYHEAD_LATIN2NQO`; without it
//! the test is skipped and says so.

use std::path::PathBuf;

use polyhead_attention::Capture;
use polyhead_models::Decoding;
use polyhead_models::decode::greedy::greedy;
use polyhead_models::decode::{DecodeOptions, Lengths};
use polyhead_text::tokenizer::Tokenizer;

#[test]
fn a_trained_fairseq_model_gives_its_known_outputs() {
    let Some(folder) = std::env::var_os("POLYHEAD_LATIN2NQO").map(PathBuf::from) else {
        eprintln!("skipped: POLYHEAD_LATIN2NQO is not set to the model folder");
        return;
    };
    let (model, parameters) = super::outside::load(&folder);
    let tokenizer =
        |dictionary| Tokenizer::load_fairseq(folder.join("bpe.code"), folder.join(dictionary)).unwrap();
    let (source, target) = (tokenizer("dict.roman.txt"), tokenizer("dict.nqo.txt"));
    let capture = Capture::off();
    let decoding = Decoding::new(&model, &parameters, &capture);
    let end_id = model.special_ids().end_id;
    let lengths = Lengths { max: 300, ..Lengths::default() };
    let options =
        DecodeOptions { start_id: model.special_ids().start_id, end_id, lengths, ..DecodeOptions::default() };
    let golden = std::fs::read_to_string(folder.join("golden.greedy.tsv")).unwrap();
    let (mut worst, mut lines) = (0.0_f64, 0);
    for line in golden.lines() {
        let [text, expected, log_probability] = *line.splitn(4, '\t').take(3).collect::<Vec<_>>() else {
            panic!("three columns: {line}");
        };
        let mut ids = source.encode(&text.to_lowercase()).unwrap().ids;
        if ids.last() != Some(&end_id) {
            ids.push(end_id);
        }
        let found = greedy(&decoding, &[&ids], &options).unwrap().remove(0);
        let words: Vec<u32> = found.ids.iter().copied().filter(|&id| id != end_id).collect();
        assert_eq!(target.decode(&words).unwrap(), expected, "{text}");
        worst = worst.max((found.log_probability - log_probability.parse::<f64>().unwrap()).abs());
        lines += 1;
    }
    eprintln!("{lines} outputs are exact, log-probabilities within {worst:.1e}");
    assert!(lines == 51 && worst < 1e-3, "{lines} lines, off by {worst}");
}
