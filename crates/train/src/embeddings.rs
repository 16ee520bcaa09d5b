//! Word vectors of another program as a start for embeddings: word2vec's text form, whose first line says "count width",
//! or GloVe's, which has none; plain or gzip.
//!
//! An entry of the vocabulary is found under its text without the word mark `▁` in front, else under the same in lower
//! case; the first vector of a word counts. Special tokens keep their own rows. Vectors come in
//! many sizes, while a model expects those it would draw itself (deviation 1/√d_model, so that scaled embeddings and tied
//! logits have unit size): all that were found are multiplied with one number, so that their mean norm is that of the rows
//! they replace. Lengths relative to each other, and angles, stay.

use std::collections::HashMap;
use std::path::Path;

use polyhead_tensor::{ParameterId, Parameters};
use polyhead_text::lines::Lines;
use polyhead_text::tokenizer::Tokenizer;

use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// The mark of a word's beginning in pieces.
const WORD_MARK: char = '▁';
/// Names of the tables: one for both languages, or one for each.
const BOTH: &str = "embedding.weight";
const EACH: [&str; 2] = ["source_embedding.weight", "target_embedding.weight"];

/// How much of one table came from a file of vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    /// The parameter, as in `source_embedding.weight`.
    pub table: String,
    /// Entries whose vector was found.
    pub found: usize,
    /// Entries that could have been found: all but special ones.
    pub entries: usize,
}

/// Lets training leave all tables of embeddings as they are.
pub(crate) fn freeze(parameters: &mut Parameters) {
    for name in [BOTH, EACH[0], EACH[1]] {
        if let Some(id) = parameters.find(name) {
            parameters.freeze(id);
        }
    }
}

/// Gives rows of the embeddings the vectors of the file at `path`.
///
/// # Errors
/// If the file cannot be read, has another width than the model, or shares no word with the vocabulary.
pub(crate) fn fill(parameters: &mut Parameters, vocabulary: &Vocabulary, path: &Path) -> Result<Vec<Filled>> {
    let tables = tables(parameters, vocabulary);
    let Some(width) = tables.first().map(|table| parameters.value(table.id).shape()[1]) else {
        return Err(Error::config(
            "embeddings.init",
            "a model without a table called embedding, source_embedding or target_embedding",
            "leave it out",
        ));
    };
    let wanted = Wanted::new(&tables);
    let found = read(path, width, &wanted)?;
    if found.is_empty() {
        return Err(Error::run(
            path,
            "no word in common with the vocabulary, expected vectors of its words",
            "are they of the right language? tokenizer.kind = \"word\" keeps words whole",
        ));
    }
    let mut filled = Vec::new();
    for (index, table) in tables.into_iter().enumerate() {
        let rows: Vec<(u32, &[f32])> = found
            .iter()
            .filter(|(place, _)| place.0 == index)
            .map(|(place, v)| (place.1, v.as_slice()))
            .collect();
        set_rows(parameters.value_mut(table.id).data_mut(), width, &rows);
        filled.push(Filled { table: table.name, found: rows.len(), entries: table.words.len() });
    }
    Ok(filled)
}

/// A table and the texts of its rows.
struct Table {
    name: String,
    id: ParameterId,
    words: Vec<(u32, String)>,
}

fn tables(parameters: &Parameters, vocabulary: &Vocabulary) -> Vec<Table> {
    let words = |tokenizer: &Tokenizer| {
        let pieces = (0..tokenizer.vocab_size() as u32).filter_map(|id| Some((id, tokenizer.piece(id)?)));
        pieces
            .filter(|(_, piece)| !is_special(piece))
            .map(|(id, piece)| (id, piece.trim_start_matches(WORD_MARK).to_owned()))
            .collect()
    };
    let named = [(BOTH, vocabulary.source()), (EACH[0], vocabulary.source()), (EACH[1], vocabulary.target())];
    named
        .into_iter()
        .filter_map(|(name, tokenizer)| {
            let id = parameters.find(name)?;
            Some(Table { name: name.to_owned(), id, words: words(tokenizer) })
        })
        .collect()
}

/// Padding, ends, unknowns, tags of languages and bytes: what stands in angle brackets is no word of a text.
fn is_special(piece: &str) -> bool {
    piece.len() > 2 && piece.starts_with('<') && piece.ends_with('>')
}

/// A row: the number of its table, and its id.
type Place = (usize, u32);

/// Which rows a word of the file is wanted for.
struct Wanted {
    exact: HashMap<String, Vec<Place>>,
    lower: HashMap<String, Vec<Place>>,
}

impl Wanted {
    fn new(tables: &[Table]) -> Self {
        let mut wanted = Self { exact: HashMap::new(), lower: HashMap::new() };
        for (index, table) in tables.iter().enumerate() {
            for (id, word) in table.words.iter().filter(|(_, word)| !word.is_empty()) {
                wanted.exact.entry(word.clone()).or_default().push((index, *id));
                let lower = word.to_lowercase();
                if lower != *word {
                    wanted.lower.entry(lower).or_default().push((index, *id));
                }
            }
        }
        wanted
    }
}

/// Reads the vectors of all wanted words, in the order of their places.
fn read(path: &Path, width: usize, wanted: &Wanted) -> Result<Vec<(Place, Vec<f32>)>> {
    let mut lines = Lines::open(path)?;
    let (mut exact, mut lower) = (HashMap::new(), HashMap::new());
    let (mut promised, mut words) = (None, 0_u64);
    loop {
        let line = lines.line() + 1;
        let Some(text) = lines.next_text()? else { break };
        let columns: Vec<&str> = text.trim_end_matches([' ', '\t']).split([' ', '\t']).collect();
        if let (1, Some([count, found])) = (line, header(&columns)) {
            check_width(path, line, found, width)?;
            promised = Some(count);
            continue;
        }
        words += 1;
        if words == 1 && promised.is_none() {
            check_width(path, line, columns.len() - 1, width)?;
        }
        let Some(word) = word_of(&columns, width).map_err(|found| wrong_columns(path, line, found, width))?
        else {
            continue;
        };
        for (map, places) in [(&mut exact, wanted.exact.get(word)), (&mut lower, wanted.lower.get(word))] {
            for place in
                places.into_iter().flatten().filter(|place| !map.contains_key(*place)).collect::<Vec<_>>()
            {
                map.insert(*place, numbers(path, line, &columns[1..])?);
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
    if let Some(count) = promised.filter(|&count| count as u64 != words) {
        return Err(Error::run(
            path,
            format!("{words} vectors, expected {count} as its first line says"),
            "was it copied or downloaded in part?",
        ));
    }
    lower.retain(|place, _| !exact.contains_key(place));
    let mut found: Vec<(Place, Vec<f32>)> = exact.into_iter().chain(lower).collect();
    found.sort_by_key(|(place, _)| *place);
    Ok(found)
}

/// The count and the width that a first line of word2vec's form tells.
fn header(columns: &[&str]) -> Option<[usize; 2]> {
    let [count, width] = columns else { return None };
    Some([count.parse().ok()?, width.parse().ok()?])
}

/// The word of a line. GloVe's files hold a few words with spaces, which no piece has: none for such a line. A number of
/// columns that no word explains is the error.
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

/// Puts vectors into their rows, brought to the mean norm of what they replace.
fn set_rows(table: &mut [f32], width: usize, rows: &[(u32, &[f32])]) {
    let norm = |row: &[f32]| row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    let span = |id: u32| id as usize * width..(id as usize + 1) * width;
    let own: f64 = rows.iter().map(|(id, _)| norm(&table[span(*id)])).sum();
    let given: f64 = rows.iter().map(|(_, vector)| norm(vector)).sum();
    // Vectors of zeros have no size that could be changed.
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
    use polyhead_text::tokenizer::Kind;

    use super::*;
    use crate::config::{RunConfig, Sides, TokenizerConfig};

    /// Words of a small vocabulary, a table of four numbers each, and a file of vectors.
    struct Case {
        folder: tempfile::TempDir,
        vocabulary: Vocabulary,
        parameters: Parameters,
    }

    impl Case {
        fn new(sides: Sides) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("pairs.tsv");
            std::fs::write(&path, "the Cat sees Paris\tdie Katze sieht Paris\n".repeat(3)).unwrap();
            let corpus = Corpus::Tsv { path, source_column: 0, target_column: 1 };
            let config =
                TokenizerConfig { kind: Kind::Word, vocab_size: 0, sides, ..TokenizerConfig::default() };
            let run = RunConfig { tokenizer: config, ..RunConfig::default() };
            let vocabulary = Vocabulary::train(&run, &[corpus.into()], folder.path()).unwrap();
            let mut parameters = Parameters::default();
            let [source, target] = vocabulary.sizes();
            let named = match sides {
                Sides::Shared => vec![(BOTH, source)],
                Sides::Separate => vec![(EACH[0], source), (EACH[1], target)],
            };
            for (name, rows) in named {
                parameters.declare_product(name, &[rows, 4], Init::Normal(0.5));
            }
            parameters.initialise(1);
            Self { folder, vocabulary, parameters }
        }

        fn fill(&mut self, text: &str) -> Result<Vec<Filled>> {
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
                if table == EACH[1] { self.vocabulary.target() } else { self.vocabulary.source() };
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
        let mut case = Case::new(Sides::Shared);
        let words = ["Cat", "Paris", "Katze"];
        let before = words.map(|word| norm(&case.row(BOTH, word)));
        let unchanged = case.row(BOTH, "sees");
        // word2vec's own program leaves a space at the end of each line.
        let text = "5 4\ncat 0 3 0 0 \nCat 2 0 0 0 \nkatze 0 0 0 6 \nParis 0 4 0 0 \nParis 9 9 9 9 \n";
        let filled = case.fill(text).unwrap();
        assert_eq!(filled, [Filled { table: BOTH.into(), found: 3, entries: 7 }]);
        let rows = words.map(|word| case.row(BOTH, word));
        // Their sizes are 2, 4 and 6, and their mean becomes that of the rows before.
        let factor = before.iter().sum::<f32>() / 12.0;
        let expected = [[2.0, 0.0, 0.0, 0.0], [0.0, 4.0, 0.0, 0.0], [0.0, 0.0, 0.0, 6.0]];
        for (row, expected) in rows.iter().zip(expected) {
            assert!(row.iter().zip(expected).all(|(x, y)| (x - y * factor).abs() < 1e-6), "{row:?}");
        }
        assert_eq!(case.row(BOTH, "sees"), unchanged);
    }

    #[test]
    fn each_side_has_its_own_table_and_gzip_is_read() {
        let mut case = Case::new(Sides::Separate);
        let path = case.folder.path().join("vectors.gz");
        let mut output = polyhead_text::output::Output::create(&path).unwrap();
        // GloVe's form has no first line, and some of its words have spaces.
        output.write(b"sees 1 2 3 4\n. . . 1 2 3 4\nParis -1 2e-1 .3 4\n</s> 1 1 1 1\n").unwrap();
        output.finish().unwrap();
        let filled = fill(&mut case.parameters, &case.vocabulary, &path).unwrap();
        let found: Vec<(&str, usize)> =
            filled.iter().map(|filled| (filled.table.as_str(), filled.found)).collect();
        assert_eq!(found, [(EACH[0], 2), (EACH[1], 1)]);
        let [source, target] = EACH.map(|table| case.row(table, "Paris"));
        let ratio = target[0] / source[0];
        assert!(source.iter().zip(&target).all(|(x, y)| (x * ratio - y).abs() < 1e-6));
    }

    #[test]
    fn faults_name_their_line() {
        let mut case = Case::new(Sides::Shared);
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
        let before = case.row(BOTH, "the");
        for (text, expected) in messages {
            assert_eq!(case.message(text), expected);
        }
        assert_eq!(case.row(BOTH, "the"), before);
        let path = case.folder.path().join("vectors.txt");
        std::fs::File::create(&path).unwrap().write_all(b"the\xff 1 2 3 4\n").unwrap();
        let error = fill(&mut case.parameters, &case.vocabulary, &path).unwrap_err().to_string();
        assert!(error.ends_with("vectors.txt:1: invalid UTF-8 at byte 4 of the line"), "{error}");
    }
}
