//! Lexical shortlists: the target ids of a sentence follow from its source ids.
//!
//! list(x) = always ∪ frequent(language) ∪ ⋃ candidates(x_i) ∪ x, where the candidates of a source id are the most probable
//! target ids, p(y | x_i), of a lexical translation model. The source's own ids are listed where both sides share a
//! vocabulary: names are copied. (Jean et al. 2015; L'Hostis, Grangier & Auli 2016; Kim et al. 2019.)

/// The candidates of one target language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LexicalTable {
    /// Target ids that are frequent in the language, ascending.
    pub frequent: Vec<u16>,
    /// Number of candidates of each source id.
    pub counts: Vec<u8>,
    /// The candidates of all source ids, one after the other.
    pub candidates: Vec<u16>,
}

/// The tables of a model, ready to choose from.
#[derive(Debug, Clone)]
pub struct LexicalShortlist {
    vocab_size: usize,
    source_tokens: SourceTokens,
    languages: Vec<LanguageTable>,
}

/// The use of the source's own ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceTokens {
    /// They are listed: both sides share a vocabulary.
    Listed,
    /// They are not: they mean other tokens in the target vocabulary.
    Foreign,
}

#[derive(Debug, Clone)]
struct LanguageTable {
    /// The id of the language tag before the source; `None` for a model without tags.
    tag: Option<u32>,
    /// A bit for each id that is listed for every sentence.
    base: Vec<u64>,
    /// Where the candidates of each source id begin.
    starts: Vec<u32>,
    candidates: Vec<u16>,
}

impl LexicalShortlist {
    /// Tables of a model with `vocab_size` target ids: `always` is listed for every sentence, each table for sources that
    /// begin with its tag. Ids outside the vocabulary are left out.
    pub fn new(
        vocab_size: usize,
        source_tokens: SourceTokens,
        always: &[u32],
        tables: &[(Option<u32>, LexicalTable)],
    ) -> Self {
        let language = |(tag, table): &(Option<u32>, LexicalTable)| {
            let mut base = vec![0; vocab_size.div_ceil(64)];
            let ids = always.iter().copied().chain(table.frequent.iter().map(|&id| id.into()));
            ids.for_each(|id| set(&mut base, id));
            let ends = table.counts.iter().scan(0, |end, &count| {
                *end += u32::from(count);
                Some(*end)
            });
            let starts = std::iter::once(0).chain(ends).collect();
            LanguageTable { tag: *tag, base, starts, candidates: table.candidates.clone() }
        };
        Self { vocab_size, source_tokens, languages: tables.iter().map(language).collect() }
    }

    /// The list of a source and of the ids that its translation begins with, ascending; `None` if there is no table for
    /// its language, or if the list would hold half of the vocabulary or more, where it does not pay.
    pub fn ids(&self, source: &[u32], prefix: &[u32]) -> Option<Vec<u32>> {
        let tagged = |language: &&LanguageTable| language.tag.is_none_or(|tag| source.first() == Some(&tag));
        let language = self.languages.iter().find(tagged)?;
        let mut listed = language.base.clone();
        for &id in source {
            for &candidate in language.candidates(id) {
                set(&mut listed, candidate.into());
            }
        }
        let copied = if self.source_tokens == SourceTokens::Listed { source } else { &[] };
        copied.iter().chain(prefix).for_each(|&id| set(&mut listed, id));
        let ids = (0..).zip(&listed).flat_map(|(word, &bits)| Bits { word, bits });
        let ids: Vec<u32> = ids.take_while(|id| (*id as usize) < self.vocab_size).collect();
        (ids.len() * 2 < self.vocab_size).then_some(ids)
    }
}

impl LanguageTable {
    fn candidates(&self, source: u32) -> &[u16] {
        let range = self.starts.get(source as usize).zip(self.starts.get(source as usize + 1));
        let found = range.and_then(|(&start, &end)| self.candidates.get(start as usize..end as usize));
        found.unwrap_or_default()
    }
}

/// Sets the bit of an id; an id outside the vocabulary has none.
fn set(bits: &mut [u64], id: u32) {
    if let Some(word) = bits.get_mut(id as usize / 64) {
        *word |= 1 << (id % 64);
    }
}

/// The ids of the set bits of one word.
struct Bits {
    word: u32,
    bits: u64,
}

impl Iterator for Bits {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let bit = self.bits.trailing_zeros();
        self.bits &= self.bits.wrapping_sub(1);
        (bit < 64).then(|| self.word * 64 + bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables() -> Vec<(Option<u32>, LexicalTable)> {
        let german =
            LexicalTable { frequent: vec![20], counts: vec![0, 0, 2, 1], candidates: vec![30, 64, 31] };
        let french = LexicalTable { frequent: vec![21], counts: vec![0, 0, 1], candidates: vec![40] };
        vec![(Some(5), german), (Some(6), french)]
    }

    #[test]
    fn a_list_has_what_its_source_asks_for() {
        let lexical = LexicalShortlist::new(100, SourceTokens::Listed, &[0, 1], &tables());
        assert_eq!(lexical.ids(&[5, 2, 9, 0], &[]), Some(vec![0, 1, 2, 5, 9, 20, 30, 64]));
        assert_eq!(lexical.ids(&[6, 2, 3, 99], &[50]), Some(vec![0, 1, 2, 3, 6, 21, 40, 50, 99]));
        assert_eq!(lexical.ids(&[7, 2], &[]), None, "no table for this language");
        assert_eq!(lexical.ids(&[], &[]), None);
        let foreign = LexicalShortlist::new(100, SourceTokens::Foreign, &[0, 1], &tables());
        assert_eq!(foreign.ids(&[5, 2, 9, 0], &[]), Some(vec![0, 1, 20, 30, 64]));
    }

    #[test]
    fn a_list_of_half_the_vocabulary_does_not_pay() {
        let lexical =
            LexicalShortlist::new(10, SourceTokens::Listed, &[0, 1], &[(None, tables()[0].1.clone())]);
        assert_eq!(lexical.ids(&[2, 3], &[]), Some(vec![0, 1, 2, 3]));
        assert_eq!(lexical.ids(&[2, 3, 4], &[]), None);
    }
}
