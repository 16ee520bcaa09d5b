//! Files of pictures: the form is as the name ends.

use std::path::Path;

use anyhow::Result;
use polyhead_inspect::png;
use polyhead_text::output::Output;

use crate::report::Misuse;

/// Pixels for each unit of the picture in a PNG.
const PNG_SCALE: f32 = 2.0;

/// The form of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Svg,
    Png,
}

impl Form {
    /// The form that a name ends in; none for any other.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_string_lossy().to_lowercase().as_str() {
            "svg" => Some(Self::Svg),
            "png" => Some(Self::Png),
            _ => None,
        }
    }

    /// The form of `--out`, which can be nothing else.
    pub(crate) fn of_out(path: &Path) -> Result<Self> {
        let wrong = || Misuse {
            message: format!("--out: {}, expected a name that ends in .svg or .png", path.display()),
            hint: "SVG stays sharp at any size; PNG is for places that show no SVG".into(),
        };
        Ok(Self::of(path).ok_or_else(wrong)?)
    }

    /// Writes an SVG in this form.
    pub(crate) fn save(self, path: &Path, svg: &str) -> Result<()> {
        match self {
            Self::Svg => Output::save(path, svg.as_bytes())?,
            Self::Png => Output::save(path, &png::render(svg, PNG_SCALE)?)?,
        }
        Ok(())
    }
}
