//! Labelled images in memory, and the batches of every epoch. Augmentation of epoch e is a pure function of (seed, e, image).

use std::sync::Arc;

use polyhead_engine::image::sets::ImageSet;
use polyhead_engine::image::{PREPROCESSOR, Preprocessor};
use polyhead_models::ImageEncoder;
use polyhead_models::encoder::NO_LABEL;
use polyhead_models::vision::Images;
use polyhead_random::Random;
use polyhead_tensor::{Indices, Tensor, Var};
use polyhead_text::batch::{BatchOptions, Epoch, PaddingStats, PairLengths, Rounding};
use rayon::prelude::*;

use super::augment::Augmentation;
use crate::Result;
use crate::config::RunConfig;
use crate::event::SkippedRows;
use crate::labels::BatchLabels;
use crate::objective::{self, EpochBatches};

/// Images of a batch if the recipe does not say.
const DEFAULT_ROWS: usize = 128;

/// Mean and standard deviation of each channel, of values from 0 to 1, to four decimals.
pub(super) fn statistics(set: &ImageSet) -> [Vec<f32>; 2] {
    let channels = set.channels;
    let rounded = |number: f64| ((number * 1e4).round() / 1e4) as f32;
    let of = |channel: usize| {
        let mut counts = [0_u64; 256];
        set.pixels.iter().skip(channel).step_by(channels).for_each(|value| counts[usize::from(*value)] += 1);
        let moment = |power: i32| {
            let terms = counts.iter().enumerate();
            terms.map(|(value, count)| (value as f64 / 255.0).powi(power) * *count as f64).sum::<f64>()
        };
        let (count, mean) = (moment(0), moment(1) / moment(0));
        let deviation = (moment(2) / count - mean * mean).max(0.0).sqrt();
        (rounded(mean), rounded(deviation).max(1e-3))
    };
    let all: Vec<(f32, f32)> = (0..channels).map(of).collect();
    [all.iter().map(|own| own.0).collect(), all.iter().map(|own| own.1).collect()]
}

/// Images with their labels.
#[derive(Debug)]
pub(crate) struct ImageRows {
    rows: Arc<Rows>,
    skipped: SkippedRows,
}

#[derive(Debug)]
struct Rows {
    set: ImageSet,
    preprocessor: Preprocessor,
    augmentation: Augmentation,
    /// Without weights: it lays out its input.
    layout: ImageEncoder,
    /// Patches and learned tokens of an image.
    length: usize,
    seed: u64,
}

impl ImageRows {
    pub(super) fn new(
        set: ImageSet,
        layout: &ImageEncoder,
        preprocessor: Preprocessor,
        config: &RunConfig,
    ) -> Self {
        let own = layout.config();
        let length = own.n_tokens() + set.size.iter().map(|side| side / own.patch_size).product::<usize>();
        let augmentation = Augmentation::new(&config.images);
        let rows =
            Rows { set, preprocessor, augmentation, layout: layout.clone(), length, seed: config.seed };
        Self { rows: Arc::new(rows), skipped: SkippedRows::default() }
    }
}

impl objective::Dataset for ImageRows {
    type Batch = ImageBatch;
    type Epoch = ImageEpoch;

    fn len(&self) -> usize {
        self.rows.set.len()
    }

    /// Number of patches and learned tokens, and of labels.
    fn tokens(&self) -> [usize; 2] {
        [self.rows.length * self.len(), self.len()]
    }

    fn bytes(&self) -> usize {
        self.rows.set.pixels.len() + self.rows.set.labels.len() * size_of::<u32>()
    }

    fn skipped(&self) -> &SkippedRows {
        &self.skipped
    }

    fn resamples_each_epoch(&self) -> bool {
        false
    }

    fn epoch(&self, options: BatchOptions, number: u64) -> Result<ImageEpoch> {
        // All images have one length, so that a batch is counted in images.
        let lengths = vec![PairLengths { source: 1, target: 1 }; self.len()];
        let max_rows = if options.max_rows == usize::MAX { DEFAULT_ROWS } else { options.max_rows };
        let plan = Epoch::plan(&lengths, BatchOptions { max_rows, ..options }, number)?;
        Ok(ImageEpoch { rows: Arc::clone(&self.rows), plan, number })
    }

    fn files(&self) -> Vec<(&'static str, String)> {
        vec![(PREPROCESSOR, self.rows.preprocessor.to_json())]
    }
}

/// A batch of labelled images.
#[derive(Debug, Clone)]
pub(crate) struct ImageBatch {
    pub(super) images: Images,
    /// One label per row; [`NO_LABEL`] for padding rows.
    pub(super) labels: BatchLabels,
    /// The other labels of mixed images.
    pub(super) mixed: Option<Mixed>,
}

/// The other labels of images that are mixtures of two.
#[derive(Debug, Clone)]
pub(super) struct Mixed {
    pub(super) labels: BatchLabels,
    /// The bits of λ, the share of the first labels, and of 1 − λ.
    shares: [Indices; 2],
}

impl Mixed {
    /// λ and 1 − λ, scalars.
    pub(super) fn shares(&self) -> [Var; 2] {
        self.shares.each_ref().map(|share| Var::constant(Tensor::from_bits(&[], share)))
    }
}

impl objective::Batch for ImageBatch {
    fn weight(&self) -> usize {
        self.labels.count
    }

    fn lists(&self) -> Vec<&Indices> {
        let mixed = self.mixed.iter().flat_map(|mixed| mixed.labels.lists().chain(&mixed.shares));
        self.images.lists().into_iter().chain(self.labels.lists()).chain(mixed).collect()
    }

    fn with(&self, lists: &[Indices]) -> Self {
        let (images, rest) = lists.split_at(self.images.lists().len());
        let mixed = self.mixed.as_ref().map(|mixed| Mixed {
            labels: mixed.labels.with(&rest[1..2]),
            shares: [rest[2].clone(), rest[3].clone()],
        });
        Self { images: self.images.with(images), labels: self.labels.with(&rest[..1]), mixed }
    }

    fn sizes(&self) -> [usize; 3] {
        let [rows, columns] = self.images.grid();
        [self.images.rows(), rows * columns, 1]
    }
}

/// One epoch: its batches in order.
#[derive(Debug)]
pub(crate) struct ImageEpoch {
    rows: Arc<Rows>,
    plan: Epoch,
    number: u64,
}

impl ImageEpoch {
    /// The numbers of an image, changed as this epoch draws it.
    fn image(&self, row: u32) -> Vec<f32> {
        let Rows { set, preprocessor, augmentation, seed, .. } = &*self.rows;
        let random = Random::new(*seed).stream_pair(self.number, u64::from(row));
        preprocessor.normalised(&augmentation.changed(set.picture(row as usize), random))
    }

    /// Rows of a batch mixed with the rows in reverse order; the share of the first.
    fn mix(&self, images: &mut [Vec<f32>], index: usize) -> Option<f32> {
        let random = Random::new(self.rows.seed).stream_pair(self.number, u64::MAX - index as u64);
        let share = self.rows.augmentation.share(random)?;
        let (first, second) = images.split_at_mut(images.len() / 2);
        first.par_iter_mut().zip(second.par_iter_mut().rev()).for_each(|(a, b)| {
            for (a, b) in a.iter_mut().zip(b) {
                (*a, *b) = (share * *a + (1.0 - share) * *b, share * *b + (1.0 - share) * *a);
            }
        });
        Some(share)
    }

    fn sizes(&self, rounding: Rounding) -> impl Iterator<Item = usize> {
        self.plan.batches().map(move |batch| rounding.rows(batch.len()))
    }
}

impl EpochBatches for ImageEpoch {
    type Batch = ImageBatch;

    fn len(&self) -> usize {
        self.plan.len()
    }

    fn batch(&self, index: usize, copies: usize, rounding: Rounding) -> Option<ImageBatch> {
        let batch = self.plan.batches_from(index).next()?;
        let n_rows = rounding.rows(batch.len());
        let mut images: Vec<Vec<f32>> = batch.par_iter().map(|&row| self.image(row)).collect();
        let share = self.mix(&mut images, index);
        let rows = images.iter().map(|image| Some(image.as_slice()));
        let rows: Vec<Option<&[f32]>> = rows.chain(std::iter::repeat(None)).take(n_rows).collect();
        let labels = |rows: &mut dyn Iterator<Item = &u32>| {
            let own = rows.map(|&row| self.rows.set.labels[row as usize]);
            let labels: Vec<u32> = own.chain(std::iter::repeat(NO_LABEL)).take(n_rows).collect();
            BatchLabels::new(&labels, copies, None)
        };
        let mixed = share.map(|share| Mixed {
            labels: labels(&mut batch.iter().rev()),
            shares: [share, 1.0 - share].map(|share| vec![share.to_bits()].into()),
        });
        let all = (0..copies).flat_map(|_| rows.iter().copied());
        Some(ImageBatch {
            images: self.rows.layout.images(all, self.rows.set.size),
            labels: labels(&mut batch.iter()),
            mixed,
        })
    }

    fn padding(&self, rounding: Rounding) -> PaddingStats {
        let padded = self.sizes(rounding).map(|rows| (rows * self.rows.length) as u64).sum();
        PaddingStats { tokens: (self.rows.set.len() * self.rows.length) as u64, padded }
    }

    fn largest(&self, rounding: Rounding) -> [usize; 3] {
        [self.sizes(rounding).max().unwrap_or(0), self.rows.length, 1]
    }

    fn n_sizes(&self, rounding: Rounding) -> usize {
        self.sizes(rounding).collect::<std::collections::HashSet<_>>().len()
    }
}
