//! Sentences about a scene, drawn at random among true ones.

use super::{Draws, Object, Relation};

/// The names of the ninths of a picture, row by row.
pub(super) const CELLS: [&str; 9] = [
    "at the top left",
    "at the top",
    "at the top right",
    "on the left",
    "in the centre",
    "on the right",
    "at the bottom left",
    "at the bottom",
    "at the bottom right",
];

/// A true sentence about all objects.
pub(super) fn sentence(objects: &[Object], draws: &mut Draws) -> String {
    let with_size = draws.below(2) == 1;
    let mut order: Vec<usize> = (0..objects.len()).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, draws.below(last + 1));
    }
    let named: Vec<String> = order.iter().map(|&at| named(&objects[at], with_size)).collect();
    let own: Vec<&Object> = order.iter().map(|&at| &objects[at]).collect();
    let relation = |draws: &mut Draws, one: &Object, other: &Object| {
        let all = one.relations(other);
        words(all[draws.below(all.len())], draws.below(2))
    };
    match (&named[..], &own[..]) {
        ([a], [one]) => {
            let [row, column] = one.cell();
            let place = CELLS[3 * row + column];
            match draws.below(3) {
                0 => format!("{a} {place}"),
                1 => format!("there is {a} {place}"),
                _ => format!("{place} is {a}"),
            }
        }
        ([a, b], [one, two]) => {
            let first = relation(draws, one, two);
            match draws.below(2) {
                0 => format!("{a} is {first} {b}"),
                _ => format!("there is {a} {first} {b}"),
            }
        }
        ([a, b, c], [one, two, three]) => {
            let first = relation(draws, one, two);
            match draws.below(2) {
                0 => format!("{a} is {first} {b} and {} {c}", relation(draws, one, three)),
                _ => format!("{a} is {first} {b} , which is {} {c}", relation(draws, two, three)),
            }
        }
        _ => unreachable!("a scene has one to three objects"),
    }
}

fn named(object: &Object, with_size: bool) -> String {
    let [colour, shape] = [object.colour.name(), object.shape.name()];
    if with_size {
        return format!("a {} {colour} {shape}", object.size.name());
    }
    let article = if colour == "orange" { "an" } else { "a" };
    format!("{article} {colour} {shape}")
}

fn words(relation: Relation, way: usize) -> &'static str {
    match relation {
        Relation::LeftOf => ["left of", "to the left of"][way],
        Relation::RightOf => ["right of", "to the right of"][way],
        Relation::Above => ["above", "over"][way],
        Relation::Below => ["below", "under"][way],
    }
}
