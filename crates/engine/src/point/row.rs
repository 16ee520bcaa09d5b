//! Rows of points as JSON lines.
//!
//! ```text
//! {"points": [[0.1, 0.2], [0.8, 0.3], [0.5, 0.9]], "order": [0, 1, 2]}
//! {"numbers": [42, 7, 99], "order": [1, 0, 2]}
//! ```
//!
//! `points` is a list of points with equally many coordinates, `numbers` a list of numbers; `order` lists the indices of
//! the answer, counted from 0, and may be missing where nothing is trained or scored. Other keys are ignored.

use std::path::Path;

use polyhead_text::lines::Lines;
use serde_json::{Map, Value, json};

use crate::{Error, Result};

const POINTS: &str = "points";
const NUMBERS: &str = "numbers";
const ORDER: &str = "order";
const EXAMPLE: &str = "a line is, for instance, {\"points\": [[0.1, 0.2], [0.3, 0.4]], \"order\": [1, 0]} or \
                       {\"numbers\": [3, 1, 2], \"order\": [1, 2, 0]}";

/// Points, and the order of their indices if it is known.
#[derive(Debug, Clone, PartialEq)]
pub struct PointRow {
    /// All coordinates, point by point.
    pub coordinates: Vec<f32>,
    /// Coordinates of a point; 1 for numbers.
    pub d_point: usize,
    /// The expected answer: indices of points, from 0.
    pub order: Option<Vec<u32>>,
}

impl PointRow {
    /// Number of points.
    pub fn len(&self) -> usize {
        self.coordinates.len() / self.d_point
    }

    /// True if there are no points.
    pub fn is_empty(&self) -> bool {
        self.coordinates.is_empty()
    }

    /// The coordinates of a point.
    pub fn point(&self, index: usize) -> &[f32] {
        &self.coordinates[index * self.d_point..(index + 1) * self.d_point]
    }

    /// A point as text: `42` or `0.1,0.2`.
    pub fn label(&self, index: usize) -> String {
        self.point(index).iter().map(f32::to_string).collect::<Vec<_>>().join(",")
    }

    /// The line of JSON, with the keys `points` or `numbers` and `order`.
    pub fn to_json(&self) -> Map<String, Value> {
        // The digits of an f32, not those of the f64 that it becomes.
        let number = |number: &f32| -> Value {
            let exact: f64 = number.to_string().parse().unwrap_or(f64::from(*number));
            if exact.fract() == 0.0 && exact.abs() < 1e15 { json!(exact as i64) } else { json!(exact) }
        };
        let mut map = Map::new();
        let (key, list): (&str, Vec<Value>) = if self.d_point == 1 {
            (NUMBERS, self.coordinates.iter().map(number).collect())
        } else {
            let points = self.coordinates.chunks_exact(self.d_point);
            (POINTS, points.map(|point| point.iter().map(number).collect()).collect())
        };
        map.insert(key.into(), list.into());
        if let Some(order) = &self.order {
            map.insert(ORDER.into(), order.clone().into());
        }
        map
    }

    /// Parses a line of JSON; `place` is where it stands, in messages.
    ///
    /// # Errors
    /// If it is not a row of points.
    pub fn parse(text: &str, place: &str) -> Result<Self> {
        Self::read(text).map_err(|message| Error::at(place, message, EXAMPLE))
    }

    fn read(text: &str) -> std::result::Result<Self, String> {
        let map = match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(map)) => map,
            Ok(_) => return Err("JSON without keys, expected an object".into()),
            Err(_) if text.trim().is_empty() => return Err("an empty line, expected a JSON object".into()),
            Err(error) => return Err(format!("not JSON ({error}), expected an object")),
        };
        let (coordinates, d_point) = match (map.get(POINTS), map.get(NUMBERS)) {
            (Some(_), Some(_)) => return Err("both points and numbers, expected one of them".into()),
            (None, None) => {
                let found: Vec<&str> = map.keys().map(String::as_str).collect();
                let found = if found.is_empty() { "nothing".into() } else { found.join(", ") };
                return Err(format!("the keys are {found}, expected points or numbers"));
            }
            (Some(list), None) => points(list)?,
            (None, Some(list)) => (numbers(NUMBERS, list)?, 1),
        };
        let count = coordinates.len() / d_point;
        let order = map.get(ORDER).map(|list| order(list, count)).transpose()?;
        Ok(Self { coordinates, d_point, order })
    }
}

fn points(list: &Value) -> std::result::Result<(Vec<f32>, usize), String> {
    let Value::Array(list) = list else {
        return Err("points is not a list, expected a list of points".into());
    };
    let (mut all, mut width) = (Vec::new(), None);
    for (index, point) in list.iter().enumerate() {
        let point = numbers(&format!("point {index}"), point)?;
        let expected = *width.get_or_insert(point.len());
        if point.len() != expected || point.is_empty() {
            let expected = expected.max(1);
            return Err(format!("point {index} has {} coordinates, expected {expected}", point.len()));
        }
        all.extend(point);
    }
    match width {
        None => Err("points is empty, expected at least one point".into()),
        Some(width) => Ok((all, width)),
    }
}

fn numbers(name: &str, list: &Value) -> std::result::Result<Vec<f32>, String> {
    let Value::Array(list) = list else {
        return Err(format!("{name} is {list}, expected a list of numbers"));
    };
    if list.is_empty() {
        return Err(format!("{name} is empty, expected at least one number"));
    }
    let number = |value: &Value| {
        let number = value.as_f64().map(|number| number as f32).filter(|number| number.is_finite());
        number.ok_or_else(|| format!("{name} has {value}, expected finite numbers"))
    };
    list.iter().map(number).collect()
}

fn order(list: &Value, count: usize) -> std::result::Result<Vec<u32>, String> {
    let Value::Array(list) = list else {
        return Err("order is not a list, expected a list of indices".into());
    };
    let index = |value: &Value| match value.as_u64() {
        Some(index) if (index as usize) < count => Ok(index as u32),
        _ => Err(format!("order has {value}, expected indices from 0 to {}", count - 1)),
    };
    list.iter().map(index).collect()
}

/// Rows of a file of JSON lines, plain or gzip; `-` is standard input.
#[derive(Debug)]
pub struct Rows {
    lines: Lines,
}

impl Rows {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self { lines: Lines::open(path)? })
    }

    /// The next row, or `None` at the end of the file.
    ///
    /// # Errors
    /// If the line is not a row of points; the message names it.
    pub fn next_row(&mut self) -> Result<Option<PointRow>> {
        let place = format!("{}:{}", self.lines.path().display(), self.lines.line() + 1);
        let Some(text) = self.lines.next_text()? else { return Ok(None) };
        PointRow::parse(text, &place).map(Some)
    }

    /// Number of the row last returned, from 1.
    pub fn line(&self) -> u64 {
        self.lines.line()
    }
}
