//! Checks that the files of the feature `embed-model` exist, and sets a hash of them for `default_model.rs`; also the source
//! tree, whose model a program finds that was built there, unless `POLYHEAD_PACKAGED` is set: a package names no folder of the
//! machine that built it.

use std::path::Path;

/// Embedded files; `default_model.rs` has the same list.
const FILES: [&str; 5] =
    ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=POLYHEAD_PACKAGED");
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    if let (None, Some(tree)) = (std::env::var_os("POLYHEAD_PACKAGED"), tree) {
        println!("cargo::rustc-env=POLYHEAD_SOURCE_TREE={}", tree.display());
    }
    if std::env::var_os("CARGO_FEATURE_EMBED_MODEL").is_none() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/default");
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for name in FILES {
        let path = folder.join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        match std::fs::read(&path) {
            // FNV-1a.
            Ok(bytes) => {
                sum = bytes
                    .iter()
                    .fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
            }
            Err(error) => println!(
                "cargo::error=the feature embed-model needs models/default/{name}, which cannot be read ({error}); \
                 put the model there or build without the feature"
            ),
        }
    }
    println!("cargo::rustc-env=POLYHEAD_EMBEDDED_MODEL={sum:016x}");
}
