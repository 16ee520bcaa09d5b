//! The memory budget: every byte that waits for a client is reserved here first: connections, request bodies, parsed
//! requests, queued sentences, answers that are not read yet, stored files, and what the explorer computes.
//!
//! A client may hold at most as much as it leaves free for all others (the dynamic threshold of Choudhury & Hahne, 1998):
//! one client alone gets half of the budget, and n hostile ones leave 1 / (n + 1) of it. Of IPv6, the first 48 bits have
//! the share of a client, and each network of 64 bits within them half of that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use axum::http::StatusCode;

use super::error_response::ErrorResponse;
use super::rate::Client;

/// Memory of all that waits, with a share for each client.
#[derive(Debug)]
pub struct MemoryBudget(Mutex<State>);

#[derive(Debug)]
struct State {
    limit: usize,
    used: usize,
    by_client: HashMap<Client, usize>,
}

/// The limit that a reservation would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutOfMemory {
    /// All clients together.
    Total,
    /// The share of this client.
    Client,
}

impl MemoryBudget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self(Mutex::new(State { limit, used: 0, by_client: HashMap::new() }))
    }

    /// Replaces the limit; what is reserved stays reserved.
    pub fn set_limit(&self, limit: usize) {
        self.lock().limit = limit;
    }

    /// Bytes of the whole budget.
    pub fn limit(&self) -> usize {
        self.lock().limit
    }

    /// Bytes that are reserved.
    pub fn used(&self) -> usize {
        self.lock().used
    }

    /// An empty reservation of a client.
    pub fn open(self: &Arc<Self>, client: &Client) -> MemoryReservation {
        MemoryReservation { budget: self.clone(), client: client.clone(), bytes: 0 }
    }

    /// Reserves bytes for a client.
    ///
    /// # Errors
    /// If all clients, or this one, hold too much.
    pub fn reserve(
        self: &Arc<Self>,
        client: &Client,
        bytes: usize,
    ) -> Result<MemoryReservation, OutOfMemory> {
        let mut reservation = self.open(client);
        reservation.grow(bytes)?;
        Ok(reservation)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Checks that a client may hold `bytes` more.
    fn check(&self, client: &Client, bytes: usize) -> Result<(), OutOfMemory> {
        let used = self.used.checked_add(bytes).ok_or(OutOfMemory::Total)?;
        let free = self.limit.checked_sub(used).ok_or(OutOfMemory::Total)?;
        for (share, divisor) in client.shares() {
            let own = self.by_client.get(&share).copied().unwrap_or(0) + bytes;
            if own > free / divisor {
                return Err(OutOfMemory::Client);
            }
        }
        Ok(())
    }

    fn add(&mut self, client: &Client, bytes: usize) {
        self.used += bytes;
        for (share, _) in client.shares() {
            *self.by_client.entry(share).or_default() += bytes;
        }
    }

    fn remove(&mut self, client: &Client, bytes: usize) {
        self.used -= bytes;
        for (share, _) in client.shares() {
            if let Some(own) = self.by_client.get_mut(&share) {
                *own -= bytes;
                if *own == 0 {
                    self.by_client.remove(&share);
                }
            }
        }
    }
}

/// Bytes of a client in a [`MemoryBudget`], returned on drop.
#[derive(Debug)]
pub struct MemoryReservation {
    budget: Arc<MemoryBudget>,
    client: Client,
    bytes: usize,
}

impl MemoryReservation {
    /// Reserved bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The most that a client can ever hold, beside nobody else.
    pub fn largest(&self) -> usize {
        self.budget.limit() / 2
    }

    /// Reserves more bytes.
    ///
    /// # Errors
    /// If all clients, or this one, hold too much.
    pub fn grow(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let mut state = self.budget.lock();
        state.check(&self.client, bytes)?;
        state.add(&self.client, bytes);
        self.bytes += bytes;
        Ok(())
    }

    /// Changes the reservation to `bytes`.
    ///
    /// # Errors
    /// If that is more, and all clients, or this one, hold too much.
    pub fn resize(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        if bytes > self.bytes {
            return self.grow(bytes - self.bytes);
        }
        self.set(bytes);
        Ok(())
    }

    /// Moves the reservation to another client, which a key in the body names, whatever that one holds.
    pub fn give_to(&mut self, client: &Client) {
        let mut state = self.budget.lock();
        state.remove(&self.client, self.bytes);
        state.add(client, self.bytes);
        drop(state);
        self.client = client.clone();
    }

    /// The bytes of an answer, which exist already and are counted until the last of them is sent.
    pub fn counted(mut self, bytes: impl Into<Vec<u8>>) -> Bytes {
        let bytes = bytes.into();
        self.set(bytes.capacity());
        Bytes::from_owner(CountedBytes { bytes, _reservation: self })
    }

    fn set(&mut self, bytes: usize) {
        let mut state = self.budget.lock();
        state.remove(&self.client, self.bytes);
        state.add(&self.client, bytes);
        self.bytes = bytes;
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.budget.lock().remove(&self.client, self.bytes);
    }
}

/// Bytes with their reservation.
struct CountedBytes {
    bytes: Vec<u8>,
    _reservation: MemoryReservation,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<OutOfMemory> for ErrorResponse {
    fn from(found: OutOfMemory) -> Self {
        match found {
            OutOfMemory::Total => {
                let error = "the memory for requests and answers is full";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, error, "try again in 1 s").after(1)
            }
            OutOfMemory::Client => {
                let error = "requests and unread answers of this client fill its share of the memory";
                let hint = "read the answers, or send less at once; try again in 1 s";
                Self::new(StatusCode::TOO_MANY_REQUESTS, error, hint).after(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(address: &str) -> Client {
        Client::from_address(address.parse().unwrap())
    }

    #[test]
    fn a_client_leaves_as_much_as_it_takes() {
        let budget = Arc::new(MemoryBudget::new(1000));
        let mut first = budget.reserve(&at("10.0.0.1"), 500).unwrap();
        assert_eq!(first.grow(1), Err(OutOfMemory::Client));
        let second = budget.reserve(&at("10.0.0.2"), 250).unwrap();
        assert_eq!(budget.reserve(&at("10.0.0.3"), 126).unwrap_err(), OutOfMemory::Client);
        assert_eq!(budget.reserve(&at("10.0.0.3"), 251).unwrap_err(), OutOfMemory::Total);
        let third = budget.reserve(&at("10.0.0.3"), 125).unwrap();
        assert_eq!(budget.used(), 875);
        drop((first, second, third));
        assert_eq!(budget.used(), 0);
        assert!(budget.lock().by_client.is_empty());
    }

    #[test]
    fn a_network_of_ipv6_has_the_share_of_a_client() {
        let budget = Arc::new(MemoryBudget::new(1000));
        let first = budget.reserve(&at("2001:db8:1:1::1"), 333).unwrap();
        assert_eq!(budget.reserve(&at("2001:db8:1:1::2"), 100).unwrap_err(), OutOfMemory::Client);
        assert_eq!(
            budget.reserve(&at("2001:db8:1:2::1"), 170).unwrap_err(),
            OutOfMemory::Client,
            "the same /48"
        );
        let second = budget.reserve(&at("2001:db8:1:2::1"), 150).unwrap();
        let other = budget.reserve(&at("2001:db8:2:1::1"), 150).unwrap();
        drop((first, second, other));
        assert!(budget.lock().by_client.is_empty());
    }

    #[test]
    fn an_answer_counts_until_its_last_byte_is_dropped() {
        let budget = Arc::new(MemoryBudget::new(100));
        let reservation = budget.reserve(&at("10.0.0.1"), 50).unwrap();
        let bytes = reservation.counted(vec![1; 20]);
        let part = bytes.slice(5..6);
        drop(bytes);
        assert_eq!((budget.used(), &part[..]), (20, &[1][..]));
        drop(part);
        assert_eq!(budget.used(), 0);
    }

    proptest! {
        /// Whatever is reserved, resized, moved and dropped: the sum is right, and a new client finds room.
        #[test]
        fn counts_add_up(steps in prop::collection::vec((0_u8..4, 0_u8..4, 0_usize..600), 0..80)) {
            let budget = Arc::new(MemoryBudget::new(1000));
            let mut held: Vec<MemoryReservation> = Vec::new();
            for (kind, client, bytes) in steps {
                let client = at(&format!("10.0.0.{client}"));
                match kind {
                    0 | 1 => held.extend(budget.reserve(&client, bytes)),
                    2 => drop(held.pop()),
                    _ => {
                        if let Some(last) = held.last_mut() {
                            let _ = last.resize(bytes);
                        }
                    }
                }
                let sum: usize = held.iter().map(MemoryReservation::bytes).sum();
                prop_assert_eq!(budget.used(), sum);
                prop_assert!(sum <= 1000);
            }
            prop_assert!(budget.used() == 1000 || budget.reserve(&at("10.0.0.9"), (1000 - budget.used()) / 2).is_ok());
        }
    }
}
