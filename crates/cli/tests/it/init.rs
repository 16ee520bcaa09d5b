//! `polyhead init`: a recipe for a corpus that `polyhead train` accepts.

use std::fs;
use std::path::Path;

use crate::program::{folder, names, polyhead};

/// Small sentences, line by line: source and target.
fn sentences(count: usize) -> [String; 2] {
    let words = [
        ["the", "die"],
        ["cat", "Katze"],
        ["dog", "Hund"],
        ["sees", "sieht"],
        ["house", "Haus"],
        ["tree", "Baum"],
        ["child", "Kind"],
    ];
    [0, 1].map(|side| {
        let line = |n: usize| {
            (0..5).map(|place| words[n / 7_usize.pow(place) % 7][side]).collect::<Vec<_>>().join(" ")
        };
        (0..count).map(|n| line(n * 31) + "\n").collect()
    })
}

/// A number with commas, as it is printed.
fn grouped(number: u64) -> String {
    match (number / 1000, number % 1000) {
        (0, rest) => rest.to_string(),
        (thousands, rest) => format!("{thousands},{rest:03}"),
    }
}

#[test]
fn the_recipe_can_be_trained() {
    let [source, target] = sentences(400);
    let files = folder(&[("train.en", &source), ("train.de", &target)]);
    fs::create_dir(files.path().join("recipes")).unwrap();
    let arguments =
        ["init", "--source", "train.en", "--target", "train.de", "--out", "recipes/x.toml", "--run", "r"];
    let run = polyhead(files.path(), &arguments, "");
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
    for told in [
        "400 pairs, ",
        "languages: en into de",
        "400 pairs are very few",
        "no validation set given: 80 pairs are held out",
        "model.preset = \"tiny\": ",
        "next: polyhead train recipes/x.toml",
    ] {
        assert!(run.err.contains(told), "{told:?} is not in\n{}", run.err);
    }
    let written = ["x.toml", "x.train.de.gz", "x.train.en.gz", "x.valid.de.gz", "x.valid.en.gz"];
    assert_eq!(names(&files.path().join("recipes")), written);
    assert_eq!(fs::read_to_string(files.path().join("train.en")).unwrap(), source);
    let recipe = fs::read_to_string(files.path().join("recipes/x.toml")).unwrap();
    assert!(recipe.contains("out = \"../r\"\n") && recipe.contains("source = \"x.train.en.gz\""), "{recipe}");

    assert!(run.err.contains("\nlayout: polyhead; --for marian trains"), "{}", run.err);
    // Steps of an epoch are counted as train counts them.
    let of = |text: &str, before: &str, after: &str| -> String {
        let start = text.find(before).unwrap_or_else(|| panic!("{text}")) + before.len();
        text[start..start + text[start..].find(after).unwrap()].to_owned()
    };
    let forecast = of(&run.err, "\nrun: ", "\n");
    let per_epoch: u64 = of(&run.err, "\nrun: ", " steps per epoch").parse().unwrap();
    assert!(forecast.ends_with(&format!(", at most {} steps", grouped(150 * per_epoch))), "{forecast}");
    let run = polyhead(files.path(), &["train", "recipes/x.toml", "--set", "train.max_steps=2"], "");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains(&format!("; {per_epoch} steps per epoch, at most 2 steps; ")), "{}", run.err);
    assert!(run.err.contains(" parameters, polyhead layout, "), "{}", run.err);
    let arguments_of_two =
        ["--set", "train.max_epochs=2", "--out", "two", "--set", "validation.every_epochs=2"];
    let run = polyhead(files.path(), &[&["train", "recipes/x.toml"], &arguments_of_two[..]].concat(), "");
    assert!(run.err.contains(&format!("stopped at step {} after", 2 * per_epoch)), "{}", run.err);
    assert!(
        run.err.contains("compared on the validation set by ") || run.err.contains("two/model: "),
        "{}",
        run.err
    );
    assert!(files.path().join("r/model/config.json").exists());

    let err = polyhead(files.path(), &arguments, "").failed(1);
    assert!(err.starts_with("error: recipes/x.toml: already exists, expected a new file\nhint: "), "{err}");
    let again = [&arguments[..], &["--overwrite", "--hold-out", "0", "--from", "en", "--to", "fr"]].concat();
    let err = polyhead(files.path(), &again, "").err;
    assert!(err.contains("warning: no validation set") && err.contains("languages: en into fr"), "{err}");
    let recipe = fs::read_to_string(files.path().join("recipes/x.toml")).unwrap();
    assert!(recipe.contains("source = \"../train.en\"") && !recipe.contains("[validation]"), "{recipe}");
}

#[test]
fn spellings_get_a_character_tokeniser_and_phonemes_a_word_tokeniser() {
    let spelling =
        |n: usize| (0..3).map(|place| ["ba", "ko", "li", "mu", "tse"][n / 5_usize.pow(place) % 5]).collect();
    let pairs: String = (0..125)
        .map(|n| {
            let spelling: String = spelling(n);
            let phonemes: Vec<String> =
                spelling.chars().map(|letter| letter.to_uppercase().to_string()).collect();
            format!("{spelling}\t{}\n", phonemes.join(" "))
        })
        .collect();
    let files = folder(&[("g2p.tsv", &pairs), ("valid.tsv", "bako\tB A K O\n")]);
    let arguments = ["init", "--tsv", "g2p.tsv", "--valid-tsv", "valid.tsv", "--out", "g2p.toml"];
    let err = polyhead(files.path(), &arguments, "").err;
    assert!(err.contains("languages: neither in the file names nor clear in the text"), "{err}");
    assert_eq!(names(files.path()), ["g2p.toml", "g2p.tsv", "valid.tsv"]);
    let recipe = fs::read_to_string(files.path().join("g2p.toml")).unwrap();
    for line in
        ["kind = \"character\"", "target_kind = \"word\"", "tie = \"target_output\"", "metric = \"errors\""]
    {
        assert!(recipe.contains(&format!("\n{line}")), "{line} is not in\n{recipe}");
    }
    let run = polyhead(files.path(), &["train", "g2p.toml", "--set", "train.max_steps=2"], "");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(Path::exists(&files.path().join("runs/g2p/model/config.json")));
}

#[test]
fn languages_are_detected_in_the_text() {
    let [source, target] = [
        ["The dog sleeps on the old sofa.", "Where is the railway station?", "I would like a cup of tea."],
        ["Der Hund schläft auf dem alten Sofa.", "Wo ist der Bahnhof?", "Ich hätte gern eine Tasse Tee."],
    ]
    .map(|lines| lines.repeat(20).join("\n") + "\n");
    let files = folder(&[("a.txt", &source), ("b.txt", &target)]);
    let arguments = |out| ["init", "--source", "a.txt", "--target", "b.txt", "--hold-out", "0", "--out", out];
    let run = polyhead(files.path(), &arguments("x.toml"), "");
    assert!(run.err.contains("\nlanguages: en into de, detected in the text\n"), "{}", run.err);
    let recipe = fs::read_to_string(files.path().join("x.toml")).unwrap();
    assert!(recipe.contains("source_language = \"en\"\ntarget_language = \"de\"\n"), "{recipe}");
    // Names decide, and text that contradicts them is noted.
    fs::rename(files.path().join("a.txt"), files.path().join("a.tr")).unwrap();
    fs::rename(files.path().join("b.txt"), files.path().join("b.de")).unwrap();
    let named = ["init", "--source", "a.tr", "--target", "b.de", "--hold-out", "0", "--out", "y.toml"];
    let err = polyhead(files.path(), &named, "").err;
    let warning = "languages: tr into de\nwarning: by its file name the source is tr, but its text is en\n";
    assert!(err.contains(warning), "{err}");
}

#[test]
fn a_recipe_for_marian_gives_its_layout() {
    let [source, target] = sentences(400);
    let files = folder(&[("train.en", &source), ("train.de", &target)]);
    let arguments =
        ["init", "--source", "train.en", "--target", "train.de", "--for", "marian", "--out", "x.toml"];
    let err = polyhead(files.path(), &arguments, "").err;
    assert!(
        err.contains("\nlayout: marian; Hugging Face's Marian classes load the finished model\n"),
        "{err}"
    );
    let run = polyhead(files.path(), &["train", "x.toml", "--set", "train.max_steps=2"], "");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains(" parameters, marian layout, "), "{}", run.err);
    let config = fs::read_to_string(files.path().join("runs/x/model/config.json")).unwrap();
    for part in ["\"MarianMTModel\"", "\"swish\"", "\"share_encoder_decoder_embeddings\": true"] {
        assert!(config.contains(part), "{part} is not in\n{config}");
    }
    let out = polyhead(files.path(), &["translate", "--model", "runs/x", "the cat sees"], "");
    assert_eq!(out.code, 0, "{}", out.err);
}

#[test]
fn bad_input_is_an_error_and_nothing_is_written() {
    let files =
        folder(&[("a.en", "one\ntwo\n"), ("a.de", "eins\n"), ("empty", ""), ("one.tsv", "a\tb\nc\n")]);
    let before = names(files.path());
    let cases = [
        (
            &["--source", "a.en", "--target", "a.de"][..],
            "a.en has 2 lines, a.de has 1: expected the same number",
        ),
        (&["--source", "a.en", "--target", "no.de"], "no.de: cannot open"),
        (&["--source", "empty", "--target", "empty"], "empty: no text found"),
        (&["--tsv", "one.tsv"], "one.tsv:2: 1 tab-separated column, expected a column 2"),
        (&["--source", "a.en", "--target", "a.en", "--valid-tsv", "no.tsv"], "no.tsv: cannot open"),
        (&["--source", "a.en", "--target", "a.en", "--hold-out", "2"], "2 pairs held out and none left"),
    ];
    for (arguments, expected) in cases {
        let run = polyhead(files.path(), &[&["init"], arguments].concat(), "");
        assert!(
            run.code > 0 && run.err.contains(expected) && run.err.contains("\nhint: "),
            "{expected}: {}",
            run.err
        );
        assert_eq!(names(files.path()), before, "{expected}");
    }
}

#[test]
fn the_corpus_is_never_replaced_even_with_overwrite() {
    let [source, target] = sentences(400);
    let files = folder(&[("train.en", &source), ("train.de", &target)]);
    let arguments =
        ["init", "--source", "train.en", "--target", "train.de", "--out", "train.en", "--overwrite"];
    let refused = polyhead(files.path(), &arguments, "");
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("train.en: an input that would be replaced"), "{}", refused.err);
    assert_eq!(fs::read_to_string(files.path().join("train.en")).unwrap(), source);
}
