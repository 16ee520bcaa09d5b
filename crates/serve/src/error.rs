//! Errors of serving.

use std::any::Any;

use axum::http::StatusCode;

use polyhead_text::Diagnostic;
use polyhead_text::error::system_message;

use crate::front::ErrorResponse;
use crate::front::budget::OutOfMemory;

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a request or of the server. `Display` is one line; [`Error::hint`] suggests a remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An invalid request.
    #[error(transparent)]
    Request(Diagnostic),
    /// A request whose `Host` or `Origin` is not the page's own.
    #[error("host or origin {found:?}, expected {expected}")]
    ForeignOrigin {
        /// The Host or Origin that was sent.
        found: String,
        /// The address that is served.
        expected: String,
    },
    /// A request exceeds a limit.
    #[error("too large: {found} (limit {limit})")]
    TooLarge {
        /// The size that was found, with its unit.
        found: String,
        /// The limit, with its unit.
        limit: String,
    },
    /// Tracing the model failed.
    #[error(transparent)]
    Inspect(#[from] polyhead_inspect::Error),
    /// Translating failed.
    #[error(transparent)]
    Translate(#[from] polyhead_translate::Error),
    /// The server is overloaded.
    #[error("the server is busy: {found}")]
    Busy {
        /// The exhausted resource.
        found: String,
        /// Seconds after which to try again.
        retry_after: u64,
    },
    /// A client exceeds its share.
    #[error("too many requests: {found}")]
    TooManyRequests {
        /// The exhausted resource.
        found: String,
        /// Seconds after which to try again.
        retry_after: u64,
    },
    /// The deadline of a request cannot be met.
    #[error("about {seconds} s of work, expected at most {deadline} s, the time to its deadline")]
    TooLong {
        /// Estimated seconds.
        seconds: u64,
        /// Seconds until the deadline.
        deadline: u64,
    },
    /// A request was refused with a response of its own.
    #[error("{}", .0.error)]
    Refused(ErrorResponse),
    /// Running the model panicked.
    #[error("the model failed on this text: {found}")]
    Panicked {
        /// The panic message.
        found: String,
    },
    /// A port cannot be bound.
    #[error("cannot listen on 127.0.0.1:{port}: {}", system_message(source))]
    Port {
        /// The port.
        port: u16,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A key file cannot be read.
    #[error("cannot read {}: {}", path.display(), system_message(source))]
    KeyFile {
        /// The file.
        path: std::path::PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A line of a key file is invalid.
    #[error("{}, line {line}: {found}, expected `name sha256:HEX [per_minute=N]`", path.display())]
    Key {
        /// The file.
        path: std::path::PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem.
        found: String,
    },
    /// The system has no random numbers.
    #[error("no random numbers from the system: {reason}")]
    NoRandomness {
        /// The error of the system.
        reason: String,
    },
    /// An address cannot be bound.
    #[error("cannot listen on {address}: {}", system_message(source))]
    Address {
        /// The address.
        address: std::net::SocketAddr,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The server failed while running.
    #[error("the server ended: {}", system_message(.0))]
    Server(std::io::Error),
}

impl Error {
    /// An invalid request: found and expected, and a remedy.
    pub(crate) fn request(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Request(Diagnostic::new(message, hint))
    }

    /// A remedy for the reader of the message.
    pub fn hint(&self) -> String {
        match self {
            Self::Request(found) => found.hint.clone(),
            Self::ForeignOrigin { .. } => "open the address that the program printed".into(),
            Self::TooLarge { .. } => "shorten it, or send it in parts".into(),
            Self::Inspect(error) => error.hint(),
            Self::Translate(error) => error.hint(),
            Self::Busy { retry_after, .. } | Self::TooManyRequests { retry_after, .. } => {
                format!("try again in {retry_after} s")
            }
            Self::TooLong { .. } => "send it in parts, or as a file, which has more time".into(),
            Self::Refused(response) => response.hint.clone(),
            Self::Panicked { .. } => "try a shorter text".into(),
            Self::Port { .. } => "choose another with --port, or omit --port".into(),
            Self::KeyFile { .. } => "check the path and the permissions of the file".into(),
            Self::Key { .. } => "`polyhead keys add FILE NAME` writes such lines".into(),
            Self::NoRandomness { .. } => "is the system still starting?".into(),
            Self::Address { .. } => "choose another with --listen; port 0 takes any free one".into(),
            Self::Server(_) => "start it again".into(),
        }
    }

    /// True if the program was used wrongly.
    pub fn is_misuse(&self) -> bool {
        match self {
            Self::Request(_) => true,
            Self::Inspect(error) => error.is_misuse(),
            Self::Translate(error) => error.is_misuse(),
            _ => false,
        }
    }

    /// The HTTP status for this error.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::ForeignOrigin { .. } => StatusCode::FORBIDDEN,
            Self::TooLarge { .. } | Self::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Busy { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooManyRequests { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Refused(response) => response.status,
            error if error.is_misuse() => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The error for a caught panic.
    pub(crate) fn from_panic(panic: &(dyn Any + Send)) -> Self {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
        Self::Panicked { found: message.unwrap_or("panic without a message").into() }
    }

    /// Seconds after which to try again.
    pub fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Busy { retry_after, .. } | Self::TooManyRequests { retry_after, .. } => Some(*retry_after),
            Self::Refused(response) => response.retry_after,
            _ => None,
        }
    }
}

impl Error {
    /// The error of a file in a request that is no readable sound or image.
    pub(crate) fn unreadable(error: &polyhead_engine::Error) -> Self {
        Self::Refused(ErrorResponse::new(StatusCode::BAD_REQUEST, error.to_string(), error.hint()))
    }
}

impl From<OutOfMemory> for Error {
    fn from(found: OutOfMemory) -> Self {
        Self::Refused(found.into())
    }
}
