//! Initialisation of embeddings from word vectors: word2vec's text format, whose first line is "count width", or GloVe's,
//! which has no such line; plain or gzip.
//!
//! A vocabulary entry is looked up by its text without the leading word mark `▁`, then in lower case; of duplicates the first
//! vector counts. Special tokens keep their rows. Norms of vectors vary between files, while a model expects those of its own
//! initialisation (deviation 1/√d_model, so that scaled embeddings and tied logits have unit size): all vectors are multiplied
//! by one factor, so that their mean norm is that of the rows they replace. Relative lengths and angles are preserved.

use std::collections::HashMap;
use std::path::Path;

use polyhead_tensor::{ParameterId, Parameters};
use polyhead_text::lines::Lines;
use polyhead_text::tokenizer::Tokenizer;

use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// The mark of a word's beginning in tokens.
const WORD_MARK: char = '▁';
/// Parameter names: one table for both languages, or one each.
const SHARED: &str = "embedding.weight";
const SEPARATE: [&str; 2] = ["source_embedding.weight", "target_embedding.weight"];

/// Number of rows of one embedding table that were filled from word vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilledEmbeddings {
    /// Parameter name, as in `source_embedding.weight`.
    pub table: String,
    /// Entries with a vector.
    pub found: usize,
    /// All entries but special tokens.
    pub entries: usize,
}

/// Freezes all embedding tables.
pub(crate) fn freeze(parameters: &mut Parameters) {
    for name in [SHARED, SEPARATE[0], SEPARATE[1]] {
        if let Some(id) = parameters.find(name) {
            parameters.freeze(id);
        }
    }
}

/// Fills embedding rows with the vectors of the file at `path`.
///
/// # Errors
/// If the file cannot be read, has another width than the model, or shares no word with the vocabulary.
pub(crate) fn fill(
    parameters: &mut Parameters,
    vocabulary: &Vocabulary,
    path: &Path,
) -> Result<Vec<FilledEmbeddings>> {
    let tables = tables(parameters, vocabulary);
    let Some(width) = tables.first().map(|table| parameters.value(table.id).shape()[1]) else {
        return Err(Error::config(
            "embeddings.init",
            "the model has no embedding, source_embedding or target_embedding table",
            "leave it out",
        ));
    };
    let word_rows = WordRows::new(&tables);
    let found = read(path, width, &word_rows)?;
    if found.is_empty() {
        return Err(Error::run(
            path,
            "no word in common with the vocabulary, expected vectors of its words",
            "is it the right language? tokenizer.kind = \"word\" keeps words whole",
        ));
    }
    let mut filled = Vec::new();
    for (index, table) in tables.into_iter().enumerate() {
        let rows: Vec<(u32, &[f32])> =
            found.iter().filter(|(row, _)| row.0 == index).map(|(row, v)| (row.1, v.as_slice())).collect();
        set_rows(parameters.value_mut(table.id).data_mut(), width, &rows);
        filled.push(FilledEmbeddings { table: table.name, found: rows.len(), entries: table.words.len() });
    }
    Ok(filled)
}

/// An embedding table and the texts of its rows.
struct EmbeddingTable {
    name: String,
    id: ParameterId,
    words: Vec<(u32, String)>,
}

fn tables(parameters: &Parameters, vocabulary: &Vocabulary) -> Vec<EmbeddingTable> {
    let words = |tokenizer: &Tokenizer| {
        let pieces = (0..tokenizer.vocab_size() as u32).filter_map(|id| Some((id, tokenizer.piece(id)?)));
        pieces
            .filter(|(_, piece)| !is_special(piece))
            .map(|(id, piece)| (id, piece.trim_start_matches(WORD_MARK).to_owned()))
            .collect()
    };
    let named = [
        (SHARED, vocabulary.source()),
        (SEPARATE[0], vocabulary.source()),
        (SEPARATE[1], vocabulary.target()),
    ];
    named
        .into_iter()
        .filter_map(|(name, tokenizer)| {
            let id = parameters.find(name)?;
            Some(EmbeddingTable { name: name.to_owned(), id, words: words(tokenizer) })
        })
        .collect()
}

/// True for padding, end, unknown, language tags and bytes: entries in angle brackets.
fn is_special(piece: &str) -> bool {
    piece.len() > 2 && piece.starts_with('<') && piece.ends_with('>')
}

/// A row: index of its table, and token id.
type RowId = (usize, u32);

/// Rows by the word that fills them.
struct WordRows {
    exact: HashMap<String, Vec<RowId>>,
    lower: HashMap<String, Vec<RowId>>,
}

impl WordRows {
    fn new(tables: &[EmbeddingTable]) -> Self {
        let mut word_rows = Self { exact: HashMap::new(), lower: HashMap::new() };
        for (index, table) in tables.iter().enumerate() {
            for (id, word) in table.words.iter().filter(|(_, word)| !word.is_empty()) {
                word_rows.exact.entry(word.clone()).or_default().push((index, *id));
                let lower = word.to_lowercase();
                if lower != *word {
                    word_rows.lower.entry(lower).or_default().push((index, *id));
                }
            }
        }
        word_rows
    }
}

/// Reads the vectors of all words in `word_rows`, sorted by row.
fn read(path: &Path, width: usize, word_rows: &WordRows) -> Result<Vec<(RowId, Vec<f32>)>> {
    let mut lines = Lines::open(path)?;
    let (mut exact, mut lower) = (HashMap::new(), HashMap::new());
    let (mut declared, mut words) = (None, 0_u64);
    loop {
        let line = lines.line() + 1;
        let Some(text) = lines.next_text()? else { break };
        let columns: Vec<&str> = text.trim_end_matches([' ', '\t']).split([' ', '\t']).collect();
        if let (1, Some([count, found])) = (line, header(&columns)) {
            check_width(path, line, found, width)?;
            declared = Some(count);
            continue;
        }
        words += 1;
        if words == 1 && declared.is_none() {
            check_width(path, line, columns.len() - 1, width)?;
        }
        let Some(word) = word_of(&columns, width).map_err(|found| wrong_columns(path, line, found, width))?
        else {
            continue;
        };
        for (map, rows) in [(&mut exact, word_rows.exact.get(word)), (&mut lower, word_rows.lower.get(word))]
        {
            for row in rows.into_iter().flatten().filter(|row| !map.contains_key(*row)).collect::<Vec<_>>() {
                map.insert(*row, numbers(path, line, &columns[1..])?);
            }
        }
    }
    if words == 0 {
        return Err(Error::run(
            path,
            "no vector, expected a word and its numbers on each line",
            "is it the right file?",
        ));
    }
    if let Some(count) = declared.filter(|&count| count as u64 != words) {
        return Err(Error::run(
            path,
            format!("{words} vectors, expected {count} as its first line says"),
            "the file may be incomplete: copy or download it again",
        ));
    }
    lower.retain(|row, _| !exact.contains_key(row));
    let mut found: Vec<(RowId, Vec<f32>)> = exact.into_iter().chain(lower).collect();
    found.sort_by_key(|(row, _)| *row);
    Ok(found)
}

/// Count and width, if the line is a header of word2vec's format.
fn header(columns: &[&str]) -> Option<[usize; 2]> {
    let [count, width] = columns else { return None };
    Some([count.parse().ok()?, width.parse().ok()?])
}

/// The word of a line; `None` for a word with spaces, of which GloVe's files hold a few and the vocabulary none. Any other
/// unexpected number of columns is the error.
fn word_of<'a>(columns: &[&'a str], width: usize) -> std::result::Result<Option<&'a str>, usize> {
    let found = columns.len() - 1;
    if found == width {
        return Ok(Some(columns[0]));
    }
    let has_spaces =
        found > width && columns[1..=found - width].iter().any(|part| part.parse::<f32>().is_err());
    if has_spaces { Ok(None) } else { Err(found) }
}

fn numbers(path: &Path, line: u64, columns: &[&str]) -> Result<Vec<f32>> {
    let number = |text: &&str| match text.parse::<f32>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(at_line(path, line, [format!("{text:?}"), "a number".into()], "correct or remove the line")),
    };
    columns.iter().map(number).collect()
}

fn check_width(path: &Path, line: u64, found: usize, width: usize) -> Result<()> {
    if found == width {
        return Ok(());
    }
    Err(at_line(
        path,
        line,
        [format!("vectors of {found} numbers"), format!("{width}, the width of the model")],
        &format!("set model.d_model = {found}, or take vectors of {width} numbers"),
    ))
}

fn wrong_columns(path: &Path, line: u64, found: usize, width: usize) -> Error {
    let texts = [format!("a word and {found} numbers"), format!("{width} numbers as on the lines before")];
    at_line(path, line, texts, "correct or remove the line")
}

fn at_line(path: &Path, line: u64, [found, expected]: [String; 2], hint: &str) -> Error {
    Error::Text(polyhead_text::Error::Format {
        path: path.to_owned(),
        line: Some(line),
        found,
        expected,
        hint: hint.into(),
    })
}

/// Writes vectors into their rows, scaled to the mean norm of the rows that they replace.
fn set_rows(table: &mut [f32], width: usize, rows: &[(u32, &[f32])]) {
    let norm = |row: &[f32]| row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    let span = |id: u32| id as usize * width..(id as usize + 1) * width;
    let own: f64 = rows.iter().map(|(id, _)| norm(&table[span(*id)])).sum();
    let given: f64 = rows.iter().map(|(_, vector)| norm(vector)).sum();
    // Zero vectors cannot be scaled.
    let factor = if given > 0.0 { (own / given) as f32 } else { 1.0 };
    for (id, vector) in rows {
        let row = &mut table[span(*id)];
        row.iter_mut().zip(*vector).for_each(|(number, &given)| *number = given * factor);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use polyhead_tensor::Init;
    use polyhead_text::corpus::Corpus;
    use polyhead_text::tokenizer::TokenizerKind;

    use super::*;
    use crate::config::{RunConfig, TokenizerConfig, VocabularySharing};

    /// A small vocabulary, embedding tables of width 4, and a file of vectors.
    struct Case {
        folder: tempfile::TempDir,
        vocabulary: Vocabulary,
        parameters: Parameters,
    }

    impl Case {
        fn new(sides: VocabularySharing) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("pairs.tsv");
            std::fs::write(&path, "the Cat sees Paris\tdie Katze sieht Paris\n".repeat(3)).unwrap();
            let corpus = Corpus::Tsv { path, source_column: 0, target_column: 1 };
            let config = TokenizerConfig {
                kind: TokenizerKind::Word,
                vocab_size: 0,
                sides,
                ..TokenizerConfig::default()
            };
            let run = RunConfig { tokenizer: config, ..RunConfig::default() };
            let vocabulary = Vocabulary::train(&run, &[corpus.into()], folder.path()).unwrap();
            let mut parameters = Parameters::default();
            let [source, target] = vocabulary.sizes();
            let named = match sides {
                VocabularySharing::Shared => vec![(SHARED, source)],
                VocabularySharing::Separate => vec![(SEPARATE[0], source), (SEPARATE[1], target)],
            };
            for (name, rows) in named {
                parameters.declare_product(name, &[rows, 4], Init::Normal(0.5));
            }
            parameters.initialise(1);
            Self { folder, vocabulary, parameters }
        }

        fn fill(&mut self, text: &str) -> Result<Vec<FilledEmbeddings>> {
            let path = self.folder.path().join("vectors.txt");
            std::fs::write(&path, text).unwrap();
            fill(&mut self.parameters, &self.vocabulary, &path)
        }

        fn message(&mut self, text: &str) -> String {
            let message = self.fill(text).unwrap_err().to_string();
            message.replace(&format!("{}/", self.folder.path().display()), "")
        }

        fn row(&self, table: &str, word: &str) -> Vec<f32> {
            let tokenizer =
                if table == SEPARATE[1] { self.vocabulary.target() } else { self.vocabulary.source() };
            let id = (0..tokenizer.vocab_size() as u32)
                .find(|id| tokenizer.piece(*id).unwrap().trim_start_matches(WORD_MARK) == word)
                .unwrap() as usize;
            self.parameters.value(self.parameters.find(table).unwrap()).data()[4 * id..4 * id + 4].to_vec()
        }
    }

    fn norm(row: &[f32]) -> f32 {
        row.iter().map(|x| x * x).sum::<f32>().sqrt()
    }

    #[test]
    fn words_are_found_as_written_then_in_lower_case() {
        let mut case = Case::new(VocabularySharing::Shared);
        let words = ["Cat", "Paris", "Katze"];
        let before = words.map(|word| norm(&case.row(SHARED, word)));
        let unchanged = case.row(SHARED, "sees");
        // word2vec's own program leaves a space at the end of each line.
        let text = "5 4\ncat 0 3 0 0 \nCat 2 0 0 0 \nkatze 0 0 0 6 \nParis 0 4 0 0 \nParis 9 9 9 9 \n";
        let filled = case.fill(text).unwrap();
        assert_eq!(filled, [FilledEmbeddings { table: SHARED.into(), found: 3, entries: 7 }]);
        let rows = words.map(|word| case.row(SHARED, word));
        // Their norms are 2, 4 and 6; the mean becomes that of the rows before.
        let factor = before.iter().sum::<f32>() / 12.0;
        let expected = [[2.0, 0.0, 0.0, 0.0], [0.0, 4.0, 0.0, 0.0], [0.0, 0.0, 0.0, 6.0]];
        for (row, expected) in rows.iter().zip(expected) {
            assert!(row.iter().zip(expected).all(|(x, y)| (x - y * factor).abs() < 1e-6), "{row:?}");
        }
        assert_eq!(case.row(SHARED, "sees"), unchanged);
    }

    #[test]
    fn each_side_has_its_own_table_and_gzip_is_read() {
        let mut case = Case::new(VocabularySharing::Separate);
        let path = case.folder.path().join("vectors.gz");
        let mut output = polyhead_text::output::Output::create(&path).unwrap();
        // GloVe's format has no header, and some of its words have spaces.
        output.write(b"sees 1 2 3 4\n. . . 1 2 3 4\nParis -1 2e-1 .3 4\n</s> 1 1 1 1\n").unwrap();
        output.finish().unwrap();
        let filled = fill(&mut case.parameters, &case.vocabulary, &path).unwrap();
        let found: Vec<(&str, usize)> =
            filled.iter().map(|filled| (filled.table.as_str(), filled.found)).collect();
        assert_eq!(found, [(SEPARATE[0], 2), (SEPARATE[1], 1)]);
        let [source, target] = SEPARATE.map(|table| case.row(table, "Paris"));
        let ratio = target[0] / source[0];
        assert!(source.iter().zip(&target).all(|(x, y)| (x * ratio - y).abs() < 1e-6));
    }

    #[test]
    fn errors_name_their_line() {
        let mut case = Case::new(VocabularySharing::Shared);
        let messages = [
            ("", "vectors.txt: no vector, expected a word and its numbers on each line"),
            ("2 3\nthe 1 2 3\n", "vectors.txt:1: vectors of 3 numbers, expected 4, the width of the model"),
            ("the 1 2 3\n", "vectors.txt:1: vectors of 3 numbers, expected 4, the width of the model"),
            (
                "the 1 2 3 4\na 1 2\n",
                "vectors.txt:2: a word and 2 numbers, expected 4 numbers as on the lines before",
            ),
            (
                "x 1 2 3 4\na 1 2 3 4 5\n",
                "vectors.txt:2: a word and 5 numbers, expected 4 numbers as on the lines before",
            ),
            ("x 1 2 3 4\nthe 1 2 x 4\n", "vectors.txt:2: \"x\", expected a number"),
            ("the 1 2 NaN 4\n", "vectors.txt:1: \"NaN\", expected a number"),
            (
                "x 1 2 3 4\n",
                "vectors.txt: no word in common with the vocabulary, expected vectors of its words",
            ),
            ("9 4\nthe 1 2 3 4\n", "vectors.txt: 1 vectors, expected 9 as its first line says"),
        ];
        let before = case.row(SHARED, "the");
        for (text, expected) in messages {
            assert_eq!(case.message(text), expected);
        }
        assert_eq!(case.row(SHARED, "the"), before);
        let path = case.folder.path().join("vectors.txt");
        std::fs::File::create(&path).unwrap().write_all(b"the\xff 1 2 3 4\n").unwrap();
        let error = fill(&mut case.parameters, &case.vocabulary, &path).unwrap_err().to_string();
        assert!(error.ends_with("vectors.txt:1: invalid UTF-8 at byte 4 of the line"), "{error}");
    }
}
