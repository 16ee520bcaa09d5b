//! Huffman tree of a vocabulary, for the hierarchical softmax: frequent words have short paths.

/// The path to each word: inner nodes from the root and the branch taken at each.
#[derive(Debug)]
pub(crate) struct Huffman {
    paths: Vec<Vec<(u32, bool)>>,
}

impl Huffman {
    /// The tree of words by descending count; at least two.
    pub(crate) fn new(counts: &[u64]) -> Self {
        let n = counts.len();
        // Leaves by ascending count, then inner nodes in order of creation: two queues that are both sorted.
        let mut weight: Vec<u64> = counts.iter().map(|&count| count.max(1)).collect();
        let mut parent = vec![(0_u32, false); 2 * n - 1];
        let (mut leaf, mut inner) = (n, n);
        for node in n..2 * n - 1 {
            let mut sum = 0;
            for branch in [false, true] {
                let takes_leaf = leaf > 0 && (inner >= node || weight[leaf - 1] <= weight[inner]);
                let smallest = if takes_leaf {
                    leaf -= 1;
                    leaf
                } else {
                    inner += 1;
                    inner - 1
                };
                sum += weight[smallest];
                parent[smallest] = (node as u32, branch);
            }
            weight.push(sum);
        }
        let root = 2 * n - 2;
        let path = |leaf: usize| {
            let mut path = Vec::new();
            let mut node = leaf;
            while node != root {
                let (above, branch) = parent[node];
                path.push((above - n as u32, branch));
                node = above as usize;
            }
            path.reverse();
            path
        };
        Self { paths: (0..n).map(path).collect() }
    }

    /// Inner nodes, from 0, and branches on the way to `word`.
    pub(crate) fn path(&self, word: u32) -> &[(u32, bool)] {
        &self.paths[word as usize]
    }

    /// Number of inner nodes.
    pub(crate) fn n_nodes(&self) -> usize {
        self.paths.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_lengths_by_hand() {
        let tree = Huffman::new(&[40, 30, 20, 10]);
        let lengths: Vec<usize> = (0..4).map(|word| tree.path(word).len()).collect();
        assert_eq!(lengths, [1, 2, 3, 3]);
        assert_eq!(tree.n_nodes(), 3);
        // Kraft's equality: the code is complete and no word's code begins another's.
        let total: f64 = lengths.iter().map(|&length| 0.5_f64.powi(length as i32)).sum();
        assert_eq!(total, 1.0);
    }
}
