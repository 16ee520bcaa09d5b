//! Turns of clients in a running batch: who comes next, and who makes room.
//!
//! As in the queue of sentences (`queue.rs`), each client has a virtual time, the work it was given so far. Here it is charged
//! while it is done: a prompt when it begins, then every token. The client with the least time is next, and if there is no
//! room, one that is ahead of it by a turn gives up a row. So clients get equal shares of the batch, whatever they ask for,
//! and a client alone gets all of it.

use std::collections::{HashMap, VecDeque};

use crate::front::rate::Client;
use crate::server::queue::QueueFull;

/// Work by which a client must be ahead of another to make room for it. It bounds how often rows change.
const TURN: u64 = 64;
/// Clients whose virtual time is remembered while they have nothing to do.
const MAX_PAST: usize = 4096;

/// The clients of a running batch, with what waits.
#[derive(Debug)]
pub(super) struct Turns<T> {
    clients: Vec<ClientTurns<T>>,
    waiting: usize,
    /// Maximum number of items that wait.
    capacity: usize,
    /// Virtual time: the least of the clients that have something to do.
    now: u64,
    /// Virtual times ahead of the present of clients that have nothing to do.
    past: HashMap<Client, u64>,
}

#[derive(Debug)]
struct ClientTurns<T> {
    client: Client,
    items: VecDeque<T>,
    /// Its rows in the batch.
    running: usize,
    time: u64,
}

impl<T> Turns<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { clients: Vec::new(), waiting: 0, capacity, now: 0, past: HashMap::new() }
    }

    /// Number of items that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Adds all items of a client; adds none if there is no room. A client may have half of it.
    pub(super) fn push(&mut self, client: &Client, items: Vec<T>) -> Result<(), QueueFull> {
        if self.waiting + items.len() > self.capacity {
            return Err(QueueFull::Total(self.waiting));
        }
        let own = self.clients.iter().find(|own| own.client == *client).map_or(0, |own| own.items.len());
        if own + items.len() > self.capacity.div_ceil(2) {
            return Err(QueueFull::Client(own));
        }
        self.waiting += items.len();
        self.entry(client).items.extend(items);
        Ok(())
    }

    /// The first item of the client whose turn it is. It runs until [`Self::finish`] or [`Self::put_back`].
    pub(super) fn next(&mut self) -> Option<(Client, T)> {
        let client =
            self.clients.iter_mut().filter(|own| !own.items.is_empty()).min_by_key(|own| own.time)?;
        let item = client.items.pop_front()?;
        client.running += 1;
        self.waiting -= 1;
        Some((client.client.clone(), item))
    }

    /// Charges a client for work.
    pub(super) fn charge(&mut self, client: &Client, work: u64) {
        if let Some(own) = self.clients.iter_mut().find(|own| own.client == *client) {
            own.time += work;
        }
    }

    /// A client with rows that is a turn ahead of the next one that waits.
    pub(super) fn ahead(&self) -> Option<Client> {
        let next = self.clients.iter().filter(|own| !own.items.is_empty()).map(|own| own.time).min()?;
        let most = self.clients.iter().filter(|own| own.running > 0).max_by_key(|own| own.time)?;
        (most.time > next + TURN).then(|| most.client.clone())
    }

    /// Puts an item that ran back in front of its client's others.
    pub(super) fn put_back(&mut self, client: &Client, item: T) {
        let own = self.entry(client);
        own.running = own.running.saturating_sub(1);
        own.items.push_front(item);
        self.waiting += 1;
    }

    /// Ends an item that ran.
    pub(super) fn finish(&mut self, client: &Client) {
        let own = self.entry(client);
        own.running = own.running.saturating_sub(1);
        self.settle();
    }

    /// Removes and returns waiting items that nobody wants any more.
    pub(super) fn drop_abandoned(&mut self, is_abandoned: impl Fn(&T) -> bool) -> Vec<T> {
        let mut gone = Vec::new();
        for own in &mut self.clients {
            // Most queues have none.
            if own.items.iter().any(&is_abandoned) {
                let (lost, kept) = std::mem::take(&mut own.items).into_iter().partition(&is_abandoned);
                own.items = kept;
                gone.extend::<VecDeque<T>>(lost);
            }
        }
        self.waiting -= gone.len();
        self.settle();
        gone
    }

    fn entry(&mut self, client: &Client) -> &mut ClientTurns<T> {
        self.settle();
        let index = self.clients.iter().position(|own| own.client == *client).unwrap_or_else(|| {
            let time = self.past.remove(client).unwrap_or(0).max(self.now);
            let (client, items) = (client.clone(), VecDeque::new());
            self.clients.push(ClientTurns { client, items, running: 0, time });
            self.clients.len() - 1
        });
        &mut self.clients[index]
    }

    /// Advances the present and forgets clients that have nothing to do, except their times ahead of it.
    fn settle(&mut self) {
        let Self { clients, past, now, .. } = self;
        let is_busy = |own: &ClientTurns<T>| !own.items.is_empty() || own.running > 0;
        if let Some(least) = clients.iter().filter(|own| is_busy(own)).map(|own| own.time).min() {
            *now = least.max(*now);
        }
        clients.retain(|own| {
            if !is_busy(own) && own.time > *now {
                past.insert(own.client.clone(), own.time);
            }
            is_busy(own)
        });
        if past.len() > MAX_PAST {
            past.retain(|_, time| *time > *now);
            if past.len() > MAX_PAST {
                past.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(name: &str) -> Client {
        Client::Key(name.into())
    }

    /// Runs a batch of `rows` rows for `steps` steps, each item forever; the tokens of each client.
    fn shares(clients: &[(&str, usize)], rows: usize, steps: usize) -> Vec<usize> {
        let mut turns = Turns::new(1000);
        for (name, items) in clients {
            turns.push(&named(name), vec![(); *items]).unwrap();
        }
        let (mut running, mut tokens) = (Vec::new(), vec![0; clients.len()]);
        for _ in 0..steps {
            while running.len() < rows
                && let Some((client, ())) = turns.next()
            {
                running.push(client);
            }
            while let Some(client) = turns.ahead() {
                let row = running.iter().rposition(|own| *own == client).unwrap();
                running.remove(row);
                turns.put_back(&client, ());
                running.extend(turns.next().map(|(client, ())| client));
            }
            for client in &running {
                turns.charge(client, 1);
                tokens[clients.iter().position(|(name, _)| named(name) == *client).unwrap()] += 1;
            }
        }
        tokens
    }

    #[test]
    fn clients_get_equal_shares_of_a_batch_and_one_alone_gets_all_of_it() {
        assert_eq!(shares(&[("a", 50)], 8, 100), [800]);
        for items in [[100, 100, 100], [300, 8, 20]] {
            let found = shares(&[("a", items[0]), ("b", items[1]), ("c", items[2])], 8, 600);
            assert!(found.iter().all(|tokens| tokens.abs_diff(1600) < 150), "{found:?}");
        }
        // A client with one sequence has it in every step, after its first turn.
        let found = shares(&[("many", 100), ("one", 1)], 4, 400);
        assert!(found[1] > 300 && found[0] + found[1] == 1600, "{found:?}");
        // More clients than rows take turns.
        let names: Vec<String> = (0..10).map(|index| index.to_string()).collect();
        let clients: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 2)).collect();
        let found = shares(&clients, 4, 2000);
        assert!(found.iter().all(|tokens| tokens.abs_diff(800) < 150), "{found:?}");
    }

    #[test]
    fn nobody_saves_up_turns() {
        let mut turns = Turns::new(10);
        turns.push(&named("a"), vec![1, 2]).unwrap();
        assert_eq!(turns.next(), Some((named("a"), 1)));
        turns.charge(&named("a"), 1000);
        // Another that comes now has no more to make up for than what is done from now on.
        turns.push(&named("b"), vec![3, 4]).unwrap();
        assert_eq!(turns.ahead(), None);
        turns.charge(&named("a"), TURN + 1);
        assert_eq!(turns.ahead(), Some(named("a")));
        turns.put_back(&named("a"), 1);
        assert_eq!((turns.next(), turns.ahead()), (Some((named("b"), 3)), None));
        turns.charge(&named("b"), 990);
        turns.finish(&named("b"));
        assert_eq!(turns.next(), Some((named("a"), 1)), "it was first");
        assert_eq!(turns.drop_abandoned(|item| *item == 4), [4]);
        assert_eq!(turns.waiting(), 1);
        // What a client was given stays known while it has nothing to do.
        turns.push(&named("c"), vec![5]).unwrap();
        turns.push(&named("b"), vec![6]).unwrap();
        let order: Vec<i32> = std::iter::from_fn(|| turns.next()).map(|(_, item)| item).collect();
        assert_eq!(order, [2, 5, 6]);
    }

    #[test]
    fn a_client_may_fill_half_of_the_queue() {
        let mut turns = Turns::new(4);
        turns.push(&named("a"), vec![(); 2]).unwrap();
        assert_eq!(turns.push(&named("a"), vec![()]), Err(QueueFull::Client(2)));
        turns.push(&named("b"), vec![(); 1]).unwrap();
        assert_eq!(turns.push(&named("c"), vec![(); 2]), Err(QueueFull::Total(3)));
        assert_eq!(turns.waiting(), 3);
    }

    proptest! {
        /// Every item comes out once, those of a client in order.
        #[test]
        fn everything_comes_out_once(items in prop::collection::vec((0_u8..4, 0_u64..100), 0..60)) {
            let mut turns = Turns::new(1000);
            for (number, (client, _)) in items.iter().enumerate() {
                turns.push(&named(&client.to_string()), vec![number]).unwrap();
            }
            let mut found = Vec::new();
            while let Some((client, number)) = turns.next() {
                turns.charge(&client, items[number].1);
                turns.finish(&client);
                prop_assert_eq!(&client, &named(&items[number].0.to_string()));
                found.push(number);
            }
            for client in 0..4 {
                prop_assert!(found.iter().filter(|&&number| items[number].0 == client).is_sorted());
            }
            found.sort_unstable();
            prop_assert_eq!(found, (0..items.len()).collect::<Vec<_>>());
        }
    }
}
