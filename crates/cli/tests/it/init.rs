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

    let run = polyhead(files.path(), &["train", "recipes/x.toml", "--set", "train.max_steps=2"], "");
    assert_eq!(run.code, 0, "{}", run.err);
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
    assert!(err.contains("languages: unknown from the file names"), "{err}");
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
