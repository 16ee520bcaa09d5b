//! What a caption says: the objects it mentions, and their relations. Words that say neither are skipped.

use super::sentence::CELLS;
use super::{Colour, Relation, Shape, Size};

/// An object that a caption mentions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mention {
    /// Its shape.
    pub shape: Shape,
    /// Its colour, if it is said.
    pub colour: Option<Colour>,
    /// Its size, if it is said.
    pub size: Option<Size>,
}

/// What a caption says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caption {
    /// The objects, in the order of the text.
    pub mentions: Vec<Mention>,
    /// Relations between two mentions.
    pub relations: Vec<(usize, Relation, usize)>,
    /// The ninths of the picture that are named: row and column.
    pub cells: Vec<[usize; 2]>,
}

impl Caption {
    /// Reads a caption. A relation is between the mention before it and the next one; after "and", between the subject of the
    /// relation before and the next mention.
    pub fn parse(text: &str) -> Self {
        let lower = text.to_lowercase();
        let words: Vec<&str> =
            lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let mut found = Self::default();
        let (mut colour, mut size, mut pending) = (None, None, None);
        let (mut subject, mut is_joined) = (None, false);
        let mut at = 0;
        while at < words.len() {
            let word = words[at];
            at += 1;
            if let Some(own) = Colour::ALL.into_iter().find(|own| own.name() == word) {
                colour = Some(own);
            } else if let Some(own) = [Size::Small, Size::Large].into_iter().find(|own| own.name() == word) {
                size = Some(own);
            } else if let Some(shape) = Shape::ALL.into_iter().find(|own| own.name() == word) {
                let mention = Mention { shape, colour: colour.take(), size: size.take() };
                let index = found.mentions.len();
                found.mentions.push(mention);
                if let Some((own, relation)) = pending.take() {
                    found.relations.push((own, relation, index));
                }
            } else if word == "and" {
                is_joined = true;
            } else if word == "which" {
                is_joined = false;
            } else if let Some(relation) = relation(word, words.get(at).copied()) {
                let last = found.mentions.len().checked_sub(1);
                let own = if is_joined { subject.or(last) } else { last };
                is_joined = false;
                subject = own;
                pending = own.map(|own| (own, relation));
            } else if let Some(length) = cell(&words[at - 1..], &mut found.cells) {
                at += length - 1;
            }
        }
        found
    }
}

fn relation(word: &str, next: Option<&str>) -> Option<Relation> {
    match (word, next) {
        ("left", Some("of")) => Some(Relation::LeftOf),
        ("right", Some("of")) => Some(Relation::RightOf),
        ("above" | "over", _) => Some(Relation::Above),
        ("below" | "under" | "beneath", _) => Some(Relation::Below),
        _ => None,
    }
}

/// The longest name of a ninth that `words` begin with, added to `cells`; its number of words.
fn cell(words: &[&str], cells: &mut Vec<[usize; 2]>) -> Option<usize> {
    let named = CELLS.iter().enumerate().filter_map(|(index, name)| {
        let own: Vec<&str> = name.split(' ').collect();
        // "to the left of" is a relation.
        let is_relation = words.get(own.len()) == Some(&"of");
        (words.starts_with(&own) && !is_relation).then_some((own.len(), index))
    });
    let (length, index) = named.max()?;
    cells.push([index / 3, index % 3]);
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captions_are_read_as_they_are_meant() {
        let own = |colour, shape| Mention { shape, colour: Some(colour), size: None };
        let found = Caption::parse("A red circle is left of a blue square, which is above an orange star.");
        assert_eq!(
            found.mentions,
            [
                own(Colour::Red, Shape::Circle),
                own(Colour::Blue, Shape::Square),
                own(Colour::Orange, Shape::Star)
            ]
        );
        assert_eq!(found.relations, [(0, Relation::LeftOf, 1), (1, Relation::Above, 2)]);
        let found = Caption::parse("a red circle is over a blue square and to the right of a cyan ring");
        assert_eq!(found.relations, [(0, Relation::Above, 1), (0, Relation::RightOf, 2)]);
        let found = Caption::parse("at the top left is a small white cross");
        assert_eq!((found.cells, found.relations), (vec![[0, 0]], Vec::new()));
        assert_eq!(found.mentions[0].size, Some(Size::Small));
        assert_eq!(Caption::parse("a ring on the right").cells, [[1, 2]]);
        assert_eq!(Caption::parse("in the centre").cells, [[1, 1]]);
        assert_eq!(Caption::parse("left of above"), Caption::default());
        assert_eq!(Caption::parse(""), Caption::default());
    }
}
