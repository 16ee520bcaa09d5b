//! Errors of traces and pictures.

use polyhead_text::Diagnostic;

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a trace or a picture. `Display` is one line; [`Error::hint`] suggests a remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An invalid request, or one that the model cannot serve.
    #[error(transparent)]
    Request(Diagnostic),
    /// The engine failed.
    #[error(transparent)]
    Translate(#[from] polyhead_translate::Error),
    /// The model failed.
    #[error(transparent)]
    Models(#[from] polyhead_models::Error),
    /// Invalid SVG.
    #[error("the picture cannot be parsed: {found}, expected SVG")]
    Svg {
        /// Message of the SVG parser.
        found: String,
    },
    /// A picture without pixels, or with too many.
    #[error("a picture of {width} × {height} pixels, expected at least one pixel and at most {most}")]
    Size {
        /// Pixels across.
        width: f64,
        /// Pixels down.
        height: f64,
        /// Maximum number of pixels.
        most: u64,
    },
    /// PNG encoding failed.
    #[error("the picture cannot be encoded as PNG: {found}")]
    Png {
        /// Message of the PNG encoder.
        found: String,
    },
}

impl Error {
    /// An invalid request: found and expected, and a remedy.
    pub(crate) fn request(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Request(Diagnostic::new(message, hint))
    }

    /// Suggested remedy, for the line `hint: …`.
    pub fn hint(&self) -> String {
        match self {
            Self::Request(found) => &found.hint,
            Self::Translate(error) => return error.hint(),
            Self::Models(error) => return error.hint(),
            Self::Svg { .. } => "write the picture as .svg and open it in a browser, which shows the error",
            Self::Size { .. } => {
                "write the picture as .svg, which has no size limit, or choose another scale"
            }
            Self::Png { .. } => "write the picture as .svg instead",
        }
        .into()
    }

    /// True if the caller made a mistake (exit code 2), false if something failed (exit code 1).
    pub fn is_misuse(&self) -> bool {
        match self {
            Self::Request(_) => true,
            Self::Translate(error) => error.is_misuse(),
            Self::Models(error) => matches!(error, polyhead_models::Error::View { .. }),
            _ => false,
        }
    }
}
