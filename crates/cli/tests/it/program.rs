//! Running the program and looking at what it did.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a run of the program left.
#[derive(Debug)]
pub(crate) struct Run {
    /// Exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

/// Runs `polyhead` with `arguments` in `folder`, `input` on standard input.
pub(crate) fn polyhead(folder: &Path, arguments: &[&str], input: &str) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_polyhead"))
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built");
    // A program that fails early may close its input; that is no failure of the test.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("the program ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is text");
    Run { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

impl Run {
    /// The output of a run that must have gone well.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}", self.err);
        self.out
    }

    /// The error and hint of a run that must have failed with `code`, without a panic or half a report.
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

#[test]
fn help_names_every_command() {
    let folder = folder(&[]);
    let out = polyhead(folder.path(), &["--help"], "").ok();
    for command in
        ["data", "tokenizer", "init", "train", "score", "info", "parity", "import", "export", "plot"]
    {
        assert!(out.contains(command), "{out}");
    }
    for command in [
        &["tokenizer", "train"][..],
        &["tokenizer", "encode"],
        &["tokenizer", "decode"],
        &["tokenizer", "info"],
        &["data", "check"],
        &["data", "clean"],
        &["data", "stats"],
        &["detect"],
        &["init"],
        &["train"],
        &["score"],
        &["info"],
        &["parity"],
        &["import"],
        &["export"],
        &["plot"],
    ] {
        let out = polyhead(folder.path(), &[command, &["--help"]].concat(), "").ok();
        assert!(out.contains("Example"), "{command:?} shows no example:\n{out}");
    }
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
        &["info"],
        &["info", "x", "--preset", "base"],
        &["info", "--preset", "huge"],
        &["parity", "--model", "x"],
        &["parity", "--model", "x", "--reference", "y", "--absolute", "-1"],
        &["parity", "--model", "x", "--reference", "y", "--relative", "nan"],
        &["import", "x"],
        &["plot"],
        &["plot", "x", "--out", "y.jpg"],
        &["plot", "x", "--smooth", "0"],
        &["import", "x", "y", "--dtype", "int4"],
        &["export", "x", "y"],
        &["export", "x", "y", "--layout", "onnx"],
        &["export", "x", "y", "--layout", "marian", "--max-shard-size", "0"],
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
