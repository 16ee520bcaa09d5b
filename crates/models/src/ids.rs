//! Token ids of a batch of sequences, padded to one length.
//!
//! A row of a model that reads several sources is one list: each source with its end token, one after the other.
//! [`Ids::divided`] takes the list apart.

use std::sync::Arc;

use polyhead_attention::several_sources::SourceOrder;
use polyhead_tensor::{Device, Indices, Result};

/// Token ids, rows × length; a row's tokens come first, then padding. Cloning shares the ids.
#[derive(Debug, Clone)]
pub struct Ids {
    ids: Indices,
    lengths: Indices,
    length: usize,
    /// The ids before those of words that the vocabulary lacks were replaced.
    extended: Option<Indices>,
    /// The token type of each token; all are 0 without.
    types: Option<Indices>,
    /// The sources that the rows consist of.
    sources: Option<Arc<DividedSources>>,
}

/// The sources of a model that reads several.
#[derive(Debug, Clone)]
struct DividedSources {
    each: Vec<Ids>,
    order: SourceOrder,
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
        Self { ids: ids.into(), lengths: lengths.into(), length, extended: None, types: None, sources: None }
    }

    /// Copies the batch to `device`.
    ///
    /// # Errors
    /// If the device fails.
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        let [ids, lengths] = [&self.ids, &self.lengths].map(|indices| indices.to_device(device));
        let extended = self.extended.as_ref().map(|extended| extended.to_device(device)).transpose()?;
        let types = self.types.as_ref().map(|types| types.to_device(device)).transpose()?;
        let sources = match &self.sources {
            None => None,
            Some(sources) => {
                let each =
                    sources.each.iter().map(|source| source.to_device(device)).collect::<Result<_>>()?;
                Some(Arc::new(DividedSources { each, order: sources.order.to_device(device)? }))
            }
        };
        Ok(Self { ids: ids?, lengths: lengths?, length: self.length, extended, types, sources })
    }

    /// The batch taken apart into `count` sources, each of which ends with `end_id`; a source that a row does not have is
    /// empty, and the last one takes what is left. Sources are padded with `pad_id`, each to its longest row or all to
    /// `length`. No change to a batch on a GPU, or one that was divided before.
    ///
    /// ```
    /// use polyhead_models::Ids;
    /// let ids = Ids::padded(&[&[5, 6, 2, 7, 2], &[2, 8, 2], &[9, 2]], 0).divided((2, 2), None, 0);
    /// let [first, second] = ids.sources() else { panic!("two sources") };
    /// assert_eq!((first.ids().host(), first.lengths().host()), (&[5, 6, 2, 2, 0, 0, 9, 2, 0][..], &[3, 1, 2][..]));
    /// assert_eq!((second.ids().host(), second.lengths().host()), (&[7, 2, 8, 2, 0, 0][..], &[2, 2, 0][..]));
    /// ```
    #[must_use]
    pub fn divided(&self, (count, end_id): (usize, u32), length: Option<usize>, pad_id: u32) -> Self {
        if count < 2 || self.sources.is_some() || !self.ids.is_on_host() {
            return self.clone();
        }
        let rows = self.ids.host().chunks_exact(self.length).zip(self.lengths.host());
        let rows = rows.map(|(row, &length)| divided(&row[..length as usize], count, end_id));
        let rows: Vec<Vec<&[u32]>> = rows.collect();
        let source = |index: usize| {
            let own = rows.iter().map(|row| row[index]);
            let longest = own.clone().map(<[u32]>::len).max().unwrap_or(0).max(1);
            Self::padded_to(own.map(Some), length.unwrap_or(longest), pad_id)
        };
        let each: Vec<Self> = (0..count).map(source).collect();
        let padded: Vec<usize> = each.iter().map(|source| source.length).collect();
        let parts = each.iter().map(|source| source.lengths.host().to_vec()).collect();
        let order = SourceOrder::new(parts, &padded, self.length);
        Self { sources: Some(Arc::new(DividedSources { each, order })), ..self.clone() }
    }

    /// The sources of a batch that was divided ([`Self::divided`]), else the batch alone.
    pub fn sources(&self) -> &[Self] {
        self.sources.as_ref().map_or(std::slice::from_ref(self), |sources| &sources.each)
    }

    /// The order of the tokens of the sources of a batch that was divided.
    pub fn order(&self) -> Option<&SourceOrder> {
        self.sources.as_ref().map(|sources| &sources.order)
    }

    /// The lists that differ between divided batches of one shape: ids and lengths of each source, then their order.
    pub fn source_lists(&self) -> Vec<&Indices> {
        let Some(sources) = &self.sources else { return Vec::new() };
        let own = sources.each.iter().flat_map(|source| [&source.ids, &source.lengths]);
        own.chain([sources.order.order(), sources.order.lengths()]).collect()
    }

    /// The same batch with other such lists, which may be on a GPU.
    ///
    /// # Panics
    /// If there are not as many, or the sizes differ.
    #[must_use]
    pub fn with_source_lists(self, lists: &[Indices]) -> Self {
        let Some(sources) = &self.sources else { return self };
        assert!(lists.len() == 2 * sources.each.len() + 2, "{} lists", lists.len());
        let pairs = sources.each.iter().zip(lists.chunks_exact(2));
        let each = pairs.map(|(own, pair)| own.with(pair[0].clone(), pair[1].clone())).collect();
        let [.., order, lengths] = lists else { unreachable!("counted above") };
        let order = sources.order.with(order.clone(), lengths.clone());
        Self { sources: Some(Arc::new(DividedSources { each, order })), ..self }
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
        Self { ids, lengths, extended: None, ..self.clone() }
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

/// A row as `count` sources, each with its end token.
fn divided(mut row: &[u32], count: usize, end_id: u32) -> Vec<&[u32]> {
    let mut sources = Vec::with_capacity(count);
    for _ in 1..count {
        let end = row.iter().position(|&id| id == end_id).map_or(row.len(), |end| end + 1);
        let (own, rest) = row.split_at(end);
        sources.push(own);
        row = rest;
    }
    sources.push(row);
    sources
}
