//! The queue: sentences of many clients, taken by turns of work and joined into batches.
//!
//! Each client has a queue of its own and a virtual time: the work it was given so far, in tokens × hypotheses × hops. The
//! next batch begins with the client whose time is least (start-time fair queueing, Goyal, Vin & Cheng 1996), so shares are
//! of work, not of requests. A client that comes back begins at the present time: nobody saves up turns.
//!
//! - Clients with little waiting work are *light*. Their sentences share batches of up to `batch_tokens` tokens.
//! - A *heavy* client has batches of its own, short ones while others wait.
//! - A sentence that alone is longer than a batch is *huge*.
//!
//! Between two steps of a heavy or huge batch its worker asks [`Queue::take_urgent`] for a lighter batch of a client whose
//! turn it is, and translates that first. So no sentence waits for longer than a step of another's decoding.

use std::collections::{HashMap, VecDeque};
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
/// Waiting work of a light client: a turn of tokens with eight hypotheses.
const LIGHT_WORK: usize = 8 * TURN_TOKENS;
/// Clients whose virtual time is remembered while they have nothing in the queue.
const MAX_PAST: usize = 4096;

/// An item of the queue.
pub(crate) trait QueueItem {
    /// Items with equal keys may share a batch.
    type BatchKey: PartialEq;

    fn batch_key(&self) -> Self::BatchKey;
    /// Length in tokens.
    fn tokens(&self) -> usize;
    /// Tokens × hypotheses × hops.
    fn work(&self) -> usize;
    /// True if the request was cancelled.
    fn is_abandoned(&self) -> bool;
}

/// How long a batch may take; later ones may be interrupted by earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) enum BatchWeight {
    /// Sentences of clients with little waiting work.
    Light,
    /// Sentences of one client.
    Heavy,
    /// One sentence that is longer than a batch.
    Huge,
}

/// A batch.
#[derive(Debug, PartialEq)]
pub(crate) struct Batch<T> {
    pub(crate) items: Vec<T>,
    pub(crate) weight: BatchWeight,
    /// The virtual time of its client after it.
    pub(crate) time: u64,
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
    clients: Vec<ClientQueue<T>>,
    waiting: usize,
    work: usize,
    tokens: usize,
    /// Time since which the oldest item has waited for others to share its batch; none if it has waited long enough.
    since: Option<Instant>,
    /// Virtual time: that of the client whose batch was taken last.
    now: u64,
    /// Virtual times ahead of the present of clients without items.
    past: HashMap<Client, u64>,
    is_closed: bool,
}

#[derive(Debug)]
struct ClientQueue<T> {
    client: Client,
    items: VecDeque<T>,
    /// Work of the items.
    work: usize,
    /// Work that was taken from the queue.
    time: u64,
}

/// The limit that refused items exceed, with the number of items that wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum QueueFull {
    /// All clients together.
    Total(usize),
    /// This client, which may take half of the queue.
    Client(usize),
}

/// What waits in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) items: usize,
    pub(crate) work: usize,
    pub(crate) clients: usize,
}

impl<T: QueueItem> Queue<T> {
    pub(crate) fn new(options: QueueOptions) -> Self {
        let state = State {
            clients: Vec::new(),
            waiting: 0,
            work: 0,
            tokens: 0,
            since: None,
            now: 0,
            past: HashMap::new(),
            is_closed: false,
        };
        Self { state: Mutex::new(state), filled: Condvar::new(), options }
    }

    /// Number of items that may wait.
    pub(crate) fn capacity(&self) -> usize {
        self.options.waiting
    }

    /// Tokens of a batch.
    pub(crate) fn batch_tokens(&self) -> usize {
        self.options.batch_tokens
    }

    /// What waits.
    pub(crate) fn waiting(&self) -> Waiting {
        let state = self.lock();
        Waiting { items: state.waiting, work: state.work, clients: state.clients.len() }
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
        state.add(client, std::mem::take(items));
        drop(state);
        self.filled.notify_all();
        Ok(())
    }

    /// Waits for the next batch; none once the queue is closed and empty.
    pub(crate) fn take(&self) -> Option<Batch<T>> {
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
                if let Some(batch) = state.batch(&self.options, BatchWeight::Huge, u64::MAX) {
                    return Some(batch);
                }
                continue;
            }
            let waited = self.filled.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A batch that comes before the rest of a running one, if there is any: lighter, and of a client whose virtual time is
    /// less.
    pub(crate) fn take_urgent(&self, weight: BatchWeight, time: u64) -> Option<Batch<T>> {
        let most = match weight {
            BatchWeight::Light => return None,
            BatchWeight::Heavy => BatchWeight::Light,
            BatchWeight::Huge => BatchWeight::Heavy,
        };
        let mut state = self.lock();
        if state.waiting == 0 { None } else { state.batch(&self.options, most, time) }
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
    /// Adds items of a client.
    fn add(&mut self, client: &Client, items: Vec<T>) {
        let work = items.iter().map(QueueItem::work).sum::<usize>();
        self.waiting += items.len();
        self.work += work;
        self.tokens += items.iter().map(QueueItem::tokens).sum::<usize>();
        self.since.get_or_insert_with(Instant::now);
        if let Some(queue) = self.clients.iter_mut().find(|queue| queue.client == *client) {
            queue.items.extend(items);
            queue.work += work;
            return;
        }
        let time = self.past.remove(client).unwrap_or(0).max(self.now);
        self.clients.push(ClientQueue { client: client.clone(), items: items.into(), work, time });
    }

    /// Removes and returns the next batch of at most this weight, of clients whose virtual time is less than `before`.
    fn batch(&mut self, options: &QueueOptions, most: BatchWeight, before: u64) -> Option<Batch<T>> {
        self.drop_abandoned_heads();
        let mut order: Vec<usize> = (0..self.clients.len())
            .filter(|&index| self.clients[index].time < before && self.weight(index, options) <= most)
            .collect();
        // A stable sort: of clients with equal times the first to come is served first.
        order.sort_by_key(|&index| self.clients[index].time);
        let &first = order.first()?;
        let weight = self.weight(first, options);
        let share =
            self.tokens.div_ceil(options.workers.max(1)).max(MIN_SHARE_TOKENS).min(options.batch_tokens);
        let (members, share) = match weight {
            BatchWeight::Light => {
                order.retain(|&index| self.weight(index, options) == BatchWeight::Light);
                (order, share)
            }
            _ if self.clients.len() > 1 => (vec![first], share.min(TURN_TOKENS)),
            _ => (vec![first], share),
        };
        self.now = self.now.max(self.clients[first].time);
        let (mut items, mut tokens): (Vec<T>, usize) = (Vec::new(), 0);
        for &index in &members {
            while tokens < share {
                let Some(next) = self.clients[index].items.front() else { break };
                let own = next.tokens();
                let is_member = items.first().is_none_or(|first| {
                    first.batch_key() == next.batch_key() && tokens + own <= options.batch_tokens
                });
                if !is_member && !next.is_abandoned() {
                    break;
                }
                let Some(item) = self.remove_first(index) else { break };
                if !item.is_abandoned() {
                    tokens += own.max(1);
                    self.clients[index].time += item.work().max(1) as u64;
                    items.push(item);
                }
            }
        }
        let time = self.clients[first].time;
        self.forget_empty();
        // The remaining items have waited long enough.
        self.since = None;
        (!items.is_empty()).then_some(Batch { items, weight, time })
    }

    /// The weight of the next batch of a client.
    fn weight(&self, index: usize, options: &QueueOptions) -> BatchWeight {
        let queue = &self.clients[index];
        match queue.items.front() {
            Some(next) if next.tokens() > options.batch_tokens => BatchWeight::Huge,
            _ if queue.work <= LIGHT_WORK => BatchWeight::Light,
            _ => BatchWeight::Heavy,
        }
    }

    fn remove_first(&mut self, index: usize) -> Option<T> {
        let queue = &mut self.clients[index];
        let item = queue.items.pop_front()?;
        let (tokens, work) = (item.tokens(), item.work());
        queue.work -= work;
        self.waiting -= 1;
        self.work -= work;
        self.tokens -= tokens;
        Some(item)
    }

    /// Removes cancelled items that are next in their queues.
    fn drop_abandoned_heads(&mut self) {
        for index in 0..self.clients.len() {
            while self.clients[index].items.front().is_some_and(QueueItem::is_abandoned) {
                self.remove_first(index);
            }
        }
        self.forget_empty();
    }

    /// Removes empty queues; the times of clients that are ahead of the present are remembered.
    fn forget_empty(&mut self) {
        let Self { clients, past, now, .. } = self;
        clients.retain(|queue| {
            if queue.items.is_empty() && queue.time > *now {
                past.insert(queue.client.clone(), queue.time);
            }
            !queue.items.is_empty()
        });
        if past.len() > MAX_PAST {
            past.retain(|_, time| *time > *now);
            if past.len() > MAX_PAST {
                past.clear();
            }
        }
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
        for queue in &mut self.clients {
            queue.items.retain(|item| !item.is_abandoned());
            queue.work = queue.items.iter().map(QueueItem::work).sum();
        }
        self.forget_empty();
        let items = || self.clients.iter().flat_map(|client_queue| &client_queue.items);
        (self.waiting, self.tokens) = (items().count(), items().map(QueueItem::tokens).sum());
        self.work = self.clients.iter().map(|queue| queue.work).sum();
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

        fn work(&self) -> usize {
            5 * self.tokens
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

    fn waiting(queue: &Queue<Item>) -> (usize, usize) {
        let Waiting { items, work, .. } = queue.waiting();
        (items, work)
    }

    #[test]
    fn a_long_request_does_not_block_a_short_one() {
        let queue = queue(QueueOptions { batch_tokens: 256, ..QueueOptions::default() });
        let mut book = (0..1000).map(|number| item(0, number, 32)).collect::<Vec<_>>();
        queue.push(&named("book"), &mut book).unwrap();
        let first = queue.take().unwrap();
        assert_eq!((first.items.len(), first.weight), (8, BatchWeight::Heavy), "alone it fills batches");
        queue.push(&named("sentence"), &mut vec![item(1, 0, 10)]).unwrap();
        let urgent = queue.take_urgent(first.weight, first.time).unwrap();
        assert_eq!((urgent.items, urgent.weight), (vec![item(1, 0, 10)], BatchWeight::Light));
        assert_eq!(queue.take_urgent(first.weight, first.time), None);
        let next = queue.take().unwrap();
        assert_eq!(next.items[0].number, 8, "in order");
    }

    #[test]
    fn batches_are_short_while_others_wait() {
        let queue = queue(QueueOptions::default());
        for client in 0..2 {
            let mut items = (0..100).map(|number| item(client, number, 32)).collect::<Vec<_>>();
            queue.push(&named(&client.to_string()), &mut items).unwrap();
        }
        let batches: Vec<(u8, usize)> =
            (0..4).map(|_| queue.take().unwrap()).map(|own| (own.items[0].client, own.items.len())).collect();
        assert_eq!(batches, [(0, 2), (1, 2), (0, 2), (1, 2)]);
    }

    #[test]
    fn shares_are_of_work_not_of_requests() {
        let queue = queue(QueueOptions { workers: 1, ..QueueOptions::default() });
        let mut long = (0..50).map(|number| item(0, number, 200)).collect::<Vec<_>>();
        let mut short = (0..500).map(|number| item(1, number, 20)).collect::<Vec<_>>();
        queue.push(&named("long"), &mut long).unwrap();
        queue.push(&named("short"), &mut short).unwrap();
        let mut tokens = [0, 0];
        for _ in 0..60 {
            let batch = queue.take().unwrap();
            tokens[usize::from(batch.items[0].client)] +=
                batch.items.iter().map(|own| own.tokens).sum::<usize>();
        }
        let [long, short] = tokens;
        assert!(long.abs_diff(short) <= 200 + TURN_TOKENS, "{tokens:?}");
        // Who comes now does not make up for the time before.
        queue
            .push(&named("new"), &mut (0..50).map(|number| item(2, number, 60)).collect::<Vec<_>>())
            .unwrap();
        let next: Vec<usize> = (0..12).map(|_| usize::from(queue.take().unwrap().items[0].client)).collect();
        assert!(next.iter().filter(|own| **own == 2).count() < 8, "{next:?}");
    }

    #[test]
    fn only_a_huge_sentence_is_interrupted_by_a_heavy_batch() {
        let queue = queue(QueueOptions::default());
        queue.push(&named("huge"), &mut vec![item(0, 0, 5000)]).unwrap();
        let huge = queue.take().unwrap();
        assert_eq!(huge.weight, BatchWeight::Huge);
        let mut book = (0..100).map(|number| item(1, number, 32)).collect::<Vec<_>>();
        queue.push(&named("book"), &mut book).unwrap();
        queue.push(&named("other"), &mut vec![item(2, 0, 5000)]).unwrap();
        let heavy = queue.take_urgent(huge.weight, huge.time).unwrap();
        assert_eq!((heavy.weight, heavy.items[0].client), (BatchWeight::Heavy, 1));
        assert_eq!(
            queue.take_urgent(heavy.weight, heavy.time),
            None,
            "no huge or heavy one within a heavy one"
        );
    }

    #[test]
    fn workers_share_the_queue() {
        let queue = queue(QueueOptions { batch_tokens: 1024, workers: 2, ..QueueOptions::default() });
        for client in 0..64 {
            queue.push(&named(&client.to_string()), &mut vec![item(client, 0, 15)]).unwrap();
        }
        let first = queue.take().unwrap();
        assert_eq!(first.items.len(), 32);
        assert!(queue.take().unwrap().items.len() >= 16);
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
        assert_eq!((waiting(&queue), others), ((4, 65), vec![]));
        assert_eq!(queue.push(&named("c"), &mut more), Err(QueueFull::Total(4)));
    }

    #[test]
    fn abandoned_items_make_room() {
        let queue = queue(QueueOptions { waiting: 2, ..QueueOptions::default() });
        let gone = Item { is_abandoned: true, ..item(0, 0, 5) };
        queue.push(&named("a"), &mut vec![gone.clone()]).unwrap();
        queue.push(&named("b"), &mut vec![gone]).unwrap();
        queue.push(&named("c"), &mut vec![item(1, 0, 1)]).unwrap();
        assert_eq!((waiting(&queue), queue.take().unwrap().items), ((1, 5), vec![item(1, 0, 1)]));
    }

    #[test]
    fn a_closed_queue_is_emptied_and_ends() {
        let queue = queue(QueueOptions::default());
        queue.push(&named("a"), &mut vec![item(0, 0, 5)]).unwrap();
        queue.close();
        assert!(queue.push(&named("a"), &mut vec![item(0, 1, 5)]).is_err());
        assert_eq!(queue.take().unwrap().items, vec![item(0, 0, 5)]);
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
            assert_eq!(taken.join().unwrap().unwrap().items.len(), 2);
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
            while let Some(Batch { items: batch, .. }) = queue.take() {
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
            prop_assert_eq!(waiting(&queue), (0, 0));
        }
    }
}
