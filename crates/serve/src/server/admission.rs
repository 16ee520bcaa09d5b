//! Admission of requests: API keys, and a rate limit per key or address.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};
use std::time::Instant;

use axum::http::request::Parts;
use axum::http::{StatusCode, header};

use super::routes::KeyPolicy;
use crate::Error;
use crate::front::fields::Fields;
use crate::front::keys::{Key, Keys};
use crate::front::listen::Peer;
use crate::front::log::{ClientSlot, LoggedClient};
use crate::front::rate::{Client, RateLimiter};
use crate::front::{ErrorResponse, client};

/// Options of API keys and rate limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdmissionOptions {
    /// File of API keys; default: none.
    pub keys: Option<PathBuf>,
    /// True if requests without a key are refused; default: false.
    pub keys_required: bool,
    /// Requests of a client per minute, unless its key sets another rate; default: no limit.
    pub per_minute: Option<u32>,
    /// Addresses of proxies whose `X-Forwarded-For` is trusted; default: none.
    pub trusted_proxies: Vec<IpAddr>,
}

/// The loaded keys, and the rate limiter.
#[derive(Debug)]
pub(super) struct Admission {
    keys: RwLock<Keys>,
    limiter: RateLimiter,
    options: AdmissionOptions,
}

impl Admission {
    pub(super) fn open(options: AdmissionOptions) -> Result<Self, Error> {
        let keys = RwLock::new(read(&options)?);
        Ok(Self { keys, limiter: RateLimiter::default(), options })
    }

    /// Reloads the keys and returns their number; keeps the old ones on failure.
    pub(super) fn reload(&self) -> Result<usize, Error> {
        let keys = read(&self.options)?;
        let count = keys.len();
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        Ok(count)
    }

    pub(super) fn policy(&self) -> KeyPolicy {
        match (&self.options.keys, self.options.keys_required) {
            (None, _) => KeyPolicy::None,
            (Some(_), false) => KeyPolicy::Optional,
            (Some(_), true) => KeyPolicy::Required,
        }
    }

    /// Checks key and rate of a request, and returns its client.
    pub(super) fn admit(&self, parts: &Parts, fields: &Fields) -> Result<Client, ErrorResponse> {
        let key = self.key(parts, fields)?;
        let address = self.address(parts);
        if let Some(slot) = parts.extensions.get::<ClientSlot>() {
            slot.set(LoggedClient { key: key.as_ref().map(|key| key.name.clone()), address });
        }
        let client = match &key {
            Some(key) => Client::Key(key.name.clone()),
            None => Client::from_address(address),
        };
        let per_minute = key.and_then(|key| key.per_minute).or(self.options.per_minute);
        if let Some(per_minute) = per_minute {
            self.limiter.take(&client, per_minute, Instant::now()).map_err(|seconds| {
                let error = format!("more than {per_minute} requests in a minute");
                ErrorResponse::new(StatusCode::TOO_MANY_REQUESTS, error, format!("try again in {seconds} s"))
                    .after(seconds)
            })?;
        }
        Ok(client)
    }

    /// The client's own address, also behind trusted proxies.
    fn address(&self, parts: &Parts) -> IpAddr {
        let peer = parts.extensions.get::<Peer>().map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0.ip());
        client::address(peer, &parts.headers, &self.options.trusted_proxies)
    }

    /// The entry of the key that was sent, if any.
    fn key(&self, parts: &Parts, fields: &Fields) -> Result<Option<Key>, ErrorResponse> {
        let refused = |error: &str| {
            Err(ErrorResponse::new(StatusCode::FORBIDDEN, error, "send a key of this server as api_key"))
        };
        let header = |name: header::HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = header(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let sent = fields.text("api_key")?.or(bearer).filter(|key| !key.is_empty());
        match (sent, self.policy()) {
            // Clients may send a key that is meant for another server.
            (_, KeyPolicy::None) | (None, KeyPolicy::Optional) => Ok(None),
            (None, KeyPolicy::Required) => refused("no API key, expected one"),
            (Some(sent), _) => {
                let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
                keys.find(sent).map_or_else(
                    || refused("unknown API key, expected one of this server"),
                    |key| Ok(Some(key.clone())),
                )
            }
        }
    }
}

fn read(options: &AdmissionOptions) -> Result<Keys, Error> {
    options.keys.as_ref().map_or_else(|| Ok(Keys::default()), Keys::load)
}
