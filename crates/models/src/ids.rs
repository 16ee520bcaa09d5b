//! Token ids of a batch of sequences, padded to one length.

use polyhead_tensor::{Device, Indices, Result};

use crate::SpecialIds;

/// Token ids, rows × length; a row's tokens come first, then padding. Cloning shares the ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    ids: Indices,
    lengths: Indices,
    length: usize,
    /// The ids before those of words that the vocabulary lacks were replaced.
    extended: Option<Indices>,
    /// The token type of each token; all are 0 without.
    types: Option<Indices>,
}

impl Ids {
    /// A batch of sequences, padded with `pad_id` to the longest, and to at least one token.
    ///
    /// ```
    /// use polyhead_models::Ids;
    /// let ids = Ids::padded(&[&[5, 6, 2], &[7, 2]], 0);
    /// assert_eq!((ids.ids().host(), ids.lengths().host()), (&[5, 6, 2, 7, 2, 0][..], &[3, 2][..]));
    /// assert_eq!((ids.rows(), ids.length()), (2, 3));
    /// ```
    pub fn padded(rows: &[&[u32]], pad_id: u32) -> Self {
        let length = rows.iter().map(|row| row.len()).max().unwrap_or(0).max(1);
        Self::padded_to(rows.iter().map(|&row| Some(row)), length, pad_id)
    }

    /// A batch padded to `length` tokens; a row that is `None` has no tokens.
    ///
    /// # Panics
    /// If a row has more than `length` tokens.
    pub fn padded_to<'a>(rows: impl Iterator<Item = Option<&'a [u32]>>, length: usize, pad_id: u32) -> Self {
        let (mut ids, mut lengths) = (Vec::with_capacity(rows.size_hint().0 * length), Vec::new());
        for row in rows.map(Option::unwrap_or_default) {
            assert!(row.len() <= length, "{} tokens for a row of {length}", row.len());
            ids.extend_from_slice(row);
            ids.resize(ids.len() + length - row.len(), pad_id);
            lengths.push(row.len() as u32);
        }
        Self { ids: ids.into(), lengths: lengths.into(), length, extended: None, types: None }
    }

    /// Texts with their end tokens as a decoder learns them (teacher forcing): what it reads, each after the start token and without
    /// the end token, and the token that it is to predict after each; both padded to `length`.
    ///
    /// ```
    /// use polyhead_models::{Ids, SpecialIds};
    /// let special = SpecialIds { pad_id: 0, end_id: 2, start_id: 1 };
    /// let (given, expected) = Ids::shifted([Some(&[5, 6, 2][..]), None].into_iter(), 3, special);
    /// assert_eq!(given.ids().host(), [1, 5, 6, 0, 0, 0]);
    /// assert_eq!(expected.host(), [5, 6, 2, 0, 0, 0]);
    /// ```
    ///
    /// # Panics
    /// If a text is empty or has more than `length` tokens.
    pub fn shifted<'a>(
        rows: impl Iterator<Item = Option<&'a [u32]>> + Clone,
        length: usize,
        SpecialIds { pad_id, start_id, .. }: SpecialIds,
    ) -> (Self, Indices) {
        let given = |row: &[u32]| {
            let [all @ .., _] = row else { panic!("a text has an end token") };
            std::iter::once(start_id).chain(all.iter().copied()).collect::<Vec<u32>>()
        };
        let given: Vec<Option<Vec<u32>>> = rows.clone().map(|row| row.map(given)).collect();
        let given = Self::padded_to(given.iter().map(Option::as_deref), length, pad_id);
        (given, Self::padded_to(rows, length, pad_id).ids)
    }

    /// Copies the batch to `device`.
    ///
    /// # Errors
    /// If the device fails.
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        let [ids, lengths] = [&self.ids, &self.lengths].map(|indices| indices.to_device(device));
        let extended = self.extended.as_ref().map(|extended| extended.to_device(device)).transpose()?;
        let types = self.types.as_ref().map(|types| types.to_device(device)).transpose()?;
        Ok(Self { ids: ids?, lengths: lengths?, length: self.length, extended, types })
    }

    /// The batch with `unknown_id` for the words that a vocabulary of `vocab_size` ids lacks, whose own ids are those from
    /// `vocab_size` on; [`Self::extended`] still has them. No change to a batch on a GPU, or one that was known before.
    #[must_use]
    pub fn known(&self, vocab_size: usize, unknown_id: u32) -> Self {
        if self.extended.is_some() || !self.ids.is_on_host() {
            return self.clone();
        }
        let known = |&id: &u32| if (id as usize) < vocab_size { id } else { unknown_id };
        let ids: Indices = self.ids.host().iter().map(known).collect();
        Self { ids, extended: Some(self.ids.clone()), ..self.clone() }
    }

    /// True if words that the vocabulary lacks have ids of their own ([`Self::known`]).
    pub fn is_extended(&self) -> bool {
        self.extended.is_some()
    }

    /// All ids, row by row, with the ids of words that the vocabulary lacks.
    pub fn extended(&self) -> &Indices {
        self.extended.as_ref().unwrap_or(&self.ids)
    }

    /// The same batch with other ids of words that the vocabulary lacks, which may be on a GPU.
    ///
    /// # Panics
    /// If the sizes differ.
    #[must_use]
    pub fn with_extended(self, extended: Indices) -> Self {
        assert!(extended.len() == self.ids.len(), "ids of a different size");
        Self { extended: Some(extended), ..self }
    }

    /// A batch of the same sizes with other ids, which may be on a GPU.
    ///
    /// # Panics
    /// If the sizes differ.
    #[must_use]
    pub fn with(&self, ids: Indices, lengths: Indices) -> Self {
        assert!(
            ids.len() == self.ids.len() && lengths.len() == self.lengths.len(),
            "ids of a different size"
        );
        Self { ids, lengths, length: self.length, extended: None, types: self.types.clone() }
    }

    /// The same batch with the token type of each token; rows are padded with type 0.
    ///
    /// # Panics
    /// If a row has another number of types than tokens.
    #[must_use]
    pub fn with_types(self, rows: &[&[u32]]) -> Self {
        let mut types = Vec::with_capacity(self.ids.len());
        for (row, length) in rows.iter().zip(self.lengths.host()) {
            assert!(row.len() == *length as usize, "{} types for {length} tokens", row.len());
            types.extend_from_slice(row);
            types.resize(types.len() + self.length - row.len(), 0);
        }
        assert!(types.len() == self.ids.len(), "types of {} rows", rows.len());
        Self { types: Some(types.into()), ..self }
    }

    /// The token type of each token; `None` if all are 0.
    pub fn types(&self) -> Option<&Indices> {
        self.types.as_ref()
    }

    /// All ids, row by row.
    pub fn ids(&self) -> &Indices {
        &self.ids
    }

    /// Number of tokens of each row, without padding.
    pub fn lengths(&self) -> &Indices {
        &self.lengths
    }

    /// Length of a row, including padding.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.lengths.len()
    }
}
