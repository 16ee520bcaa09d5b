//! Images of a batch as integer lists, so that a GPU can record a training step for each shape.
//!
//! Pixels travel as the bits of f32 numbers, cut into patches: the projection of all patches is then one matrix product. Before
//! convolutions a patch is a pixel, and the batch also has the inputs of each of their outputs.

use polyhead_tensor::{Device, Indices, Result, Tensor};

use super::ImageStem;
use super::patches::PatchOptions;
use super::stem::KERNEL;

/// Images of a batch, all of one size, cut into patches.
#[derive(Debug, Clone)]
pub struct Images {
    /// rows × patches × patch width, the bits of f32; a patch has its channels one after the other, each row by row. Before
    /// convolutions a patch is a pixel.
    pixels: Indices,
    /// rows × learned tokens: their numbers.
    tokens: Indices,
    /// Number of patches of each row.
    lengths: Indices,
    /// The inputs of each output of each convolution.
    taps: Vec<Indices>,
    rows: usize,
    grid: [usize; 2],
    pixels_shape: [usize; 3],
}

impl Images {
    /// Cuts images (channels × height × width each) into patches; what is left at the right and at the bottom is not read. A row
    /// without an image is black.
    ///
    /// # Panics
    /// If an image has another size.
    pub(super) fn new<'a>(
        rows: impl Iterator<Item = Option<&'a [f32]>>,
        size: [usize; 2],
        options: &PatchOptions,
    ) -> Self {
        let PatchOptions { channels, patch_size, stem, tokens, .. } = *options;
        let grid = size.map(|side| side / patch_size);
        let (side, cells) = match stem {
            ImageStem::Projection => (patch_size, grid),
            ImageStem::Convolutions => (1, grid.map(|count| count * patch_size)),
        };
        let cut = Cut { channels, size, side, cells };
        let (mut pixels, mut n_rows) = (Vec::new(), 0);
        for row in rows {
            n_rows += 1;
            match row {
                Some(image) => cut.append(image, &mut pixels),
                None => pixels.resize(n_rows * cut.numbers(), 0),
            }
        }
        let levels = (0..options.convolutions().len()).map(|level| cells.map(|count| count >> level));
        let taps = levels.map(|inputs| taps(n_rows, inputs)).collect();
        let tokens = (0..n_rows).flat_map(|_| 0..tokens.names().len() as u32).collect();
        let lengths = vec![(grid[0] * grid[1]) as u32; n_rows].into();
        let pixels_shape = [n_rows, cells[0] * cells[1], channels * side * side];
        Self { pixels: pixels.into(), tokens, lengths, taps, rows: n_rows, grid, pixels_shape }
    }

    /// Number of images.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Rows and columns of patches.
    pub fn grid(&self) -> [usize; 2] {
        self.grid
    }

    /// All its integer lists.
    pub fn lists(&self) -> Vec<&Indices> {
        [&self.pixels, &self.tokens, &self.lengths].into_iter().chain(&self.taps).collect()
    }

    /// A batch of the same shape with other lists, which may be on a GPU.
    ///
    /// # Panics
    /// If there are not as many lists.
    #[must_use]
    pub fn with(&self, lists: &[Indices]) -> Self {
        let [pixels, tokens, lengths, taps @ ..] = lists else { panic!("{} lists", lists.len()) };
        assert!(taps.len() == self.taps.len(), "{} lists", lists.len());
        let [pixels, tokens, lengths] = [pixels, tokens, lengths].map(Clone::clone);
        Self { pixels, tokens, lengths, taps: taps.to_vec(), ..*self }
    }

    /// The batch on `device`.
    ///
    /// # Errors
    /// If the device fails.
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        let lists: Result<Vec<Indices>> =
            self.lists().into_iter().map(|list| list.to_device(device)).collect();
        Ok(self.with(&lists?))
    }

    /// rows × patches × patch width; before convolutions, rows × pixels × channels.
    pub(super) fn pixels(&self) -> Tensor {
        Tensor::from_bits(&self.pixels_shape, &self.pixels)
    }

    /// The inputs of each output of each convolution.
    pub(super) fn taps(&self) -> &[Indices] {
        &self.taps
    }

    /// rows × learned tokens: their numbers.
    pub(super) fn tokens(&self) -> &Indices {
        &self.tokens
    }

    /// Number of patches of each row.
    pub(crate) fn lengths(&self) -> &Indices {
        &self.lengths
    }
}

/// How an image is cut.
struct Cut {
    channels: usize,
    size: [usize; 2],
    /// Height and width of a piece.
    side: usize,
    /// Rows and columns of pieces.
    cells: [usize; 2],
}

impl Cut {
    /// Numbers of an image after cutting.
    fn numbers(&self) -> usize {
        self.cells[0] * self.cells[1] * self.channels * self.side * self.side
    }

    /// Appends the pieces of an image.
    fn append(&self, image: &[f32], pixels: &mut Vec<u32>) {
        let Self { channels, size: [height, width], side, cells } = *self;
        assert!(image.len() == channels * height * width, "{} numbers", image.len());
        for piece in 0..cells[0] * cells[1] {
            let [top, left] = [piece / cells[1] * side, piece % cells[1] * side];
            for line in 0..channels * side {
                let (channel, y) = (line / side, top + line % side);
                let start = (channel * height + y) * width + left;
                pixels.extend(image[start..start + side].iter().map(|number| number.to_bits()));
            }
        }
    }
}

/// The inputs of each output of a convolution with a stride of 2 over a grid; outside of it, its edge.
fn taps(rows: usize, [height, width]: [usize; 2]) -> Indices {
    let mut indices = Vec::with_capacity(rows * height * width / 4 * KERNEL * KERNEL);
    for row in 0..rows {
        for (y, x) in (0..height).step_by(2).flat_map(|y| (0..width).step_by(2).map(move |x| (y, x))) {
            for tap in 0..KERNEL * KERNEL {
                let [y, x] = [(y, tap / KERNEL, height), (x, tap % KERNEL, width)]
                    .map(|(at, offset, end)| (at + offset).saturating_sub(1).min(end - 1));
                indices.push(((row * height + y) * width + x) as u32);
            }
        }
    }
    indices.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vision::VisionConfig;

    #[test]
    fn patches_are_read_row_by_row_and_hold_their_channels_one_after_the_other() {
        // Two channels of 2 × 5 pixels, patches of 2: the last column is not read.
        let image: Vec<f32> = (0..20).map(|number| number as f32).collect();
        let config = VisionConfig { channels: 2, patch_size: 2, ..VisionConfig::default() }.patches();
        let images = Images::new([Some(image.as_slice()), None].into_iter(), [2, 5], &config);
        assert_eq!((images.rows(), images.grid()), (2, [1, 2]));
        let patches = images.pixels();
        assert_eq!(patches.shape(), [2, 2, 8]);
        assert_eq!(patches.data()[..8], [0., 1., 5., 6., 10., 11., 15., 16.]);
        assert_eq!(patches.data()[8..16], [2., 3., 7., 8., 12., 13., 17., 18.]);
        assert_eq!(patches.data()[16..], [0.0; 16]);
        assert_eq!((images.tokens().host(), images.lengths().host()), (&[0, 0][..], &[2, 2][..]));
        assert!(images.taps().is_empty());
    }

    #[test]
    fn convolutions_read_pixels_and_repeat_the_edge() {
        // Two channels of 4 × 5 pixels, patches of 2.
        let image: Vec<f32> = (0..40).map(|number| number as f32).collect();
        let stem = ImageStem::Convolutions;
        let config = VisionConfig { channels: 2, patch_size: 2, stem, ..VisionConfig::default() }.patches();
        let images = Images::new([None, Some(image.as_slice())].into_iter(), [4, 5], &config);
        assert_eq!(images.grid(), [2, 2]);
        let pixels = images.pixels();
        assert_eq!(pixels.shape(), [2, 16, 2]);
        assert_eq!(pixels.data()[32..42], [0., 20., 1., 21., 2., 22., 3., 23., 5., 25.]);
        let [taps] = images.taps() else { panic!("one convolution") };
        assert_eq!(taps.len(), 2 * 4 * 9);
        assert_eq!(taps.host()[..18], [0, 0, 1, 0, 0, 1, 4, 4, 5, 1, 2, 3, 1, 2, 3, 5, 6, 7]);
        assert_eq!(taps.host()[27..36], [5, 6, 7, 9, 10, 11, 13, 14, 15]);
        assert_eq!(taps.host()[36..39], [16, 16, 17]);
    }
}
