//! Work that waits: sentences of many clients, taken in turn and joined into batches.
//!
//! Each client has a lane. A batch takes some sentences of every lane in turn, so a client with a book does not keep one
//! with a sentence waiting. Only sentences of one kind (model and options) go into a batch together; the kind that is
//! next in turn decides. A batch takes a worker's share of what waits and no more than its tokens: so all workers have
//! something to do, and the more waits the larger batches are.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::front::rate::Client;

/// How batches are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueOptions {
    /// Sentences that may wait; 4096.
    pub(crate) waiting: usize,
    /// Tokens of a batch; 256.
    pub(crate) batch_tokens: usize,
    /// How long a sentence waits for others, where a worker is free; 0.2 ms.
    pub(crate) window: Duration,
    /// Who takes batches at the same time; 1.
    pub(crate) workers: usize,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self { waiting: 4096, batch_tokens: 256, window: Duration::from_micros(200), workers: 1 }
    }
}

/// A batch is not made smaller than so many tokens only to give every worker one.
const FEWEST_TOKENS: usize = 64;
/// Tokens that a lane gives before it is the next one's turn.
const TURN_TOKENS: usize = 64;

/// Something that waits.
pub(crate) trait Waiting {
    /// What can be in a batch together.
    type Kind: PartialEq;

    fn kind(&self) -> Self::Kind;
    /// Its length.
    fn tokens(&self) -> usize;
    /// Whether nobody waits for it any more.
    fn is_abandoned(&self) -> bool;
}

/// The queue; workers take batches from it on threads of their own.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    options: QueueOptions,
}

#[derive(Debug)]
struct State<T> {
    lanes: VecDeque<Lane<T>>,
    waiting: usize,
    tokens: usize,
    /// Since when the oldest has been waiting for others; none where it has waited long enough.
    since: Option<Instant>,
    is_closed: bool,
}

#[derive(Debug)]
struct Lane<T> {
    client: Client,
    items: VecDeque<T>,
}

/// Why there is no room.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// So many wait already.
    Everybody(usize),
    /// So many of this client do; half of the room is for others.
    Client(usize),
}

impl<T: Waiting> Queue<T> {
    pub(crate) fn new(options: QueueOptions) -> Self {
        let state = State { lanes: VecDeque::new(), waiting: 0, tokens: 0, since: None, is_closed: false };
        Self { state: Mutex::new(state), filled: Condvar::new(), options }
    }

    /// How many may wait.
    pub(crate) fn most(&self) -> usize {
        self.options.waiting
    }

    /// Sentences that wait, and their tokens.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let state = self.lock();
        (state.waiting, state.tokens)
    }

    /// Lets `items` of a client wait, and takes them: all of them, or none where there is no room.
    pub(crate) fn push(&self, client: &Client, items: &mut Vec<T>) -> Result<(), Full> {
        if items.is_empty() {
            return Ok(());
        }
        let mut state = self.lock();
        if state.room(client, items.len(), self.options.waiting).is_err() {
            // Some may be nobody's by now.
            state.drop_abandoned();
            state.room(client, items.len(), self.options.waiting)?;
        }
        let items = std::mem::take(items);
        state.waiting += items.len();
        state.tokens += items.iter().map(Waiting::tokens).sum::<usize>();
        state.since.get_or_insert_with(Instant::now);
        match state.lanes.iter_mut().find(|lane| lane.client == *client) {
            Some(lane) => lane.items.extend(items),
            None => state.lanes.push_back(Lane { client: client.clone(), items: items.into() }),
        }
        drop(state);
        self.filled.notify_all();
        Ok(())
    }

    /// The next batch, when there is one; nothing once the queue is closed and empty.
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

    /// Takes nothing more in; what waits is still given out.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Waiting> State<T> {
    /// Takes a batch out: a worker's share of one kind, of every lane in turn.
    fn batch(&mut self, options: &QueueOptions) -> Vec<T> {
        let share = self.tokens.div_ceil(options.workers.max(1)).max(FEWEST_TOKENS).min(options.batch_tokens);
        let (mut batch, mut tokens, mut kind) = (Vec::new(), 0, None);
        // A lane that has nothing of the kind is passed over once in a round.
        let mut passed_over = 0;
        while tokens < share && passed_over < self.lanes.len() {
            let Some(mut lane) = self.lanes.pop_front() else { break };
            let mut turn = 0;
            while turn < TURN_TOKENS && tokens < share {
                let Some(next) = lane.items.front() else { break };
                let own = next.tokens();
                let is_abandoned = next.is_abandoned();
                let fits = kind.as_ref().is_none_or(|kind| *kind == next.kind())
                    && (batch.is_empty() || tokens + own <= options.batch_tokens);
                if !is_abandoned && !fits {
                    break;
                }
                let Some(item) = lane.items.pop_front() else { break };
                self.waiting -= 1;
                self.tokens -= own;
                if is_abandoned {
                    continue;
                }
                kind.get_or_insert_with(|| item.kind());
                (turn, tokens) = (turn + own.max(1), tokens + own.max(1));
                batch.push(item);
            }
            passed_over = if turn == 0 { passed_over + 1 } else { 0 };
            if !lane.items.is_empty() {
                self.lanes.push_back(lane);
            }
        }
        // What is left has waited long enough.
        self.since = None;
        batch
    }

    /// Whether `count` items of a client may come in, where `most` may wait.
    fn room(&self, client: &Client, count: usize, most: usize) -> Result<(), Full> {
        let own = self.lanes.iter().find(|lane| lane.client == *client).map_or(0, |lane| lane.items.len());
        if self.is_closed || self.waiting + count > most {
            Err(Full::Everybody(self.waiting))
        } else if own + count > most.div_ceil(2) {
            Err(Full::Client(own))
        } else {
            Ok(())
        }
    }

    fn drop_abandoned(&mut self) {
        for lane in &mut self.lanes {
            lane.items.retain(|item| !item.is_abandoned());
        }
        self.lanes.retain(|lane| !lane.items.is_empty());
        let items = || self.lanes.iter().flat_map(|lane| &lane.items);
        (self.waiting, self.tokens) = (items().count(), items().map(Waiting::tokens).sum());
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

    impl Waiting for Item {
        type Kind = u8;

        fn kind(&self) -> u8 {
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
    fn a_book_does_not_keep_a_sentence_waiting() {
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
    fn workers_share_what_waits() {
        let queue = queue(QueueOptions { batch_tokens: 1024, workers: 2, ..QueueOptions::default() });
        for client in 0..64 {
            queue.push(&named(&client.to_string()), &mut vec![item(client, 0, 15)]).unwrap();
        }
        let first = queue.take().unwrap();
        assert_eq!(first.len(), 32);
        assert!(queue.take().unwrap().len() >= 16);
    }

    #[test]
    fn what_is_full_says_so_and_takes_nothing() {
        let queue = queue(QueueOptions { waiting: 4, ..QueueOptions::default() });
        queue.push(&named("a"), &mut vec![item(0, 0, 5), item(0, 1, 6)]).unwrap();
        let mut more = vec![item(0, 2, 7)];
        assert_eq!(queue.push(&named("a"), &mut more), Err(Full::Client(2)), "half is for others");
        let mut others = vec![item(1, 0, 1), item(1, 1, 1), item(1, 2, 1)];
        assert_eq!(queue.push(&named("b"), &mut others), Err(Full::Everybody(2)));
        assert_eq!((more.len(), others.len()), (1, 3));
        others.pop();
        queue.push(&named("b"), &mut others).unwrap();
        assert_eq!((queue.waiting(), others), ((4, 13), vec![]));
        assert_eq!(queue.push(&named("c"), &mut more), Err(Full::Everybody(4)));
    }

    #[test]
    fn what_nobody_waits_for_makes_room() {
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
    fn the_window_lets_others_come() {
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
        /// Everything comes out once, a client's own in order of each kind; batches are of one kind and no larger than allowed.
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
