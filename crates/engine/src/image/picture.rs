//! A decoded image: rows of pixels with one byte per channel.

/// A decoded image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    width: usize,
    height: usize,
    channels: usize,
    data: Vec<u8>,
}

/// Red, green and blue in grey, in units of 2⁻¹⁶ (ITU-R BT.601).
const GREY: [u32; 3] = [19_595, 38_470, 7_471];

impl Picture {
    /// A picture of rows of pixels, each with its channels side by side: 1 (grey) or 3 (red, green, blue).
    ///
    /// # Panics
    /// If the number of bytes is not that of the size, or a picture has other channels.
    pub fn new([height, width]: [usize; 2], channels: usize, data: Vec<u8>) -> Self {
        assert!(channels == 1 || channels == 3, "{channels} channels");
        assert!(data.len() == height * width * channels && !data.is_empty(), "{} bytes", data.len());
        Self { width, height, channels, data }
    }

    /// Height and width in pixels.
    pub fn size(&self) -> [usize; 2] {
        [self.height, self.width]
    }

    /// Number of channels: 1 or 3.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The bytes, row by row.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The same picture in colour (3 channels) or grey (1 channel).
    #[must_use]
    pub fn with_channels(self, channels: usize) -> Self {
        let data = match (self.channels, channels) {
            (own, wanted) if own == wanted => return self,
            (1, _) => self.data.iter().flat_map(|&grey| [grey; 3]).collect(),
            _ => self.data.chunks_exact(3).map(grey).collect(),
        };
        Self::new([self.height, self.width], channels, data)
    }

    /// The part that begins at (top, left), black outside the picture; the start may be negative.
    #[must_use]
    pub fn cropped(&self, [top, left]: [isize; 2], [height, width]: [usize; 2]) -> Self {
        let mut data = vec![0; height * width * self.channels];
        for (y, row) in data.chunks_exact_mut(width * self.channels).enumerate() {
            let Some(from) = y.checked_add_signed(top).filter(|from| *from < self.height) else { continue };
            let first = (-left).clamp(0, width as isize) as usize;
            let last = (self.width as isize - left).clamp(first as isize, width as isize) as usize;
            if first < last {
                let start = (from * self.width + first.saturating_add_signed(left)) * self.channels;
                let part = &self.data[start..start + (last - first) * self.channels];
                row[first * self.channels..last * self.channels].copy_from_slice(part);
            }
        }
        Self::new([height, width], self.channels, data)
    }

    /// The picture as it is to be shown, by the orientation (1 to 8) of a camera.
    #[must_use]
    pub fn oriented(self, orientation: u16) -> Self {
        let (height, width) = (self.height, self.width);
        let swaps = (5..=8).contains(&orientation);
        let [new_height, new_width] = if swaps { [width, height] } else { [height, width] };
        if !(2..=8).contains(&orientation) {
            return self;
        }
        let mut data = Vec::with_capacity(self.data.len());
        for y in 0..new_height {
            for x in 0..new_width {
                let [from_y, from_x] = match orientation {
                    2 => [y, width - 1 - x],
                    3 => [height - 1 - y, width - 1 - x],
                    4 => [height - 1 - y, x],
                    5 => [x, y],
                    6 => [height - 1 - x, y],
                    7 => [height - 1 - x, width - 1 - y],
                    _ => [x, width - 1 - y],
                };
                let start = (from_y * width + from_x) * self.channels;
                data.extend_from_slice(&self.data[start..start + self.channels]);
            }
        }
        Self::new([new_height, new_width], self.channels, data)
    }

    /// A PNG file of the picture.
    ///
    /// # Panics
    /// Never: an encoder that writes to memory does not fail.
    pub fn to_png(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, self.width as u32, self.height as u32);
        encoder.set_color(if self.channels == 1 { png::ColorType::Grayscale } else { png::ColorType::Rgb });
        let mut writer = encoder.write_header().expect("memory can be written to");
        writer.write_image_data(&self.data).expect("the data fit the size");
        drop(writer);
        out
    }
}

fn grey(pixel: &[u8]) -> u8 {
    let sum: u32 = pixel.iter().zip(GREY).map(|(&value, factor)| u32::from(value) * factor).sum();
    ((sum + 0x8000) >> 16) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(size: [usize; 2]) -> Picture {
        Picture::new(size, 1, (0..(size[0] * size[1]) as u8).collect())
    }

    #[test]
    fn crops_are_black_outside() {
        let picture = numbered([2, 3]);
        assert_eq!(picture.cropped([0, 1], [2, 2]).data(), [1, 2, 4, 5]);
        assert_eq!(picture.cropped([-1, -1], [2, 3]).data(), [0, 0, 0, 0, 0, 1]);
        assert_eq!(picture.cropped([1, 2], [2, 3]).data(), [5, 0, 0, 0, 0, 0]);
        assert_eq!(picture.cropped([5, 9], [1, 1]).data(), [0]);
        assert_eq!(picture.cropped([0, -9], [1, 2]).data(), [0, 0]);
    }

    #[test]
    fn orientations_are_those_of_cameras() {
        // 0 1 2
        // 3 4 5
        let found = |orientation| numbered([2, 3]).oriented(orientation);
        assert_eq!(found(1).data(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(found(2).data(), [2, 1, 0, 5, 4, 3]);
        assert_eq!(found(3).data(), [5, 4, 3, 2, 1, 0]);
        assert_eq!(found(4).data(), [3, 4, 5, 0, 1, 2]);
        assert_eq!((found(5).size(), found(5).data()), ([3, 2], &[0, 3, 1, 4, 2, 5][..]));
        assert_eq!(found(6).data(), [3, 0, 4, 1, 5, 2]);
        assert_eq!(found(7).data(), [5, 2, 4, 1, 3, 0]);
        assert_eq!(found(8).data(), [2, 5, 1, 4, 0, 3]);
    }

    #[test]
    fn grey_is_a_weighted_sum_and_colour_repeats_it() {
        let colour = Picture::new([1, 3], 3, vec![255, 0, 0, 0, 255, 0, 10, 20, 30]);
        let grey = colour.with_channels(1);
        assert_eq!(grey.data(), [76, 150, 18]);
        assert_eq!(grey.with_channels(3).data(), [76, 76, 76, 150, 150, 150, 18, 18, 18]);
    }
}
