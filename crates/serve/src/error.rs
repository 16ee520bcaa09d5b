//! What can go wrong with serving.

use std::any::Any;

use axum::http::StatusCode;

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a request or of the server. `Display` is one line; [`Error::hint`] says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request that cannot be answered as it is.
    #[error("{message}")]
    Request {
        /// What was found, what was expected.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// A request from somewhere else than this machine's own page.
    #[error("a request for or from {found:?}, expected {expected}")]
    Foreign {
        /// The Host or Origin that was sent.
        found: String,
        /// The address that is served.
        expected: String,
    },
    /// More was sent than is read.
    #[error("{found}, expected at most {limit}")]
    TooLarge {
        /// What was sent, with its size.
        found: String,
        /// The limit, with its unit.
        limit: String,
    },
    /// Looking at the model failed.
    #[error(transparent)]
    Inspect(#[from] polyhead_inspect::Error),
    /// Translating failed.
    #[error(transparent)]
    Translate(#[from] polyhead_translate::Error),
    /// More is asked of the server than it can do.
    #[error("the server is busy: {found}")]
    Busy {
        /// What there is too much of.
        found: String,
        /// Seconds after which to come again.
        retry_after: u64,
    },
    /// A client asks for more than its share.
    #[error("too much at once: {found}")]
    Often {
        /// What there is too much of.
        found: String,
        /// Seconds after which to come again.
        retry_after: u64,
    },
    /// Work on the model came to no end.
    #[error("the model failed on this text: {found}")]
    Broken {
        /// What was said.
        found: String,
    },
    /// A port cannot be had.
    #[error("cannot listen on 127.0.0.1:{port}: {source}")]
    Port {
        /// The port.
        port: u16,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of API keys cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    KeyFile {
        /// The file.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line of a file of API keys that cannot be understood.
    #[error("{}, line {line}: {found}, expected `name sha256:HEX [per_minute=N]`", path.display())]
    Key {
        /// The file.
        path: std::path::PathBuf,
        /// The line, from 1.
        line: usize,
        /// What was found.
        found: String,
    },
    /// The system has no random numbers.
    #[error("no random numbers from the system: {said}")]
    NoRandomness {
        /// What it said.
        said: String,
    },
    /// An address cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Address {
        /// The address.
        address: std::net::SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The server came to an end by itself.
    #[error("the server ended: {0}")]
    Server(std::io::Error),
}

impl Error {
    /// What the reader of the message can do.
    pub fn hint(&self) -> String {
        match self {
            Self::Request { hint, .. } => hint.clone(),
            Self::Foreign { .. } => "open the address that the program printed".into(),
            Self::TooLarge { .. } => "send a part of it".into(),
            Self::Inspect(error) => error.hint(),
            Self::Translate(error) => error.hint(),
            Self::Busy { retry_after, .. } | Self::Often { retry_after, .. } => {
                format!("come again in {retry_after} s")
            }
            Self::Broken { .. } => "try a shorter text".into(),
            Self::Port { .. } => "choose another with --port, or leave it out".into(),
            Self::KeyFile { .. } => "is the path right, and may this user read it?".into(),
            Self::Key { .. } => "`polyhead keys add FILE NAME` writes such lines".into(),
            Self::NoRandomness { .. } => "is the system still starting?".into(),
            Self::Address { .. } => "choose another with --listen; port 0 is any that is free".into(),
            Self::Server(_) => "start it again".into(),
        }
    }

    /// Whether the program was used wrongly.
    pub fn is_misuse(&self) -> bool {
        match self {
            Self::Request { .. } => true,
            Self::Inspect(error) => error.is_misuse(),
            Self::Translate(error) => error.is_misuse(),
            _ => false,
        }
    }

    /// The status of an answer that says it.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Foreign { .. } => StatusCode::FORBIDDEN,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Busy { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Often { .. } => StatusCode::TOO_MANY_REQUESTS,
            error if error.is_misuse() => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// What a thread said when it broke down.
    pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
        Self::Broken { found: said.unwrap_or("it broke down").into() }
    }

    /// Seconds after which to come again.
    pub fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Busy { retry_after, .. } | Self::Often { retry_after, .. } => Some(*retry_after),
            _ => None,
        }
    }
}
