//! Images of a batch as integer lists, so that a GPU can record a training step for each shape.
//!
//! Pixels travel as the bits of f32 numbers, cut into patches: the projection of all patches is then one matrix product.

use polyhead_tensor::{Device, Indices, Result, Tensor};

/// Images of a batch, all of one size, cut into patches.
#[derive(Debug, Clone)]
pub struct Images {
    /// rows × patches × patch width, the bits of f32; a patch has its channels one after the other, each row by row.
    pixels: Indices,
    /// rows × learned tokens: their numbers.
    tokens: Indices,
    /// Number of patches of each row.
    lengths: Indices,
    rows: usize,
    grid: [usize; 2],
    patch_width: usize,
}

impl Images {
    /// Cuts images (channels × height × width each) into patches; what is left at the right and at the bottom is not read. A row
    /// without an image is black.
    ///
    /// # Panics
    /// If an image has another size.
    pub(super) fn new<'a>(
        rows: impl Iterator<Item = Option<&'a [f32]>>,
        [channels, height, width]: [usize; 3],
        patch_size: usize,
        n_tokens: usize,
    ) -> Self {
        let grid = [height / patch_size, width / patch_size];
        let patch_width = channels * patch_size * patch_size;
        let n_patches = grid[0] * grid[1];
        let (mut pixels, mut n_rows) = (Vec::new(), 0);
        for row in rows {
            n_rows += 1;
            let Some(image) = row else {
                pixels.resize(n_rows * n_patches * patch_width, 0);
                continue;
            };
            assert!(image.len() == channels * height * width, "{} numbers", image.len());
            for patch in 0..n_patches {
                let [top, left] = [patch / grid[1] * patch_size, patch % grid[1] * patch_size];
                for line in 0..channels * patch_size {
                    let (channel, y) = (line / patch_size, top + line % patch_size);
                    let start = (channel * height + y) * width + left;
                    pixels.extend(image[start..start + patch_size].iter().map(|number| number.to_bits()));
                }
            }
        }
        let tokens = (0..n_rows).flat_map(|_| 0..n_tokens as u32).collect();
        let lengths = vec![n_patches as u32; n_rows].into();
        Self { pixels: pixels.into(), tokens, lengths, rows: n_rows, grid, patch_width }
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
    pub fn lists(&self) -> [&Indices; 3] {
        [&self.pixels, &self.tokens, &self.lengths]
    }

    /// A batch of the same shape with other lists, which may be on a GPU.
    #[must_use]
    pub fn with(&self, [pixels, tokens, lengths]: [Indices; 3]) -> Self {
        Self { pixels, tokens, lengths, ..*self }
    }

    /// The batch on `device`.
    ///
    /// # Errors
    /// If the device fails.
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        let [pixels, tokens, lengths] = self.lists().map(|list| list.to_device(device));
        Ok(self.with([pixels?, tokens?, lengths?]))
    }

    /// rows × patches × patch width.
    pub(super) fn patches(&self) -> Tensor {
        Tensor::from_bits(&[self.rows, self.grid[0] * self.grid[1], self.patch_width], &self.pixels)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_are_read_row_by_row_and_hold_their_channels_one_after_the_other() {
        // Two channels of 2 × 5 pixels, patches of 2: the last column is not read.
        let image: Vec<f32> = (0..20).map(|number| number as f32).collect();
        let images = Images::new([Some(image.as_slice()), None].into_iter(), [2, 2, 5], 2, 1);
        assert_eq!((images.rows(), images.grid()), (2, [1, 2]));
        let patches = images.patches();
        assert_eq!(patches.shape(), [2, 2, 8]);
        assert_eq!(patches.data()[..8], [0., 1., 5., 6., 10., 11., 15., 16.]);
        assert_eq!(patches.data()[8..16], [2., 3., 7., 8., 12., 13., 17., 18.]);
        assert_eq!(patches.data()[16..], [0.0; 16]);
        assert_eq!((images.tokens().host(), images.lengths().host()), (&[0, 0][..], &[2, 2][..]));
    }
}
