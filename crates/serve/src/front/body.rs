//! Reads a whole request body up to a limit, within a memory budget of all bodies together.

use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::{HeaderMap, StatusCode, header};

use super::error_response::ErrorResponse;
use super::timed::BodyTimeout;

/// Bytes reserved before a body arrives: an announced length alone costs no memory.
const FIRST_CAPACITY: usize = 64 * 1024;

/// Limits on request bodies.
#[derive(Debug, Clone)]
pub struct BodyLimits {
    /// Bytes of one body; default: 1 MiB.
    pub body: usize,
    /// Memory budget of all bodies together; default: 64 MiB.
    pub budget: Arc<MemoryBudget>,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { body: 1 << 20, budget: Arc::new(MemoryBudget::new(64 << 20)) }
    }
}

/// Memory budget of all bodies together, so that many large requests at once cannot exhaust the machine's memory.
#[derive(Debug)]
pub struct MemoryBudget {
    available: AtomicUsize,
}

impl MemoryBudget {
    /// A budget of `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        Self { available: AtomicUsize::new(bytes) }
    }

    /// Bytes that are not reserved.
    pub fn available(&self) -> usize {
        self.available.load(Ordering::Relaxed)
    }
}

/// The share of a body in a [`MemoryBudget`], returned on drop.
#[derive(Debug)]
pub struct MemoryReservation {
    budget: Arc<MemoryBudget>,
    bytes: usize,
}

impl MemoryReservation {
    fn none(budget: &Arc<MemoryBudget>) -> Self {
        Self { budget: budget.clone(), bytes: 0 }
    }

    /// Reserves more bytes.
    fn grow(&mut self, bytes: usize) -> Result<(), ErrorResponse> {
        let take = |available: usize| available.checked_sub(bytes);
        if self.budget.available.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            let error = "the server is receiving too much data at once";
            return Err(
                ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, error, "try again later").after(1)
            );
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.budget.available.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// The bytes of a body, and their memory reservation, to be kept as long as the bytes.
///
/// # Errors
/// 413 for more bytes than the limit: before anything is read if `Content-Length` says so, else as soon as they arrive.
/// 503 if all bodies together exceed the budget, 408 for a body that is too slow, 400 for an incomplete one.
pub async fn read(
    headers: &HeaderMap,
    mut body: Body,
    limits: &BodyLimits,
) -> Result<(Bytes, MemoryReservation), ErrorResponse> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let length: u64 = length.unwrap_or(0);
    let limit = limits.body;
    if length > limit as u64 {
        return Err(too_large(&format!("a body of {length} bytes"), limit));
    }
    let mut bytes = Vec::new();
    let mut reservation = MemoryReservation::none(&limits.budget);
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame.map_err(|error| broken(&error))?.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Err(too_large("a larger body", limit));
        }
        reservation.grow(data.len())?;
        // Most bodies arrive in one frame.
        if bytes.is_empty() && body.is_end_stream() {
            return Ok((data, reservation));
        }
        if bytes.is_empty() {
            bytes.reserve((length as usize).min(FIRST_CAPACITY));
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes.into(), reservation))
}

fn too_large(found: &str, limit: usize) -> ErrorResponse {
    let error = format!("{found}, expected at most {limit}");
    ErrorResponse::new(StatusCode::PAYLOAD_TOO_LARGE, error, "send it in parts")
}

/// The response to a body that did not arrive completely.
fn broken(error: &(dyn Error + 'static)) -> ErrorResponse {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<BodyTimeout>() {
            let hint = "send it faster, or in parts";
            return ErrorResponse::new(StatusCode::REQUEST_TIMEOUT, error.to_string(), hint);
        }
        cause = error.source();
    }
    ErrorResponse::bad_request("incomplete body", "send the request again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use std::task::Poll;
    use std::time::Duration;

    /// A body of several frames.
    struct Frames(Vec<Result<&'static str, axum::BoxError>>);

    impl futures_core::Stream for Frames {
        type Item = Result<&'static str, axum::BoxError>;

        fn poll_next(
            mut self: Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> Poll<Option<Result<&'static str, axum::BoxError>>> {
            let next = (!self.0.is_empty()).then(|| self.0.remove(0));
            Poll::Ready(next)
        }
    }

    fn read_all(length: Option<&'static str>, body: Body, limit: usize) -> Result<Bytes, ErrorResponse> {
        let limits = BodyLimits { body: limit, ..BodyLimits::default() };
        read_limited(length, body, &limits).map(|(bytes, _)| bytes)
    }

    fn read_limited(
        length: Option<&'static str>,
        body: Body,
        limits: &BodyLimits,
    ) -> Result<(Bytes, MemoryReservation), ErrorResponse> {
        let mut headers = HeaderMap::new();
        if let Some(length) = length {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static(length));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(read(&headers, body, limits))
    }

    fn frames(frames: &[&'static str]) -> Body {
        Body::from_stream(Frames(frames.iter().map(|frame| Ok(*frame)).collect()))
    }

    #[test]
    fn a_body_is_read_whole_up_to_the_limit() {
        assert_eq!(read_all(Some("3"), Body::from("abc"), 3).unwrap(), "abc");
        assert_eq!(read_all(None, frames(&["ab", "", "c"]), 3).unwrap(), "abc");
        assert_eq!(read_all(None, Body::empty(), 0).unwrap(), "");
    }

    #[test]
    fn too_large_a_body_is_413_announced_or_received() {
        let announced = read_all(Some("4"), Body::from("abcd"), 3).unwrap_err();
        assert_eq!(
            (announced.status.as_u16(), &*announced.error),
            (413, "a body of 4 bytes, expected at most 3")
        );
        let came = read_all(None, frames(&["ab", "cd"]), 3).unwrap_err();
        assert_eq!((came.status.as_u16(), &*came.error), (413, "a larger body, expected at most 3"));
        let wrong = read_all(Some("99999999999999999999"), frames(&["abcd"]), 3).unwrap_err();
        assert_eq!(wrong.status, 413);
    }

    #[test]
    fn a_slow_body_is_408_and_an_incomplete_one_400() {
        let slow = Frames(vec![Ok("a"), Err(BodyTimeout(Duration::from_secs(1)).into())]);
        assert_eq!(read_all(None, Body::from_stream(slow), 3).unwrap_err().status, 408);
        let broken = Frames(vec![Ok("a"), Err("gone".into())]);
        assert_eq!(read_all(None, Body::from_stream(broken), 3).unwrap_err().status, 400);
    }

    #[test]
    fn all_bodies_share_a_budget_and_return_their_part() {
        let budget = Arc::new(MemoryBudget::new(5));
        let limits = BodyLimits { body: 10, budget: budget.clone() };
        let first = read_limited(None, frames(&["ab", "c"]), &limits).unwrap();
        assert_eq!(budget.available(), 2);
        let refused = read_limited(None, frames(&["a", "bc"]), &limits).unwrap_err();
        assert_eq!((refused.status.as_u16(), refused.retry_after, budget.available()), (503, Some(1), 2));
        drop(first);
        assert_eq!(budget.available(), 5);
        assert!(read_limited(None, frames(&["abc", "de"]), &limits).is_ok());
    }
}
