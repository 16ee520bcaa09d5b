//! `polyhead keys`: a key is shown once, and the file has its hash.

use std::fs;

use polyhead_serve::front::keys::Keys;

use crate::program::{folder, names, polyhead};

#[test]
fn keys_are_added_listed_and_removed() {
    let folder = folder(&[]);
    let run = |arguments: &[&str]| polyhead(folder.path(), &[&["keys"], arguments].concat(), "");
    let shop = run(&["add", "keys.txt", "shop"]).ok();
    let added = run(&["add", "keys.txt", "app-2", "--per-minute", "600"]);
    assert!(added.err.contains("shown only this time"), "{}", added.err);
    let app = added.ok();
    let path = folder.path().join("keys.txt");
    let text = fs::read_to_string(&path).unwrap();
    let keys = Keys::load(&path).unwrap();
    for (key, name) in [(shop.trim(), "shop"), (app.trim(), "app-2")] {
        assert!(key.starts_with("ph_") && !text.contains(key), "{text}");
        assert_eq!(&*keys.find(key).unwrap().name, name);
    }
    assert_eq!(run(&["list", "keys.txt"]).ok(), "shop\t-\napp-2\t600\n");
    let json: serde_json::Value =
        serde_json::from_str(&run(&["list", "keys.txt", "--format", "json"]).ok()).unwrap();
    let expected = serde_json::json!([
        { "name": "shop", "per_minute": null }, { "name": "app-2", "per_minute": 600 }
    ]);
    assert_eq!(json, expected);
    // Comments in the file are preserved.
    fs::write(&path, format!("# ours\n{}", text.trim_end())).unwrap();
    run(&["add", "keys.txt", "third"]).ok();
    run(&["remove", "keys.txt", "shop"]).ok();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("# ours\napp-2 sha256:") && text.contains("\nthird sha256:"), "{text}");
    assert_eq!(names(folder.path()), ["keys.txt"]);
}

#[cfg(unix)]
#[test]
fn a_key_file_is_private_and_a_readable_one_gives_a_warning() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder(&[]);
    polyhead(folder.path(), &["keys", "add", "keys.txt", "a"], "").ok();
    let path = folder.path().join("keys.txt");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let quiet = polyhead(folder.path(), &["keys", "list", "keys.txt"], "");
    assert_eq!(quiet.err, "");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let warned = polyhead(folder.path(), &["keys", "list", "keys.txt"], "");
    assert!(warned.code == 0 && warned.err.starts_with("warning: keys.txt can be read by other users"));
}

#[test]
fn problems_with_keys_are_explained() {
    let folder = folder(&[("bad.txt", "# a\nshop plain-key\n")]);
    let run = |arguments: &[&str]| polyhead(folder.path(), &[&["keys"], arguments].concat(), "");
    let error = run(&["list", "bad.txt"]).failed(1);
    assert!(error.contains("bad.txt, line 2: no sha256:") && error.contains("\nhint: "), "{error}");
    assert!(!error.contains("plain-key"), "{error}");
    run(&["add", "bad.txt", "b"]).failed(1);
    assert_eq!(fs::read_to_string(folder.path().join("bad.txt")).unwrap(), "# a\nshop plain-key\n");
    assert!(run(&["add", "keys.txt", "a b"]).failed(2).contains("expected 1 to 64 letters"));
    assert!(run(&["add", "keys.txt", "a", "--per-minute", "0"]).failed(2).starts_with("error: "));
    assert!(run(&["list", "none.txt"]).failed(1).contains("cannot read none.txt"));
    run(&["add", "keys.txt", "a"]).ok();
    assert!(run(&["add", "keys.txt", "a"]).failed(1).contains("a key \"a\" already exists"));
    assert!(run(&["remove", "keys.txt", "b"]).failed(1).contains("no key \"b\""));
    for command in ["add", "list", "remove"] {
        assert!(run(&[command, "--help"]).ok().contains("Examples:"));
    }
}
