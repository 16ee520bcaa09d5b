//! Who is let in: by a key, or by an address; so often in a minute.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};
use std::time::Instant;

use axum::http::request::Parts;
use axum::http::{StatusCode, header};

use super::routes::KeyRule;
use crate::Error;
use crate::front::fields::Fields;
use crate::front::keys::{Key, Keys};
use crate::front::listen::Peer;
use crate::front::log::{Asker, Visitors};
use crate::front::rate::{Client, Rates};
use crate::front::{Refusal, client};

/// Who is let in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateOptions {
    /// A file of keys; none.
    pub keys: Option<PathBuf>,
    /// Whether a key is needed where there are keys; then nothing is translated without one. No.
    pub are_required: bool,
    /// Requests of a client in a minute, unless its key says another number; any number.
    pub per_minute: Option<u32>,
    /// Addresses of proxies that are believed when they say whom they were asked by; none.
    pub trusted_proxies: Vec<IpAddr>,
}

/// Keys and rates.
#[derive(Debug)]
pub(super) struct Gate {
    keys: RwLock<Keys>,
    rates: Rates,
    options: GateOptions,
}

impl Gate {
    pub(super) fn open(options: GateOptions) -> Result<Self, Error> {
        let keys = RwLock::new(read(&options)?);
        Ok(Self { keys, rates: Rates::default(), options })
    }

    /// Reads the keys again; they stay as they were where that fails. How many there are.
    pub(super) fn reload(&self) -> Result<usize, Error> {
        let keys = read(&self.options)?;
        let count = keys.len();
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        Ok(count)
    }

    pub(super) fn rule(&self) -> KeyRule {
        match (&self.options.keys, self.options.are_required) {
            (None, _) => KeyRule::None,
            (Some(_), false) => KeyRule::Optional,
            (Some(_), true) => KeyRule::Required,
        }
    }

    /// Lets a request in and says who asks.
    pub(super) fn admit(&self, parts: &Parts, fields: &Fields) -> Result<Client, Refusal> {
        let key = self.key(parts, fields)?;
        let address = self.address(parts);
        if let Some(visitors) = parts.extensions.get::<Visitors>() {
            visitors.note(Asker { key: key.as_ref().map(|key| key.name.clone()), address });
        }
        let client = match &key {
            Some(key) => Client::Key(key.name.clone()),
            None => Client::of_address(address),
        };
        let per_minute = key.and_then(|key| key.per_minute).or(self.options.per_minute);
        if let Some(per_minute) = per_minute {
            self.rates.take(&client, per_minute, Instant::now()).map_err(|seconds| {
                let error = format!("more than {per_minute} requests in a minute");
                Refusal::new(StatusCode::TOO_MANY_REQUESTS, error, format!("come again in {seconds} s"))
                    .after(seconds)
            })?;
        }
        Ok(client)
    }

    /// The client's address; behind proxies not theirs.
    fn address(&self, parts: &Parts) -> IpAddr {
        let peer = parts.extensions.get::<Peer>().map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0.ip());
        client::address(peer, &parts.headers, &self.options.trusted_proxies)
    }

    /// Whose key was sent, if any.
    fn key(&self, parts: &Parts, fields: &Fields) -> Result<Option<Key>, Refusal> {
        let refused = |error: &str| {
            Err(Refusal::new(StatusCode::FORBIDDEN, error, "send a key of this server as api_key"))
        };
        let header = |name: header::HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = header(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let sent = fields.text("api_key")?.or(bearer).filter(|key| !key.is_empty());
        match (sent, self.rule()) {
            // Clients may send a key that another server asked for.
            (_, KeyRule::None) | (None, KeyRule::Optional) => Ok(None),
            (None, KeyRule::Required) => refused("no key, expected one"),
            (Some(sent), _) => {
                let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
                keys.find(sent).map_or_else(
                    || refused("an unknown key, expected one of this server"),
                    |key| Ok(Some(key.clone())),
                )
            }
        }
    }
}

fn read(options: &GateOptions) -> Result<Keys, Error> {
    options.keys.as_ref().map_or_else(|| Ok(Keys::default()), Keys::load)
}
