//! Images with their captions, and the batches of every epoch.
//!
//! An image is in memory once, as bytes, however many captions it has. Augmentation of epoch e is a pure function of (seed, e, row).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use polyhead_engine::image::{Filter, ImageLimits, PREPROCESSOR, Picture, Preprocessor, decode};
use polyhead_engine::scene::{SceneFacts, read_facts};
use polyhead_models::vision::Images;
use polyhead_models::{Captioner, Ids};
use polyhead_random::Random;
use polyhead_tensor::Indices;
use polyhead_text::batch::{BatchOptions, Epoch, PaddingStats, PairLengths, Rounding};
use rayon::prelude::*;

use crate::config::RunConfig;
use crate::event::SkippedRows;
use crate::image_classification::Augmentation;
use crate::objective::{self, EpochBatches};
use crate::run_corpus::RunCorpus;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// Height and width that images are resized to, if the recipe does not say and they have several sizes.
const SIZE: usize = 224;
/// Rows of a batch if the recipe does not say.
const DEFAULT_ROWS: usize = 64;
const HINT: &str =
    "a line is the path of a PNG or JPEG file, relative to this file, a tab, and a text about it";

/// Images of one size with their captions.
#[derive(Debug)]
pub(crate) struct Pictures {
    size: [usize; 2],
    channels: usize,
    /// All images, one after the other.
    bytes: Vec<u8>,
    /// Their paths.
    names: Vec<PathBuf>,
    /// Corpus, line, image and text of each row.
    lines: Vec<(usize, u64, u32, String)>,
    /// What is known of each image, if a corpus names a file of facts.
    facts: Vec<Option<SceneFacts>>,
    /// The files of the corpora, for messages.
    origin: String,
}

impl Pictures {
    /// Reads corpora whose sources are paths of images, relative to the corpus; `size` is that of the training images.
    pub(super) fn read(corpora: &[RunCorpus], config: &RunConfig, size: Option<[usize; 2]>) -> Result<Self> {
        let mut found = Self {
            size: [0; 2],
            channels: if config.images.channels == 0 { 3 } else { config.images.channels },
            bytes: Vec::new(),
            names: Vec::new(),
            lines: Vec::new(),
            facts: Vec::new(),
            origin: RunCorpus::names(corpora),
        };
        let mut numbers: HashMap<PathBuf, u32> = HashMap::new();
        let mut places = Vec::new();
        for (number, run_corpus) in corpora.iter().enumerate() {
            let manifest = run_corpus.corpus.source_path().to_owned();
            let folder = manifest.parent().unwrap_or_else(|| Path::new(""));
            let facts = run_corpus.facts.as_deref().map(read_facts).transpose()?.unwrap_or_default();
            let mut pairs = run_corpus.corpus.pairs()?;
            let first = found.lines.len();
            while let Some(pair) = pairs.next_pair()? {
                let path = folder.join(pair.source.trim());
                let image = *numbers.entry(path.clone()).or_insert_with(|| {
                    found.facts.push(facts.get(pair.source.trim()).cloned());
                    places.push(format!("{}:{}", manifest.display(), pair.line));
                    found.names.push(path);
                    found.names.len() as u32 - 1
                });
                found.lines.push((number, pair.line, image, pair.target.trim().to_owned()));
            }
            let own = found.lines[first..].to_vec();
            for _ in 1..run_corpus.repeat {
                found.lines.extend(own.iter().cloned());
            }
        }
        found.load(&places, config, size)?;
        Ok(found)
    }

    /// Decodes all images, each once, to one size: the one given, that of the recipe, or their own if they all have one.
    fn load(&mut self, places: &[String], config: &RunConfig, size: Option<[usize; 2]>) -> Result<()> {
        let limits = ImageLimits { max_megapixels: config.images.max_megapixels };
        let read = |at: usize| -> Result<Picture> {
            let picture = decode::read(&self.names[at], limits)
                .map_err(|error| Error::data(places[at].clone(), error.to_string(), HINT))?;
            Ok(picture.with_channels(self.channels))
        };
        let all_of = |size: [usize; 2]| -> Result<Vec<Option<Vec<u8>>>> {
            let own =
                |at| Ok(Some(read(at)?).filter(|own| own.size() == size).map(|own| own.data().to_vec()));
            (0..self.names.len()).into_par_iter().map(own).collect()
        };
        let resized_to = |size: [usize; 2]| -> Result<Vec<Vec<u8>>> {
            let framing = Preprocessor::new(size, Filter::default(), [vec![0.0], vec![1.0]]);
            let own = |at| Ok(framing.framed(&read(at)?).data().to_vec());
            (0..self.names.len()).into_par_iter().map(own).collect()
        };
        let given = size.or((config.images.size > 0).then_some([config.images.size; 2]));
        let (size, images) = if let Some(size) = given {
            (size, resized_to(size)?)
        } else {
            let first = if self.names.is_empty() { [SIZE; 2] } else { read(0)?.size() };
            match all_of(first)?.into_iter().collect::<Option<Vec<_>>>() {
                Some(images) => (first, images),
                None => ([SIZE; 2], resized_to([SIZE; 2])?),
            }
        };
        (self.size, self.bytes) = (size, images.concat());
        Ok(())
    }

    /// Height and width of all images.
    pub(super) fn size(&self) -> [usize; 2] {
        self.size
    }

    /// Their channels.
    pub(super) fn channels(&self) -> usize {
        self.channels
    }

    /// An image.
    fn picture(&self, index: usize) -> Picture {
        let length = self.size[0] * self.size[1] * self.channels;
        Picture::new(self.size, self.channels, self.bytes[index * length..(index + 1) * length].to_vec())
    }
}

/// A caption.
#[derive(Debug, Clone)]
struct CaptionRow {
    /// The number of its image.
    image: u32,
    /// Ids with the end token.
    ids: Vec<u32>,
}

/// Images with their captions.
#[derive(Debug)]
pub(crate) struct CaptionRows {
    table: Arc<CaptionTable>,
    skipped: SkippedRows,
}

#[derive(Debug)]
struct CaptionTable {
    pictures: Pictures,
    rows: Vec<CaptionRow>,
    lengths: Vec<PairLengths>,
    preprocessor: Preprocessor,
    augmentation: Augmentation,
    /// Without weights: it lays out its input.
    layout: Captioner,
    seed: u64,
}

/// An image of the validation set: its path, the picture, all its captions, and its facts.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) name: PathBuf,
    pub(super) picture: Picture,
    pub(super) captions: Vec<String>,
    pub(super) facts: Option<SceneFacts>,
}

impl CaptionRows {
    pub(super) fn new(
        pictures: Pictures,
        (vocabulary, layout, preprocessor): (&Vocabulary, &Captioner, &Preprocessor),
        config: &RunConfig,
    ) -> Result<Self> {
        let own = layout.config();
        let n_patches = pictures.size.map(|side| side / own.patch_size).iter().product::<usize>();
        let most = own.max_len.min(config.train.max_tokens).min(config.data.max_length);
        let (mut rows, mut lengths, mut skipped) = (Vec::new(), Vec::new(), SkippedRows::default());
        for (corpus, line, image, text) in &pictures.lines {
            let mut ids = vocabulary.target().encode_target(text)?.ids;
            ids.push(vocabulary.special_ids()[1]);
            if ids.len() == 1 {
                skipped.empty += 1;
            } else if ids.len() > most {
                skipped.too_long += 1;
                skipped.first_too_long.get_or_insert((*corpus, *line, ids.len()));
            } else {
                lengths.push(PairLengths { source: n_patches as u32, target: ids.len() as u32 });
                rows.push(CaptionRow { image: *image, ids });
            }
        }
        if rows.is_empty() {
            let SkippedRows { empty, too_long, .. } = skipped;
            let message = format!("no usable caption ({empty} without text, {too_long} too long)");
            let hint = "data.max_length, model.max_len and train.max_tokens limit the tokens of a text";
            return Err(Error::config(pictures.origin, message, hint));
        }
        let table = CaptionTable {
            pictures,
            rows,
            lengths,
            preprocessor: preprocessor.clone(),
            augmentation: Augmentation::new(&config.images),
            layout: layout.clone(),
            seed: config.seed,
        };
        Ok(Self { table: Arc::new(table), skipped })
    }

    /// The first `most` images with all their captions.
    pub(super) fn described(&self, most: usize) -> Vec<Described> {
        let pictures = &self.table.pictures;
        let mut captions: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for (_, _, image, text) in &pictures.lines {
            captions.entry(*image).or_default().push(text.clone());
        }
        let described = |(image, captions): (u32, Vec<String>)| Described {
            name: pictures.names[image as usize].clone(),
            picture: pictures.picture(image as usize),
            captions,
            facts: pictures.facts[image as usize].clone(),
        };
        captions.into_iter().take(most).map(described).collect()
    }

    /// Mean number of tokens of a caption.
    pub(super) fn mean_length(&self) -> usize {
        let sum: usize = self.table.rows.iter().map(|row| row.ids.len()).sum();
        sum.div_ceil(self.table.rows.len())
    }
}

impl objective::Dataset for CaptionRows {
    type Batch = CaptionBatch;
    type Epoch = CaptionEpoch;

    fn len(&self) -> usize {
        self.table.rows.len()
    }

    /// Patches of all images, one for each caption, and tokens of all captions.
    fn tokens(&self) -> [usize; 2] {
        let sum =
            |side: fn(&PairLengths) -> u32| self.table.lengths.iter().map(|row| side(row) as usize).sum();
        [sum(|row| row.source), sum(|row| row.target)]
    }

    fn bytes(&self) -> usize {
        let ids: usize = self.table.rows.iter().map(|row| size_of::<u32>() * row.ids.len()).sum();
        self.table.pictures.bytes.len() + ids
    }

    fn skipped(&self) -> &SkippedRows {
        &self.skipped
    }

    fn resamples_each_epoch(&self) -> bool {
        false
    }

    fn epoch(&self, options: BatchOptions, number: u64) -> Result<CaptionEpoch> {
        let max_rows = if options.max_rows == usize::MAX { DEFAULT_ROWS } else { options.max_rows };
        // Images have one length; batches are counted in rows.
        let max_tokens = usize::MAX;
        let options = BatchOptions { max_rows, max_tokens, ..options };
        let texts = self.table.lengths.iter().map(|own| PairLengths { source: 1, ..*own });
        let plan = Epoch::plan(&texts.collect::<Vec<_>>(), options, number)?;
        Ok(CaptionEpoch { table: Arc::clone(&self.table), plan, number })
    }

    fn files(&self) -> Vec<(&'static str, String)> {
        vec![(PREPROCESSOR, self.table.preprocessor.to_json())]
    }
}

/// A batch of images with a caption each.
#[derive(Debug, Clone)]
pub(crate) struct CaptionBatch {
    pub(super) images: Images,
    pub(super) target: Ids,
    pub(super) expected: Indices,
    /// Tokens of all captions.
    tokens: usize,
}

impl objective::Batch for CaptionBatch {
    fn weight(&self) -> usize {
        self.tokens
    }

    fn lists(&self) -> Vec<&Indices> {
        let target = [self.target.ids(), self.target.lengths(), &self.expected];
        self.images.lists().into_iter().chain(target).collect()
    }

    fn with(&self, lists: &[Indices]) -> Self {
        let (images, rest) = lists.split_at(self.images.lists().len());
        let [ids, lengths, expected] = [0, 1, 2].map(|index| rest[index].clone());
        let (images, target) = (self.images.with(images), self.target.with(ids, lengths));
        Self { images, target, expected, tokens: self.tokens }
    }

    fn sizes(&self) -> [usize; 3] {
        let [rows, columns] = self.images.grid();
        [self.images.rows(), rows * columns, self.target.length()]
    }
}

/// One epoch: its batches in order.
#[derive(Debug)]
pub(crate) struct CaptionEpoch {
    table: Arc<CaptionTable>,
    plan: Epoch,
    number: u64,
}

impl CaptionEpoch {
    fn size(&self, batch: &[u32], rounding: Rounding) -> [usize; 3] {
        let lengths = batch.iter().map(|&row| self.table.lengths[row as usize]);
        let longest = lengths.clone().map(|own| own.target as usize).max().unwrap_or(0);
        let patches = lengths.map(|own| own.source as usize).max().unwrap_or(0);
        [rounding.rows(batch.len()), patches, rounding.length(longest).max(1)]
    }

    fn sizes(&self, rounding: Rounding) -> impl Iterator<Item = [usize; 3]> {
        self.plan.batches().map(move |batch| self.size(batch, rounding))
    }

    /// The numbers of an image, changed as this epoch draws it for a row.
    fn image(&self, row: u32) -> Vec<f32> {
        let CaptionTable { pictures, rows, preprocessor, augmentation, seed, .. } = &*self.table;
        let random = Random::new(*seed).stream_pair(self.number, u64::from(row));
        let picture = pictures.picture(rows[row as usize].image as usize);
        preprocessor.normalised(&augmentation.changed(picture, random))
    }
}

impl EpochBatches for CaptionEpoch {
    type Batch = CaptionBatch;

    fn len(&self) -> usize {
        self.plan.len()
    }

    fn batch(&self, index: usize, copies: usize, rounding: Rounding) -> Option<CaptionBatch> {
        let batch = self.plan.batches_from(index).next()?;
        let [n_rows, _, n_tokens] = self.size(batch, rounding);
        let CaptionTable { layout, rows, lengths, pictures, .. } = &*self.table;
        let images: Vec<Vec<f32>> = batch.par_iter().map(|&row| self.image(row)).collect();
        let mut once: Vec<Option<usize>> = (0..batch.len()).map(Some).collect();
        once.resize(n_rows, None);
        let all = once.repeat(copies);
        let ids = |row: usize| rows[batch[row] as usize].ids.as_slice();
        let texts = all.iter().map(|row| row.map(ids));
        let (target, expected) = Ids::shifted(texts, n_tokens, layout.special_ids());
        Some(CaptionBatch {
            images: layout.images(all.iter().map(|row| row.map(|row| images[row].as_slice())), pictures.size),
            target,
            expected,
            tokens: batch.iter().map(|&row| lengths[row as usize].target as usize).sum(),
        })
    }

    fn padding(&self, rounding: Rounding) -> PaddingStats {
        let padded =
            self.sizes(rounding).map(|[rows, patches, tokens]| (rows * (patches + tokens)) as u64).sum();
        let tokens = self.table.lengths.iter().map(|row| u64::from(row.source + row.target)).sum();
        PaddingStats { tokens, padded }
    }

    fn largest(&self, rounding: Rounding) -> [usize; 3] {
        self.sizes(rounding)
            .max_by_key(|[rows, patches, tokens]| rows * (patches + 2 * tokens))
            .unwrap_or([0; 3])
    }

    fn n_sizes(&self, rounding: Rounding) -> usize {
        self.sizes(rounding).collect::<HashSet<_>>().len()
    }
}
