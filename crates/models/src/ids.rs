//! Token ids of several sentences, filled up to one length.

use polyhead_tensor::{Device, Indices, Result};

/// rows × length ids; a row's tokens come first, padding after them. Cloning shares the ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    ids: Indices,
    lengths: Indices,
    length: usize,
}

impl Ids {
    /// Sentences side by side, the shorter ones filled up with `pad_id`. There is room for one token at least.
    ///
    /// ```
    /// use polyhead_models::Ids;
    /// let ids = Ids::padded(&[&[5, 6, 2], &[7, 2]], 0);
    /// assert_eq!((ids.ids().host(), ids.lengths().host()), (&[5, 6, 2, 7, 2, 0][..], &[3, 2][..]));
    /// assert_eq!((ids.rows(), ids.length()), (2, 3));
    /// ```
    pub fn padded(rows: &[&[u32]], pad_id: u32) -> Self {
        let length = rows.iter().map(|row| row.len()).max().unwrap_or(0).max(1);
        Self::filled(rows.iter().map(|&row| Some(row)), length, pad_id)
    }

    /// The same with room for `length` tokens; a row that is none has no tokens.
    ///
    /// # Panics
    /// If a row has more tokens.
    pub fn filled<'a>(rows: impl Iterator<Item = Option<&'a [u32]>>, length: usize, pad_id: u32) -> Self {
        let (mut ids, mut lengths) = (Vec::with_capacity(rows.size_hint().0 * length), Vec::new());
        for row in rows.map(Option::unwrap_or_default) {
            assert!(row.len() <= length, "{} tokens for a row of {length}", row.len());
            ids.extend_from_slice(row);
            ids.resize(ids.len() + length - row.len(), pad_id);
            lengths.push(row.len() as u32);
        }
        Self { ids: ids.into(), lengths: lengths.into(), length }
    }

    /// The same on `device`.
    ///
    /// # Errors
    /// If the card fails.
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        let [ids, lengths] = [&self.ids, &self.lengths].map(|numbers| numbers.to_device(device));
        Ok(Self { ids: ids?, lengths: lengths?, length: self.length })
    }

    /// The same sizes with other numbers, which may be on a card.
    ///
    /// # Panics
    /// If there are not as many.
    #[must_use]
    pub fn with(&self, ids: Indices, lengths: Indices) -> Self {
        assert!(ids.len() == self.ids.len() && lengths.len() == self.lengths.len(), "ids of another size");
        Self { ids, lengths, length: self.length }
    }

    /// Row after row.
    pub fn ids(&self) -> &Indices {
        &self.ids
    }

    /// Tokens of each row.
    pub fn lengths(&self) -> &Indices {
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
