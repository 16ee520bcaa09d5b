//! `polyhead models`, the places of the default model, and packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::tidy::root;

/// A small model made with Hugging Face's code.
fn opus() -> PathBuf {
    root().join("crates/models/tests/golden/opus")
}

/// Runs a program in `/` with its own data folder, and without any other setting.
fn run(program: &Path, data: &Path, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .current_dir("/")
        .env_remove("POLYHEAD_MODEL")
        .env("XDG_DATA_HOME", data)
        .env("LC_ALL", "C")
        .output()
        .expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn ok(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn an_installed_model_is_used_by_name_and_as_the_default() {
    let data = tempfile::tempdir().unwrap();
    let polyhead =
        |arguments: &[&str]| run(Path::new(env!("CARGO_BIN_EXE_polyhead")), data.path(), arguments);
    let (opus, folder) = (opus(), data.path().join("polyhead/models"));
    let opus = opus.to_str().unwrap();
    let expected = ok(&polyhead(&["translate", "--model", opus, "--to", "tur", "Nobody slept well!"]));
    ok(&polyhead(&["models", "add", opus, "--name", "small"]));
    let by_name = polyhead(&["translate", "--model", "small", "--to", "tur", "Nobody slept well!"]);
    assert_eq!(ok(&by_name), expected);
    let again = polyhead(&["models", "add", opus, "--name", "small"]);
    assert!(again.status.code() == Some(1), "{}", text(&again.stderr));
    assert!(text(&again.stderr).contains("small: already exists, expected a new name\nhint: "));
    ok(&polyhead(&["models", "add", opus, "--name", "default"]));
    // The default of the user comes before that of the source tree.
    let by_default = polyhead(&["translate", "--to", "tur", "Nobody slept well!"]);
    assert_eq!(ok(&by_default), expected);
    let list: Value = serde_json::from_str(&ok(&polyhead(&["models", "list", "--format", "json"]))).unwrap();
    let row = |index: usize| (list[index]["name"].clone(), list[index]["default"].clone());
    assert_eq!([row(0), row(1)], [("default".into(), true.into()), ("small".into(), false.into())]);
    ok(&polyhead(&["models", "remove", "default"]));
    assert!(folder.join("small/config.json").exists() && !folder.join("default").exists());
    let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["small"], "nothing temporary is left");
    let list = ok(&polyhead(&["models", "list"]));
    assert!(list.starts_with("*default\t") && list.contains("\nsmall\t"), "{list}");
    for (arguments, expected) in [
        (&["models", "remove", "default"][..], "no model \"default\" is installed; small are\nhint: "),
        (&["models", "add", "/", "--name", "x"], "neither config.json nor args.json is there"),
        (&["models", "add", opus, "--name", "../x"], "the name \"../x\", expected letters"),
    ] {
        let failed = polyhead(arguments);
        assert!(!failed.status.success(), "{arguments:?}");
        assert!(text(&failed.stderr).contains(expected), "{}", text(&failed.stderr));
    }
}

/// The package holds everything: unpacked elsewhere, its program finds its model, whatever the current folder.
#[test]
fn a_package_translates_where_it_is_unpacked() {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        println!("skipped: dpkg-deb is missing");
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let built = Command::new(root().join("packaging/deb.sh"))
        .args(["--program", env!("CARGO_BIN_EXE_polyhead")])
        .env("POLYHEAD_DIST", folder.path())
        .env("POLYHEAD_DEB_COMPRESSION", "none")
        .env("POLYHEAD_GZIP", "1")
        .output()
        .unwrap();
    ok(&built);
    let entries = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let deb = entries.into_iter().find(|path| path.extension().is_some_and(|end| end == "deb")).unwrap();
    let unpacked = folder.path().join("root");
    ok(&Command::new("dpkg-deb").arg("-x").args([&deb, &unpacked]).output().unwrap());
    let usr = unpacked.join("usr");
    for file in [
        "share/man/man1/polyhead-translate.1.gz",
        "share/bash-completion/completions/polyhead",
        "share/doc/polyhead/copyright",
    ] {
        assert!(usr.join(file).is_file(), "{file}");
    }
    let list = ok(&run(&usr.join("bin/polyhead"), folder.path(), &["models", "list"]));
    let model = usr.join("share/polyhead/models/default").canonicalize().unwrap();
    assert!(list.starts_with("*default\t") && list.ends_with(&format!("\t{}\n", model.display())), "{list}");
    let out =
        ok(&run(&usr.join("bin/polyhead"), folder.path(), &["translate", "--to", "de", "Good morning."]));
    assert!(out.trim().len() > 3, "{out}");
}
