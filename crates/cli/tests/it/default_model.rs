//! The bundled model: a first command, languages, preserved text and unusual input, one test each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::program::{Run, polyhead};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(arguments: &[&str], input: &str) -> Run {
    polyhead(&root(), &[&["translate"], arguments].concat(), input)
}

/// The translation of one text, and standard error.
#[track_caller]
fn translate(arguments: &[&str], text: &str) -> (String, String) {
    let Run { code, out, err } = run(&[arguments, &["--", text]].concat(), "");
    assert_eq!(code, 0, "{err}");
    (out.strip_suffix('\n').unwrap_or(&out).to_owned(), err)
}

/// The translations of some texts, and standard error.
#[track_caller]
fn translate_all(from: &str, to: &str, texts: &[String]) -> (Vec<String>, String) {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let Run { code, out, err } = run(&[&["--from", from, "--to", to, "--"], texts.as_slice()].concat(), "");
    assert_eq!(code, 0, "{err}");
    assert_eq!(out.lines().count(), texts.len(), "{out}");
    (out.lines().map(str::to_owned).collect(), err)
}

/// The translation of one text, without any note except that it is unsure.
#[track_caller]
fn quiet(from: &str, to: &str, text: &str) -> String {
    let (out, err) = translate(&["--from", from, "--to", to], text);
    let notes: Vec<&str> = err.lines().filter(|note| !note.contains(": unsure: ")).collect();
    assert_eq!(notes, [""; 0], "{text}");
    out
}

const DIRECTIONS: [(&str, &str); 6] =
    [("en", "de"), ("en", "fr"), ("en", "tr"), ("de", "en"), ("fr", "en"), ("tr", "en")];

/// The same sentence in each language, with a gap.
fn sentence(language: &str, thing: &str) -> String {
    match language {
        "en" => format!("Yesterday I saw {thing} in the newspaper."),
        "de" => format!("Gestern sah ich {thing} in der Zeitung."),
        "fr" => format!("Hier, j'ai vu {thing} dans le journal."),
        _ => format!("Dün gazetede {thing} gördüm."),
    }
}

/// True if a sequence of up to eight words is repeated more than three times in a row.
fn loops(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    (1..=8).any(|length| {
        words.windows(4 * length).any(|run| run.chunks(length).all(|part| part == &run[..length]))
    })
}

#[test]
fn a_newcomers_first_command_translates() {
    let (out, err) = translate(&["--to", "tr"], "The cat ate the mouse.");
    assert_eq!(out, "Kedi fareyi yedi.");
    assert_eq!(err, "from English (detected), into Turkish\n");
}

#[test]
fn without_a_language_texts_become_english_and_english_becomes_turkish() {
    for (text, expected) in [
        ("The cat ate the mouse.", "from English (detected), into Turkish\n"),
        ("Kedi fareyi yedi.", "from Turkish (detected), into English\n"),
        ("Die Katze hat die Maus gefressen.", "from German (detected), into English\n"),
        ("Le chat a mangé la souris.", "from French (detected), into English\n"),
    ] {
        let (out, err) = translate(&[], text);
        assert_eq!(err, expected);
        assert!(!out.is_empty() && out != text, "{out}");
    }
    let (_, err) = translate(&["--from", "de"], "Katze");
    assert_eq!(err, "from German, into English\n");
}

#[test]
fn without_a_language_english_goes_into_that_of_the_locale() {
    let into = |variables: &[(&str, &str)], text: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_polyhead"));
        command.args(["translate", text]).current_dir(root());
        for name in ["LC_ALL", "LC_MESSAGES", "LANG"] {
            command.env_remove(name);
        }
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        err.trim_end().rsplit_once("into ").map(|(_, language)| language.to_owned()).unwrap()
    };
    let english = "The cat ate the mouse.";
    assert_eq!(into(&[("LANG", "de_DE.UTF-8")], english), "German");
    assert_eq!(into(&[("LANG", "de_DE.UTF-8"), ("LC_MESSAGES", "fr_CA")], english), "French");
    for variables in [&[][..], &[("LC_ALL", "C"), ("LANG", "de_DE")], &[("LANG", "POSIX")]] {
        assert_eq!(into(variables, english), "Turkish", "{variables:?}");
    }
    for locale in ["en_US.UTF-8", "es_ES"] {
        assert_eq!(into(&[("LANG", locale)], english), "Turkish", "{locale}");
    }
    assert_eq!(into(&[("LANG", "fr_FR")], "Die Katze hat die Maus gefressen."), "English");
}

#[test]
fn untrained_directions_go_via_english() {
    let text = "Die Katze trinkt Milch.";
    let (out, err) = translate(&["--from", "de", "--to", "fr"], text);
    assert_eq!(err, "from German, into French, via English\n");
    assert_eq!(out, quiet("en", "fr", &quiet("de", "en", text)));
    let json =
        run(&["--from", "de", "--to", "fr", "--format", "jsonl", "--alignment", "--n-best", "2", text], "")
            .ok();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["from"], &json["to"], &json["through"], &json["guessed"]),
        (&"de".into(), &"fr".into(), &"en".into(), &false.into())
    );
    assert_eq!(json["notes"][0]["message"], "via English");
    assert_eq!(json["n_best"].as_array().map(Vec::len), Some(2));
    assert!(json["alignment"].as_array().is_some_and(|pairs| pairs.len() >= 3), "{json}");
}

#[test]
fn the_same_language_comes_back_unchanged() {
    let (out, err) = translate(&["--to", "en"], "The cat  ate the mouse.");
    assert_eq!(out, "The cat  ate the mouse.");
    assert!(err.contains("the text is English already: copied"), "{err}");
}

#[test]
fn an_unknown_language_is_refused_with_the_known_ones() {
    for arguments in [["--to", "es", "hi"], ["--from", "Spanish", "hi"]] {
        let err = run(&arguments, "").failed(2);
        let known = "the model knows English (en), German (de), French (fr), Turkish (tr)";
        assert!(err.contains(known) && err.contains("hint: "), "{err}");
    }
}

#[test]
fn a_tag_in_the_text_chooses_the_language() {
    let (out, err) = translate(&[], ">>deu<< The cat drinks milk.");
    assert_eq!(err, "from English (detected), into German\n");
    assert_eq!(out, quiet("en", "de", "The cat drinks milk."));
}

#[test]
fn short_lines_of_a_file_have_the_language_of_those_before_them() {
    let input = "Es war einmal ein König, der hatte drei Töchter.\nHotel\nTaxi\nJa\n";
    let run = run(&["--to", "en"], input);
    let (first, notes) = run.err.split_once('\n').unwrap();
    assert_eq!(first, "from German (detected), into English");
    assert!(notes.lines().all(|note| note.contains(": unsure: ")), "{notes}");
    assert_eq!(run.ok().lines().count(), 4);
}

#[test]
fn the_wrong_source_language_is_noticed() {
    let text = "Die Katze schläft den ganzen Tag auf dem Sofa.";
    let (out, err) = translate(&["--from", "en", "--to", "tr"], text);
    assert!(err.contains("the text looks like German"), "{err}");
    assert_eq!(out, translate(&["--from", "de", "--to", "tr"], text).0);
}

#[test]
fn a_single_word_gives_a_word_or_few() {
    for (from, to, text, expected) in [
        ("en", "tr", "cat", "kedi"),
        ("en", "tr", "yes", "evet"),
        ("en", "de", "water", "wasser"),
        ("en", "fr", "hello", "salut|bonjour"),
        ("de", "en", "Hund", "dog"),
        ("fr", "en", "merci", "thank"),
        ("tr", "en", "su", "water"),
    ] {
        let out = quiet(from, to, text);
        let is_right = expected.split('|').any(|word| out.to_lowercase().contains(word));
        assert!(is_right && out.split_whitespace().count() <= 3, "{text}: {out}");
    }
}

#[test]
fn one_letter_gives_something_short() {
    for (from, to) in DIRECTIONS {
        for out in translate_all(from, to, &["a", "I", "Ö", "x", "É", "ş"].map(str::to_owned)).0 {
            let words = out.split_whitespace().count();
            assert!((1..=4).contains(&words) && !loops(&out), "{from} {to}: {out}");
        }
    }
}

#[test]
fn an_empty_text_stays_empty() {
    for text in ["", " ", "   \t ", "\n\n"] {
        assert_eq!(translate(&[], text).0, text);
    }
    assert_eq!(run(&["--to", "tr"], "\n  \n").ok(), "\n  \n");
    assert_eq!(run(&["--to", "tr"], "").ok(), "");
}

#[test]
fn upper_case_stays_upper_case_by_the_rules_of_each_language() {
    assert_eq!(quiet("en", "tr", "THE CAT ATE THE MOUSE."), "KEDİ FAREYİ YEDİ.");
    let cased = |from, to, text: &str, small: &str| {
        let (large, small) = (quiet(from, to, text), quiet(from, to, small));
        assert_eq!(large, small.to_uppercase(), "{text}");
    };
    cased("tr", "en", "KEDİ SÜT İÇİYOR.", "Kedi süt içiyor.");
    cased("en", "de", "THE CAT DRINKS MILK.", "The cat drinks milk.");
    cased("en", "fr", "THE CAT DRINKS MILK", "The cat drinks milk");
}

#[test]
fn abbreviations_are_no_sentences_in_capitals() {
    for text in ["NATO", "USA"] {
        let out = quiet("en", "de", text);
        assert!(!out.contains(char::is_lowercase) && out.chars().count() <= 5, "{text}: {out}");
    }
}

#[test]
fn a_lower_case_start_and_a_missing_full_stop_change_nothing() {
    let words = |text: &str| text.to_lowercase().trim_end_matches('.').to_owned();
    let whole = words(&quiet("en", "tr", "The cat ate the mouse."));
    for text in ["the cat ate the mouse", "The cat ate the mouse", "the cat ate the mouse."] {
        assert_eq!(words(&quiet("en", "tr", text)), whole, "{text}");
    }
}

#[test]
fn numbers_alone_are_unchanged() {
    for text in
        ["7", "12345", "3.14", "1,234.50", "2026-11-15 14:30", "+90 (212) 345 67 89", "50 %", "1/2 + 1/4"]
    {
        assert_eq!(quiet("en", "tr", text), text);
        assert_eq!(translate(&["--to", "tr"], text), (text.to_owned(), String::new()));
    }
}

#[test]
fn numbers_in_a_text_are_not_lost() {
    for (from, to) in DIRECTIONS {
        let numbers = ["1987", "202", "96", "3.14", "1,234.50", "2026-11-15", "14:30", "555-1234"];
        let found = translate_all(from, to, &numbers.map(|number| sentence(from, number))).0;
        for (number, out) in numbers.iter().zip(found) {
            let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
            assert!(digits(&out).contains(&digits(number)), "{from} {to} {number}: {out}");
        }
    }
}

#[test]
fn code_is_preserved() {
    let things = ["<b>", "%(name)s", "{count}", "`ls -la`", "/etc/app/config.json", "snake_case", "|", "<"];
    for (from, to) in DIRECTIONS {
        let found = translate_all(from, to, &things.map(|thing| sentence(from, thing))).0;
        for (thing, out) in things.iter().zip(found) {
            assert_eq!(out.matches(thing).count(), 1, "{from} {to}: {out}");
        }
    }
    assert_eq!(quiet("en", "de", "Yes | No | Water").matches(" | ").count(), 2);
    let catalogue = "msgid \"Hello %s, you have %d new messages.\"\nmsgstr \"\"\n";
    let catalogue = run(&["--from", "en", "--to", "de", "--format", "po"], catalogue).ok();
    let (_, translated) = catalogue.split_once("msgstr").unwrap();
    assert!(translated.contains("%s") && translated.contains("%d"), "{catalogue}");
}

#[test]
fn web_and_mail_addresses_are_preserved() {
    for (from, to) in DIRECTIONS.into_iter().chain([("de", "tr"), ("tr", "fr")]) {
        let things = [
            "https://example.org/a_b?x=1&y=Ä#z",
            "www.example.com/path",
            "jane.doe+x@mail.example.com",
            "@anna_k",
            "#MeToo",
        ];
        let found = translate_all(from, to, &things.map(|thing| sentence(from, thing))).0;
        for (thing, out) in things.iter().zip(found) {
            assert_eq!(out.matches(thing).count(), 1, "{from} {to}: {out}");
            assert!(out.split_whitespace().count() >= 4, "{from} {to}: {out}");
        }
    }
    let alone = "https://example.org jane@example.org";
    assert_eq!(quiet("en", "tr", alone), alone);
    let many = "See a.com, b.com, c.com, d.com, e.com and f.com today.";
    let out = quiet("en", "de", many);
    for name in ["a.com", "b.com", "c.com", "d.com", "e.com", "f.com"] {
        assert_eq!(out.matches(name).count(), 1, "{out}");
    }
}

#[test]
fn emoji_are_preserved_in_place() {
    for (from, to) in DIRECTIONS {
        let all = ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🇹🇷", "❤️", "1️⃣"];
        let texts = all.map(|emoji| sentence(from, emoji));
        let found = translate_all(from, to, &texts).0;
        for (emoji, out) in all.iter().zip(found) {
            assert_eq!(out.matches(emoji).count(), 1, "{from} {to}: {out}");
        }
        let around = all.map(|emoji| format!("{emoji} {} {emoji}{emoji}", sentence(from, "Tom")));
        let found = translate_all(from, to, &around).0;
        for (emoji, out) in all.iter().zip(found) {
            let [first, last] = [format!("{emoji} "), format!(" {emoji}{emoji}")];
            assert!(out.starts_with(&first) && out.ends_with(&last), "{from} {to}: {out}");
        }
    }
    assert_eq!(quiet("en", "tr", "😀🎉 👍🏽"), "😀🎉 👍🏽");
}

#[test]
fn letters_outside_the_vocabulary_are_preserved() {
    for (from, to) in DIRECTIONS {
        let things = ["漢字", "Привет, мир", "שלום"];
        let (found, err) = translate_all(from, to, &things.map(|thing| sentence(from, thing)));
        assert!(!err.contains("not in the vocabulary"), "{err}");
        for (thing, out) in things.iter().zip(found) {
            assert_eq!(out.matches(thing).count(), 1, "{from} {to}: {out}");
        }
    }
    let (out, err) = translate(&["--from", "en", "--to", "tr"], "Привет! 漢字。");
    assert!(
        out == "Привет! 漢字。" && err.contains("the vocabulary lacks the letters of \"Привет!\""),
        "{err}"
    );
}

#[test]
fn preserved_text_is_in_every_candidate_and_alignment() {
    let text = "Please write to jane@example.org 😀 tomorrow.";
    let arguments = ["--from", "en", "--to", "de", "--n-best", "4", "--alignment", "--format", "jsonl", text];
    let json: Value = serde_json::from_str(&run(&arguments, "").ok()).unwrap();
    let candidates = json["n_best"].as_array().unwrap();
    for candidate in candidates {
        let out = candidate["text"].as_str().unwrap();
        assert!(out.contains("jane@example.org") && out.contains('😀'), "{out}");
    }
    let words: Vec<&str> = json["text"].as_str().unwrap().split_whitespace().collect();
    let address = words.iter().position(|word| word.contains('@')).unwrap();
    let pairs = json["alignment"].as_array().unwrap();
    assert!(pairs.contains(&serde_json::json!([3, address])), "{json}");
}

#[test]
fn words_are_aligned_with_their_translations() {
    for (to, text, expected) in [
        ("de", "Tom gave Mary the old map of Boston.", &[(0, "Tom"), (7, "Boston.")][..]),
        ("fr", "Yesterday Anna met Peter in London.", &[(1, "Anna"), (3, "Peter"), (5, "Londres.")]),
        (
            "tr",
            "The cat ate the mouse in Boston.",
            &[(1, "Kedi"), (4, "fareyi"), (6, "Boston'da"), (2, "yedi.")],
        ),
    ] {
        let json = run(&["--from", "en", "--to", to, "--alignment", "--format", "jsonl", text], "").ok();
        let json: Value = serde_json::from_str(&json).unwrap();
        let words: Vec<&str> = json["text"].as_str().unwrap().split_whitespace().collect();
        for (source, word) in expected {
            let target = words.iter().position(|other| other.trim_end_matches(',') == *word);
            let pair = serde_json::json!([source, target]);
            assert!(json["alignment"].as_array().unwrap().contains(&pair), "{word}: {json}");
        }
    }
}

#[test]
fn tags_surround_the_translations_of_their_words() {
    let page = r#"<p>The <b>cat</b> ate the <i>mouse</i> in <a href="x">Boston</a>.</p>"#;
    let translated = |to| run(&["--from", "en", "--to", to, "--format", "html"], page).ok();
    let tagged = ["<b>Kedi</b>", "<i>fareyi</i>", r#"<a href="x">Boston'da</a>"#];
    let turkish = translated("tr");
    assert!(tagged.iter().all(|tagged| turkish.contains(tagged)), "{turkish}");
    assert_eq!(translated("de"), r#"<p>Die <b>Katze</b> aß die <i>Maus</i> in <a href="x">Boston</a>.</p>"#);
}

const PARAGRAPH: &str = "My grandmother lived in a small house near the sea. Every morning she opened the window and \
    listened to the waves. She said that the sea told her what the day would bring. When I was a child, I spent every \
    summer with her. We got up early and walked to the market. The fishermen knew her well and always gave her the best \
    fish. On the way home she bought me an apple or a piece of bread. I can still smell that bread today. In the \
    afternoon we sat under the old tree in the garden. She read books while I drew pictures of boats and birds. \
    Sometimes my uncle came to visit us. He worked on a big ship and had seen many countries. He told us stories about \
    storms, about strange cities and about people whose language he could not understand. I wanted to travel like him. \
    My grandmother only laughed and said that I should learn to swim first. One evening there was a terrible storm. The \
    wind broke two windows, and the rain came into the kitchen. We carried everything to the other room and waited. I was \
    afraid, but she was not. She made tea and sang an old song until I fell asleep. The next morning the sea was calm \
    again. We found a small boat on the beach, but nobody knew whose it was. She let me keep it. Years later I became a \
    teacher and moved to the city. I wrote to her every week, and she always answered. When she died, she was ninety years \
    old. The house belongs to me now. My children play in the same garden and sleep in the same room. The old tree is still \
    there, and so is the boat. I have painted it blue. Every morning I open the window and listen to the waves. I still do \
    not know what they say, but I know that she is listening too.";

#[test]
fn a_paragraph_of_300_words_is_translated_completely() {
    assert!((300..360).contains(&PARAGRAPH.split_whitespace().count()));
    let sentences = |text: &str| text.matches(['.', '!', '?']).count();
    for to in ["de", "fr", "tr"] {
        let out = quiet("en", to, PARAGRAPH);
        assert!(!loops(&out), "{out}");
        let share = sentences(&out) as f64 / sentences(PARAGRAPH) as f64;
        assert!((0.8..1.25).contains(&share), "{share}: {out}");
        let share = out.chars().count() as f64 / PARAGRAPH.chars().count() as f64;
        assert!((0.7..1.6).contains(&share), "{share}: {out}");
    }
}

#[test]
fn a_long_text_without_punctuation_is_translated_completely() {
    let text = PARAGRAPH.replace(['.', ','], "").to_lowercase();
    let (out, _) = translate(&["--from", "en", "--to", "de"], &text);
    assert!(!loops(&out), "{out}");
    assert!(out.chars().count() * 2 > text.chars().count(), "{out}");
}

#[test]
fn a_missing_model_folder_is_an_error() {
    // POLYHEAD_MODEL, since the program also searches the source tree that it was built from.
    let folder = tempfile::tempdir().unwrap();
    let program = |model: &Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_polyhead"))
            .args(["translate", "hello"])
            .env("POLYHEAD_MODEL", model)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, err) = program(&folder.path().join("nowhere"));
    assert_eq!(code, Some(1));
    assert!(err.contains("nowhere: no such folder, expected a model folder\nhint: "), "{err}");
}

#[test]
fn a_model_next_to_the_program_is_found() {
    // A hard link needs the program's own file system. A copy would not do: while it is open for writing, another test may
    // fork and inherit the descriptor, and a file that is open for writing cannot be executed.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let model = folder.path().join("share/polyhead/models/default");
    fs::create_dir_all(&model).unwrap();
    fs::create_dir(folder.path().join("bin")).unwrap();
    fs::write(model.join("config.json"), "no config").unwrap();
    let program = folder.path().join("bin/polyhead");
    fs::hard_link(env!("CARGO_BIN_EXE_polyhead"), &program).unwrap();
    let output =
        Command::new(&program).args(["translate", "hello"]).env_remove("POLYHEAD_MODEL").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1) && err.contains("share/polyhead/models/default/config.json"),
        "{err}"
    );
}

#[test]
fn alternatives_differ_and_the_first_is_what_one_would_be() {
    // Trained with BPE dropout, the model can output one text in several tokenisations; n-best lists have distinct texts.
    for (from, to) in DIRECTIONS {
        for (text, wanted) in [(sentence(from, "Ada"), 4), (sentence(from, "Ada").to_uppercase(), 7)] {
            let count = wanted.to_string();
            let (out, _) = translate(&["--from", from, "--to", to, "--n-best", &count], &text);
            let texts: Vec<&str> = out.lines().filter_map(|line| line.split(" ||| ").nth(1)).collect();
            let distinct: std::collections::BTreeSet<&str> = texts.iter().copied().collect();
            assert!(texts.len() == wanted && distinct.len() == wanted, "{out}");
            assert_eq!(texts[0], translate(&["--from", from, "--to", to], &text).0);
            let scores = out.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
            assert!(scores.collect::<Vec<_>>().is_sorted_by(|a, b| a >= b), "{out}");
        }
    }
}

/// A translation with a word that is asked for is a sentence, not one with a row of full stops before the word.
#[test]
fn lexical_constraints_stand_in_the_sentence() {
    for (word, expected) in
        [("fraß", "Die Katze fraß die Maus."), ("gefressen", "Die Katze hat die Maus gefressen.")]
    {
        let (found, _) = translate(&["--to", "de", "--lexical", word], "The cat ate the mouse.");
        assert_eq!(found, expected);
    }
    let (found, _) =
        translate(&["--to", "de", "--lexical", "pünktlich"], "The train arrives at nine o'clock.");
    assert!(found.contains("pünktlich") && found.chars().count() < 60, "{found}");
}
