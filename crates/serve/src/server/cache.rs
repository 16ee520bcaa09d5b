//! A least-recently-used cache with a limit in bytes.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

/// Overhead of an entry in bytes, beside its key and value: both maps, and the reference counts.
const OVERHEAD: usize = 160;

/// Values by key.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    entries: HashMap<Arc<K>, Entry<V>>,
    /// Keys by the time of their last use.
    ages: BTreeMap<u64, Arc<K>>,
    now: u64,
    bytes: usize,
    limit: usize,
}

#[derive(Debug)]
struct Entry<V> {
    value: Arc<V>,
    used: u64,
    bytes: usize,
}

/// Size of a value in memory.
pub(crate) trait MemorySize {
    /// Bytes, including what it owns on the heap.
    fn bytes(&self) -> usize;
}

impl<K: Hash + Eq + MemorySize, V: MemorySize> Cache<K, V> {
    /// An empty cache of at most `limit` bytes; 0 disables it.
    pub(crate) fn new(limit: usize) -> Self {
        Self { entries: HashMap::new(), ages: BTreeMap::new(), now: 0, bytes: 0, limit }
    }

    /// Bytes of all entries.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The value of a key; marks it as most recently used.
    pub(crate) fn get(&mut self, key: &K) -> Option<Arc<V>> {
        let entry = self.entries.get_mut(key)?;
        let key = self.ages.remove(&entry.used).expect("every entry has an age");
        self.now += 1;
        entry.used = self.now;
        self.ages.insert(self.now, key);
        Some(entry.value.clone())
    }

    /// Inserts a value, unless it alone exceeds the limit; drops the least recently used ones.
    pub(crate) fn insert(&mut self, key: K, value: Arc<V>) {
        let bytes = key.bytes() + value.bytes() + OVERHEAD;
        if bytes > self.limit {
            return;
        }
        self.remove(&key);
        let key = Arc::new(key);
        self.now += 1;
        self.ages.insert(self.now, key.clone());
        self.entries.insert(key, Entry { value, used: self.now, bytes });
        self.bytes += bytes;
        while self.bytes > self.limit {
            let Some((_, oldest)) = self.ages.pop_first() else { break };
            self.bytes -= self.entries.remove(&*oldest).map_or(0, |entry| entry.bytes);
        }
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        self.entries = HashMap::new();
        self.ages = BTreeMap::new();
        self.bytes = 0;
    }

    fn remove(&mut self, key: &K) {
        if let Some(entry) = self.entries.remove(key) {
            self.ages.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl MemorySize for u8 {
        fn bytes(&self) -> usize {
            usize::from(*self)
        }
    }

    #[test]
    fn the_least_recently_used_entry_is_dropped_first() {
        let mut cache = Cache::new(3 * (OVERHEAD + 10));
        for key in [1, 2, 3] {
            cache.insert(key, Arc::new(5u8));
        }
        assert_eq!(cache.get(&1).as_deref(), Some(&5));
        cache.insert(4, Arc::new(6));
        let found = [1, 2, 3, 4].map(|key| cache.get(&key).map(|value| *value));
        assert_eq!(found, [Some(5), None, Some(5), Some(6)]);
        cache.clear();
        assert_eq!((cache.bytes(), cache.get(&1)), (0, None));
    }

    proptest! {
        /// A lookup gives what an unbounded cache gives, or nothing; the size never exceeds the limit; the last entry that fits is present.
        #[test]
        fn it_never_holds_more_than_its_limit(
            limit in 0usize..2000, steps in prop::collection::vec((0u8..20, 0u8..200), 0..200)
        ) {
            let mut cache = Cache::new(limit);
            let mut all = HashMap::new();
            for (key, value) in steps {
                cache.insert(key, Arc::new(value));
                let bytes = usize::from(key) + usize::from(value) + OVERHEAD;
                if bytes <= limit {
                    all.insert(key, value);
                    prop_assert_eq!(cache.get(&key).map(|value| *value), Some(value));
                }
                prop_assert!(cache.bytes() <= limit);
                let held: usize = cache.entries.values().map(|entry| entry.bytes).sum();
                prop_assert_eq!((held, cache.entries.len()), (cache.bytes, cache.ages.len()));
                for key in 0..20 {
                    if let Some(value) = cache.get(&key) {
                        prop_assert_eq!(all.get(&key), Some(&*value));
                    }
                }
            }
        }
    }
}
