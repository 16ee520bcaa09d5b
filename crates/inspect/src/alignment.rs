//! Word alignments in Pharaoh format: `0-0 1-2`, source word first, both from 0. `polyhead_translate::alignment` computes them.

/// Pairs in Pharaoh format.
pub fn pharaoh(pairs: &[(usize, usize)]) -> String {
    pairs.iter().map(|(source, target)| format!("{source}-{target}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_written_source_first() {
        assert_eq!(pharaoh(&[(1, 0), (0, 2)]), "1-0 0-2");
    }
}
