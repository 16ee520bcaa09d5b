//! Picture files; the extension chooses the format.

use std::path::Path;

use anyhow::Result;
use polyhead_inspect::overlay::Overlay;
use polyhead_inspect::png;
use polyhead_text::output::Output;

use crate::report::Misuse;

/// Pixels of a PNG per unit of the SVG.
const PNG_SCALE: f32 = 2.0;

/// The format of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PictureFormat {
    Svg,
    Png,
}

impl PictureFormat {
    /// The format of an extension; none for other extensions.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_string_lossy().to_lowercase().as_str() {
            "svg" => Some(Self::Svg),
            "png" => Some(Self::Png),
            _ => None,
        }
    }

    /// The format of `--out`, or misuse for other extensions.
    pub(crate) fn of_out(path: &Path) -> Result<Self> {
        let wrong = || Misuse {
            message: format!("--out: {}, expected a name that ends in .svg or .png", path.display()),
            hint: "SVG stays sharp at any size; PNG is for programs that cannot show SVG".into(),
        };
        Ok(Self::of(path).ok_or_else(wrong)?)
    }

    /// Writes an image with attention on it in this format.
    pub(crate) fn save_overlay(self, path: &Path, overlay: &Overlay) -> Result<()> {
        match self {
            Self::Svg => Output::save(path, overlay.svg().as_bytes())?,
            Self::Png => Output::save(path, &overlay.png(PNG_SCALE)?)?,
        }
        Ok(())
    }

    /// Writes an SVG in this format.
    pub(crate) fn save(self, path: &Path, svg: &str) -> Result<()> {
        match self {
            Self::Svg => Output::save(path, svg.as_bytes())?,
            Self::Png => Output::save(path, &png::render(svg, PNG_SCALE)?)?,
        }
        Ok(())
    }
}
