//! A request's body, read whole up to a limit, with a limit on what all bodies together may hold.

use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::{HeaderMap, StatusCode, header};

use super::refusal::Refusal;
use super::timed::Slow;

/// Memory made ready before a body has come: what a client only announces costs nothing.
const FIRST_ROOM: usize = 64 * 1024;

/// How much is read.
#[derive(Debug, Clone)]
pub struct BodyLimits {
    /// Bytes of one body; 1 MiB.
    pub body: usize,
    /// What all bodies together may hold; 64 MiB.
    pub room: Arc<Room>,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { body: 1 << 20, room: Arc::new(Room::new(64 << 20)) }
    }
}

/// Memory for all bodies together: many clients that send much at once must not fill the machine's.
#[derive(Debug)]
pub struct Room {
    left: AtomicUsize,
}

impl Room {
    /// For so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { left: AtomicUsize::new(bytes) }
    }

    /// Bytes that nobody has taken.
    pub fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }
}

/// What a body has taken of the room; dropped, it gives it back.
#[derive(Debug)]
pub struct Held {
    room: Arc<Room>,
    bytes: usize,
}

impl Held {
    fn none(room: &Arc<Room>) -> Self {
        Self { room: room.clone(), bytes: 0 }
    }

    /// Takes more.
    fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        let take = |left: usize| left.checked_sub(bytes);
        if self.room.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            let error = "too much is being sent to the server at once";
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error, "try again later").after(1));
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.room.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// The bytes of a body, and what they take of the room: to be kept as long as they are.
///
/// # Errors
/// 413 for more bytes than the limit: before anything is read where `Content-Length` says so, else as soon as they have
/// come. 503 where all bodies together are too large. 408 for one that comes too slowly, 400 for one that breaks off.
pub async fn read(
    headers: &HeaderMap,
    mut body: Body,
    limits: &BodyLimits,
) -> Result<(Bytes, Held), Refusal> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let length: u64 = length.unwrap_or(0);
    let limit = limits.body;
    if length > limit as u64 {
        return Err(too_large(&format!("a body of {length} bytes"), limit));
    }
    let mut bytes = Vec::new();
    let mut held = Held::none(&limits.room);
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame.map_err(|error| broken(&error))?.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Err(too_large("a larger body", limit));
        }
        held.grow(data.len())?;
        // Most requests come in one piece.
        if bytes.is_empty() && body.is_end_stream() {
            return Ok((data, held));
        }
        if bytes.is_empty() {
            bytes.reserve((length as usize).min(FIRST_ROOM));
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes.into(), held))
}

fn too_large(found: &str, limit: usize) -> Refusal {
    let error = format!("{found}, expected at most {limit}");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error, "send it in parts")
}

/// What a body came to that did not come whole.
fn broken(error: &(dyn Error + 'static)) -> Refusal {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<Slow>() {
            let hint = "send it faster, or in parts";
            return Refusal::new(StatusCode::REQUEST_TIMEOUT, error.to_string(), hint);
        }
        cause = error.source();
    }
    Refusal::bad("a body that breaks off, expected all of it", "send the request again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use std::task::Poll;
    use std::time::Duration;

    /// A body that comes in pieces.
    struct Pieces(Vec<Result<&'static str, axum::BoxError>>);

    impl futures_core::Stream for Pieces {
        type Item = Result<&'static str, axum::BoxError>;

        fn poll_next(
            mut self: Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> Poll<Option<Result<&'static str, axum::BoxError>>> {
            let next = (!self.0.is_empty()).then(|| self.0.remove(0));
            Poll::Ready(next)
        }
    }

    fn read_all(length: Option<&'static str>, body: Body, limit: usize) -> Result<Bytes, Refusal> {
        let limits = BodyLimits { body: limit, ..BodyLimits::default() };
        read_limited(length, body, &limits).map(|(bytes, _)| bytes)
    }

    fn read_limited(
        length: Option<&'static str>,
        body: Body,
        limits: &BodyLimits,
    ) -> Result<(Bytes, Held), Refusal> {
        let mut headers = HeaderMap::new();
        if let Some(length) = length {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static(length));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(read(&headers, body, limits))
    }

    fn pieces(pieces: &[&'static str]) -> Body {
        Body::from_stream(Pieces(pieces.iter().map(|piece| Ok(*piece)).collect()))
    }

    #[test]
    fn a_body_is_read_whole_up_to_the_limit() {
        assert_eq!(read_all(Some("3"), Body::from("abc"), 3).unwrap(), "abc");
        assert_eq!(read_all(None, pieces(&["ab", "", "c"]), 3).unwrap(), "abc");
        assert_eq!(read_all(None, Body::empty(), 0).unwrap(), "");
    }

    #[test]
    fn too_much_is_413_by_what_is_announced_and_by_what_comes() {
        let announced = read_all(Some("4"), Body::from("abcd"), 3).unwrap_err();
        assert_eq!(
            (announced.status.as_u16(), &*announced.error),
            (413, "a body of 4 bytes, expected at most 3")
        );
        let came = read_all(None, pieces(&["ab", "cd"]), 3).unwrap_err();
        assert_eq!((came.status.as_u16(), &*came.error), (413, "a larger body, expected at most 3"));
        let wrong = read_all(Some("99999999999999999999"), pieces(&["abcd"]), 3).unwrap_err();
        assert_eq!(wrong.status, 413);
    }

    #[test]
    fn a_slow_body_is_408_and_a_broken_one_400() {
        let slow = Pieces(vec![Ok("a"), Err(Slow(Duration::from_secs(1)).into())]);
        assert_eq!(read_all(None, Body::from_stream(slow), 3).unwrap_err().status, 408);
        let broken = Pieces(vec![Ok("a"), Err("gone".into())]);
        assert_eq!(read_all(None, Body::from_stream(broken), 3).unwrap_err().status, 400);
    }

    #[test]
    fn all_bodies_together_have_a_limit_and_give_back_what_they_took() {
        let room = Arc::new(Room::new(5));
        let limits = BodyLimits { body: 10, room: room.clone() };
        let first = read_limited(None, pieces(&["ab", "c"]), &limits).unwrap();
        assert_eq!(room.left(), 2);
        let refused = read_limited(None, pieces(&["a", "bc"]), &limits).unwrap_err();
        assert_eq!((refused.status.as_u16(), refused.retry_after, room.left()), (503, Some(1), 2));
        drop(first);
        assert_eq!(room.left(), 5);
        assert!(read_limited(None, pieces(&["abc", "de"]), &limits).is_ok());
    }
}
