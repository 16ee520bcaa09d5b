//! Scenes as pictures: filled shapes on grey, with 4 × 4 samples for each pixel.

use polyhead_random::Random;

use super::{Colour, Object, Scene, Shape};
use crate::image::Picture;

/// Samples along each side of a pixel.
const SAMPLES: usize = 4;
/// Random streams of a scene's colours.
const SHADES: u64 = 0x5348_4144;
/// Most by which a channel of a colour differs from its own.
const CHANGE: usize = 18;
/// The corners of a star with five points and a radius of 1; the inner ones are at 0.42.
const STAR: [[f64; 2]; 10] = [
    [0.0, -1.0],
    [0.246_87, -0.339_79],
    [0.951_06, -0.309_02],
    [0.399_44, 0.129_79],
    [0.587_79, 0.809_02],
    [0.0, 0.42],
    [-0.587_79, 0.809_02],
    [-0.399_44, 0.129_79],
    [-0.951_06, -0.309_02],
    [-0.246_87, -0.339_79],
];

impl Scene {
    /// The scene as a picture of `side` × `side` pixels; the same on every machine.
    pub fn render(&self, side: usize) -> Picture {
        let shades = Random::new(self.random.u64(SHADES));
        let background = [18 + shades.below(46, 0) as i32; 3];
        let colours: Vec<[i32; 3]> =
            (1..).zip(&self.objects).map(|(number, own)| shade(own.colour, shades.stream(number))).collect();
        let mut data = Vec::with_capacity(3 * side * side);
        let step = 1000.0 / (side * SAMPLES) as f64;
        for y in 0..side {
            for x in 0..side {
                let mut sums = [0; 3];
                for sample in 0..SAMPLES * SAMPLES {
                    let place = |pixel: usize, own: usize| ((pixel * SAMPLES + own) as f64 + 0.5) * step;
                    let [px, py] = [place(x, sample % SAMPLES), place(y, sample / SAMPLES)];
                    let hit = self.objects.iter().position(|object| contains(object, [px, py]));
                    let colour = hit.map_or(background, |at| colours[at]);
                    sums.iter_mut().zip(colour).for_each(|(sum, own)| *sum += own);
                }
                let count = (SAMPLES * SAMPLES) as i32;
                data.extend(sums.map(|sum| ((sum + count / 2) / count) as u8));
            }
        }
        Picture::new([side; 2], 3, data)
    }
}

/// A shade of a colour.
fn shade(colour: Colour, random: Random) -> [i32; 3] {
    let own = match colour {
        Colour::Red => [220, 40, 40],
        Colour::Green => [40, 170, 60],
        Colour::Blue => [50, 80, 225],
        Colour::Yellow => [235, 215, 50],
        Colour::Purple => [150, 55, 190],
        Colour::Orange => [240, 135, 30],
        Colour::White => [236, 236, 236],
        Colour::Cyan => [60, 205, 215],
    };
    let change = |at: usize| random.below(2 * CHANGE + 1, at as u64) as i32 - CHANGE as i32;
    std::array::from_fn(|at| (own[at] + change(at)).clamp(0, 255))
}

/// True if a point lies in an object.
fn contains(object: &Object, [x, y]: [f64; 2]) -> bool {
    let radius = f64::from(object.radius);
    let [dx, dy] = [(x - f64::from(object.x)) / radius, (y - f64::from(object.y)) / radius];
    if dx.abs() > 1.0 || dy.abs() > 1.0 {
        return false;
    }
    let square = dx * dx + dy * dy;
    match object.shape {
        Shape::Circle => square <= 1.0,
        Shape::Ring => (0.3..=1.0).contains(&square),
        Shape::Square => dx.abs() <= 0.88 && dy.abs() <= 0.88,
        Shape::Triangle => dy <= 0.85 && dx.abs() <= 0.54 * (dy + 1.0),
        Shape::Cross => dx.abs() <= 0.32 || dy.abs() <= 0.32,
        Shape::Star => is_inside(&STAR, [dx, dy]),
    }
}

/// True if a point lies inside a polygon: a ray to the right crosses its border an odd number of times.
fn is_inside(corners: &[[f64; 2]], [x, y]: [f64; 2]) -> bool {
    let next = corners.iter().cycle().skip(1);
    let crossed = corners
        .iter()
        .zip(next)
        .filter(|([x1, y1], [x2, y2])| (*y1 > y) != (*y2 > y) && x < (x2 - x1) * (y - y1) / (y2 - y1) + x1);
    crossed.count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::super::{Set, Size};
    use super::*;

    fn alone(shape: Shape) -> Scene {
        let object = Object { shape, colour: Colour::Red, size: Size::Large, x: 500, y: 500, radius: 400 };
        Scene { objects: vec![object], ..Scene::make(1, Set::Train, 0) }
    }

    #[test]
    fn shapes_cover_the_area_of_their_geometry() {
        // In units of the square of the radius; the star is ten triangles of half 1 · 0.42 · sin 36°.
        let pi = std::f64::consts::PI;
        let areas = [
            (Shape::Circle, pi),
            (Shape::Square, 1.76 * 1.76),
            (Shape::Triangle, 0.54 * 1.85 * 1.85),
            (Shape::Star, 5.0 * 0.42 * 0.587_785),
            (Shape::Cross, 2.0 * 2.0 * 0.64 - 0.64 * 0.64),
            (Shape::Ring, 0.7 * pi),
        ];
        for (shape, expected) in areas {
            let picture = alone(shape).render(100);
            let background = picture.data()[0];
            // Red is far from grey in the first channel: its part of the pixel follows.
            let red = picture.data().iter().step_by(3).copied().max().unwrap();
            let covered: f64 = picture
                .data()
                .iter()
                .step_by(3)
                .map(|value| f64::from(*value - background) / f64::from(red - background))
                .sum();
            let found = covered / (40.0 * 40.0);
            assert!((found - expected).abs() < 0.02, "{shape:?}: {found}, expected {expected}");
        }
    }

    #[test]
    fn colours_stay_apart_in_all_their_shades() {
        for (at, one) in Colour::ALL.into_iter().enumerate() {
            for other in &Colour::ALL[..at] {
                let far = |seed: u64| {
                    let [a, b] = [shade(one, Random::new(seed)), shade(*other, Random::new(seed + 99))];
                    a.iter().zip(b).map(|(a, b)| (a - b).abs()).max().unwrap()
                };
                assert!((0..200).all(|seed| far(seed) > 40), "{one:?} {other:?}");
            }
        }
    }
}
