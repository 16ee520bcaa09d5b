//! A double-array trie over bytes: piece → id, traversed byte by byte (Aoe 1989).
//!
//! The child of node `n` on byte `b` is `base[n] + b` if `check[base[n] + b] = n`; otherwise there is none. A step is
//! one addition and one comparison, for any number of children.

/// The root node.
pub(crate) const ROOT: u32 = 0;

const NONE: u32 = u32::MAX;

/// An immutable map from non-empty byte strings to ids.
#[derive(Debug, Clone)]
pub(crate) struct Trie {
    units: Vec<TrieUnit>,
}

#[derive(Debug, Clone, Copy)]
struct TrieUnit {
    base: u32,
    check: u32,
    value: u32,
}

const FREE: TrieUnit = TrieUnit { base: 0, check: NONE, value: NONE };

impl Trie {
    /// Builds the map; of equal keys the first wins.
    pub(crate) fn new<'a>(entries: impl IntoIterator<Item = (&'a str, u32)>) -> Self {
        let mut keys: Vec<(&[u8], u32)> = entries.into_iter().map(|(key, id)| (key.as_bytes(), id)).collect();
        keys.retain(|(key, _)| !key.is_empty());
        keys.sort_by(|a, b| a.0.cmp(b.0));
        keys.dedup_by(|later, earlier| later.0 == earlier.0);
        let mut builder = TrieBuilder { units: Vec::new(), free: Vec::new(), highest: 0 };
        builder.grow(512);
        builder.take(ROOT, ROOT);
        builder.fill(&keys);
        builder.units.truncate(builder.highest + 1);
        builder.units.shrink_to_fit();
        Self { units: builder.units }
    }

    /// The child of `node` on `byte`.
    #[inline]
    pub(crate) fn step(&self, node: u32, byte: u8) -> Option<u32> {
        let next = self.units[node as usize].base + u32::from(byte);
        // The root is its own parent, so a node without children (base 0) must not step to it.
        (self.units.get(next as usize)?.check == node && next != ROOT).then_some(next)
    }

    /// Id of the key that ends at `node`.
    #[inline]
    pub(crate) fn value(&self, node: u32) -> Option<u32> {
        let value = self.units[node as usize].value;
        (value != NONE).then_some(value)
    }

    /// The node after all of `bytes`.
    pub(crate) fn walk(&self, node: u32, bytes: &[u8]) -> Option<u32> {
        bytes.iter().try_fold(node, |node, &byte| self.step(node, byte))
    }

    /// Id of `key`.
    pub(crate) fn get(&self, key: &str) -> Option<u32> {
        self.value(self.walk(ROOT, key.as_bytes())?)
    }

    /// The longest key that is a prefix of `text`: its length in bytes and its id.
    pub(crate) fn longest_prefix(&self, text: &[u8]) -> Option<(usize, u32)> {
        let mut node = ROOT;
        let mut longest = None;
        for (at, &byte) in text.iter().enumerate() {
            let Some(next) = self.step(node, byte) else { break };
            node = next;
            if let Some(value) = self.value(node) {
                longest = Some((at + 1, value));
            }
        }
        longest
    }
}

/// Free units are searched this far below the highest used one; earlier gaps stay unused.
const WINDOW: usize = 1 << 12;

struct TrieBuilder {
    units: Vec<TrieUnit>,
    /// Union-find links: for each unit a later one not beyond the next free unit; the unit itself if it is free.
    free: Vec<u32>,
    highest: usize,
}

/// A node to build: its keys are `keys[from..to]`, which share the first `depth` bytes.
struct PendingNode {
    node: u32,
    from: usize,
    to: usize,
    depth: usize,
}

impl TrieBuilder {
    fn fill(&mut self, keys: &[(&[u8], u32)]) {
        let mut stack = vec![PendingNode { node: ROOT, from: 0, to: keys.len(), depth: 0 }];
        let mut labels = Vec::with_capacity(256);
        let mut children = Vec::with_capacity(256);
        while let Some(PendingNode { node, mut from, to, depth }) = stack.pop() {
            if from < to && keys[from].0.len() == depth {
                self.units[node as usize].value = keys[from].1;
                from += 1;
            }
            labels.clear();
            children.clear();
            while from < to {
                let label = keys[from].0[depth];
                let end = from + keys[from..to].partition_point(|(key, _)| key[depth] == label);
                labels.push(label);
                children.push((from, end));
                from = end;
            }
            if labels.is_empty() {
                continue;
            }
            let base = self.place(&labels);
            self.units[node as usize].base = base;
            for (&label, &(from, to)) in labels.iter().zip(&children) {
                let child = base + u32::from(label);
                self.take(child, node);
                stack.push(PendingNode { node: child, from, to, depth: depth + 1 });
            }
        }
    }

    /// A base at which the units of all `labels` (ascending) are free.
    fn place(&mut self, labels: &[u8]) -> u32 {
        let lowest = usize::from(labels[0]);
        let mut at = self.highest.saturating_sub(WINDOW).max(lowest + 1);
        loop {
            at = self.next_free(at);
            let base = at - lowest;
            self.grow(base + 256);
            if labels.iter().all(|&label| self.units[base + usize::from(label)].check == NONE) {
                return base as u32;
            }
            at += 1;
        }
    }

    fn grow(&mut self, length: usize) {
        if self.units.len() < length {
            let length = length.max(self.units.len() * 5 / 4);
            self.free.extend(self.units.len() as u32..length as u32);
            self.units.resize(length, FREE);
        }
    }

    fn take(&mut self, unit: u32, parent: u32) {
        self.units[unit as usize].check = parent;
        self.free[unit as usize] = unit + 1;
        self.highest = self.highest.max(unit as usize);
    }

    /// The first free unit from `at` on, with path compression.
    fn next_free(&mut self, mut at: usize) -> usize {
        loop {
            self.grow(at + 2);
            let next = self.free[at] as usize;
            if next == at {
                return at;
            }
            self.grow(next + 1);
            self.free[at] = self.free[next];
            at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_list_of_keys(
            keys in proptest::collection::vec("[abé▁\u{0}]{1,5}", 0..60),
            probe in "[abé▁\u{0}]{0,7}",
        ) {
            let trie = Trie::new(keys.iter().enumerate().map(|(id, key)| (key.as_str(), id as u32)));
            for key in &keys {
                let first = keys.iter().position(|other| other == key).unwrap() as u32;
                prop_assert_eq!(trie.get(key), Some(first));
            }
            prop_assert_eq!(trie.get(&probe).is_some(), keys.contains(&probe));
            let longest = keys.iter().filter(|key| probe.starts_with(key.as_str())).map(String::len).max();
            prop_assert_eq!(trie.longest_prefix(probe.as_bytes()).map(|(length, _)| length), longest);
        }
    }
}
