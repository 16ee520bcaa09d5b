//! Any bytes as a `config.json` or `args.json`: an error or a config, and a config that is accepted can be built, loaded
//! into and, if it is small, run.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use polyhead_attention::{Capture, Pass};
use polyhead_models::checkpoint::safetensors::{TensorFile, Weights};
use polyhead_models::checkpoint::{CheckpointLayout, load_parameters, marian_compatible, parse_config};
use polyhead_models::decode::NextToken;
use polyhead_models::{Decoding, Ids, Model, ModelConfig, SequenceToSequence};
use polyhead_tensor::{Parameters, Tape, pool};
use serde_json::json;

/// Models with more numbers are built, but not run.
const MOST_NUMBERS: usize = 50_000;

/// What configs ask weights for: sizes of dictionaries, a bias. The arrays have no columns, and so no numbers.
static WEIGHTS: LazyLock<Weights> = LazyLock::new(|| {
    let array = |shape: [usize; 2]| json!({ "dtype": "F32", "shape": shape, "data_offsets": [0, 0] });
    let header = json!({
        "encoder.embed_tokens.weight": array([11, 0]),
        "decoder.embed_tokens.weight": array([9, 0]),
        "final_logits_bias": array([1, 0]),
    });
    let header = header.to_string();
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    Weights::whole(TensorFile::from_bytes("fuzz.safetensors", bytes).expect("a sound file"))
});

fuzz_target!(|bytes: &[u8]| {
    for name in ["config.json", "args.json"] {
        if let Ok((config, layout)) = parse_config(name, bytes, &WEIGHTS) {
            comes_back(&config, layout);
            build(&config, layout);
        }
    }
    pool::clear();
});

/// What is written is read.
fn comes_back(config: &ModelConfig, layout: CheckpointLayout) {
    let mut value = serde_json::to_value(config).expect("a config is always JSON");
    value["layout"] = json!(layout.name());
    let text = value.to_string();
    let (again, layout_again) = parse_config("config.json", text.as_bytes(), &WEIGHTS).expect("our own text");
    assert_eq!((&again, layout_again), (config, layout));
    let _ = marian_compatible(config);
}

fn build(config: &ModelConfig, layout: CheckpointLayout) {
    let mut parameters = Parameters::default();
    let model = Model::new(config, &mut parameters).expect("a config that was accepted");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/models/tests/golden");
    let folder = if layout == CheckpointLayout::Torch { "torch/post" } else { "opus" };
    let _ = load_parameters(golden.join(folder), config, layout, &mut parameters);
    if parameters.count() <= MOST_NUMBERS {
        parameters.initialise(0);
        match &model {
            Model::SequenceToSequence(model) => run(model, &parameters),
            Model::Encoder(model) => {
                let (tape, capture) = (Tape::inference(), Capture::everything());
                let pass = Pass::new(&tape, &parameters, &capture);
                let logits = model.classify(&pass, &model.ids(&[&[0, model.pad_id(), 0], &[0]]));
                if model.max_len() >= 3 {
                    assert_eq!(logits.expect("ids of this model").shape(), [2, model.labels().len()]);
                }
            }
            Model::LanguageModel(model) => {
                let (tape, capture) = (Tape::inference(), Capture::everything());
                let pass = Pass::new(&tape, &parameters, &capture);
                let logits = model.forward(&pass, &model.ids([Some(&[0_u32, 0, 0][..]), None].into_iter(), 3));
                if model.max_len().is_none_or(|length| length >= 3) {
                    assert_eq!(logits.expect("ids of this model").shape(), [6, model.vocab_size()]);
                }
            }
            // Reads vectors, not ids.
            Model::Pointer(_) => {}
        }
    }
}

/// All tokens at once and one after the other; sentences may be longer than the positions suffice for.
fn run(model: &SequenceToSequence, parameters: &Parameters) {
    let (config, [_, vocab_size]) = (model.special_ids(), model.vocab_sizes());
    let source = [&[0, config.pad_id, 0][..], &[0]];
    let target = [&[config.start_id, config.end_id, 0][..], &[config.start_id]];
    let (tape, capture) = (Tape::inference(), Capture::everything());
    let pass = Pass::new(&tape, parameters, &capture);
    let ids = |rows: &[&[u32]]| Ids::padded(rows, config.pad_id);
    let logits = model.forward(&pass, &ids(&source), &ids(&target));
    if model.max_len() < 3 {
        return;
    }
    assert_eq!(logits.expect("ids of this model").shape(), [2, 3, vocab_size]);
    let off = Capture::off();
    let decoding = Decoding::new(model, parameters, &off);
    let mut state = decoding.start(&source, 2).expect("ids of this model");
    for token in [config.start_id, config.end_id, 0] {
        decoding.step(&mut state, &[token; 2]).expect("ids of this model");
        decoding.reorder(&mut state, &[1, 1]);
    }
}
