//! The queue: sentences of many clients, taken round-robin and joined into batches.
//!
//! Each client has a queue of its own. A batch takes some sentences of every client in turn, so a client with a book does
//! not block one with a single sentence. Only sentences with the same model and options share a batch; the sentence that is
//! next in turn decides which. A batch takes one worker's share of the queue and at most `batch_tokens`: so all workers have
//! something to do, and batches grow with the queue.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::front::rate::Client;

/// Options of the queue and its batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueOptions {
    /// Sentences that may wait; default: 4096.
    pub(crate) waiting: usize,
    /// Tokens of a batch; default: 256.
    pub(crate) batch_tokens: usize,
    /// Time that a sentence waits for others while a worker is free; default: 0.2 ms.
    pub(crate) window: Duration,
    /// Workers that take batches at the same time; default: 1.
    pub(crate) workers: usize,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self { waiting: 4096, batch_tokens: 256, window: Duration::from_micros(200), workers: 1 }
    }
}

/// Smallest share of a worker, in tokens: batches are not split further just to occupy every worker.
const MIN_SHARE_TOKENS: usize = 64;
/// Tokens that a client gives before it is the next client's turn.
const TURN_TOKENS: usize = 64;

/// An item of the queue.
pub(crate) trait QueueItem {
    /// Items with equal keys may share a batch.
    type BatchKey: PartialEq;

    fn batch_key(&self) -> Self::BatchKey;
    /// Length in tokens.
    fn tokens(&self) -> usize;
    /// True if the request was cancelled.
    fn is_abandoned(&self) -> bool;
}

/// A queue from which several worker threads take batches.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    options: QueueOptions,
}

#[derive(Debug)]
struct State<T> {
    clients: VecDeque<ClientQueue<T>>,
    waiting: usize,
    tokens: usize,
    /// Time since which the oldest item has waited for others to share its batch; none if it has waited long enough.
    since: Option<Instant>,
    is_closed: bool,
}

#[derive(Debug)]
struct ClientQueue<T> {
    client: Client,
    items: VecDeque<T>,
}

/// The limit that refused items exceed, with the number of items that wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum QueueFull {
    /// All clients together.
    Total(usize),
    /// This client, which may take half of the queue.
    Client(usize),
}

impl<T: QueueItem> Queue<T> {
    pub(crate) fn new(options: QueueOptions) -> Self {
        let state = State { clients: VecDeque::new(), waiting: 0, tokens: 0, since: None, is_closed: false };
        Self { state: Mutex::new(state), filled: Condvar::new(), options }
    }

    /// Number of items that may wait.
    pub(crate) fn capacity(&self) -> usize {
        self.options.waiting
    }

    /// Number of waiting items, and of their tokens.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let state = self.lock();
        (state.waiting, state.tokens)
    }

    /// Adds all `items` of a client and empties the vector; adds none if there is no room.
    pub(crate) fn push(&self, client: &Client, items: &mut Vec<T>) -> Result<(), QueueFull> {
        if items.is_empty() {
            return Ok(());
        }
        let mut state = self.lock();
        if state.room(client, items.len(), self.options.waiting).is_err() {
            // Abandoned items may make room.
            state.drop_abandoned();
            state.room(client, items.len(), self.options.waiting)?;
        }
        let items = std::mem::take(items);
        state.waiting += items.len();
        state.tokens += items.iter().map(QueueItem::tokens).sum::<usize>();
        state.since.get_or_insert_with(Instant::now);
        match state.clients.iter_mut().find(|client_queue| client_queue.client == *client) {
            Some(client_queue) => client_queue.items.extend(items),
            None => state.clients.push_back(ClientQueue { client: client.clone(), items: items.into() }),
        }
        drop(state);
        self.filled.notify_all();
        Ok(())
    }

    /// Waits for the next batch; none once the queue is closed and empty.
    pub(crate) fn take(&self) -> Option<Vec<T>> {
        let mut state = self.lock();
        loop {
            if state.waiting == 0 {
                if state.is_closed {
                    return None;
                }
                state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let left = state
                .since
                .map_or(Duration::ZERO, |since| self.options.window.saturating_sub(since.elapsed()));
            if state.tokens >= self.options.batch_tokens || left.is_zero() || state.is_closed {
                let batch = state.batch(&self.options);
                if !batch.is_empty() {
                    return Some(batch);
                }
                continue;
            }
            let waited = self.filled.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Refuses new items; waiting ones are still given out.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: QueueItem> State<T> {
    /// Removes and returns a batch: one worker's share of items with one key, taken from every client in turn.
    fn batch(&mut self, options: &QueueOptions) -> Vec<T> {
        let share =
            self.tokens.div_ceil(options.workers.max(1)).max(MIN_SHARE_TOKENS).min(options.batch_tokens);
        let (mut batch, mut tokens, mut key) = (Vec::new(), 0, None);
        // Clients in a row that had nothing for this batch.
        let mut skipped = 0;
        while tokens < share && skipped < self.clients.len() {
            let Some(mut client_queue) = self.clients.pop_front() else { break };
            let mut turn = 0;
            while turn < TURN_TOKENS && tokens < share {
                let Some(next) = client_queue.items.front() else { break };
                let own = next.tokens();
                let is_abandoned = next.is_abandoned();
                let fits = key.as_ref().is_none_or(|key| *key == next.batch_key())
                    && (batch.is_empty() || tokens + own <= options.batch_tokens);
                if !is_abandoned && !fits {
                    break;
                }
                let Some(item) = client_queue.items.pop_front() else { break };
                self.waiting -= 1;
                self.tokens -= own;
                if is_abandoned {
                    continue;
                }
                key.get_or_insert_with(|| item.batch_key());
                (turn, tokens) = (turn + own.max(1), tokens + own.max(1));
                batch.push(item);
            }
            skipped = if turn == 0 { skipped + 1 } else { 0 };
            if !client_queue.items.is_empty() {
                self.clients.push_back(client_queue);
            }
        }
        // The remaining items have waited long enough.
        self.since = None;
        batch
    }

    /// Checks that `count` more items of a client fit, where `most` may wait.
    fn room(&self, client: &Client, count: usize, most: usize) -> Result<(), QueueFull> {
        let own = self
            .clients
            .iter()
            .find(|client_queue| client_queue.client == *client)
            .map_or(0, |client_queue| client_queue.items.len());
        if self.is_closed || self.waiting + count > most {
            Err(QueueFull::Total(self.waiting))
        } else if own + count > most.div_ceil(2) {
            Err(QueueFull::Client(own))
        } else {
            Ok(())
        }
    }

    fn drop_abandoned(&mut self) {
        for client_queue in &mut self.clients {
            client_queue.items.retain(|item| !item.is_abandoned());
        }
        self.clients.retain(|client_queue| !client_queue.items.is_empty());
        let items = || self.clients.iter().flat_map(|client_queue| &client_queue.items);
        (self.waiting, self.tokens) = (items().count(), items().map(QueueItem::tokens).sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Item {
        client: u8,
        number: usize,
        kind: u8,
        tokens: usize,
        is_abandoned: bool,
    }

    impl QueueItem for Item {
        type BatchKey = u8;

        fn batch_key(&self) -> u8 {
            self.kind
        }

        fn tokens(&self) -> usize {
            self.tokens
        }

        fn is_abandoned(&self) -> bool {
            self.is_abandoned
        }
    }

    fn named(name: &str) -> Client {
        Client::Key(name.into())
    }

    fn item(client: u8, number: usize, tokens: usize) -> Item {
        Item { client, number, kind: 0, tokens, is_abandoned: false }
    }

    fn queue(options: QueueOptions) -> Queue<Item> {
        Queue::new(QueueOptions { window: Duration::ZERO, ..options })
    }

    #[test]
    fn a_long_request_does_not_block_a_short_one() {
        let queue = queue(QueueOptions { batch_tokens: 256, ..QueueOptions::default() });
        queue
            .push(&named("book"), &mut (0..1000).map(|number| item(0, number, 32)).collect::<Vec<_>>())
            .unwrap();
        queue.push(&named("sentence"), &mut vec![item(1, 0, 10)]).unwrap();
        let batch = queue.take().unwrap();
        assert!(batch.contains(&item(1, 0, 10)), "{batch:?}");
        let book: Vec<usize> = batch.iter().filter(|item| item.client == 0).map(|item| item.number).collect();
        assert_eq!(book, (0..book.len()).collect::<Vec<_>>(), "in order");
    }

    #[test]
    fn workers_share_the_queue() {
        let queue = queue(QueueOptions { batch_tokens: 1024, workers: 2, ..QueueOptions::default() });
        for client in 0..64 {
            queue.push(&named(&client.to_string()), &mut vec![item(client, 0, 15)]).unwrap();
        }
        let first = queue.take().unwrap();
        assert_eq!(first.len(), 32);
        assert!(queue.take().unwrap().len() >= 16);
    }

    #[test]
    fn a_full_queue_refuses_and_takes_nothing() {
        let queue = queue(QueueOptions { waiting: 4, ..QueueOptions::default() });
        queue.push(&named("a"), &mut vec![item(0, 0, 5), item(0, 1, 6)]).unwrap();
        let mut more = vec![item(0, 2, 7)];
        assert_eq!(queue.push(&named("a"), &mut more), Err(QueueFull::Client(2)), "half is for others");
        let mut others = vec![item(1, 0, 1), item(1, 1, 1), item(1, 2, 1)];
        assert_eq!(queue.push(&named("b"), &mut others), Err(QueueFull::Total(2)));
        assert_eq!((more.len(), others.len()), (1, 3));
        others.pop();
        queue.push(&named("b"), &mut others).unwrap();
        assert_eq!((queue.waiting(), others), ((4, 13), vec![]));
        assert_eq!(queue.push(&named("c"), &mut more), Err(QueueFull::Total(4)));
    }

    #[test]
    fn abandoned_items_make_room() {
        let queue = queue(QueueOptions { waiting: 2, ..QueueOptions::default() });
        let gone = Item { is_abandoned: true, ..item(0, 0, 5) };
        queue.push(&named("a"), &mut vec![gone.clone()]).unwrap();
        queue.push(&named("b"), &mut vec![gone]).unwrap();
        queue.push(&named("c"), &mut vec![item(1, 0, 1)]).unwrap();
        assert_eq!((queue.waiting(), queue.take()), ((1, 1), Some(vec![item(1, 0, 1)])));
    }

    #[test]
    fn a_closed_queue_is_emptied_and_ends() {
        let queue = queue(QueueOptions::default());
        queue.push(&named("a"), &mut vec![item(0, 0, 5)]).unwrap();
        queue.close();
        assert!(queue.push(&named("a"), &mut vec![item(0, 1, 5)]).is_err());
        assert_eq!(queue.take(), Some(vec![item(0, 0, 5)]));
        assert_eq!(queue.take(), None);
    }

    #[test]
    fn a_batch_waits_for_others_within_the_window() {
        let options =
            QueueOptions { window: Duration::from_secs(60), batch_tokens: 20, ..QueueOptions::default() };
        let queue: Queue<Item> = Queue::new(options);
        queue.push(&named("a"), &mut vec![item(0, 0, 10)]).unwrap();
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| queue.take());
            queue.push(&named("b"), &mut vec![item(1, 0, 10)]).unwrap();
            assert_eq!(taken.join().unwrap().unwrap().len(), 2);
        });
    }

    proptest! {
        /// Every item comes out once, those of a client in order; batches have one key and respect the limit.
        #[test]
        fn everything_comes_out_once(
            items in prop::collection::vec((0u8..4, 0u8..3, 0usize..200, any::<bool>()), 0..120),
            workers in 1usize..4,
            batch_tokens in 1usize..300,
        ) {
            let queue = queue(QueueOptions { batch_tokens, workers, ..QueueOptions::default() });
            let mut expected = Vec::new();
            for (number, (client, kind, tokens, is_abandoned)) in items.into_iter().enumerate() {
                let item = Item { client, number, kind, tokens, is_abandoned };
                queue.push(&named(&client.to_string()), &mut vec![item.clone()]).unwrap();
                if !is_abandoned {
                    expected.push(item);
                }
            }
            queue.close();
            let mut found: Vec<Item> = Vec::new();
            while let Some(batch) = queue.take() {
                prop_assert!(!batch.is_empty());
                prop_assert!(batch.iter().all(|item| item.kind == batch[0].kind));
                let tokens: usize = batch.iter().map(|item| item.tokens).sum();
                prop_assert!(batch.len() == 1 || tokens <= batch_tokens);
                found.extend(batch);
            }
            for client in 0..4 {
                let own = found.iter().filter(|item| item.client == client).map(|item| item.number);
                prop_assert!(own.is_sorted());
            }
            found.sort_by_key(|item| item.number);
            prop_assert_eq!(found, expected);
            prop_assert_eq!(queue.waiting(), (0, 0));
        }
    }
}
