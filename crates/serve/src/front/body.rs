//! Reads a whole request body up to a limit, within the memory budget and its client's share of it.

use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::{HeaderMap, StatusCode, header};

use super::budget::{MemoryBudget, MemoryReservation};
use super::error_response::ErrorResponse;
use super::rate::Client;
use super::timed::BodyTimeout;

/// Limits on request bodies.
#[derive(Debug, Clone)]
pub struct BodyLimits {
    /// Bytes of one body; default: 1 MiB.
    pub body: usize,
    /// Memory budget of all that waits; default: 128 MiB.
    pub budget: Arc<MemoryBudget>,
    /// The client that sends the body; default: an unknown address.
    pub client: Client,
}

impl Default for BodyLimits {
    fn default() -> Self {
        let client = Client::from_address(std::net::Ipv4Addr::UNSPECIFIED.into());
        Self { body: 1 << 20, budget: Arc::new(MemoryBudget::new(128 << 20)), client }
    }
}

/// The bytes of a body, and their memory reservation, to be kept as long as the bytes.
///
/// # Errors
/// 413 for more bytes than the limit: before anything is read if `Content-Length` says so, else as soon as they arrive.
/// 429 or 503 if the client's share or the whole budget is used up, 408 for a body that is too slow, 400 for an incomplete one.
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
    let mut reservation = limits.budget.open(&limits.client);
    // A body without a length grows by doubling.
    let growth = if length == 0 { 2 } else { 1 };
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame.map_err(|error| broken(&error))?.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Err(too_large("a larger body", limit));
        }
        reservation.grow(growth * data.len())?;
        // Most bodies arrive in one frame.
        if bytes.is_empty() && body.is_end_stream() {
            return Ok((data, reservation));
        }
        if bytes.is_empty() {
            // Memory that is not written to costs nothing yet.
            bytes.reserve_exact(length as usize);
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
    fn bodies_share_a_budget_and_return_their_part() {
        let budget = Arc::new(MemoryBudget::new(12));
        let limits = BodyLimits { body: 10, budget: budget.clone(), ..BodyLimits::default() };
        let first = read_limited(None, frames(&["ab", "c"]), &limits).unwrap();
        assert_eq!(budget.used(), 6, "twice the bytes of a body without a length");
        let refused = read_limited(None, frames(&["a", "bc"]), &limits).unwrap_err();
        assert_eq!((refused.status.as_u16(), refused.retry_after, budget.used()), (429, Some(1), 6));
        let client = Client::Key("another".into());
        let other = BodyLimits { client, ..limits.clone() };
        assert!(read_limited(Some("3"), frames(&["abc"]), &other).is_ok());
        drop(first);
        assert_eq!(budget.used(), 0);
        assert!(read_limited(None, frames(&["ab", "c"]), &limits).is_ok());
    }
}
