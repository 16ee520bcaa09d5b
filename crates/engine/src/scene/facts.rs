//! The facts of scenes, and how many of them a caption has right.

use std::collections::BTreeMap;
use std::path::Path;

use polyhead_text::lines::Lines;
use serde::{Deserialize, Serialize};

use super::{Caption, Colour, Object, Relation, Shape, Size};
use crate::{Error, Result};

/// What is known of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct ObjectFacts {
    shape: Shape,
    colour: Colour,
    size: Size,
}

/// The facts of a scene.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SceneFacts {
    objects: Vec<ObjectFacts>,
    /// All true relations between two objects.
    relations: Vec<(usize, Relation, usize)>,
    /// The ninth of the picture that a single object is in: row and column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cell: Option<[usize; 2]>,
}

/// Facts of captions that are right, and all of them.
///
/// A mention is about the object that it has the most in common with, the shape before the colour. An object is right if its shape
/// is said; its colour and its size, if they are said of it; a relation, if it is true of the objects it is said of. Objects that
/// are missing and objects too many count as wrong, as do relations: all objects but one need one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FactCounts {
    /// Objects.
    pub objects: [u64; 2],
    /// Their colours.
    pub colours: [u64; 2],
    /// Their sizes, where they are said.
    pub sizes: [u64; 2],
    /// Relations between objects.
    pub relations: [u64; 2],
    /// Positions in the picture.
    pub positions: [u64; 2],
    /// Captions without anything wrong.
    pub caption: [u64; 2],
}

impl FactCounts {
    /// All of them, with their names.
    pub fn rows(&self) -> [(&'static str, [u64; 2]); 6] {
        [
            ("objects", self.objects),
            ("colours", self.colours),
            ("relations", self.relations),
            ("positions", self.positions),
            ("sizes", self.sizes),
            ("captions", self.caption),
        ]
    }

    /// Adds those of other captions.
    pub fn add(&mut self, other: &Self) {
        let Self { objects, colours, sizes, relations, positions, caption } = self;
        let all = [objects, colours, relations, positions, sizes, caption];
        for (own, (_, more)) in all.into_iter().zip(other.rows()) {
            own.iter_mut().zip(more).for_each(|(own, more)| *own += more);
        }
    }

    /// All facts together.
    pub fn all(&self) -> [u64; 2] {
        let rows = self.rows();
        [0, 1].map(|at| rows[..5].iter().map(|(_, counts)| counts[at]).sum())
    }

    /// The share of all facts that are right, in percent.
    pub fn percent(&self) -> f64 {
        let [right, all] = self.all();
        if all == 0 { 100.0 } else { 100.0 * right as f64 / all as f64 }
    }
}

impl SceneFacts {
    pub(super) fn new(objects: &[Object]) -> Self {
        let pairs = (0..objects.len()).flat_map(|one| (0..objects.len()).map(move |other| [one, other]));
        let relations = pairs.filter(|[one, other]| one != other).flat_map(|[one, other]| {
            let all = objects[one].relations(&objects[other]);
            all.into_iter().map(move |relation| (one, relation, other))
        });
        Self {
            relations: relations.collect(),
            cell: if let [only] = objects { Some(only.cell()) } else { None },
            objects: objects
                .iter()
                .map(|&Object { shape, colour, size, .. }| ObjectFacts { shape, colour, size })
                .collect(),
        }
    }

    /// How much of a caption is right.
    pub fn score(&self, caption: &str) -> FactCounts {
        let said = Caption::parse(caption);
        let object_of = self.matched(&said);
        let most = self.objects.len().max(said.mentions.len()) as u64;
        let pairs = || {
            let pairs = said.mentions.iter().zip(&object_of);
            pairs.filter_map(|(mention, object)| object.map(|at| (mention, &self.objects[at])))
        };
        let right = |fits: &dyn Fn(&super::Mention, &ObjectFacts) -> bool| {
            pairs().filter(|(mention, object)| fits(mention, object)).count() as u64
        };
        let colours = right(&|mention, own| mention.colour == Some(own.colour));
        let sized = said.mentions.iter().filter(|mention| mention.size.is_some()).count() as u64;
        let true_relations = said.relations.iter().filter(|(one, relation, other)| {
            let objects = (object_of[*one], object_of[*other]);
            matches!(objects, (Some(one), Some(other)) if self.relations.contains(&(one, *relation, other)))
        });
        let needed = self.objects.len().saturating_sub(1).max(said.relations.len()) as u64;
        let cells = said.cells.iter().filter(|cell| Some(**cell) == self.cell).count().min(1) as u64;
        let positions = said.cells.len().max(usize::from(self.cell.is_some())) as u64;
        let mut counts = FactCounts {
            objects: [right(&|mention, own| mention.shape == own.shape), most],
            colours: [colours, most],
            sizes: [right(&|mention, own| mention.size == Some(own.size)), sized],
            relations: [true_relations.count() as u64, needed],
            positions: [cells, positions],
            caption: [0, 1],
        };
        counts.caption[0] = u64::from(counts.rows()[..5].iter().all(|(_, [right, all])| right == all));
        counts
    }

    /// The object that each mention is about: pairs that have the most in common first, the shape before the colour.
    fn matched(&self, said: &Caption) -> Vec<Option<usize>> {
        let mut pairs: Vec<(u32, usize, usize)> = Vec::new();
        for (at, mention) in said.mentions.iter().enumerate() {
            for (index, object) in self.objects.iter().enumerate() {
                let common = 4 * u32::from(mention.shape == object.shape)
                    + 2 * u32::from(mention.colour == Some(object.colour))
                    + u32::from(mention.size == Some(object.size));
                pairs.push((common, at, index));
            }
        }
        pairs.sort_by_key(|(common, at, index)| (std::cmp::Reverse(*common), *at, *index));
        let mut object_of = vec![None; said.mentions.len()];
        let mut taken = vec![false; self.objects.len()];
        for (_, at, index) in pairs {
            if object_of[at].is_none() && !taken[index] {
                (object_of[at], taken[index]) = (Some(index), true);
            }
        }
        object_of
    }

    /// Checks that relations are between objects of the scene.
    fn is_consistent(&self) -> bool {
        let known = |index: &usize| *index < self.objects.len();
        self.relations.iter().all(|(one, _, other)| known(one) && known(other))
    }
}

/// The facts of a file with a JSON object per line, by the names of the images.
///
/// # Errors
/// If a line cannot be read; the message names it.
pub fn read_facts(path: &Path) -> Result<BTreeMap<String, SceneFacts>> {
    #[derive(Deserialize)]
    struct Line {
        image: String,
        #[serde(flatten)]
        facts: SceneFacts,
    }
    const HINT: &str = "polyhead data make scenes writes such files";
    let mut found = BTreeMap::new();
    let mut lines = Lines::open(path)?;
    let mut number = 0;
    while let Some(line) = lines.next_text()? {
        number += 1;
        let line: Line = serde_json::from_str(line).map_err(|error| {
            let message = format!("{error}, expected an object with image, objects and relations");
            Error::at(format!("{}:{number}", path.display()), message, HINT)
        })?;
        if !line.facts.is_consistent() {
            let message = "a relation of an object that the scene lacks, expected indices of objects";
            return Err(Error::at(format!("{}:{number}", path.display()), message, HINT));
        }
        found.insert(line.image, line.facts);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::{Scene, Set};
    use super::*;

    fn facts() -> SceneFacts {
        let object = |shape, colour, x, y| Object { shape, colour, size: Size::Small, x, y, radius: 90 };
        SceneFacts::new(&[
            object(Shape::Circle, Colour::Red, 200, 500),
            object(Shape::Square, Colour::Blue, 700, 540),
        ])
    }

    #[test]
    fn every_sentence_of_a_scene_is_right() {
        for set in Set::ALL {
            for index in 0..200 {
                let scene = Scene::make(5, set, index);
                let sentences = scene.sentences(4);
                assert!(sentences.len() >= 3, "{scene:?}");
                for sentence in sentences {
                    let counts = scene.facts().score(&sentence);
                    assert_eq!(counts.caption, [1, 1], "{sentence}: {counts:?}");
                    assert_eq!(counts.percent(), 100.0);
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_counts_where_it_is_wrong() {
        let score = |text: &str| {
            let FactCounts { objects, colours, relations, sizes, caption, .. } = facts().score(text);
            (objects, colours, relations, sizes, caption)
        };
        assert_eq!(
            score("a blue square is right of a small red circle"),
            ([2, 2], [2, 2], [1, 1], [1, 1], [1, 1])
        );
        // Swapped colours are wrong twice, but the relation is true of the shapes.
        assert_eq!(score("a blue circle is left of a red square"), ([2, 2], [0, 2], [1, 1], [0, 0], [0, 1]));
        assert_eq!(score("a red circle"), ([1, 2], [1, 2], [0, 1], [0, 0], [0, 1]));
        assert_eq!(
            score("a red circle is left of a blue square and above a red circle"),
            ([2, 3], [2, 3], [1, 2], [0, 0], [0, 1])
        );
        // The objects differ by less than the least distance along this axis.
        assert_eq!(score("a red circle is above a blue square").2, [0, 1]);
        assert_eq!(
            score("a large red star is left of a blue square"),
            ([1, 2], [2, 2], [1, 1], [0, 1], [0, 1])
        );
        assert_eq!(score(""), ([0, 2], [0, 2], [0, 1], [0, 0], [0, 1]));
        // Two objects have no position of their own.
        assert_eq!(facts().score("a red circle at the top").positions, [0, 1]);
    }

    #[test]
    fn files_of_facts_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("facts.jsonl");
        let line = |facts: &SceneFacts| {
            let mut value = serde_json::to_value(facts).unwrap();
            value["image"] = "a.png".into();
            value.to_string()
        };
        std::fs::write(&path, line(&facts()) + "\n").unwrap();
        assert_eq!(read_facts(&path).unwrap()["a.png"], facts());
        for (text, expected) in [
            ("{}", "facts.jsonl:1: missing field `image`"),
            (
                "{\"image\": \"a\", \"objects\": [], \"relations\": [[0, \"above\", 1]]}",
                "an object that the scene lacks",
            ),
            (
                "{\"image\": \"a\", \"objects\": [{\"shape\": \"blob\"}], \"relations\": []}",
                "unknown variant `blob`",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read_facts(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
