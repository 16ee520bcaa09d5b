//! Runs the program and checks its help, its exit codes, options of earlier versions and the verbosity.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The result of a run of the program.
#[derive(Debug)]
pub(crate) struct Run {
    /// Exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

/// Runs `polyhead` with `arguments` in `folder` and in the locale `C`, `input` on standard input.
pub(crate) fn polyhead(folder: &Path, arguments: &[&str], input: &str) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_polyhead"))
        .args(arguments)
        .current_dir(folder)
        .env("LC_ALL", "C")
        // Without the models of whoever runs the tests.
        .env("XDG_DATA_HOME", folder.join("no-data-folder"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built");
    // A program that fails early may close its input, which does not fail the test.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("the program ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is text");
    Run { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

impl Run {
    /// The output of a run that must succeed.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}", self.err);
        self.out
    }

    /// Standard error of a run that must fail with `code` and without a panic.
    #[track_caller]
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!(self.code, code, "out: {}\nerr: {}", self.out, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self.err
    }
}

/// A folder with the given files.
pub(crate) fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("a small file");
    }
    folder
}

/// Names of all files in the folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A small model made with Hugging Face's code.
fn opus() -> String {
    format!("{}/../models/tests/golden/opus", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn help_lists_every_command_in_its_group() {
    let folder = folder(&[]);
    let out = polyhead(folder.path(), &["--help"], "").ok();
    let groups =
        ["Use a model:", "Train:", "Data:", "Inspect:", "Serve:", "Convert:", "Machine:", "Options:"];
    let places: Vec<usize> =
        groups.iter().map(|group| out.find(&format!("\n{group}\n")).expect(group)).collect();
    assert!(places.is_sorted(), "{out}");
    for (command, group) in [
        ("translate", 0),
        ("classify", 0),
        ("detect", 0),
        ("evaluate", 0),
        ("score", 0),
        ("init", 1),
        ("train", 1),
        ("average", 1),
        ("verify-run", 1),
        ("plot", 1),
        ("data", 2),
        ("tokenizer", 2),
        ("inspect", 3),
        ("explore", 3),
        ("draw", 3),
        ("info", 3),
        ("parity", 3),
        ("serve", 4),
        ("keys", 4),
        ("import", 5),
        ("export", 5),
        ("quantize", 5),
        ("models", 6),
        ("devices", 6),
        ("bench", 6),
        ("completions", 6),
        ("man", 6),
    ] {
        let place = out.find(&format!("\n  {command} ")).unwrap_or_else(|| panic!("{command}: {out}"));
        assert!((places[group]..places[group + 1]).contains(&place), "{command}: {out}");
        let help = polyhead(folder.path(), &[command, "--help"], "").ok();
        assert!(help.contains("\nExamples:\n  polyhead ") || help.contains("\nExamples:\n  echo "), "{help}");
    }
}

/// Help texts at most as wide as the terminal, for all commands and subcommands.
#[test]
fn help_fits_the_terminal() {
    let subcommands = [
        ("data", &["check", "clean", "stats"][..]),
        ("tokenizer", &["train", "encode", "decode", "info"]),
        ("draw", &["positions", "schedule", "mask"]),
        ("keys", &["add", "list", "remove"]),
        ("models", &["add", "list", "remove"]),
        ("bench", &["attention", "gemm", "ops", "train", "translate"]),
    ];
    let mut commands: Vec<Vec<&str>> =
        vec![vec![], vec!["translate"], vec!["serve"], vec!["parity"], vec!["score"]];
    for (command, below) in subcommands {
        commands.push(vec![command]);
        commands.extend(below.iter().map(|name| vec![command, *name]));
    }
    for columns in [80, 100, 200] {
        for command in &commands {
            let output = Command::new(env!("CARGO_BIN_EXE_polyhead"))
                .args(command)
                .arg("--help")
                .env("COLUMNS", columns.to_string())
                .output()
                .unwrap();
            let help = String::from_utf8(output.stdout).unwrap();
            let widest = help.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= columns.min(100), "{command:?}: {widest} columns of {columns}\n{help}");
            assert!(columns == 80 || command.is_empty() || help.contains("Examples:"), "{help}");
        }
    }
}

#[test]
fn the_version_is_an_option_of_the_program_only() {
    let folder = folder(&[]);
    let version = polyhead(folder.path(), &["-V"], "").ok();
    assert!(version.starts_with("polyhead ") && version == polyhead(folder.path(), &["--version"], "").ok());
    polyhead(folder.path(), &["devices", "-V"], "").failed(2);
}

#[test]
fn old_names_answer_with_the_new_ones() {
    let folder = folder(&[("r", "a\n")]);
    for (arguments, message, hint) in [
        (&["init", "--tsv", "x", "--force"][..], "--force is now --overwrite", "polyhead init … --overwrite"),
        (&["init", "--force"], "--force is now --overwrite", "polyhead init … --overwrite"),
        (
            &["score", "-r", "r", "--metrics", "bleu"],
            "--metrics is now --metric",
            "polyhead score … --metric",
        ),
        (&["score", "-r", "r", "-m", "bleu"], "--metrics is now --metric", "polyhead score … --metric"),
        (&["devices", "--json"], "--json is now --format json", "polyhead devices … --format json"),
        (&["data", "check", "--json"], "--json is now --format json", "polyhead data check … --format json"),
        (&["data", "clean", "--json"], "--json is now --format json", "polyhead data clean … --format json"),
        (&["data", "stats", "--json"], "--json is now --format json", "polyhead data stats … --format json"),
        (
            &["tokenizer", "info", "-t", "r", "--json"],
            "--json is now --format json",
            "polyhead tokenizer info … --format json",
        ),
        (&["bench", "translate", "--save", "x"], "--save is now --out", "polyhead bench translate … --out"),
        (
            &["bench", "attention", "--sight", "full"],
            "--sight is now --pattern",
            "polyhead bench attention … --pattern",
        ),
        (
            &["import", "a", "b"],
            "a second folder: the folder to write is now --out",
            "polyhead import FROM --out b",
        ),
        (
            &["export", "a", "b", "--layout", "marian"],
            "a second folder: the folder to write is now --out",
            "polyhead export FROM --out b",
        ),
        (
            &["quantize", "a", "b"],
            "a second folder: the folder to write is now --out",
            "polyhead quantize FROM --out b",
        ),
        (
            &["tokenizer", "encode", "-t", "r", "--format", "pieces"],
            "--format pieces, expected --format text",
            "the format is called text now, and is the default",
        ),
    ] {
        let err = polyhead(folder.path(), arguments, "").failed(2);
        assert_eq!(err, format!("error: {message}\nhint: {hint}\n"), "{arguments:?}");
    }
    assert_eq!(names(folder.path()), ["r"]);
}

#[test]
fn one_result_is_json_and_many_are_jsonl() {
    let folder = folder(&[]);
    for command in [
        &["score", "-r", "x"][..],
        &["evaluate", "--tsv", "x"],
        &["info"],
        &["devices"],
        &["parity", "-m", "x", "--reference", "y"],
        &["data", "check"],
        &["data", "clean", "--report", "x"],
        &["data", "stats"],
        &["keys", "list", "x"],
        &["tokenizer", "info"],
    ] {
        let err = polyhead(folder.path(), &[command, &["--format", "jsonl"]].concat(), "").failed(2);
        let expected = "error: --format jsonl, expected --format json\nhint: this command has one result";
        assert!(err.starts_with(expected), "{command:?}: {err}");
    }
    for command in [
        &["translate"][..],
        &["classify", "-m", "x"],
        &["detect"],
        &["bench", "gemm"],
        &["bench", "train"],
        &["tokenizer", "encode"],
    ] {
        let err = polyhead(folder.path(), &[command, &["--format", "json"]].concat(), "").failed(2);
        let expected =
            "error: --format json, expected --format jsonl\nhint: this command prints one JSON object";
        assert!(err.starts_with(expected), "{command:?}: {err}");
    }
    let err = polyhead(folder.path(), &["devices", "--format", "xml"], "").failed(2);
    assert!(
        err.contains("invalid value 'xml' for '--format <FORMAT>' [possible values: text, json]"),
        "{err}"
    );
}

#[test]
fn quiet_prints_results_and_errors_only() {
    let folder = folder(&[]);
    let opus = opus();
    let run = |arguments: &[&str]| polyhead(folder.path(), arguments, "garden \u{7}\u{7}\n");
    let base = ["translate", "--model", &opus, "--beam", "1"];
    let normal = run(&base);
    assert!(normal.err.contains("note: "), "{}", normal.err);
    let expected = normal.ok();
    for quiet in ["-q", "--quiet"] {
        let run = run(&[&base[..], &[quiet]].concat());
        assert_eq!((run.err.as_str(), run.out.as_str()), ("", expected.as_str()));
    }
    let before = run(&[&["--quiet"], &base[..]].concat());
    assert_eq!((before.err.as_str(), before.out.as_str()), ("", expected.as_str()));
    let err = run(&["translate", "-q", "--model", "nowhere", "x"]).failed(1);
    assert!(err.starts_with("error: nowhere: ") && err.contains("\nhint: "), "{err}");
    polyhead(folder.path(), &["draw", "mask", "-q"], "").ok();
    let err = run(&["-q", "-v", "devices"]).failed(2);
    assert!(err.starts_with("error: --quiet and --verbose, expected one of them\nhint: "), "{err}");
}

#[test]
fn verbose_prints_what_was_loaded_and_the_time() {
    let folder = folder(&[]);
    let opus = opus();
    for arguments in [
        &["translate", "-v", "--model", &opus, "--threads", "2", "garden"][..],
        &["inspect", "--verbose", "--model", &opus, "garden"],
        &["export", "-v", &opus, "--out", "copy", "--layout", "polyhead"],
    ] {
        let err = polyhead(folder.path(), arguments, "").err;
        let loaded = err.lines().find(|line| line.starts_with("loaded ")).unwrap_or_else(|| panic!("{err}"));
        assert!(loaded.contains("opus: marian layout, 13,667 parameters, f32 on cpu, "), "{loaded}");
        assert!(loaded.contains(" threads, in ") || loaded.contains(" on cpu, 1 thread, in "), "{loaded}");
        assert!(err.trim_end().lines().last().unwrap().starts_with("done in "), "{err}");
    }
}

#[test]
fn what_is_counted_once_is_in_the_singular() {
    let folder = folder(&[
        ("one.tsv", "a\tb\n"),
        ("a.en", "a\n"),
        ("words.txt", "no no no no no yes yes yes yes yes\n"),
    ]);
    let opus = opus();
    let run = |arguments: &[&str]| polyhead(folder.path(), arguments, "");
    let err = run(&["translate", "-v", "-m", &opus, "--to", "tur", "--threads", "1", "garden"]).err;
    assert!(err.contains(" on cpu, 1 thread, in "), "{err}");
    let checked = run(&["data", "check", "--tsv", "one.tsv"]).out;
    assert!(checked.contains("1 line, 1 word (1.0 per line), 1 character ("), "{checked}");
    assert!(checked.contains("✓ 1 pair, no problem found"), "{checked}");
    // `a` is in no vocabulary: its translation has a note.
    let noted = run(&[
        "evaluate",
        "-m",
        &opus,
        "--to",
        "tur",
        "--source",
        "a.en",
        "--reference",
        "a.en",
        "--threads",
        "1",
    ]);
    assert!(noted.err.contains("note: 1 line has notes; "), "{}", noted.err);
    assert!(noted.out.contains("\n1 line, "), "{}", noted.out);
    let err =
        run(&["vectors", "train", "words.txt", "--dimensions", "1", "--epochs", "1", "--out", "v.txt"]).err;
    assert!(err.contains("wrote v.txt: 2 words, 1 dimension\n"), "{err}");
}

#[test]
fn a_dash_is_standard_input_once() {
    let folder = folder(&[("b.en", "a\n"), ("b.tr", "a\n")]);
    let opus = opus();
    let run = |arguments: &[&str], input: &str| polyhead(folder.path(), arguments, input);
    let lines = "Nobody slept well!\n";
    let expected = run(&["translate", "-m", &opus, "--to", "tur"], lines).ok();
    assert_eq!(run(&["translate", "-m", &opus, "--to", "tur", "--file", "-"], lines).ok(), expected);
    let pair = format!("Nobody slept well!\t{expected}");
    let scored = run(&["evaluate", "-m", &opus, "--to", "tur", "--tsv", "-"], &pair).ok();
    assert!(scored.starts_with("BLEU    100.00\n"), "{scored}");
    let scored = run(&["score", "-r", "-", "--hypothesis", "b.en", "--metric", "ser"], "a\n").ok();
    assert!(scored.contains("SER     0.00"), "{scored}");
    run(&["quantize", &opus, "--out", "int8", "--sample", "-"], lines).ok();
    run(&["tokenizer", "train", "--kind", "char", "--input", "-", "--out", "t.json"], lines).ok();
    assert_eq!(run(&["tokenizer", "encode", "-t", "t.json", "-"], "we\n").ok(), "w e\n");
    let recipe = "[data]\ntrain = { source = \"b.en\", target = \"b.tr\" }\n[train]\nmax_steps = 1\n";
    let dumped = run(&["train", "-", "--dump-config"], recipe).ok();
    assert!(dumped.contains("source = \"b.en\""), "{dumped}");
    let err = run(&["train", "-"], "no recipe").failed(2);
    assert!(err.starts_with("error: standard input"), "{err}");
    for twice in [
        &["score", "-r", "-"][..],
        &["evaluate", "-m", &opus, "--source", "-", "--reference", "-"],
        &["data", "stats", "--source", "-", "--target", "-"],
        &["translate", "-m", &opus, "--shortlist", "-"],
    ] {
        let err = run(twice, "a\n").failed(2);
        assert!(
            err.starts_with("error: standard input is read twice (") && err.contains("\nhint: "),
            "{err}"
        );
    }
}

#[test]
fn completions_and_manual_pages_are_printed() {
    let folder = folder(&[]);
    for (shell, part) in [
        ("bash", "complete -F _polyhead"),
        ("zsh", "#compdef polyhead"),
        ("fish", "complete -c polyhead"),
        ("elvish", "edit:completion"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = polyhead(folder.path(), &["completions", shell], "").ok();
        assert!(script.contains(part) && script.contains("verify-run"), "{shell}: {script}");
        assert!(!script.contains("--force"), "{shell} offers an old option");
    }
    polyhead(folder.path(), &["completions", "tcsh"], "").failed(2);
    let page = polyhead(folder.path(), &["man"], "").ok();
    assert!(page.contains(".TH polyhead 1") && page.contains("polyhead\\-translate(1)"), "{page}");
    let run = polyhead(folder.path(), &["man", "--out", "man1"], "");
    assert!(run.err.starts_with("wrote "), "{}", run.err);
    let pages = names(&folder.path().join("man1"));
    for name in ["polyhead.1", "polyhead-translate.1", "polyhead-data-check.1", "polyhead-bench-gemm.1"] {
        assert!(pages.iter().any(|page| page == name), "{pages:?}");
    }
    let page = std::fs::read_to_string(folder.path().join("man1/polyhead-data-check.1")).unwrap();
    assert!(
        page.contains("\n.SH EXAMPLES\n") && page.contains("max\\-ratio") && !page.contains("\\-\\-json\\fR"),
        "{page}"
    );
}

#[test]
fn no_command_shows_the_help() {
    let folder = folder(&[]);
    for (arguments, names) in [(&[][..], ["tokenizer", "score"]), (&["data"], ["check", "clean"])] {
        let err = polyhead(folder.path(), arguments, "").failed(2);
        assert!(names.iter().all(|name| err.contains(name)) && err.contains("Usage: polyhead"), "{err}");
    }
}

#[test]
fn misuse_exits_with_2() {
    let folder = folder(&[]);
    for arguments in [
        &["nonsense"][..],
        &["tokenizer", "train", "--kind", "magic", "--out", "x"],
        &["tokenizer", "train", "--out", "x"],
        &["tokenizer", "encode"],
        &["info", "x", "--preset", "base"],
        &["info", "--vocab-size", "8"],
        &["info", "--preset", "huge"],
        &["parity", "--model", "x"],
        &["parity", "--model", "x", "--reference", "y", "--absolute", "-1"],
        &["parity", "--model", "x", "--reference", "y", "--relative", "nan"],
        &["import", "x"],
        &["plot"],
        &["plot", "x", "--out", "y.jpg"],
        &["plot", "x", "--smooth", "0"],
        &["import", "x", "--out", "y", "--dtype", "int4"],
        &["export", "x", "--out", "y"],
        &["export", "x", "--out", "y", "--layout", "onnx"],
        &["export", "x", "--out", "y", "--layout", "marian", "--max-shard-size", "0"],
        &["quantize", "x"],
        &["average", "x"],
        &["serve", "--dtype", "bf16"],
        &["train", "x", "--dtype", "int8"],
        &["init"],
        &["init", "--tsv", "x", "--from", "en"],
        &["init", "--tsv", "x", "--valid-tsv", "y", "--hold-out", "5"],
        &["data", "check"],
        &["data", "check", "--tsv", "x", "--columns", "0,1"],
        &["data", "check", "--tsv", "x", "--max-ratio", "0.5"],
    ] {
        let err = polyhead(folder.path(), arguments, "").failed(2);
        assert!(err.starts_with("error: "), "{arguments:?}: {err}");
    }
    assert!(names(folder.path()).is_empty());
}

/// The system's number of an error says nothing that its message does not say.
#[test]
fn messages_have_no_numbers_of_the_system() {
    let folder = folder(&[("a.txt", "a\n"), ("keys", "")]);
    for arguments in [
        &["score", "-r", "missing"][..],
        &["info", "missing"],
        &["translate", "-m", "missing", "x"],
        &["translate", "-m", "a.txt", "x"],
        &["translate", "--file", "missing.txt"],
        &["parity", "-m", "missing", "--reference", "missing.safetensors"],
        &["parity", "-m", &opus(), "--reference", "missing.safetensors"],
        &["train", "missing.toml"],
        &["plot", "missing"],
        &["average", "missing", "--out", "x"],
        &["verify-run", "missing"],
        &["quantize", "missing", "--out", "x"],
        &["tokenizer", "encode", "-t", "missing", "a.txt"],
        &["detect", "--model", "missing", "x"],
        &["keys", "list", "missing"],
        &["serve", "-m", &opus(), "--keys", "missing"],
        &["data", "stats", "--tsv", "missing"],
    ] {
        let run = polyhead(folder.path(), arguments, "");
        assert!(run.code != 0 && !run.err.contains("os error"), "{arguments:?}: {}", run.err);
    }
}
