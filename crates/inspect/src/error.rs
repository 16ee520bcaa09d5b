//! What can go wrong with a picture.

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error about a picture. `Display` is one line; [`Error::hint`] says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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
            Self::Svg { .. } => "write the picture as .svg and open it in a browser, which shows the place",
            Self::Size { .. } => "write the picture as .svg, which has no pixels, or choose another scale",
            Self::Png { .. } => "write the picture as .svg instead",
        }
        .into()
    }
}
