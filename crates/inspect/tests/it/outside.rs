//! Weights are those of Hugging Face's `output_attentions=True` (`tests/golden/attentions.py`).

use std::path::Path;

use flate2::read::GzDecoder;
use polyhead_attention::Site;
use polyhead_inspect::trace::{AttentionWeights, ObserveOptions, Trace, TraceOptions, observe};
use polyhead_models::checkpoint::safetensors::TensorFile;
use polyhead_models::checkpoint::{Checkpoint, load};

use serde_json::Value;

use crate::{engine, model_folder};

fn golden(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn ids(case: &Value, key: &str) -> Vec<u32> {
    case[key].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

#[test]
fn weights_are_hugging_faces_in_all_heads_of_all_kinds() {
    let cases: Vec<Value> =
        serde_json::from_slice(&std::fs::read(golden("attentions.json")).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let unpacked = folder.path().join("attentions.safetensors");
    let packed = std::fs::File::open(golden("attentions.safetensors.gz")).unwrap();
    std::io::copy(&mut GzDecoder::new(packed), &mut std::fs::File::create(&unpacked).unwrap()).unwrap();
    let arrays = TensorFile::open(unpacked).unwrap();
    let engine = engine();
    let (mut compared, mut worst) = (0, 0.0_f32);
    for (index, case) in cases.iter().enumerate() {
        let (source, target) = (ids(case, "source"), ids(case, "target"));
        let attentions: Vec<AttentionWeights> = if let Some(text) = case["text"].as_str() {
            // From the text: tokens, beam search and weights.
            let trace = Trace::new(&engine, text, &TraceOptions::default()).unwrap();
            assert_eq!(
                (trace.side("source").unwrap().ids(), trace.side("target").unwrap().ids()),
                (source, target),
                "{text}"
            );
            trace.attentions
        } else {
            let folder = model_folder(case["folder"].as_str().unwrap());
            let Checkpoint { model, parameters, .. } = load(&folder, None).unwrap();
            let model = model.into_sequence_to_sequence().unwrap();
            let (options, start_id) = (ObserveOptions::default(), model.special_ids().start_id);
            observe(&model, &parameters, [&source, &target], start_id, &options).unwrap().attentions
        };
        for name in ["encoder", "decoder", "cross"] {
            let kind = attentions.iter().find(|own| own.site.kind.name == name).unwrap().site.kind;
            let expected = arrays.tensor(&format!("{index}.{name}")).unwrap();
            let &[n_layers, n_heads, q_len, k_len] = expected.shape() else { panic!("four axes") };
            let mut numbers = expected.data().chunks_exact(q_len * k_len);
            for layer in 0..n_layers {
                let own = attentions.iter().find(|own| own.site == Site { kind, layer }).unwrap();
                assert_eq!(own.heads, (0..n_heads).collect::<Vec<_>>());
                for head in &own.weights {
                    assert_eq!([head.n_rows(), head.n_columns()], [q_len, k_len]);
                    for (own, theirs) in head.numbers().iter().zip(numbers.next().unwrap()) {
                        worst = worst.max((own - theirs).abs());
                        compared += 1;
                    }
                }
            }
            assert_eq!(attentions.iter().filter(|own| own.site.kind == kind).count(), n_layers);
        }
    }
    println!("{compared} weights, largest difference {worst:e}");
    assert!(compared > 40_000 && worst < 1e-5, "{compared} weights, {worst}");
}
