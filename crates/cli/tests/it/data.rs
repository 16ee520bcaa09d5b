//! `polyhead data`: every planted problem is found with its line, and cleaning reports why a pair was dropped.

use std::fs;

use crate::program::{folder, names, polyhead};

/// A corpus of 400 pairs without problems, except for the given lines.
fn corpus(faults: &[(usize, &[u8], &[u8])]) -> tempfile::TempDir {
    let folder = folder(&[]);
    let (mut source, mut target) = (Vec::new(), Vec::new());
    for line in 1..=400 {
        let words = "the cat ate the mouse and then slept on the warm mat ".repeat(1 + line * 7 % 4);
        let good = (format!("{line} {words}").into_bytes(), format!("{line} so {words}").into_bytes());
        let fault = faults.iter().find(|(at, _, _)| *at == line);
        let (left, right) = fault.map_or(good, |&(_, source, target)| (source.to_vec(), target.to_vec()));
        source.extend(left);
        source.push(b'\n');
        target.extend(right);
        target.push(b'\n');
    }
    fs::write(folder.path().join("a.en"), source).expect("a small file");
    fs::write(folder.path().join("a.de"), target).expect("a small file");
    folder
}

fn planted() -> Vec<(usize, &'static [u8], &'static [u8])> {
    vec![
        (10, b"", b"leer"),
        (20, b"empty", b"  \t"),
        (30, b"nul \0 here", b"nul hier"),
        (40, b"bell", b"bell\x07"),
        (50, "line\u{2028}separator".as_bytes(), b"zeile"),
        (60, b"next line", "neue\u{85}zeile".as_bytes()),
        (70, b"lone\rreturn", b"wagen"),
        (80, b"bad \xff byte", b"schlecht"),
        (90, b"short", b"this is a very long translation of one single short word indeed, far too long"),
        (100, b"same on both sides", b"same on both sides"),
        (110, b"said twice", b"zweimal gesagt"),
        (120, b"said twice", b"zweimal gesagt"),
        (130, b"from the test set", b"aus dem Testsatz"),
        (140, Box::leak(Box::new([b'a'; 1200])), Box::leak(Box::new([b'b'; 1100]))),
    ]
}

#[test]
fn every_planted_problem_is_found_with_its_line() {
    let folder = corpus(&planted());
    fs::write(folder.path().join("test.en"), "something\nfrom the test set\n").expect("a small file");
    fs::write(folder.path().join("test.de"), "etwas\nganz anders\n").expect("a small file");
    let mut arguments = vec!["data", "check", "--source", "a.en", "--target", "a.de", "--format", "json"];
    arguments.extend(["--test-source", "test.en", "--test-target", "test.de"]);
    let run = polyhead(folder.path(), &arguments, "");
    assert_eq!(run.code, 1, "invalid UTF-8 makes a corpus unreadable: {}", run.err);
    let report: serde_json::Value = serde_json::from_str(&run.out).expect("JSON");
    let found: Vec<(&str, Vec<u64>)> = report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .map(|finding| {
            let lines = finding["examples"].as_array().expect("examples");
            let lines = lines.iter().map(|example| example["line"].as_u64().expect("a line"));
            (finding["fault"].as_str().expect("a name"), lines.collect())
        })
        .collect();
    let expected = [
        ("invalid_utf8", vec![80]),
        ("empty_source", vec![10]),
        ("empty_target", vec![20]),
        ("control", vec![30, 40]),
        ("line_break", vec![50, 60, 70]),
        ("too_long", vec![140]),
        ("length_ratio", vec![90]),
        ("identical", vec![100]),
        ("duplicate", vec![120]),
        ("overlap", vec![130]),
    ];
    assert_eq!(found, expected);
    assert_eq!(report["findings"][8]["examples"][0]["detail"], "repeats line 110");
    assert_eq!(report["findings"][0]["examples"][0]["detail"], "byte 5 of the source");
    assert_eq!(report["findings"][4]["examples"][1]["detail"], "U+0085 at byte 5 of the target");
    assert_eq!((&report["lines"], &report["clean"]), (&400.into(), &387.into()));
    assert!(report["drift"].is_null());
}

#[test]
fn the_summary_counts_problems_and_clean_pairs() {
    let folder = corpus(&[(10, b"", b"leer"), (100, b"same", b"same")]);
    let out = polyhead(folder.path(), &["data", "check", "--source", "a.en", "--target", "a.de"], "").ok();
    assert!(
        out.contains("! empty source                              1  (0.2 %)\n    line 10         leer\n"),
        "{out}"
    );
    assert!(out.ends_with("398 of 400 pairs (99.5 %) have no problem\n"), "{out}");
    let good = corpus(&[]);
    let out = polyhead(good.path(), &["data", "check", "--source", "a.en", "--target", "a.de"], "").ok();
    assert!(out.ends_with("✓ 400 pairs, no problem found\n"), "{out}");
}

#[test]
fn unequal_line_counts_are_located() {
    let folder = corpus(&[]);
    let target = fs::read_to_string(folder.path().join("a.de")).expect("text");
    let lost: Vec<&str> =
        target.lines().enumerate().filter(|(at, _)| *at != 199).map(|(_, line)| line).collect();
    fs::write(folder.path().join("a.de"), lost.join("\n") + "\n").expect("a small file");
    let arguments = ["data", "check", "--source", "a.en", "--target", "a.de", "--format", "json"];
    let run = polyhead(folder.path(), &arguments, "");
    assert_eq!(run.code, 1);
    let report: serde_json::Value = serde_json::from_str(&run.out).expect("JSON");
    let drift = &report["drift"];
    assert!(drift["first_line"].as_u64().is_some_and(|line| line.abs_diff(200) <= 5), "{drift}");
    assert_eq!((&report["source"]["lines"], &report["target"]["lines"]), (&400.into(), &399.into()));
    assert_eq!(run.err.lines().count(), 2, "{}", run.err);

    let mut arguments = vec!["data", "clean", "--source", "a.en", "--target", "a.de", "--report", "r.jsonl"];
    arguments.extend(["--out-source", "b.en", "--out-target", "b.de"]);
    let err = polyhead(folder.path(), &arguments, "").failed(1);
    assert!(
        err.starts_with("error: a.en has 400 lines, a.de has 399: expected the same number\nhint: "),
        "{err}"
    );
    assert_eq!(names(folder.path()), ["a.de", "a.en"]);
}

#[test]
fn cleaning_reports_every_dropped_pair() {
    let folder = corpus(&planted());
    let mut arguments = vec!["data", "clean", "--source", "a.en", "--target", "a.de", "--report", "r.jsonl"];
    arguments.extend(["--out-source", "b.en", "--out-target", "b.de.gz", "--keep", "identical"]);
    let out = polyhead(folder.path(), &arguments, "").ok();
    assert!(out.starts_with("400 pairs read, 389 kept (97.2 %), 11 dropped\n"), "{out}");
    let report = fs::read_to_string(folder.path().join("r.jsonl")).expect("text");
    let dropped: Vec<serde_json::Value> =
        report.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let lines: Vec<u64> = dropped.iter().map(|pair| pair["line"].as_u64().expect("a line")).collect();
    assert_eq!(lines, [10, 20, 30, 40, 50, 60, 70, 80, 90, 120, 140]);
    let checked = ["data", "check", "--source", "b.en", "--target", "b.de.gz"];
    assert!(polyhead(folder.path(), &checked, "").ok().contains("source = target"));
}

#[test]
fn tsv_and_jsonl_keep_their_format_when_cleaned() {
    let folder = folder(&[
        ("a.tsv", "a cat\teine Katze\nonly one column\na dog\t\n"),
        ("a.jsonl", "{\"en\":\"a cat\",\"de\":\"eine Katze\"}\n{\"en\":\"a dog\"}\n"),
    ]);
    let tsv = ["data", "clean", "--tsv", "a.tsv", "--out", "b.tsv", "--report", "r.jsonl"];
    let out = polyhead(folder.path(), &[&tsv[..], &["--format", "json"]].concat(), "").ok();
    let counts: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(counts["reasons"], serde_json::json!([["malformed", 1], ["empty_target", 1]]));
    assert_eq!(fs::read_to_string(folder.path().join("b.tsv")).expect("text"), "a cat\teine Katze\n");
    let mut jsonl = vec!["data", "clean", "--jsonl", "a.jsonl", "--fields", "en,de", "--out", "b.jsonl"];
    jsonl.extend(["--report", "r.jsonl"]);
    polyhead(folder.path(), &jsonl, "").ok();
    let kept = fs::read_to_string(folder.path().join("b.jsonl")).expect("text");
    assert_eq!(kept, "{\"en\":\"a cat\",\"de\":\"eine Katze\"}\n");
}

#[test]
fn stats_count_tokens_and_forecast_padding() {
    let folder = corpus(&[]);
    let train = ["tokenizer", "train", "--input", "a.en", "--kind", "char", "--out", "t.json"];
    polyhead(folder.path(), &train, "").ok();
    let stats = ["data", "stats", "--source", "a.en", "--target", "a.de", "--tokenizer", "t.json"];
    let out = polyhead(folder.path(), &[&stats[..], &["--format", "json"]].concat(), "").ok();
    let stats: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let chars = stats["source"]["chars"].as_u64().expect("a count");
    // The trailing space of each line is trimmed, the end of the sentence added.
    assert_eq!(stats["tokens"]["source"].as_u64(), Some(chars));
    assert!(
        stats["tokens"]["padding_waste"].as_f64().is_some_and(|waste| (0.0..0.1).contains(&waste)),
        "{stats}"
    );
}

#[test]
fn bad_files_are_one_line_and_a_hint() {
    let folder = folder(&[("a", "x\n"), ("empty", "")]);
    for (source, target, start) in [
        ("missing", "a", "error: missing: cannot open: no such file"),
        ("a", ".", "error: .: cannot open: is a folder"),
        ("empty", "empty", "error: empty: no text found"),
    ] {
        let err =
            polyhead(folder.path(), &["data", "check", "--source", source, "--target", target], "").failed(1);
        let lines: Vec<&str> = err.lines().collect();
        assert!(lines.len() == 2 && lines[0].starts_with(start) && lines[1].starts_with("hint: "), "{err}");
    }
}

#[test]
fn a_pipe_is_read_once_and_whole() {
    let folder = folder(&[]);
    let pairs: String =
        (0..20_000).map(|line| format!("{line} the cat ate\t{line} die Katze fraß\n")).collect();
    let clean = ["data", "clean", "--tsv", "-", "--out", "b.tsv", "--report", "r.jsonl"];
    let out = polyhead(folder.path(), &clean, &pairs).ok();
    assert!(out.starts_with("20,000 pairs read, 20,000 kept (100.0 %), 0 dropped\n"), "{out}");
    assert_eq!(fs::read_to_string(folder.path().join("b.tsv")).expect("text"), pairs);
    polyhead(folder.path(), &["data", "check", "--source", "-", "--target", "-"], &pairs).failed(2);
    let stats = ["data", "stats", "--tsv", "-", "--tokenizer", "t.json"];
    assert!(!polyhead(folder.path(), &stats, &pairs).failed(1).is_empty());
}

#[test]
fn one_name_for_two_outputs_is_refused() {
    let folder = folder(&[("a.tsv", "a\tb\n")]);
    let err =
        polyhead(folder.path(), &["data", "clean", "--tsv", "a.tsv", "--out", "b", "--report", "b"], "")
            .failed(2);
    assert!(err.starts_with("error: b: named for two outputs"), "{err}");
    assert_eq!(names(folder.path()), ["a.tsv"]);
}

#[test]
fn stats_refuse_an_unreadable_corpus() {
    let folder = folder(&[("a", "x\ny\n"), ("b", "x\n")]);
    polyhead(folder.path(), &["data", "stats", "--source", "a", "--target", "b"], "").failed(1);
}

/// Pairs with one problem of the text itself each, its name, and pairs that only look like it.
const CONTENT: &str = "\
mojibake	The coffee is good.	Der CafÃ© ist gut, fÃ¼r mich.
mojibake	He lost it.	Er hat es verl\u{fffd}ren.
markup	Tom &amp; Jerry	Tom und Jerry
markup	a <b>bold</b> word	ein fettes Wort
markup	the [[town]] of {{name}}	die Stadt
script	Good morning, Tom.	Доброе утро, Том.
untranslated	Please read this first.	please read this first
language	This is a sentence in English.	Nobody ever cared to translate the last page of this book.
language	Diese Seite sollte eigentlich auf Englisch sein.	Diese Seite ist auf Deutsch geschrieben.
numbers	He was born in 1956.	Er wurde 1965 geboren.
numbers	It costs 12,500 euros.	Es kostet 12.600 Euro.
-	The train leaves at 11:45 pm.	Der Zug fährt um 23:45 Uhr ab.
-	It costs 12,500.50 euros.	Es kostet 12.500,50 Euro.
-	Twelve of the 1960s cars	12 Autos der 60er Jahre
-	Johann Sebastian Bach, Das Wohltemperierte Klavier	Johann Sebastian Bach, Das wohltemperierte Klavier
-	a <b>bold</b> word &amp; more	ein <b>fettes</b> Wort &amp; mehr
-	Thank you.	Merci.
-	The letter Ä and the word Café.	Der Buchstabe „Ä“ und das Wort Café.
";

/// The lines of a report, from 1, with their reasons.
fn reasons(report: &str) -> Vec<(u64, Vec<String>)> {
    let dropped = report.lines().map(|line| {
        let pair: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let names = pair["reasons"].as_array().expect("reasons").iter();
        let names = names.map(|name| name.as_str().expect("a name").to_owned()).collect();
        (pair["line"].as_u64().expect("a line"), names)
    });
    dropped.collect()
}

#[test]
fn problems_of_the_text_itself_are_found() {
    let folder = folder(&[("a.tsv", CONTENT)]);
    let corpus = ["--tsv", "a.tsv", "--columns", "2,3", "--languages", "en,de"];
    let clean = ["data", "clean", "--out", "b.tsv", "--report", "r.jsonl"];
    let out = polyhead(folder.path(), &[&clean[..], &corpus].concat(), "").ok();
    let report = fs::read_to_string(folder.path().join("r.jsonl")).expect("text");
    let expected: Vec<(u64, Vec<String>)> = (1..)
        .zip(CONTENT.lines())
        .map(|(line, text)| (line, vec![text.split('\t').next().expect("a name").to_owned()]))
        .filter(|(_, names)| names[0] != "-")
        .collect();
    assert_eq!(reasons(&report), expected);
    let kept: String =
        CONTENT.lines().filter(|line| line.starts_with('-')).map(|line| format!("{line}\n")).collect();
    assert_eq!(fs::read_to_string(folder.path().join("b.tsv")).expect("text"), kept);
    let row = "  numbers that differ                       2  line 10: only in the source: 1956; only in the target: 1965\n";
    assert!(out.contains(row), "{out}");

    let out = polyhead(folder.path(), &[&["data", "check"], &corpus[..]].concat(), "").ok();
    for finding in [
        "! wrong encoding (mojibake)                 2  ",
        "    line 1          Ã© at byte 8 of the target\n",
        "! markup on one side only                   3  ",
        "    line 4          <b> only in the source\n",
        "! letters of another script                 1  ",
        "! source = target but for case              1  ",
        "! another language                          2  ",
        "    line 8          the target is not de, most like en\n",
        "! numbers that differ                       2  ",
    ] {
        assert!(out.contains(finding), "{finding}\n{out}");
    }
}

#[test]
fn every_check_can_be_switched_off() {
    let folder = folder(&[("a.tsv", CONTENT)]);
    let clean =
        ["data", "clean", "--tsv", "a.tsv", "--columns", "2,3", "--out", "b.tsv", "--report", "r.jsonl"];
    let run = |more: &[&str]| {
        let out = polyhead(folder.path(), &[&clean[..], more].concat(), "").ok();
        out.lines().next().expect("a line").to_owned()
    };
    let all = "mojibake,markup,script,untranslated,language,numbers";
    assert_eq!(run(&["--languages", "en,de", "--keep", all]), "18 pairs read, 18 kept (100.0 %), 0 dropped");
    assert_eq!(
        run(&["--languages", "en,de", "--keep", "numbers"]),
        "18 pairs read, 9 kept (50.0 %), 9 dropped"
    );
    // Without languages, script and language are unknown; any language passes.
    assert_eq!(run(&[]), "18 pairs read, 10 kept (55.5 %), 8 dropped");
    assert_eq!(run(&["--languages", "und,de"]), "18 pairs read, 8 kept (44.4 %), 10 dropped");
    let misused = |more: &[&str]| polyhead(folder.path(), &[&clean[..], more].concat(), "").failed(2);
    let err = misused(&["--keep", "mojibak"]);
    assert!(err.contains("mojibake") && err.contains("untranslated") && err.contains("numbers"), "{err}");
    let err = misused(&["--languages", "en,xx"]);
    assert!(err.contains("\"xx\", expected some of en, de, fr, tr"), "{err}");
}

#[test]
fn repair_undoes_wrong_encoding_and_references() {
    let pairs = [
        ("CafÃ© &amp; thÃ©", "Kaffee &amp; Tee", Some(("Café & thé", "Kaffee & Tee"))),
        ("itâ€™s Tom &#39;here&#39;", "Tom ist hier", Some(("it’s Tom 'here'", "Tom ist hier"))),
        ("twice: ÃƒÂ©tÃƒÂ©", "doppelt: Sommer", Some(("twice: été", "doppelt: Sommer"))),
        ("a &lt;b&gt;bold&lt;/b&gt; word", "ein fettes Wort", None),
        ("a lost \u{fffd} letter", "ein verlorener Buchstabe", None),
        ("mixed CafÃ© and ş", "gemischt", None),
        (
            "nothing to repair: é",
            "nichts zu reparieren: ä",
            Some(("nothing to repair: é", "nichts zu reparieren: ä")),
        ),
        ("a&#10;b&#9;c", "a b c d", Some(("a b c", "a b c d"))),
    ];
    let line = |(source, target): (&str, &str)| {
        [format!("id\t{source}\t{target}\n"), format!("{source}\n"), format!("{target}\n")]
    };
    let mut texts = [const { String::new() }; 3];
    let mut expected = [const { String::new() }; 3];
    let (mut jsonl, mut expected_jsonl) = (String::new(), String::new());
    for (source, target, repaired) in pairs {
        for (text, more) in texts.iter_mut().zip(line((source, target))) {
            text.push_str(&more);
        }
        let object = |(source, target): (&str, &str)| {
            let [source, target] = [source, target].map(|text| serde_json::json!(text));
            format!("{{\"z\":1,\"source\":{source},\"target\":{target},\"a\":[2]}}\n")
        };
        jsonl.push_str(&object((source, target)));
        if let Some(repaired) = repaired {
            for (text, more) in expected.iter_mut().zip(line(repaired)) {
                text.push_str(&more);
            }
            expected_jsonl.push_str(&object(repaired));
        }
    }
    let [tsv, source, target] = &texts;
    let folder = folder(&[("a.tsv", tsv), ("a.en", source), ("a.de", target), ("a.jsonl", &jsonl)]);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("text");
    let clean = ["data", "clean", "--repair", "--report", "r.jsonl"];
    let run = |more: &[&str]| polyhead(folder.path(), &[&clean[..], more].concat(), "").ok();
    let out = run(&["--tsv", "a.tsv", "--columns", "2,3", "--out", "b.tsv"]);
    assert!(
        out.starts_with("8 pairs read, 5 kept (62.5 %), 3 dropped\n4 of the kept pairs repaired\n"),
        "{out}"
    );
    run(&["--source", "a.en", "--target", "a.de", "--out-source", "b.en", "--out-target", "b.de"]);
    run(&["--jsonl", "a.jsonl", "--out", "b.jsonl"]);
    assert_eq!([read("b.tsv"), read("b.en"), read("b.de")], expected);
    assert_eq!(read("b.jsonl"), expected_jsonl);
}
