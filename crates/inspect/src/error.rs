//! What can go wrong with a trace or a picture.

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error about a trace or a picture. `Display` is one line; [`Error::hint`] says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is asked for makes no sense, or the model does not have it.
    #[error("{message}")]
    Request {
        /// What was found, what was expected.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// The engine failed.
    #[error(transparent)]
    Translate(#[from] polyhead_translate::Error),
    /// The model failed.
    #[error(transparent)]
    Models(#[from] polyhead_models::Error),
    /// A text is no SVG that can be drawn.
    #[error("a picture cannot be read: {found}, expected SVG")]
    Svg {
        /// What the reader of SVG says.
        found: String,
    },
    /// A picture would have no pixels, or too many.
    #[error("a picture of {width} × {height} pixels, expected at least one and at most {most} in all")]
    Size {
        /// Pixels across.
        width: f64,
        /// Pixels down.
        height: f64,
        /// The most pixels that are drawn.
        most: u64,
    },
    /// Pixels could not be packed into a PNG.
    #[error("a picture cannot be packed as PNG: {found}")]
    Png {
        /// What the writer of PNG says.
        found: String,
    },
}

impl Error {
    /// What the reader of the message can do.
    pub fn hint(&self) -> String {
        match self {
            Self::Request { hint, .. } => hint,
            Self::Translate(error) => return error.hint(),
            Self::Models(error) => return error.hint(),
            Self::Svg { .. } => "write the picture as .svg and open it in a browser, which shows the place",
            Self::Size { .. } => "write the picture as .svg, which has no pixels, or choose another scale",
            Self::Png { .. } => "write the picture as .svg instead",
        }
        .into()
    }

    /// Whether the program was used wrongly.
    pub fn is_misuse(&self) -> bool {
        match self {
            Self::Request { .. } => true,
            Self::Translate(error) => error.is_misuse(),
            _ => false,
        }
    }
}
