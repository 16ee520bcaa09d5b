//! Token ids of several sentences, filled up to one length.

/// rows × length ids; a row's tokens come first, padding after them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    ids: Vec<u32>,
    lengths: Vec<usize>,
    length: usize,
}

impl Ids {
    /// Sentences side by side, the shorter ones filled up with `pad_id`. There is room for one token at least.
    ///
    /// ```
    /// use polyhead_models::Ids;
    /// let ids = Ids::padded(&[&[5, 6, 2], &[7, 2]], 0);
    /// assert_eq!((ids.ids(), ids.lengths(), ids.length()), (&[5, 6, 2, 7, 2, 0][..], &[3, 2][..], 3));
    /// ```
    pub fn padded(rows: &[&[u32]], pad_id: u32) -> Self {
        let length = rows.iter().map(|row| row.len()).max().unwrap_or(0).max(1);
        let mut ids = Vec::with_capacity(rows.len() * length);
        for row in rows {
            ids.extend_from_slice(row);
            ids.resize(ids.len() + length - row.len(), pad_id);
        }
        Self { ids, lengths: rows.iter().map(|row| row.len()).collect(), length }
    }

    /// Row after row.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Tokens of each row.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Tokens and padding of each row.
    pub fn length(&self) -> usize {
        self.length
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.lengths.len()
    }
}
