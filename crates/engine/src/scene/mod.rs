//! Rendered scenes with known facts, by which captioners are trained and measured: coloured shapes, their positions and relations,
//! and sentences about them.
//!
//! Lengths are thousandths of the side of the picture, held as integers. Scene i of a set is a pure function of (seed, set, i).
//! Some combinations of colour and shape, and some pairs of objects, occur in the test set alone ([`held_out_pairs`]).
//!
//! ```
//! use polyhead_engine::scene::{Scene, Set};
//! let scene = Scene::make(1, Set::Train, 0);
//! let facts = scene.facts();
//! for sentence in scene.sentences(3) {
//!     let counts = facts.score(&sentence);
//!     assert_eq!(counts.caption, [1, 1], "{sentence}");
//! }
//! assert_eq!(scene.render(64).size(), [64, 64]);
//! ```

mod caption;
mod facts;
mod render;
mod sentence;

use polyhead_random::Random;
use serde::{Deserialize, Serialize};

pub use self::caption::{Caption, Mention};
pub use self::facts::{FactCounts, SceneFacts, read_facts};

/// The shape of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Shape {
    Circle,
    Square,
    Triangle,
    Star,
    Cross,
    Ring,
}

/// The colour of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Colour {
    Red,
    Green,
    Blue,
    Yellow,
    Purple,
    Orange,
    White,
    Cyan,
}

/// The size of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Size {
    Small,
    Large,
}

/// Where an object is, seen from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Relation {
    #[serde(rename = "left of")]
    LeftOf,
    #[serde(rename = "right of")]
    RightOf,
    #[serde(rename = "above")]
    Above,
    #[serde(rename = "below")]
    Below,
}

/// A kind of object: its colour and shape.
pub type Kind = (Colour, Shape);

impl Shape {
    /// All shapes.
    pub const ALL: [Self; 6] =
        [Self::Circle, Self::Square, Self::Triangle, Self::Star, Self::Cross, Self::Ring];

    /// Its word in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Circle => "circle",
            Self::Square => "square",
            Self::Triangle => "triangle",
            Self::Star => "star",
            Self::Cross => "cross",
            Self::Ring => "ring",
        }
    }
}

impl Colour {
    /// All colours.
    pub const ALL: [Self; 8] = [
        Self::Red,
        Self::Green,
        Self::Blue,
        Self::Yellow,
        Self::Purple,
        Self::Orange,
        Self::White,
        Self::Cyan,
    ];

    /// Its word in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Red => "red",
            Self::Green => "green",
            Self::Blue => "blue",
            Self::Yellow => "yellow",
            Self::Purple => "purple",
            Self::Orange => "orange",
            Self::White => "white",
            Self::Cyan => "cyan",
        }
    }
}

impl Size {
    /// Its word in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
        }
    }
}

/// A set of scenes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// Scenes to train on.
    Train,
    /// Scenes of the same kinds.
    Valid,
    /// Scenes with a combination of colour and shape (even numbers), or a pair of objects (odd ones), that the other sets lack.
    Test,
}

impl Set {
    /// All sets.
    pub const ALL: [Self; 3] = [Self::Train, Self::Valid, Self::Test];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Valid => "valid",
            Self::Test => "test",
        }
    }
}

/// The combinations of colour and shape that only the test set has: one of each shape.
pub const HELD_OUT: [Kind; 6] = [
    (Colour::Green, Shape::Circle),
    (Colour::Purple, Shape::Square),
    (Colour::Blue, Shape::Triangle),
    (Colour::Red, Shape::Star),
    (Colour::Yellow, Shape::Cross),
    (Colour::White, Shape::Ring),
];
/// One of so many pairs of the other combinations occurs in the test set alone.
const PAIRS_OF_ONE: usize = 10;
/// Random streams.
const SETS: u64 = 0x5343_454E;
const PAIRS: u64 = 0x5041_4952;
/// Smallest distance along an axis, in thousandths, by which an object is left of or above another.
const APART: i32 = 120;
/// Free space between two objects.
const GAP: i32 = 25;
/// Half the side of a small and of a large object, and the most by which it varies.
const RADII: [i32; 2] = [95, 160];
const RADIUS_CHANGE: usize = 12;

/// An object of a scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// Its shape.
    pub shape: Shape,
    /// Its colour.
    pub colour: Colour,
    /// Its size.
    pub size: Size,
    /// Its centre from the left, in thousandths of the side.
    pub x: i32,
    /// Its centre from the top.
    pub y: i32,
    /// Half its side.
    pub radius: i32,
}

impl Object {
    /// Colour and shape.
    pub fn kind(&self) -> Kind {
        (self.colour, self.shape)
    }

    /// All true relations to another object.
    pub fn relations(&self, other: &Self) -> Vec<Relation> {
        let along = |own: i32, other: i32, [less, more]: [Relation; 2]| match other - own {
            far if far >= APART => Some(less),
            far if far <= -APART => Some(more),
            _ => None,
        };
        let across = along(self.x, other.x, [Relation::LeftOf, Relation::RightOf]);
        across.into_iter().chain(along(self.y, other.y, [Relation::Above, Relation::Below])).collect()
    }

    /// The ninth of the picture that it is in: row and column.
    pub fn cell(&self) -> [usize; 2] {
        [self.y, self.x].map(|place| (3 * place / 1000).clamp(0, 2) as usize)
    }
}

/// A scene.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scene {
    /// Its one to three objects, no two of one kind.
    pub objects: Vec<Object>,
    /// The set it belongs to.
    pub set: Set,
    random: Random,
}

/// Random numbers one after the other.
struct Draws {
    random: Random,
    next: u64,
}

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.next += 1;
        self.random.below(bound, self.next)
    }

    fn between(&mut self, [first, last]: [i32; 2]) -> i32 {
        first + self.below((last - first + 1) as usize) as i32
    }
}

/// All combinations that training has.
pub fn known_kinds() -> Vec<Kind> {
    let all = Colour::ALL.into_iter().flat_map(|colour| Shape::ALL.map(|shape| (colour, shape)));
    all.filter(|kind| !HELD_OUT.contains(kind)).collect()
}

/// The pairs of known combinations that only the test set has.
pub fn held_out_pairs() -> Vec<[Kind; 2]> {
    let kinds = known_kinds();
    let random = Random::new(PAIRS);
    let pairs = (0..kinds.len()).flat_map(|second| (0..second).map(move |first| [first, second]));
    let held = pairs.zip(0..).filter(|(_, index)| random.below(PAIRS_OF_ONE, *index) == 0);
    held.map(|(pair, _)| pair.map(|at| kinds[at])).collect()
}

impl Scene {
    /// Scene `index` of a set.
    pub fn make(seed: u64, set: Set, index: u64) -> Self {
        let own = Random::new(Random::new(seed ^ SETS).stream_pair(set as u64, index).u64(0));
        let pairs = held_out_pairs();
        let scene = (0..).find_map(|attempt| {
            let mut draws = Draws { random: own.stream(attempt), next: 0 };
            let kinds = kinds(&mut draws, (set, index), &pairs)?;
            let objects = placed(&mut draws, &kinds)?;
            Some(Self { objects, set, random: own.stream(u64::MAX) })
        });
        scene.expect("one of endless attempts succeeds")
    }

    /// The facts that captions are compared with.
    pub fn facts(&self) -> SceneFacts {
        SceneFacts::new(&self.objects)
    }

    /// Up to `most` different sentences about it.
    pub fn sentences(&self, most: usize) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for attempt in 0..8 * most as u64 {
            let mut draws = Draws { random: self.random.stream(attempt), next: 0 };
            let sentence = sentence::sentence(&self.objects, &mut draws);
            if found.len() < most && !found.contains(&sentence) {
                found.push(sentence);
            }
        }
        found
    }

    /// What makes it a scene of the test set alone.
    pub fn held_out(&self) -> Option<&'static str> {
        let kinds: Vec<Kind> = self.objects.iter().map(Object::kind).collect();
        match self.set {
            Set::Train | Set::Valid => None,
            Set::Test if kinds.iter().any(|kind| HELD_OUT.contains(kind)) => Some("combination"),
            Set::Test => Some("pair"),
        }
    }
}

/// The kinds of the objects of a scene; none if the draws do not fit the set.
fn kinds(draws: &mut Draws, (set, index): (Set, u64), pairs: &[[Kind; 2]]) -> Option<Vec<Kind>> {
    let wants_pair = set == Set::Test && index % 2 == 1;
    let count = [1, 2, 2, 3, 3][draws.below(5)].max(if wants_pair { 2 } else { 1 });
    let known = known_kinds();
    let mut kinds: Vec<Kind> = Vec::with_capacity(count);
    if set == Set::Test && !wants_pair {
        kinds.push(HELD_OUT[draws.below(HELD_OUT.len())]);
    } else if wants_pair {
        kinds.extend(pairs[draws.below(pairs.len())]);
    }
    while kinds.len() < count {
        kinds.push(known[draws.below(known.len())]);
    }
    // Any of them may come first in a sentence.
    for last in (1..count).rev() {
        kinds.swap(last, draws.below(last + 1));
    }
    let pair = |[first, second]: &[Kind; 2]| kinds.contains(first) && kinds.contains(second);
    let is_mixed = (1..count).any(|last| kinds[..last].contains(&kinds[last]));
    let has_pair = set != Set::Test && pairs.iter().any(pair);
    (!is_mixed && !has_pair).then_some(kinds)
}

/// Objects at free places; none if there is no room.
fn placed(draws: &mut Draws, kinds: &[Kind]) -> Option<Vec<Object>> {
    let mut objects: Vec<Object> = Vec::with_capacity(kinds.len());
    for &(colour, shape) in kinds {
        let size = [Size::Small, Size::Large][draws.below(2)];
        let radius = RADII[size as usize] + draws.below(2 * RADIUS_CHANGE + 1) as i32 - RADIUS_CHANGE as i32;
        let (x, y) = if kinds.len() == 1 {
            // In the middle of a ninth, so that its position has one name.
            let mut place = || [230, 500, 770][draws.below(3)] + draws.between([-45, 45]);
            (place(), place())
        } else {
            let limits = [radius + 10, 990 - radius];
            (draws.between(limits), draws.between(limits))
        };
        let object = Object { shape, colour, size, x, y, radius };
        let is_free = objects.iter().all(|other| {
            let far = radius + other.radius + GAP;
            (other.x - x).pow(2) + (other.y - y).pow(2) >= far * far
        });
        if !is_free {
            return None;
        }
        objects.push(object);
    }
    Some(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_out_combinations_and_pairs_occur_in_the_test_set_alone() {
        let pairs = held_out_pairs();
        assert!((50..140).contains(&pairs.len()), "{}", pairs.len());
        let has_pair = |scene: &Scene| {
            let kinds: Vec<Kind> = scene.objects.iter().map(Object::kind).collect();
            pairs.iter().any(|pair| pair.iter().all(|kind| kinds.contains(kind)))
        };
        let has_kind = |scene: &Scene| scene.objects.iter().any(|own| HELD_OUT.contains(&own.kind()));
        for index in 0..400 {
            for set in [Set::Train, Set::Valid] {
                let scene = Scene::make(3, set, index);
                assert!(!has_kind(&scene) && !has_pair(&scene), "{scene:?}");
                assert_eq!(scene.held_out(), None);
            }
            let scene = Scene::make(3, Set::Test, index);
            assert!(if index % 2 == 0 { has_kind(&scene) } else { has_pair(&scene) && !has_kind(&scene) });
            assert_eq!(scene.held_out(), Some(if index % 2 == 0 { "combination" } else { "pair" }));
        }
        // Each colour and each shape of a held-out combination occurs in training with others.
        let known = known_kinds();
        for (colour, shape) in HELD_OUT {
            assert!(known.iter().filter(|own| own.0 == colour).count() > 4);
            assert!(known.iter().filter(|own| own.1 == shape).count() > 6);
        }
    }

    #[test]
    fn scenes_are_a_function_of_seed_set_and_index_and_objects_never_overlap() {
        let mut counts = [0; 4];
        for index in 0..300 {
            let scene = Scene::make(7, Set::Train, index);
            assert_eq!(scene, Scene::make(7, Set::Train, index));
            assert_ne!(scene.objects, Scene::make(8, Set::Train, index).objects);
            assert_ne!(scene.objects, Scene::make(7, Set::Valid, index).objects);
            counts[scene.objects.len()] += 1;
            for (at, one) in scene.objects.iter().enumerate() {
                let inside = |place: i32| place - one.radius >= 0 && place + one.radius <= 1000;
                assert!(inside(one.x) && inside(one.y), "{one:?}");
                for other in &scene.objects[..at] {
                    let far = f64::from((one.x - other.x).pow(2) + (one.y - other.y).pow(2)).sqrt();
                    assert!(far > f64::from(one.radius + other.radius), "{scene:?}");
                    assert!(!one.relations(other).is_empty(), "{scene:?}");
                    assert_ne!(one.kind(), other.kind());
                }
            }
        }
        assert!(counts[1..].iter().all(|count| *count > 40), "{counts:?}");
    }

    #[test]
    fn relations_are_those_of_the_centres() {
        let object =
            |x, y| Object { shape: Shape::Star, colour: Colour::Red, size: Size::Small, x, y, radius: 90 };
        let [middle, right, low] = [object(500, 500), object(700, 560), object(480, 800)];
        assert_eq!(middle.relations(&right), [Relation::LeftOf]);
        assert_eq!(right.relations(&middle), [Relation::RightOf]);
        assert_eq!(low.relations(&middle), [Relation::Below]);
        assert_eq!(right.relations(&low), [Relation::RightOf, Relation::Above]);
        assert_eq!((middle.cell(), low.cell()), ([1, 1], [2, 1]));
    }
}
