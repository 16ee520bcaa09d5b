//! `polyhead score`: values, output formats and messages.

use serde_json::Value;

use crate::program::{Run, polyhead};

const HYPOTHESIS: &str =
    "The cat sat on the mat.\nIt costs 1,000.50 dollars.\n\nGood morning, everybody!  \n";
const REFERENCE: &str =
    "The cat sat on a mat.\nIt costs $1,000.50.\nThis is missing.\nGood morning, everybody!\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write("hypothesis", HYPOTHESIS.as_bytes());
        folder.write("reference", REFERENCE.as_bytes());
        folder
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.0.path().join(name), bytes).unwrap();
    }

    fn score(&self, arguments: &[&str], input: &str) -> Run {
        polyhead(self.0.path(), &[&["score"], arguments].concat(), input)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let base = ["--reference", "reference", "--hypothesis", "hypothesis", "--format", "json"];
        let all = [&base, arguments].concat();
        serde_json::from_str(&self.score(&all, "").ok()).unwrap()
    }

    /// The exit code and standard error of a run that must fail without a result.
    fn failure(&self, arguments: &[&str]) -> (i32, String) {
        let run = self.score(arguments, "");
        assert!(run.out.is_empty());
        (run.code, run.err)
    }
}

fn close(found: &Value, expected: f64) {
    let found = found.as_f64().unwrap();
    assert!((found - expected).abs() < 1e-9, "{found} {expected}");
}

/// The numbers are those that sacreBLEU 2.6.0 prints for these files.
#[test]
fn scores_equal_sacrebleu() {
    let report = Folder::new().json(&["--metric", "bleu,chrf,chrf++,ter"]);
    let metrics = report["metrics"].as_array().unwrap();
    let names: Vec<&str> = metrics.iter().map(|metric| metric["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["BLEU", "chrF2", "chrF2++", "TER"]);
    close(&metrics[0]["score"], 44.071_152_989_180_405);
    close(&metrics[1]["score"], 67.537_919_801_995_5);
    close(&metrics[2]["score"], 66.900_682_939_091_8);
    close(&metrics[3]["score"], 40.0);
    assert_eq!(report["lines"], 4);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        metrics[0]["signature"],
        format!("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:polyhead-{version}")
    );
    assert_eq!(metrics[0]["details"]["counts"].as_array().unwrap().len(), 4);
    for metric in metrics {
        assert!(metric["confidence"]["lower"].as_f64() <= metric["score"].as_f64(), "{metric}");
    }
}

#[test]
fn standard_input_and_files_are_the_same() {
    let folder = Folder::new();
    let from_file = folder.json(&["--metric", "bleu"]);
    let arguments = ["-r", "reference", "--metric", "bleu", "--format", "json"];
    let out = folder.score(&arguments, HYPOTHESIS).ok();
    let from_input: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(from_file["metrics"], from_input["metrics"]);
    assert_eq!(from_input["hypothesis"], "standard input");
}

#[test]
fn a_second_reference_can_only_help_ter() {
    let folder = Folder::new();
    let one = folder.json(&["--metric", "ter"]);
    let two = folder.json(&["--metric", "ter", "--reference", "hypothesis"]);
    assert!(two["metrics"][0]["signature"].as_str().unwrap().starts_with("nrefs:2|"));
    assert_eq!(two["metrics"][0]["details"]["edits"], 0);
    assert!(one["metrics"][0]["details"]["edits"].as_u64().unwrap() > 0);
}

#[test]
fn sentence_scores_and_every_metric() {
    let report = Folder::new().json(&["--sentence", "--metric", "bleu,rouge,accuracy,wer,per,cer,ser"]);
    let metrics = report["metrics"].as_array().unwrap();
    assert_eq!(metrics.len(), 9);
    for metric in metrics {
        assert_eq!(metric["sentences"].as_array().unwrap().len(), 4, "{metric}");
    }
    assert!(metrics[0]["signature"].as_str().unwrap().contains("eff:yes"));
    close(&metrics[0]["sentences"][3], 100.0);
    close(&metrics[0]["sentences"][2], 0.0);
    close(&metrics[4]["score"], 25.0);
    close(&metrics[8]["score"], 75.0);
}

#[test]
fn a_baseline_brings_intervals_and_a_p_value() {
    let folder = Folder::new();
    let report =
        folder.json(&["--baseline", "reference", "--metric", "chrf", "--samples", "200", "--seed", "7"]);
    let metric = &report["metrics"][0];
    assert!(metric["signature"].as_str().unwrap().starts_with("nrefs:1|bs:200|seed:7|case:mixed"));
    close(&metric["baseline"]["score"], 100.0);
    assert!(metric["baseline"]["difference"].as_f64().unwrap() < 0.0);
    let p = metric["baseline"]["p_value"].as_f64().unwrap();
    assert!(0.0 < p && p <= 1.0);
    let (lower, upper) = (&metric["confidence"]["lower"], &metric["confidence"]["upper"]);
    assert!(lower.as_f64().unwrap() <= upper.as_f64().unwrap());
    assert_eq!(
        report,
        folder.json(&["--baseline", "reference", "--metric", "chrf", "--samples", "200", "--seed", "7"])
    );
}

#[test]
fn text_is_the_default_and_a_table() {
    let folder = Folder::new();
    let arguments = ["-r", "reference", "--hypothesis", "reference", "--metric", "bleu,ter", "--sentence"];
    let text = folder.score(&arguments, "").ok();
    assert_eq!(text, folder.score(&[&arguments[..], &["--format", "text"]].concat(), "").ok());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "metric  score");
    assert!(
        lines[1].starts_with("BLEU    100.00  100.0/100.0/100.0/100.0 (BP = 1.000 ratio = 1.000"),
        "{text}"
    );
    assert_eq!(lines[2], "TER     0.00");
    assert_eq!(lines[4], "line  BLEU    TER");
    assert_eq!(lines[5], "1     100.00  0.00");
    assert!(lines[10].starts_with("BLEU|nrefs:1|"), "{text}");
}

#[test]
fn failures_have_a_message_and_a_hint() {
    let folder = Folder::new();
    folder.write("short", b"one\ntwo\n");
    folder.write("latin1", b"gut\nsch\xf6n\n");
    folder.write("empty", b"");
    let (code, message) = folder.failure(&["-r", "reference", "--hypothesis", "short"]);
    assert_eq!(code, 1);
    assert!(
        message.starts_with("error: short has 2 lines, reference has 4: expected the same number\nhint: ")
    );
    let (code, message) = folder.failure(&["-r", "missing"]);
    assert_eq!(code, 1);
    let expected = "error: missing: cannot open: no such file or directory\nhint: check the spelling";
    assert!(message.starts_with(expected), "{message}");
    let (code, message) = folder.failure(&["-r", "latin1", "--hypothesis", "short"]);
    assert_eq!(code, 1);
    assert!(message.starts_with("error: latin1:2: invalid UTF-8 at byte 4 of the line\nhint: "), "{message}");
    let (code, message) = folder.failure(&["-r", "empty", "--hypothesis", "empty"]);
    assert_eq!(code, 1);
    assert!(message.starts_with("error: empty: no text found"), "{message}");
}

#[test]
fn misuse_exits_with_2() {
    let folder = Folder::new();
    for arguments in [
        &["-r", "reference", "--metric", "bluescore"][..],
        &["-r", "reference", "--tokenize", "moses"],
        &["-r", "reference", "--samples", "0"],
        &["-r", "reference", "--smooth-value", "0.1"],
        &["-r", "reference", "--smooth", "floor", "--smooth-value", "nan"],
        &["-r", "-"],
        &[],
    ] {
        let (code, message) = folder.failure(arguments);
        assert_eq!(code, 2, "{arguments:?} {message}");
        assert!(message.starts_with("error: "), "{message}");
    }
}

/// The numbers that sacreBLEU 2.6.0 prints for these files, with NumPy 2: --paired-bs and --paired-ar.
#[test]
fn several_translations_are_one_table() {
    let folder = Folder::new();
    folder.write("other", b"The cat sat on a mat.\nIt costs 1,000.50.\nThis is.\nGood evening!\n");
    let systems = ["--hypothesis", "other", "--hypothesis", "reference"];
    let report = folder.json(&[&systems[..], &["--metric", "bleu"]].concat());
    let names: Vec<&str> =
        report["systems"].as_array().unwrap().iter().map(|own| own["hypothesis"].as_str().unwrap()).collect();
    assert_eq!(names, ["hypothesis", "other", "reference"]);
    let metric = |index: usize| &report["systems"][index]["metrics"][0];
    assert!(metric(0)["baseline"].is_null());
    let expected = [
        [41.482_925_437_981_75, 36.550_896_451_437_87, 0.0],
        [49.769_685_310_861_085, 45.083_846_082_803_84, 0.228_771_228_771_228_77],
        [100.0, 0.0, 1.0 / 1001.0],
    ];
    for (index, [mean, half_width, p]) in expected.into_iter().enumerate() {
        close(&metric(index)["confidence"]["mean"], mean);
        close(&metric(index)["confidence"]["half_width"], half_width);
        if index > 0 {
            close(&metric(index)["baseline"]["p_value"], p);
        }
    }
    let report = folder.json(&[&systems[..], &["--metric", "bleu", "--paired-ar"]].concat());
    for (index, p) in [(1, 0.495_950_404_959_504_04), (2, 1.0 / 10_001.0)] {
        close(&report["systems"][index]["metrics"][0]["baseline"]["p_value"], p);
    }
    let arguments = [&["-r", "reference", "--hypothesis", "hypothesis"], &systems[..]].concat();
    let text = folder.score(&[&arguments[..], &["--metric", "bleu,ter", "--paired-ar"]].concat(), "").ok();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("system") && lines[1].starts_with("baseline: hypothesis  44.07"), "{text}");
    assert!(
        lines[3].starts_with("reference") && text.contains("BLEU|nrefs:1|ar:10000|seed:12345|case"),
        "{text}"
    );
}

#[test]
fn a_byte_order_mark_counts_as_in_sacrebleu() {
    let folder = Folder::new();
    folder.write("marked", &[b"\xef\xbb\xbf", REFERENCE.as_bytes()].concat());
    let run = folder.score(&["-r", "reference", "--hypothesis", "marked", "--format", "json"], "");
    assert!(run.err.starts_with("note: marked: begins with a byte-order mark"), "{}", run.err);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    for (index, score) in [92.606_566_684_675, 99.657_620_535_42, 6.666_666_666_667].into_iter().enumerate() {
        close(&report["metrics"][index]["score"], score);
    }
}

#[test]
fn tokenisations_that_need_more_say_so() {
    let folder = Folder::new();
    for (arguments, message) in [
        (&["--tokenize", "ja-mecab"][..], "--tokenize ja-mecab needs MeCab and its IPA dictionary"),
        (
            &["--tokenize", "flores200"],
            "--tokenize flores200 without a model, expected --tokenizer-model FILE",
        ),
        (&["--tokenizer-model", "x"], "--tokenizer-model has no effect on --tokenize 13a"),
        (&["--paired-ar"], "--paired-ar with one translation, expected two or more"),
        (&["--hypothesis", "reference", "--sentence"], "--sentence with several translations"),
    ] {
        let base = ["-r", "reference", "--hypothesis", "hypothesis"];
        let (code, found) = folder.failure(&[&base[..], arguments].concat());
        assert!(code == 2 && found.starts_with(&format!("error: {message}")), "{found}");
    }
}
