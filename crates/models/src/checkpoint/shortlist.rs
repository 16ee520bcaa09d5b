//! The file of a lexical shortlist, `shortlist.safetensors`: for each language tag the frequent ids, the number of
//! candidates of each source id, and the candidates.
//!
//! Tensors, all of dtype U8: `always`, and for each tag `TAG.frequent`, `TAG.counts` (one byte per source id) and
//! `TAG.candidates`. Ids are little-endian pairs of bytes, shape n × 2. A model without tags has one table, `any`. The
//! metadata has `format_version` and `tokenizer`, a fingerprint of the vocabularies that the ids belong to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use polyhead_text::output::Output;
use serde_json::json;

use super::safetensors::TensorFile;
use crate::shortlist::LexicalTable;
use crate::{Error, Result};

/// The name of the file in a model folder.
pub const SHORTLIST: &str = "shortlist.safetensors";
const VERSION: &str = "1";
const TRAIN_AGAIN: &str = "make it with polyhead shortlist train, or remove the file";

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortlistFile {
    /// Fingerprint of the vocabularies.
    pub tokenizer: String,
    /// Target ids that are listed for every sentence, ascending.
    pub always: Vec<u16>,
    /// The table of each language tag; of `any` for a model without tags.
    pub tables: BTreeMap<String, LexicalTable>,
}

impl ShortlistFile {
    /// Reads a file whose ids must fit the vocabularies of source and target.
    ///
    /// # Errors
    /// If it is damaged, of another version or of another tokeniser.
    pub fn load(path: &Path, tokenizer: &str, vocab_sizes: [usize; 2]) -> Result<Self> {
        let file = TensorFile::open(path)?;
        let found = |key: &str| file.metadata().get(key).map_or("", String::as_str);
        if found("format_version") != VERSION {
            let message =
                format!("a shortlist of version {:?}, expected {VERSION:?}", found("format_version"));
            return Err(Error::file(path, message, TRAIN_AGAIN));
        }
        if found("tokenizer") != tokenizer {
            let message = format!(
                "a shortlist of the tokeniser {}, expected {tokenizer}, that of the model",
                found("tokenizer")
            );
            return Err(Error::file(path, message, TRAIN_AGAIN));
        }
        let always = ids(&file, "always", vocab_sizes[1])?;
        let tags = file.names().filter_map(|name| name.strip_suffix(".counts").map(str::to_owned));
        let table = |tag: String| {
            let table = LexicalTable {
                frequent: ids(&file, &format!("{tag}.frequent"), vocab_sizes[1])?,
                counts: file.bytes(&format!("{tag}.counts"))?.to_vec(),
                candidates: ids(&file, &format!("{tag}.candidates"), vocab_sizes[1])?,
            };
            let total: usize = table.counts.iter().map(|&count| usize::from(count)).sum();
            if table.counts.len() != vocab_sizes[0] || total != table.candidates.len() {
                let message = format!(
                    "{tag} has {} candidates of {} source ids, expected {total} of {}",
                    table.candidates.len(),
                    table.counts.len(),
                    vocab_sizes[0]
                );
                return Err(Error::file(path, message, TRAIN_AGAIN));
            }
            Ok((tag, table))
        };
        let tables = tags.map(table).collect::<Result<_>>()?;
        Ok(Self { tokenizer: tokenizer.to_owned(), always, tables })
    }

    /// Writes the file and returns its size in bytes; it appears whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, path: &Path) -> Result<u64> {
        let mut tensors: BTreeMap<String, (Vec<usize>, Vec<u8>)> = BTreeMap::new();
        let pairs = |ids: &[u16]| {
            (vec![ids.len(), 2], ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>())
        };
        tensors.insert("always".into(), pairs(&self.always));
        for (tag, LexicalTable { frequent, counts, candidates }) in &self.tables {
            tensors.insert(format!("{tag}.frequent"), pairs(frequent));
            tensors.insert(format!("{tag}.counts"), (vec![counts.len()], counts.clone()));
            tensors.insert(format!("{tag}.candidates"), pairs(candidates));
        }
        let mut header = serde_json::Map::new();
        header.insert("__metadata__".into(), json!({"format_version": VERSION, "tokenizer": self.tokenizer}));
        let mut end = 0;
        for (name, (shape, bytes)) in &tensors {
            let offsets = [end, end + bytes.len()];
            end += bytes.len();
            header.insert(name.clone(), json!({"dtype": "U8", "shape": shape, "data_offsets": offsets}));
        }
        let mut header = serde_json::Value::from(header).to_string().into_bytes();
        header.resize(header.len().next_multiple_of(8), b' ');
        let written = || -> polyhead_text::Result<()> {
            let mut output = Output::create(path)?;
            output.write(&(header.len() as u64).to_le_bytes())?;
            output.write(&header)?;
            tensors.values().try_for_each(|(_, bytes)| output.write(bytes))?;
            output.finish()
        };
        written().map_err(|error| match error {
            polyhead_text::Error::Io { path, action, source } => Error::Io { path, action, source },
            other => Error::io(path, "write", std::io::Error::other(other)),
        })?;
        Ok((8 + header.len() + end) as u64)
    }
}

/// The ids of a tensor, each below `vocab_size`.
fn ids(file: &TensorFile, name: &str, vocab_size: usize) -> Result<Vec<u16>> {
    let (pairs, rest) = file.bytes(name)?.as_chunks::<2>();
    let ids: Vec<u16> = pairs.iter().copied().map(u16::from_le_bytes).collect();
    let outside: BTreeSet<u16> = ids.iter().copied().filter(|id| usize::from(*id) >= vocab_size).collect();
    match (outside.last(), rest) {
        (None, []) => Ok(ids),
        (Some(id), _) => {
            let message = format!("tensor {name} has id {id}, expected ids below {vocab_size}");
            Err(Error::file(file.path(), message, TRAIN_AGAIN))
        }
        (None, _) => {
            let message = format!("tensor {name} has an odd number of bytes, expected two for each id");
            Err(Error::file(file.path(), message, TRAIN_AGAIN))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> ShortlistFile {
        let german =
            LexicalTable { frequent: vec![4, 300], counts: vec![0, 2, 1], candidates: vec![5, 299, 7] };
        let french = LexicalTable { frequent: vec![], counts: vec![0, 0, 0], candidates: vec![] };
        let tables = [(">>deu<<".to_owned(), german), (">>fra<<".to_owned(), french)];
        ShortlistFile { tokenizer: "abc".into(), always: vec![0, 1], tables: tables.into() }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(SHORTLIST);
        let size = example().save(&path).unwrap();
        assert_eq!(size, std::fs::metadata(&path).unwrap().len());
        assert_eq!(ShortlistFile::load(&path, "abc", [3, 301]).unwrap(), example());
    }

    #[test]
    fn a_file_that_does_not_fit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(SHORTLIST);
        example().save(&path).unwrap();
        let refused = |tokenizer, vocab_sizes, message: &str| {
            let error = ShortlistFile::load(&path, tokenizer, vocab_sizes).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
            assert!(error.hint().contains("polyhead shortlist train"), "{}", error.hint());
        };
        refused("xyz", [3, 301], "a shortlist of the tokeniser abc, expected xyz, that of the model");
        refused("abc", [3, 300], "tensor >>deu<<.frequent has id 300, expected ids below 300");
        refused("abc", [4, 301], ">>deu<< has 3 candidates of 3 source ids, expected 3 of 4");
        let whole = std::fs::read(&path).unwrap();
        let at = whole.windows(7).position(|bytes| bytes == b"ion\":\"1").unwrap() + 6;
        let mut other = whole.clone();
        other[at] = b'7';
        std::fs::write(&path, other).unwrap();
        refused("abc", [3, 301], "a shortlist of version \"7\", expected \"1\"");
        for cut in [0, 7, 20, whole.len() - 1] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert!(ShortlistFile::load(&path, "abc", [3, 301]).is_err(), "{cut} bytes");
        }
    }

    #[test]
    fn counts_and_candidates_must_agree() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(SHORTLIST);
        let mut file = example();
        file.tables.get_mut(">>deu<<").unwrap().counts[0] = 9;
        file.save(&path).unwrap();
        let error = ShortlistFile::load(&path, "abc", [3, 301]).unwrap_err().to_string();
        assert!(error.contains(">>deu<< has 3 candidates of 3 source ids, expected 12 of 3"), "{error}");
    }
}
