//! Admission of requests: API keys, and a rate limit per key or address.
//!
//! The head of a request is enough for its rate, and for a key in it: nothing of the body has been read then. LibreTranslate's
//! clients send their key in the body; their requests pay with the rate and the memory of their address until it is found.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};
use std::time::Instant;

use axum::http::request::Parts;
use axum::http::{StatusCode, header};

use super::routes::{Entry, Gate, KeyPolicy};
use crate::Error;
use crate::front::keys::{Key, Keys};
use crate::front::listen::Peer;
use crate::front::log::ClientSlot;
use crate::front::rate::{Client, RateLimiter};
use crate::front::{ErrorResponse, client, form};

/// Clients whose rates together are the rate of an IPv6 network of 48 bits.
const NETWORK_CLIENTS: u32 = 16;

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

    /// Takes a token of a client, and of its network.
    fn take(&self, client: &Client, per_minute: Option<u32>) -> Result<(), ErrorResponse> {
        let Some(per_minute) = per_minute else { return Ok(()) };
        let networks = client.network().map(|network| (network, per_minute.saturating_mul(NETWORK_CLIENTS)));
        for (client, per_minute) in std::iter::once((client.clone(), per_minute)).chain(networks) {
            self.limiter.take(&client, per_minute, Instant::now()).map_err(|seconds| {
                let error = format!("more than {per_minute} requests in a minute");
                ErrorResponse::new(StatusCode::TOO_MANY_REQUESTS, error, format!("try again in {seconds} s"))
                    .after(seconds)
            })?;
        }
        Ok(())
    }

    /// Takes the token of a key, and gives that of the address back.
    fn take_key(&self, key: &Key, address: &Client) -> Result<Client, ErrorResponse> {
        if let Some(per_minute) = self.options.per_minute {
            self.limiter.give_back(address, per_minute);
        }
        let client = Client::Key(key.name.clone());
        self.take(&client, key.per_minute.or(self.options.per_minute))?;
        Ok(client)
    }

    /// The client's own address, also behind trusted proxies.
    fn address(&self, parts: &Parts) -> IpAddr {
        let peer = parts.extensions.get::<Peer>().map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0.ip());
        client::address(peer, &parts.headers, &self.options.trusted_proxies)
    }

    /// The entry of a key.
    fn find(&self, sent: &str) -> Result<Key, ErrorResponse> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.find(sent).cloned().ok_or_else(|| refused("unknown API key, expected one of this server"))
    }
}

impl Gate for Admission {
    fn enter(&self, parts: &Parts) -> Result<Entry, ErrorResponse> {
        let address = self.address(parts);
        let by_address = Client::from_address(address);
        // Whoever tries keys pays with the rate of its address.
        self.take(&by_address, self.options.per_minute)?;
        let slot = parts.extensions.get::<ClientSlot>().cloned();
        let mut entry = Entry { client: by_address.clone(), address: by_address, slot, logged: address };
        // Clients may send a key that is meant for another server.
        if self.policy() != KeyPolicy::None
            && let Some(sent) = key_of_head(parts)
        {
            entry.client = self.take_key(&self.find(&sent)?, &entry.address)?;
        }
        entry.log();
        Ok(entry)
    }

    fn admit(&self, mut entry: Entry, sent: Option<&str>) -> Result<Client, ErrorResponse> {
        let sent = sent.filter(|key| !key.is_empty());
        if let Some(sent) = sent.filter(|_| self.policy() != KeyPolicy::None) {
            let key = self.find(sent)?;
            if entry.client != Client::Key(key.name.clone()) {
                entry.client = self.take_key(&key, &entry.address)?;
                entry.log();
            }
        }
        if self.policy() == KeyPolicy::Required && entry.client == entry.address {
            return Err(refused("no API key, expected one"));
        }
        Ok(entry.client)
    }
}

/// The key in the head of a request: `Authorization: Bearer KEY`, or `api_key` in the query.
fn key_of_head(parts: &Parts) -> Option<String> {
    let header = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = header.and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim().to_owned())
    });
    let query = || form::query_value(parts.uri.query()?, "api_key");
    bearer.filter(|key| !key.is_empty()).or_else(query).filter(|key| !key.is_empty())
}

fn refused(error: &str) -> ErrorResponse {
    ErrorResponse::new(StatusCode::FORBIDDEN, error, "send a key of this server as api_key")
}

fn read(options: &AdmissionOptions) -> Result<Keys, Error> {
    options.keys.as_ref().map_or_else(|| Ok(Keys::default()), Keys::load)
}
