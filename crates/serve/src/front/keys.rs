//! API keys: a file of names and hashes, and who a key belongs to.
//!
//! A line is `name sha256:HEX [per_minute=N]`; `#` begins a comment. Only hashes are kept, so that nobody who reads the file
//! can use it. A plain hash is enough since [`new_key`] draws 256 random bits: there is nothing to guess.

use std::collections::HashSet;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::form::digit;
use crate::{Error, Result};

/// What keys begin with, so that they are recognised where they should not be.
pub const PREFIX: &str = "ph_";

type Hash = [u8; 32];

/// Who may ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// What its owner is called in logs.
    pub name: Arc<str>,
    /// Requests a minute, where they differ from those of the others.
    pub per_minute: Option<u32>,
    hash: Hash,
}

/// All keys of a file.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    keys: Vec<Key>,
}

impl Keys {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read or a line cannot be understood.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text =
            fs::read_to_string(path).map_err(|source| Error::KeyFile { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// Reads the text of a file; `path` is for errors.
    ///
    /// # Errors
    /// If a line cannot be understood, or a name or key is there twice.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let mut keys: Vec<Key> = Vec::new();
        let mut names = HashSet::new();
        let mut hashes = HashSet::new();
        for (index, line) in text.lines().enumerate() {
            let failed = |found: String| Error::Key { path: path.to_owned(), line: index + 1, found };
            let Some(key) = parse_line(line).map_err(failed)? else { continue };
            if !names.insert(key.name.clone()) {
                return Err(failed(format!("the name {:?} for the second time", key.name)));
            }
            if !hashes.insert(key.hash) {
                return Err(failed("a key for the second time".into()));
            }
            keys.push(key);
        }
        Ok(Self { keys })
    }

    /// Whose key it is.
    ///
    /// All entries are visited and each is compared to its end, so that the time it takes says nothing about how much of a
    /// key was right.
    pub fn find(&self, key: &str) -> Option<&Key> {
        let hash = hash(key);
        let mut found = None;
        for own in &self.keys {
            if is_equal(&own.hash, &hash) {
                found = Some(own);
            }
        }
        found
    }

    /// All of them, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none, so that nobody may ask.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// A new key from the system's random numbers; it is shown once and kept nowhere.
///
/// # Errors
/// If the system has none.
pub fn new_key() -> Result<String> {
    Ok(format!("{PREFIX}{}", random_digits::<32>()?))
}

/// So many random bytes of the system, as hexadecimal digits, which nobody can guess.
pub(crate) fn random_digits<const N: usize>() -> Result<String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| Error::NoRandomness { said: error.to_string() })?;
    Ok(hex(&bytes))
}

/// The line of a key in a file.
pub fn line(name: &str, key: &str, per_minute: Option<u32>) -> String {
    let rate = per_minute.map_or(String::new(), |rate| format!(" per_minute={rate}"));
    format!("{name} sha256:{}{rate}", hex(&hash(key)))
}

/// The text of a file without the line of `name`; none where there is no such line.
pub fn without(text: &str, name: &str) -> Option<String> {
    let is_other = |line: &&str| !matches!(parse_line(line), Ok(Some(key)) if *key.name == *name);
    let kept: String = text.split_inclusive('\n').filter(is_other).collect();
    (kept.len() < text.len()).then_some(kept)
}

/// Whether a name can stand in a file: 1 to 64 letters, digits, `.`, `_` and `-`.
pub fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// What to tell of a file that others than its owner can read; none where all is well.
pub fn warning(path: impl AsRef<Path>) -> Option<String> {
    let path = path.as_ref();
    is_open_to_others(path)
        .then(|| format!("{} can be read by others; chmod 600 keeps it to its owner", path.display()))
}

#[cfg(unix)]
fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_open_to_others(_: &Path) -> bool {
    false
}

/// The key of a line; none where it is empty or a comment.
fn parse_line(line: &str) -> std::result::Result<Option<Key>, String> {
    let line = line.split('#').next().unwrap_or_default();
    let mut words = line.split_whitespace();
    let Some(name) = words.next() else { return Ok(None) };
    if !is_name(name) {
        return Err("a name of other signs than letters, digits, `.`, `_` and `-`".into());
    }
    // What stands there may be a key that somebody put in by mistake, so it is not repeated.
    let hash = words.next().and_then(|word| word.strip_prefix("sha256:")).and_then(unhex);
    let hash = hash.ok_or("no sha256: and 64 digits after the name")?;
    let mut per_minute = None;
    for word in words {
        let rate = word.strip_prefix("per_minute=").and_then(|rate| rate.parse().ok());
        per_minute = Some(rate.filter(|rate| *rate > 0).ok_or_else(|| format!("{word:?} after the hash"))?);
    }
    Ok(Some(Key { name: name.into(), per_minute, hash }))
}

fn hash(key: &str) -> Hash {
    Sha256::digest(key).into()
}

/// Whether two hashes are equal, in a time that does not hang on where they differ: all bytes are looked at, and
/// `black_box` keeps the compiler from stopping at the first difference, which a plain `==` does.
fn is_equal(a: &Hash, b: &Hash) -> bool {
    let mut difference = 0;
    for (a, b) in a.iter().zip(b) {
        difference = black_box(difference | (a ^ b));
    }
    difference == 0
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Hash> {
    let digits: Vec<u8> = text.bytes().map(digit).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] * 16 + pair[1]).collect();
    if digits.len() == 64 { bytes.try_into().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Result<Keys> {
        Keys::parse(text, Path::new("keys.txt"))
    }

    #[test]
    fn a_key_is_found_by_itself_alone() {
        let text = format!(
            "# ours\n\n{}\n{}  # the second\r\n",
            line("shop", "ph_one", None),
            line("app-2", "ph_two", Some(600))
        );
        let keys = parsed(&text).unwrap();
        assert_eq!((keys.len(), keys.is_empty()), (2, false));
        let found = keys.find("ph_two").unwrap();
        assert_eq!((&*found.name, found.per_minute), ("app-2", Some(600)));
        assert_eq!(keys.find("ph_one").unwrap().per_minute, None);
        for other in ["", "ph_", "ph_one ", "ph_on", "PH_ONE", "shop"] {
            assert_eq!(keys.find(other), None, "{other}");
        }
        assert_eq!(parsed("").unwrap().find(""), None);
        assert!(!text.contains("ph_one"));
    }

    #[test]
    fn hashes_are_those_of_sha256sum() {
        // printf abc | sha256sum
        let expected =
            "a sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad per_minute=5";
        assert_eq!(line("a", "abc", Some(5)), expected);
        assert_eq!(
            &*parsed(
                &expected.to_uppercase().replace("SHA256", "sha256").replace("PER_MINUTE", "per_minute")
            )
            .unwrap()
            .find("abc")
            .unwrap()
            .name,
            "A"
        );
    }

    #[test]
    fn a_bad_line_is_told_with_its_number() {
        let good = line("a", "x", None);
        for (bad, expected) in [
            ("b ph_plain", "no sha256: and 64 digits"),
            ("b", "no sha256: and 64 digits"),
            ("b sha256:abc", "no sha256: and 64 digits"),
            ("b/c sha256:00", "a name of other signs"),
            (&line("b", "y", None).replace("sha256", "sha1"), "no sha256:"),
            (&format!("{} often", line("b", "y", None)), "\"often\" after the hash"),
            (&format!("{} per_minute=0", line("b", "y", None)), "\"per_minute=0\" after"),
            (&line("a", "y", None), "the name \"a\" for the second time"),
            (&line("b", "x", None), "a key for the second time"),
        ] {
            let error = parsed(&format!("{good}\n# c\n{bad}\n")).unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with("keys.txt, line 3: ") && text.contains(expected), "{text}");
            assert!(!text.contains("ph_plain") && !error.hint().is_empty(), "{text}");
        }
    }

    #[test]
    fn new_keys_differ_and_are_long() {
        let [one, two] = [new_key().unwrap(), new_key().unwrap()];
        assert_ne!(one, two);
        assert!(one.starts_with(PREFIX) && one.len() == 3 + 64, "{one}");
    }

    #[test]
    fn a_line_is_taken_out_and_the_rest_stays() {
        let text = format!("# ours\n{}\n{}", line("a", "x", None), line("b", "y", Some(3)));
        assert_eq!(without(&text, "a").unwrap(), format!("# ours\n{}", line("b", "y", Some(3))));
        assert_eq!(without(&text, "b").unwrap(), format!("# ours\n{}\n", line("a", "x", None)));
        assert_eq!(without(&text, "c"), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_is_warned_of() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        fs::write(&path, line("a", "x", None)).unwrap();
        for (mode, is_open) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(warning(&path).is_some(), is_open, "{mode:o}");
        }
        assert_eq!(Keys::load(&path).unwrap().len(), 1);
        assert!(matches!(Keys::load(folder.path().join("none")), Err(Error::KeyFile { .. })));
    }

    proptest! {
        #[test]
        fn hashes_are_equal_only_to_themselves(a in any::<Hash>(), at in 0..32_usize, bit in 0..8_u8) {
            let mut b = a;
            prop_assert!(is_equal(&a, &b));
            b[at] ^= 1 << bit;
            prop_assert!(!is_equal(&a, &b));
        }

        #[test]
        fn no_text_brings_it_down(text in any::<String>(), name in any::<String>()) {
            let _ = parsed(&text);
            let _ = without(&text, &name);
        }
    }
}
