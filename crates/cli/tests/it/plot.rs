//! `polyhead plot`: pictures of one and several runs, and messages.

use std::fs;
use std::path::Path;

use crate::program::{Run, names, polyhead};

/// The metrics of a run of `steps` lines of training, with a validation every tenth.
fn metrics(steps: u32, rate: f64) -> String {
    let mut text = String::from("{\"kind\":\"start\",\"seed\":1}\n");
    for index in 1..=steps {
        let step = index * 100;
        let loss = 2.0 + 6.0 * (-rate * f64::from(index)).exp();
        text += &format!(
            "{{\"kind\":\"train\",\"step\":{step},\"epoch\":{},\"loss\":{loss},\"perplexity\":{},\"learning_rate\":0.0005,\"seconds\":{step}}}\n",
            f64::from(index) / 50.0,
            loss.exp()
        );
        if index % 10 == 0 {
            let bleu = 30.0 - 3.0 * loss;
            text += &format!(
                "{{\"kind\":\"valid\",\"step\":{step},\"loss\":{},\"scores\":{{\"BLEU\":{bleu}}},\"is_best\":true}}\n",
                loss + 0.1
            );
        }
    }
    text
}

fn folder(runs: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (run, text) in runs {
        fs::create_dir_all(folder.path().join(run)).unwrap();
        fs::write(folder.path().join(run).join("metrics.jsonl"), text).unwrap();
    }
    folder
}

fn plot(folder: &Path, arguments: &[&str]) -> Run {
    polyhead(folder, &[&["plot"], arguments].concat(), "")
}

#[test]
fn one_run_is_drawn_into_its_folder() {
    let folder = folder(&[("r&d", &metrics(60, 0.05))]);
    let run = plot(folder.path(), &["r&d"]);
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
    assert_eq!(run.err.trim(), "wrote r&d/plot.svg (3 charts)");
    let svg = fs::read_to_string(folder.path().join("r&d/plot.svg")).unwrap();
    for expected in [">r&amp;d<", ">Loss<", ">BLEU<", ">Learning rate<", ">train<", ">valid<", ">step<"] {
        assert!(svg.contains(expected), "{expected} is missing");
    }
    assert_eq!(names(&folder.path().join("r&d")), ["metrics.jsonl", "plot.svg"]);
}

#[test]
fn several_runs_share_charts_and_are_named_by_folder() {
    let folder = folder(&[
        ("a/small", &metrics(30, 0.05)),
        ("b/base", &metrics(60, 0.1)),
        ("c/base", &metrics(5, 0.1)),
    ]);
    plot(folder.path(), &["a/small", "b/base", "c/base/", "--metric", "loss,bleu", "--across", "epoch"]).ok();
    let svg = fs::read_to_string(folder.path().join("plot.svg")).unwrap();
    for expected in [">small<", ">b/base<", ">c/base/<", ">Loss (light: training)<", ">BLEU<", ">epoch<"] {
        assert!(svg.contains(expected), "{expected} is missing");
    }
    assert!(!svg.contains("Learning rate"));
}

#[test]
fn a_png_has_the_given_name() {
    let folder = folder(&[("run", &metrics(20, 0.1))]);
    let run = plot(folder.path(), &["run", "--out", "picture.PNG", "--metric", "perplexity"]);
    assert_eq!(run.err.trim(), "wrote picture.PNG (1 chart)");
    let png = fs::read(folder.path().join("picture.PNG")).unwrap();
    assert!(png.starts_with(b"\x89PNG") && png.len() > 10_000, "{} bytes", png.len());
    assert_eq!(u32::from_be_bytes(png[16..20].try_into().unwrap()), 1800);
}

#[test]
fn a_run_that_is_still_training_can_be_plotted() {
    let text = metrics(3, 0.1) + "{\"kind\":\"train\",\"st";
    let folder = folder(&[("run", &text)]);
    plot(folder.path(), &["run"]).ok();
    let svg = fs::read_to_string(folder.path().join("run/plot.svg")).unwrap();
    assert!(svg.contains(">Perplexity<") && !svg.contains("BLEU"));
}

#[test]
fn runs_that_cannot_be_plotted_are_errors() {
    let broken = metrics(1, 0.1) + "{\"kind\":\"train\",\"step\":\"many\"}\n" + &metrics(1, 0.1);
    let start = "{\"kind\":\"start\"}\n";
    let folder = folder(&[("run", &metrics(1, 0.1)), ("broken", &broken), ("young", start), ("empty", "")]);
    fs::create_dir(folder.path().join("bare")).unwrap();
    for (arguments, code, expected) in [
        (&["nowhere"][..], 1, "nowhere: no such folder, expected"),
        (&["run/metrics.jsonl"], 1, "run/metrics.jsonl: is a file, expected"),
        (&["bare"], 1, "bare: no metrics.jsonl found, expected"),
        (&["broken"], 1, "broken/metrics.jsonl:3: invalid type: string \"many\", expected u64"),
        (&["young"], 1, "young/metrics.jsonl: no line of training or validation found"),
        (&["empty"], 1, "empty/metrics.jsonl: no line"),
        (
            &["run", "--out", "picture.jpg"],
            2,
            "--out: picture.jpg, expected a name that ends in .svg or .png",
        ),
        (&["run", "--out", "picture"], 2, "--out: picture, expected"),
        (&["run", "--metric", "ROUGE"], 2, "--metric: ROUGE, expected one of loss, perplexity"),
    ] {
        let err = plot(folder.path(), arguments).failed(code);
        assert!(err.contains(expected) && err.contains("\nhint: "), "{arguments:?}: {err}");
    }
    assert_eq!(names(folder.path()), ["bare", "broken", "empty", "run", "young"]);
}
