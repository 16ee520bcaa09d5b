//! API keys: a file of names and hashes.
//!
//! A line is `name sha256:HEX [per_minute=N]`; `#` begins a comment. The file holds only hashes, so that reading it reveals no
//! key. A plain hash is enough since [`new_key`] draws 256 random bits, which cannot be guessed.

use std::collections::HashSet;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::{Error, Result};

/// Prefix of all keys, so that leaked ones are recognised.
pub const PREFIX: &str = "ph_";

type Hash = [u8; 32];

/// An entry of a key file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Name of its owner, for logs.
    pub name: Arc<str>,
    /// Requests per minute, if they differ from the server's default.
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
    /// If it cannot be read or a line is invalid.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text =
            fs::read_to_string(path).map_err(|source| Error::KeyFile { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// Reads the text of a file; `path` is for errors.
    ///
    /// # Errors
    /// If a line is invalid, or a name or key is repeated.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let mut keys: Vec<Key> = Vec::new();
        let mut names = HashSet::new();
        let mut hashes = HashSet::new();
        for (index, line) in text.lines().enumerate() {
            let failed = |found: String| Error::Key { path: path.to_owned(), line: index + 1, found };
            let Some(key) = parse_line(line).map_err(failed)? else { continue };
            if !names.insert(key.name.clone()) {
                return Err(failed(format!("duplicate name {:?}", key.name)));
            }
            if !hashes.insert(key.hash) {
                return Err(failed("duplicate key".into()));
            }
            keys.push(key);
        }
        Ok(Self { keys })
    }

    /// The entry of a key.
    ///
    /// Compares the whole hash with every entry, so that the time reveals nothing about how much of a key was right.
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

    /// All entries, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// A new key from the system's random numbers; it is shown once and not stored.
///
/// # Errors
/// If the system has none.
pub fn new_key() -> Result<String> {
    Ok(format!("{PREFIX}{}", random_digits::<32>()?))
}

/// `N` random bytes of the system as hexadecimal digits.
pub(crate) fn random_digits<const N: usize>() -> Result<String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| Error::NoRandomness { reason: error.to_string() })?;
    Ok(hex(&bytes))
}

/// The line of a key in a file.
pub fn line(name: &str, key: &str, per_minute: Option<u32>) -> String {
    let rate = per_minute.map_or(String::new(), |rate| format!(" per_minute={rate}"));
    format!("{name} sha256:{}{rate}", hex(&hash(key)))
}

/// The text of a file without the line of `name`; none if there is no such line.
pub fn without(text: &str, name: &str) -> Option<String> {
    let is_other = |line: &&str| !matches!(parse_line(line), Ok(Some(key)) if *key.name == *name);
    let kept: String = text.split_inclusive('\n').filter(is_other).collect();
    (kept.len() < text.len()).then_some(kept)
}

/// True if a name is valid: 1 to 64 letters, digits, `.`, `_` and `-`.
pub fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// A warning if others than its owner can read a file.
pub fn warning(path: impl AsRef<Path>) -> Option<String> {
    let path = path.as_ref();
    is_open_to_others(path)
        .then(|| format!("{} can be read by other users; restrict it with chmod 600", path.display()))
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

/// The entry of a line; none if it is empty or a comment.
fn parse_line(line: &str) -> std::result::Result<Option<Key>, String> {
    let line = line.split('#').next().unwrap_or_default();
    let mut words = line.split_whitespace();
    let Some(name) = words.next() else { return Ok(None) };
    if !is_name(name) {
        return Err("a name with characters other than letters, digits, `.`, `_` and `-`".into());
    }
    // The word may be a key that was pasted by mistake, so it is not repeated.
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

/// True if two hashes are equal, in constant time: all bytes are compared, and `black_box` keeps the compiler from stopping at
/// the first difference as a plain `==` does.
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
    let digit = |letter: char| letter.to_digit(16).map(|digit| digit as u8);
    let digits: Vec<u8> = text.chars().map(digit).collect::<Option<_>>()?;
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
    fn only_the_whole_key_is_found() {
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
    fn an_invalid_line_is_reported_with_its_number() {
        let good = line("a", "x", None);
        for (bad, expected) in [
            ("b ph_plain", "no sha256: and 64 digits"),
            ("b", "no sha256: and 64 digits"),
            ("b sha256:abc", "no sha256: and 64 digits"),
            ("b/c sha256:00", "a name with characters other"),
            (&line("b", "y", None).replace("sha256", "sha1"), "no sha256:"),
            (&format!("{} often", line("b", "y", None)), "\"often\" after the hash"),
            (&format!("{} per_minute=0", line("b", "y", None)), "\"per_minute=0\" after"),
            (&line("a", "y", None), "duplicate name \"a\""),
            (&line("b", "x", None), "duplicate key"),
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
    fn one_line_is_removed_and_the_rest_stays() {
        let text = format!("# ours\n{}\n{}", line("a", "x", None), line("b", "y", Some(3)));
        assert_eq!(without(&text, "a").unwrap(), format!("# ours\n{}", line("b", "y", Some(3))));
        assert_eq!(without(&text, "b").unwrap(), format!("# ours\n{}\n", line("a", "x", None)));
        assert_eq!(without(&text, "c"), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_gets_a_warning() {
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
        fn no_text_makes_it_panic(text in any::<String>(), name in any::<String>()) {
            let _ = parsed(&text);
            let _ = without(&text, &name);
        }
    }
}
