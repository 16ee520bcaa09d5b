//! `polyhead vectors map`: a two-dimensional map of words.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use polyhead_inspect::embeddings::source_embeddings;
use polyhead_inspect::word_map::WordMap;
use polyhead_text::output::Output;
use polyhead_translate::{Engine, LoadOptions};
use polyhead_words::vectors::map::{TsneOptions, clusters, principal_components, tsne};
use polyhead_words::vectors::{Cosines, Vocabulary, WordVectors};

use super::{VECTORS, check_out, load};
use crate::model_folder::{check_folder, model_name, resolve};
use crate::option_help::{SEED, THREADS};
use crate::picture::PictureFormat;
use crate::report::{Misuse, counted, note, progress, thread_pool};

const EXAMPLES: &str = "\
Examples:
  polyhead vectors map vectors.txt --out map.html
  polyhead vectors map vectors.txt --count 300 --out map.svg
  polyhead vectors map vectors.txt --words monday,paris,rome --out map.png
  polyhead vectors map --model runs/en-de/best --method pca --out tokens.html

The map shows the first words of the file, which are the most frequent, less the 100 most frequent of all, which have little meaning of their own; or the words of --words. Words of one colour are one cluster (k-means of unit vectors). The page (.html) needs no network: it zooms, searches, and names the nearest words of the word under the pointer.

With --model the vectors are the source embeddings of a translator: its tokens that begin a word.";

/// Dimensions that t-SNE starts from.
const REDUCED: usize = 50;
/// Neighbours that the page names.
const NEIGHBOURS: usize = 8;
/// Most frequent words, which are left out.
const SKIPPED: usize = 100;
/// The mark of a word's beginning in tokens.
const WORD_MARK: char = '▁';

/// Options of `polyhead vectors map`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Map {
    #[arg(value_name = "VECTORS", help = VECTORS, required_unless_present = "model", conflicts_with = "model")]
    vectors: Option<PathBuf>,
    /// Translation model whose source embeddings to map instead of a file
    #[arg(short, long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Picture or page to write: .svg, .png or .html
    #[arg(short, long, value_name = "PATH")]
    out: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
    /// Words to show [default: the most frequent]
    #[arg(long, value_name = "WORD,…", value_delimiter = ',')]
    words: Vec<String>,
    /// Number of words to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = 500)]
    count: usize,
    /// Projection to two dimensions
    #[arg(long, value_enum, default_value_t = Projection::Tsne)]
    method: Projection,
    /// Effective number of neighbours (with --method tsne)
    #[arg(long, value_name = "X", default_value_t = TsneOptions::default().perplexity)]
    perplexity: f64,
    /// Number of clusters, which have colours
    #[arg(long, value_name = "N", default_value_t = 8)]
    clusters: usize,
    #[arg(long, value_name = "N", default_value_t = 1, help = SEED)]
    seed: u64,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
}

/// `--method`: how places are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Projection {
    /// Neighbours stay neighbours
    Tsne,
    /// The two directions of greatest variance
    Pca,
}

/// The format of `--out`.
enum MapFormat {
    Page,
    Picture(PictureFormat),
}

impl Map {
    pub(crate) fn run(self) -> Result<()> {
        let format = self.format()?;
        check_out(&self.out, self.overwrite)?;
        let (name, vectors) = match (&self.vectors, &self.model) {
            (Some(path), _) => {
                (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), load(path)?)
            }
            (None, Some(folder)) => embeddings(folder)?,
            (None, None) => unreachable!("clap requires one of them"),
        };
        let chosen = self.chosen(&vectors)?;
        let map = thread_pool(self.threads)?.install(|| self.draw(&name, &vectors, &chosen));
        match format {
            MapFormat::Page => Output::save(&self.out, map.html().as_bytes())?,
            MapFormat::Picture(format) => format.save(&self.out, &map.svg())?,
        }
        note(&format!("wrote {}: {}", self.out.display(), counted(chosen.len() as u64, "word")));
        Ok(())
    }

    fn format(&self) -> Result<MapFormat> {
        if self.out.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("html")) {
            return Ok(MapFormat::Page);
        }
        let Some(format) = PictureFormat::of(&self.out) else {
            bail!(Misuse {
                message: format!(
                    "--out: {}, expected a name that ends in .html, .svg or .png",
                    self.out.display()
                ),
                hint: "a page (.html) zooms and searches".into(),
            });
        };
        Ok(MapFormat::Picture(format))
    }

    /// Ids of the words to show.
    fn chosen(&self, vectors: &WordVectors) -> Result<Vec<u32>> {
        let mut chosen = Vec::new();
        for word in &self.words {
            // The error of `require` names the nearest spelling; a map shows known words only.
            vectors.require(word)?;
            chosen.extend(vectors.id(word));
        }
        if self.words.is_empty() {
            let skipped = if vectors.len() > 2 * SKIPPED + self.count { SKIPPED } else { 0 };
            chosen = (0..vectors.len() as u32).skip(skipped).take(self.count).collect();
        }
        chosen.dedup();
        if chosen.len() < 3 {
            bail!(Misuse {
                message: format!("a map of {}, expected at least 3", counted(chosen.len() as u64, "word")),
                hint: "name more --words, or leave --words out".into(),
            });
        }
        if self.method == Projection::Tsne && chosen.len() > TsneOptions::MAX_POINTS {
            bail!(Misuse {
                message: format!(
                    "t-SNE of {} words, expected at most {}: its time grows with their square",
                    chosen.len(),
                    TsneOptions::MAX_POINTS
                ),
                hint: "use --method pca, or a smaller --count".into(),
            });
        }
        Ok(chosen)
    }

    fn draw(&self, name: &str, vectors: &WordVectors, chosen: &[u32]) -> WordMap {
        let dimensions = vectors.dimensions();
        let mut rows = Vec::with_capacity(chosen.len() * dimensions);
        for &id in chosen {
            let row = vectors.row(id);
            let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-12);
            rows.extend(row.iter().map(|x| x / norm));
        }
        let places = match self.method {
            Projection::Pca => principal_components(&rows, dimensions, 2)
                .chunks_exact(2.min(dimensions))
                .map(|pair| [pair[0], pair.get(1).copied().unwrap_or(0.0)])
                .collect(),
            Projection::Tsne => {
                let reduced = principal_components(&rows, dimensions, REDUCED);
                let options = TsneOptions { perplexity: self.perplexity, ..TsneOptions::default() };
                let bar = progress("steps of t-SNE");
                let places = tsne(&reduced, REDUCED.min(dimensions), &options, &mut |step| {
                    bar.set_position(step as u64);
                });
                bar.finish_and_clear();
                places
            }
        };
        let shown = WordVectors::new(
            Vocabulary::new(chosen.iter().map(|&id| (vectors.vocabulary().word(id).to_owned(), 0))),
            dimensions,
            rows.clone(),
        );
        let cosines = Cosines::new(&shown, usize::MAX);
        let queries: Vec<(Vec<f32>, Vec<u32>)> =
            (0..shown.len() as u32).map(|id| (shown.row(id).to_vec(), vec![id])).collect();
        let nearest = cosines.nearest_of_all(&queries, NEIGHBOURS);
        WordMap {
            title: format!("{name}: {} words", chosen.len()),
            words: shown.vocabulary().words().to_vec(),
            places,
            clusters: clusters(&rows, dimensions, self.clusters, self.seed),
            neighbours: nearest.iter().map(|near| near.iter().map(|one| one.id as usize).collect()).collect(),
        }
    }
}

/// The source embeddings of a translator, of its tokens that begin a word.
fn embeddings(named: &Path) -> Result<(String, WordVectors)> {
    let folder = resolve(named)?;
    check_folder(&folder)?;
    let engine = Engine::load(&folder, &LoadOptions::default())?;
    let table = source_embeddings(&engine)?;
    let (mut words, mut numbers) = (Vec::new(), Vec::new());
    let mut dimensions = 0;
    for id in 0..table.n_rows() {
        let token = engine.source_piece(id as u32);
        let Some(word) = token.strip_prefix(WORD_MARK).filter(|word| word.chars().any(char::is_alphanumeric))
        else {
            continue;
        };
        words.push((word.to_owned(), 0));
        dimensions = table.row(id).len();
        numbers.extend_from_slice(table.row(id));
    }
    Ok((model_name(&folder), WordVectors::new(Vocabulary::new(words), dimensions, numbers)))
}
