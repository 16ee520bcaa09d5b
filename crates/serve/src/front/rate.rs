//! Rate limits: N requests of a client per minute, all of them at once if it likes.
//!
//! A token bucket of N tokens that refills evenly is stored as one time, that at which it is full again (the generic cell rate
//! algorithm of ATM). A request advances it by a minute / N and is refused if that leads more than a minute ahead. Full
//! buckets carry no information and are dropped first when the table is full.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum clients in the table.
pub const MAX_CLIENTS: usize = 65_536;

const MINUTE: Duration = Duration::from_secs(60);

/// A client: the owner of a key, else an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Client {
    /// Name of an API key.
    Key(Arc<str>),
    /// An address; of IPv6 the first 64 bits, which one customer has.
    Address(IpAddr),
    /// The first 48 bits of IPv6 addresses, which one customer may have, too.
    Network(Ipv6Addr),
}

impl Client {
    /// The client at an address.
    pub fn from_address(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        })
    }

    /// Whose share it uses, each with the part of the share that this client may have (1 / divisor): the client, and of
    /// IPv6 its network.
    pub(super) fn shares(&self) -> impl Iterator<Item = (Self, usize)> {
        let network = self.network();
        let divisor = if network.is_some() { 2 } else { 1 };
        std::iter::once((self.clone(), divisor)).chain(network.map(|network| (network, 1)))
    }

    /// The network of an IPv6 address.
    pub fn network(&self) -> Option<Self> {
        match self {
            Self::Address(IpAddr::V6(address)) => {
                Some(Self::Network(Ipv6Addr::from_bits(address.to_bits() >> 80 << 80)))
            }
            _ => None,
        }
    }
}

/// The token buckets of all clients.
#[derive(Debug)]
pub struct RateLimiter {
    /// Time at which each client's bucket is full again.
    full_at: Mutex<HashMap<Client, Instant>>,
    most: usize,
}

impl Default for RateLimiter {
    fn default() -> Self {
        Self::with_capacity(MAX_CLIENTS)
    }
}

impl RateLimiter {
    /// A table of at most `most` clients.
    pub fn with_capacity(most: usize) -> Self {
        Self { full_at: Mutex::default(), most: most.max(1) }
    }

    /// Takes one of the client's `per_minute` tokens.
    ///
    /// # Errors
    /// If there is none: the whole seconds until there is one.
    pub fn take(&self, client: &Client, per_minute: u32, now: Instant) -> Result<(), u64> {
        let Some(interval) = MINUTE.checked_div(per_minute) else { return Err(MINUTE.as_secs()) };
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let full = full_at.get(client).map_or(now, |full| (*full).max(now)) + interval;
        let ahead = full - now;
        if ahead > MINUTE {
            let wait = ahead.saturating_sub(MINUTE);
            return Err(wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
        }
        if full_at.len() >= self.most && !full_at.contains_key(client) {
            make_room(&mut full_at, now);
        }
        full_at.insert(client.clone(), full);
        Ok(())
    }

    /// Gives a token back: the request turned out to be another client's.
    pub fn give_back(&self, client: &Client, per_minute: u32) {
        let Some(interval) = MINUTE.checked_div(per_minute) else { return };
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(full) = full_at.get_mut(client) {
            *full = full.checked_sub(interval).unwrap_or(*full);
        }
    }

    /// Number of clients in the table.
    pub fn len(&self) -> usize {
        self.full_at.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// True if the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Drops full buckets; if there are none, the eighth that is nearest to full, which spreads the work over many requests.
fn make_room(full_at: &mut HashMap<Client, Instant>, now: Instant) {
    let before = full_at.len();
    full_at.retain(|_, full| *full > now);
    if full_at.len() < before {
        return;
    }
    let mut times: Vec<Instant> = full_at.values().copied().collect();
    let last = (before / 8).min(before - 1);
    let (_, last, _) = times.select_nth_unstable(last);
    let last = *last;
    full_at.retain(|_, full| *full > last);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(name: &str) -> Client {
        Client::Key(name.into())
    }

    #[test]
    fn all_of_a_minute_at_once_then_one_by_one() {
        let limiter = RateLimiter::default();
        let begin = Instant::now();
        let after = |seconds: f64| begin + Duration::from_secs_f64(seconds);
        for _ in 0..6 {
            assert_eq!(limiter.take(&key("a"), 6, begin), Ok(()));
        }
        assert_eq!(limiter.take(&key("a"), 6, begin), Err(10));
        assert_eq!(limiter.take(&key("a"), 6, after(0.5)), Err(10));
        assert_eq!(limiter.take(&key("a"), 6, after(9.5)), Err(1));
        assert_eq!(limiter.take(&key("a"), 6, after(10.0)), Ok(()));
        assert_eq!(limiter.take(&key("a"), 6, after(10.0)), Err(10));
        // Another client has tokens of its own.
        assert_eq!(limiter.take(&key("b"), 6, begin), Ok(()));
        // After a long time the bucket is full again, and no more than full.
        for _ in 0..6 {
            assert_eq!(limiter.take(&key("a"), 6, after(1000.0)), Ok(()));
        }
        assert_eq!(limiter.take(&key("a"), 6, after(1000.0)), Err(10));
        assert_eq!(limiter.take(&key("c"), 0, begin), Err(60));
    }

    #[test]
    fn addresses_of_one_customer_are_one_client() {
        let client = |text: &str| Client::from_address(text.parse().unwrap());
        assert_eq!(client("2001:db8:1:2::1"), client("2001:db8:1:2:ffff::9"));
        assert_ne!(client("2001:db8:1:2::1"), client("2001:db8:1:3::1"));
        assert_eq!(client("::ffff:10.0.0.1"), client("10.0.0.1"));
        assert_ne!(client("10.0.0.2"), client("10.0.0.1"));
        assert_eq!(client("2001:db8:1:2::1").network(), client("2001:db8:1:3::1").network());
        assert_ne!(client("2001:db8:1:2::1").network(), client("2001:db8:2:2::1").network());
        assert_eq!(client("10.0.0.2").network(), None);
    }

    #[test]
    fn a_token_that_is_given_back_can_be_taken_again() {
        let (limiter, now) = (RateLimiter::default(), Instant::now());
        assert!(limiter.take(&key("a"), 1, now).is_ok() && limiter.take(&key("a"), 1, now).is_err());
        limiter.give_back(&key("a"), 1);
        assert!(limiter.take(&key("a"), 1, now).is_ok() && limiter.take(&key("a"), 1, now).is_err());
    }

    #[test]
    fn the_table_is_bounded_and_drops_quiet_clients_first() {
        let limiter = RateLimiter::with_capacity(100);
        let begin = Instant::now();
        for _ in 0..10 {
            assert!(limiter.take(&key("busy"), 10, begin).is_ok());
        }
        for index in 0..1000_u64 {
            let now = begin + Duration::from_millis(index);
            assert!(limiter.take(&key(&index.to_string()), 10, now).is_ok());
            assert!(limiter.len() <= 100);
        }
        assert!(limiter.take(&key("busy"), 10, begin + Duration::from_secs(1)).is_err(), "it was dropped");
        // A minute later all other buckets are full, and one new client removes them.
        limiter.take(&key("late"), 10, begin + Duration::from_secs(120)).unwrap();
        assert!(limiter.len() < 100);
        let one = RateLimiter::with_capacity(1);
        assert!(one.take(&key("a"), 1, begin).is_ok() && one.take(&key("b"), 1, begin).is_ok());
        assert_eq!(one.len(), 1);
    }

    proptest! {
        #[test]
        fn no_minute_has_more_than_twice_the_rate(
            per_minute in 1..50_u32,
            gaps in prop::collection::vec(0..5000_u64, 1..300),
        ) {
            let limiter = RateLimiter::default();
            let begin = Instant::now();
            let mut now = begin;
            let mut allowed: Vec<Instant> = Vec::new();
            for gap in gaps {
                now += Duration::from_millis(gap);
                match limiter.take(&key("a"), per_minute, now) {
                    Ok(()) => allowed.push(now),
                    // A client that waits as told is admitted.
                    Err(seconds) => prop_assert!((1..=60).contains(&seconds)),
                }
                let within = allowed.iter().filter(|time| now - **time < MINUTE).count();
                prop_assert!(within <= 2 * per_minute as usize);
            }
            let total = allowed.len() as f64;
            let minutes = (now - begin).as_secs_f64() / 60.0;
            prop_assert!(total <= f64::from(per_minute) * (1.0 + minutes) + 1e-6);
        }

        #[test]
        fn a_client_that_waits_as_told_is_admitted(per_minute in 1..200_u32, count in 1..300_usize) {
            let limiter = RateLimiter::default();
            let mut now = Instant::now();
            for _ in 0..count {
                if let Err(seconds) = limiter.take(&key("a"), per_minute, now) {
                    now += Duration::from_secs(seconds);
                    prop_assert_eq!(limiter.take(&key("a"), per_minute, now), Ok(()));
                }
            }
        }
    }
}
