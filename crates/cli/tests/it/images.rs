//! Images: a classifier of pictures of masks from training to the picture of its attention, and what goes wrong.

use std::path::Path;

use serde_json::Value;

use crate::program::{Run, folder, polyhead};

const RECIPE: &str = r#"
out = "run"
[data]
train = { images = "masks" }
valid = { images = "masks" }
[images]
size = 24
flip = true
[model]
model_type = "vit"
patch_size = 8
d_model = 16
n_layers = 2
n_heads = 2
d_ff = 16
[schedule]
curve = "constant"
peak = 0.005
warmup_steps = 5
[train]
device = "cpu"
max_steps = 40
[validation]
every_steps = 40
"#;

fn run(folder: &Path, arguments: &[&str]) -> Run {
    polyhead(folder, arguments, "")
}

/// A folder with a recipe and pictures of masks of two kinds.
fn masks() -> tempfile::TempDir {
    let folder = folder(&[("masks.toml", RECIPE)]);
    for kind in ["causal", "full"] {
        std::fs::create_dir_all(folder.path().join("masks").join(kind)).unwrap();
        for length in ["5", "8", "11"] {
            let out = format!("masks/{kind}/{length}.png");
            run(folder.path(), &["draw", "mask", "--kind", kind, "--length", length, "--out", &out]).ok();
        }
    }
    folder
}

#[test]
fn an_image_classifier_is_trained_run_quantised_exported_and_inspected() {
    let folder = masks();
    let run = |arguments: &[&str]| run(folder.path(), arguments);
    let told = run(&["train", "masks.toml"]).err;
    assert!(told.contains("6 training images, 60 patches and tokens, 2 labels, 6 for validation"), "{told}");
    assert!(told.contains("use it with: polyhead classify --model run --image FILE"), "{told}");
    run(&["verify-run", "run", "--steps", "40"]).ok();
    let image = "masks/full/8.png";
    let out = run(&["classify", "-m", "run", "--top", "2", "--image", image]).ok();
    let fields: Vec<&str> = out.trim_end().split('\t').collect();
    assert!(fields.len() == 5 && fields[4] == image, "{out}");
    let out =
        run(&["classify", "-m", "run", "--format", "jsonl", "--image", "masks/full", "masks/causal/5.png"])
            .ok();
    let rows: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 4);
    assert_eq!((&rows[2]["image"], &rows[3]["id"]), (&image.into(), &3.into()));
    // Alone as among others.
    let alone = run(&["classify", "-m", "run", "--format", "jsonl", "--image", image]).ok();
    assert_eq!(serde_json::from_str::<Value>(&alone).unwrap()["classes"], rows[2]["classes"]);
    run(&["classify", "-m", "run", "--image-size", "40", "--image", image]).ok();
    let found = run(&["quantize", "run/model", "--out", "small"]);
    assert!(found.err.contains("preprocessor_config.json"), "{}", found.err);
    run(&["classify", "-m", "small", "--image", image]).ok();
    run(&["export", "run/model", "--out", "again", "--layout", "polyhead"]).ok();
    let again = run(&["classify", "-m", "again", "--format", "jsonl", "--image", image]).ok();
    assert_eq!(again, alone);
    let out = run(&["info", "run"]).ok();
    assert!(out.contains("vit (Hugging Face)") && out.contains("24×24 pixels, colour"), "{out}");
    let out = run(&["inspect", "-m", "run", "--image", image, "--without", "encoder:1:0"]).ok();
    assert!(
        out.contains("attention rollout") && out.contains("unchanged") && out.contains("patches"),
        "{out}"
    );
    for name in ["a.svg", "a.png", "a.json", "a.npz", "a.safetensors", "a.html"] {
        run(&["inspect", "-m", "run", "--image", image, "--heads", "all", "--out", name]).ok();
    }
    let picture = std::fs::read_to_string(folder.path().join("a.svg")).unwrap();
    assert_eq!(picture.matches("<image ").count(), 4, "the image, the rollout and two heads");
    let json: Value = serde_json::from_slice(&std::fs::read(folder.path().join("a.json")).unwrap()).unwrap();
    assert_eq!((&json["grid"], &json["learned_tokens"]), (&serde_json::json!([3, 3]), &1.into()));
    assert_eq!(json["classes"].as_array().unwrap().len(), 2);
    let png = json["picture"].as_str().unwrap();
    assert!(png.starts_with("iVBORw0KGgo"), "{png:.20}");
    let page = std::fs::read_to_string(folder.path().join("a.html")).unwrap();
    assert!(page.contains(&format!("\"picture\":\"{png}\"")));
}

#[test]
fn images_and_commands_that_do_not_fit_are_refused_with_a_hint() {
    let folder = masks();
    let run = |arguments: &[&str]| run(folder.path(), arguments);
    run(&["train", "masks.toml", "--set", "train.max_steps=2", "--set", "data.valid=[]"]).ok();
    let refused = |arguments: &[&str], code: i32, expected: &str| {
        let err = run(arguments).failed(code);
        assert!(err.contains(expected), "{arguments:?}: {err}");
    };
    let model = ["-m", "run"];
    let with = |arguments: &[&'static str]| [&arguments[..1], &model[..], &arguments[1..]].concat();
    let classifier = "an image classifier, expected";
    refused(&with(&["classify", "text"]), 1, "hint: use it with polyhead classify --image");
    for command in ["translate", "generate", "embed", "fill", "tag"] {
        let found = run(&with(&[command, "text"]));
        assert!((1..=2).contains(&found.code) && found.err.contains(classifier), "{command}: {}", found.err);
    }
    refused(&with(&["inspect", "text"]), 2, "a text for an image classifier, expected --image FILE");
    refused(&["inspect", "--image", "masks/full/5.png"], 2, "--image with a sequence-to-sequence model");
    refused(&["inspect"], 2, "required");
    refused(
        &with(&["inspect", "--image", "masks/full/5.png", "--words"]),
        2,
        "--words with an image classifier",
    );
    refused(
        &with(&["inspect", "--image", "masks.toml"]),
        1,
        "masks.toml: an unknown format, expected PNG or JPEG",
    );
    refused(&with(&["classify", "--image", "masks"]), 1, "masks/causal: a folder, expected images");
    refused(
        &with(&["classify", "--image-size", "4", "--image", "masks/full"]),
        2,
        "expected at least a patch of 8",
    );
    std::fs::create_dir(folder.path().join("none")).unwrap();
    refused(&with(&["classify", "--image", "none"]), 2, "none: an empty folder, expected images");
    // One image that cannot be read does not stop the others.
    let found =
        run(&with(&["classify", "--max-megapixels", "0.1", "--image", "masks/full/5.png", "gone.png"]));
    assert_eq!((found.code, found.out.as_str()), (0, "\t\tmasks/full/5.png\n\t\tgone.png\n"));
    assert!(
        found.err.contains("megapixels, expected at most 0.1") && found.err.contains("gone.png: "),
        "{}",
        found.err
    );
    let recipe = |set: &str| {
        let err = polyhead(folder.path(), &["train", "masks.toml", "--set", "out=other", "--set", set], "");
        let code = err.code;
        assert!(code == 1 || code == 2, "{set}: {}", err.err);
        err.err
    };
    for (set, expected) in [
        ("data.train={images='none'}", "none: an empty folder, expected a folder for each class"),
        ("data.train={images='masks/full'}", "masks/full/11.png: an image beside the folders of the classes"),
        ("data.train={images='masks.toml'}", "masks.toml is a file, and labels are missing"),
        ("data.train={tsv='masks.toml'}", "a corpus of text, expected images"),
        ("data.train={cifar='masks.toml'}", "expected records of 3073 bytes"),
        ("images.mixup=2", "images.mixup: 2, expected 0 to 1"),
        ("images.sise=2", "unknown key \"sise\""),
        ("model.patch_size=30", "patch_size is 30, but images are 24×24 pixels"),
        ("model.image_size=[3, 3]", "set by the training data"),
        ("task=classify", "but model.model_type is an image classifier"),
        ("train.r_drop=1", "train.r_drop: a setting for text"),
    ] {
        let err = recipe(set);
        assert!(err.contains(expected), "{set}: {err}");
    }
}
