//! What happens to a picture before a model sees it, as `preprocessor_config.json` of Hugging Face's image preprocessors says:
//! resize, crop the centre, divide by 255, subtract the mean and divide by the standard deviation of each channel.

use std::path::Path;

use polyhead_text::spelling::nearest;
use polyhead_text::whole;
use serde_json::{Map, Value, json};

use super::{Filter, Picture};
use crate::{Error, Result};

/// The name of the file in a model folder.
pub const PREPROCESSOR: &str = "preprocessor_config.json";
/// What a byte is multiplied with by default.
const RESCALE: f64 = 1.0 / 255.0;
/// Keys that are read, with the key that an old file has instead.
const KNOWN: [&str; 12] = [
    "crop_size",
    "do_center_crop",
    "do_convert_rgb",
    "do_normalize",
    "do_rescale",
    "do_resize",
    "image_mean",
    "image_std",
    "resample",
    "rescale_factor",
    "rescale_offset",
    "size",
];
/// Keys that change no number.
const IGNORED: [&str; 13] = [
    "_valid_preprocessor_keys",
    "auto_map",
    "data_format",
    "default_to_square",
    "device",
    "disable_grouping",
    "feature_extractor_type",
    "image_processor_type",
    "input_data_format",
    "processor_class",
    "return_tensors",
    "_processor_class",
    "image_seq_length",
];

/// The size to resize to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Height and width.
    Exact([usize; 2]),
    /// The shorter side; the other keeps the ratio.
    ShortestEdge(usize),
}

/// The steps before a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Preprocessor {
    resize: Option<Target>,
    filter: Filter,
    /// Height and width of the centre that is kept.
    crop: Option<[usize; 2]>,
    /// What a byte is multiplied with.
    rescale: f64,
    mean: Vec<f32>,
    deviation: Vec<f32>,
}

impl Preprocessor {
    /// Resizes to a size (height, width) and normalises; `mean` and `deviation` are of values from 0 to 1, for each channel.
    pub fn new(size: [usize; 2], filter: Filter, [mean, deviation]: [Vec<f32>; 2]) -> Self {
        Self { resize: Some(Target::Exact(size)), filter, crop: None, rescale: RESCALE, mean, deviation }
    }

    /// Reads the file of a model folder.
    ///
    /// # Errors
    /// If it is missing, cannot be read, or asks for something that is not supported.
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join(PREPROCESSOR);
        if !path.exists() {
            let message = format!("no {PREPROCESSOR}, which says how images are prepared");
            return Err(Error::file(folder, message, "fetch it from where the model came from"));
        }
        let text = whole::read(&path, whole::MAX_SETTINGS)
            .map_err(|error| polyhead_text::Error::io(&path, "read", error))?;
        let map: Map<String, Value> = serde_json::from_slice(&text).map_err(|error| {
            Error::file(&path, format!("not a JSON object: {error}"), "fetch the file again")
        })?;
        Self::parse(&path, &map)
    }

    /// Reads the keys of a file; a missing key has the default of `ViTImageProcessor`.
    ///
    /// # Errors
    /// If a key has a value that is not supported.
    pub fn parse(path: &Path, map: &Map<String, Value>) -> Result<Self> {
        let keys = Keys { path, map };
        keys.check_known()?;
        let does = |key: &str, default: bool| keys.flag(key, default);
        let crop = if does("do_center_crop", map.contains_key("crop_size"))? {
            match keys.target("crop_size", 224)? {
                Target::Exact(size) => Some(size),
                Target::ShortestEdge(side) => Some([side; 2]),
            }
        } else {
            None
        };
        let normalizes = does("do_normalize", true)?;
        let statistics = |key: &str, none: f32| {
            if normalizes { keys.numbers(key) } else { Ok(vec![none]) }
        };
        let found = Self {
            resize: if does("do_resize", true)? { Some(keys.target("size", 224)?) } else { None },
            filter: keys.filter()?,
            crop,
            rescale: if does("do_rescale", true)? { keys.number("rescale_factor", RESCALE)? } else { 1.0 },
            mean: statistics("image_mean", 0.0)?,
            deviation: statistics("image_std", 1.0)?,
        };
        if found.deviation.contains(&0.0) || found.mean.len() != found.deviation.len() {
            return Err(keys.wrong("image_std", "as many numbers as image_mean, none of them 0"));
        }
        Ok(found)
    }

    /// The text of the file.
    pub fn to_json(&self) -> String {
        let sides = |[height, width]: [usize; 2]| json!({ "height": height, "width": width });
        let mut map = Map::new();
        let mut set = |key: &str, value: Value| drop(map.insert(key.to_owned(), value));
        set("do_center_crop", self.crop.is_some().into());
        set("do_normalize", true.into());
        set("do_rescale", true.into());
        set("do_resize", self.resize.is_some().into());
        set("image_mean", json!(self.mean));
        set(
            "image_processor_type",
            if self.crop.is_some() { "DeiTImageProcessor" } else { "ViTImageProcessor" }.into(),
        );
        set("image_std", json!(self.deviation));
        set("resample", self.filter.number().into());
        set("rescale_factor", self.rescale.into());
        if let Some(crop) = self.crop {
            set("crop_size", sides(crop));
        }
        match self.resize {
            Some(Target::Exact(size)) => set("size", sides(size)),
            Some(Target::ShortestEdge(side)) => set("size", json!({ "shortest_edge": side })),
            None => {}
        }
        serde_json::to_string_pretty(&Value::Object(map)).expect("a value is always JSON") + "\n"
    }

    /// Height and width of what it makes of any picture; none if that depends on the picture.
    pub fn size(&self) -> Option<[usize; 2]> {
        match (self.crop, self.resize) {
            (Some(size), _) | (None, Some(Target::Exact(size))) => Some(size),
            _ => None,
        }
    }

    /// The same steps for another size: the picture is resized, and its centre cropped in the same proportion.
    #[must_use]
    pub fn with_size(&self, size: [usize; 2]) -> Self {
        let resize = match (self.resize, self.crop) {
            (Some(Target::Exact(whole)), Some(crop)) => {
                Some(Target::Exact([0, 1].map(|axis| size[axis] * whole[axis] / crop[axis])))
            }
            (Some(Target::ShortestEdge(side)), Some(crop)) => {
                Some(Target::ShortestEdge(size[0].max(size[1]) * side / crop[0].max(crop[1])))
            }
            _ => Some(Target::Exact(size)),
        };
        Self { resize, crop: self.crop.map(|_| size), ..self.clone() }
    }

    /// The filter of the resize.
    pub fn filter(&self) -> Filter {
        self.filter
    }

    /// Mean and standard deviation of each channel, of values from 0 to 1.
    pub fn statistics(&self) -> [&[f32]; 2] {
        [&self.mean, &self.deviation]
    }

    /// The picture that is seen: resized and cropped.
    #[must_use]
    pub fn framed(&self, picture: &Picture) -> Picture {
        let [height, width] = picture.size();
        let size = match self.resize {
            None => [height, width],
            Some(Target::Exact(size)) => size,
            Some(Target::ShortestEdge(side)) => {
                let longer = side * height.max(width) / height.min(width);
                if height < width { [side, longer] } else { [longer, side] }
            }
        };
        let Some(crop) = self.crop else { return picture.resized(size, self.filter) };
        // Of a long, thin picture, the resized whole would be huge.
        let start = [0, 1].map(|axis| centre(size[axis], crop[axis]));
        let kept = [0, 1].map(|axis| {
            let first = start[axis].max(0) as usize;
            first..size[axis].min(first + crop[axis])
        });
        let part = picture.resized_part(size, kept, self.filter);
        part.cropped(start.map(|at| at.min(0)), crop)
    }

    /// The numbers of a framed picture: channels × height × width.
    pub fn normalised(&self, picture: &Picture) -> Vec<f32> {
        let channels = picture.channels();
        let mut all = Vec::with_capacity(picture.data().len());
        for channel in 0..channels {
            let table = self.table(channel);
            let values = picture.data().iter().skip(channel).step_by(channels);
            all.extend(values.map(|&value| table[usize::from(value)]));
        }
        all
    }

    /// The number for each value of a byte.
    pub fn table(&self, channel: usize) -> [f32; 256] {
        let at = |numbers: &[f32]| numbers.get(channel).or(numbers.last()).copied().unwrap_or_default();
        let (mean, deviation) = (at(&self.mean), at(&self.deviation));
        std::array::from_fn(|value| ((value as f64 * self.rescale) as f32 - mean) / deviation)
    }
}

/// The start of the centre of `crop` pixels in `size`; a smaller picture is in the middle.
fn centre(size: usize, crop: usize) -> isize {
    let (size, crop) = (size as isize, crop as isize);
    let top = (size - crop).div_euclid(2);
    let padding = ((crop - size).max(0) + 1) / 2;
    (top + padding).max(0) - padding
}

/// The keys of a file.
struct Keys<'a> {
    path: &'a Path,
    map: &'a Map<String, Value>,
}

impl Keys<'_> {
    fn check_known(&self) -> Result<()> {
        let is_known = |key: &&String| KNOWN.contains(&key.as_str()) || IGNORED.contains(&key.as_str());
        // A step that is off has settings without effect.
        let is_off = |key: &String| self.map[key] == json!(false) || self.map[key].is_null();
        let Some(key) = self.map.keys().find(|key| !is_known(key) && !is_off(key)) else { return Ok(()) };
        let key: String = key.chars().take(100).collect();
        let nearest = nearest(&key, KNOWN).unwrap_or_default();
        let message = format!("unknown key {key:?}; the nearest known one is {nearest:?}");
        Err(Error::file(self.path, message, "this step of preparing images is not supported"))
    }

    fn wrong(&self, key: &str, expected: &str) -> Error {
        let found = self.map.get(key).unwrap_or(&Value::Null);
        Error::file(self.path, format!("{key} is {found}, expected {expected}"), "correct the value")
    }

    fn value(&self, key: &str) -> Option<&Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool> {
        let Some(value) = self.value(key) else { return Ok(default) };
        value.as_bool().ok_or_else(|| self.wrong(key, "true or false"))
    }

    fn number(&self, key: &str, default: f64) -> Result<f64> {
        let Some(value) = self.value(key) else { return Ok(default) };
        value.as_f64().filter(|number| number.is_finite()).ok_or_else(|| self.wrong(key, "a number"))
    }

    fn numbers(&self, key: &str) -> Result<Vec<f32>> {
        let Some(value) = self.value(key) else { return Ok(vec![0.5; 3]) };
        let numbers = match value {
            Value::Array(all) => all.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>(),
            one => one.as_f64().map(|number| vec![number]),
        };
        let numbers = numbers.filter(|all| !all.is_empty() && all.iter().all(|number| number.is_finite()));
        let numbers = numbers.ok_or_else(|| self.wrong(key, "a number for each channel"))?;
        Ok(numbers.into_iter().map(|number| number as f32).collect())
    }

    fn filter(&self) -> Result<Filter> {
        let Some(value) = self.value("resample") else { return Ok(Filter::Bilinear) };
        let found = value.as_u64().and_then(Filter::from_number);
        found.ok_or_else(|| self.wrong("resample", "0 (nearest), 1 (Lanczos), 2 (bilinear) or 3 (bicubic)"))
    }

    fn target(&self, key: &str, default: usize) -> Result<Target> {
        let expected = "a size, or height and width, up to 16384";
        let size = |value: &Value| {
            value
                .as_u64()
                .and_then(|size| usize::try_from(size).ok())
                .filter(|size| (1..=16_384).contains(size))
        };
        let wrong = || self.wrong(key, expected);
        match self.value(key) {
            None => Ok(Target::Exact([default; 2])),
            Some(Value::Object(map)) => match (map.get("height"), map.get("width"), map.get("shortest_edge"))
            {
                (Some(height), Some(width), None) => {
                    Ok(Target::Exact([size(height).ok_or_else(wrong)?, size(width).ok_or_else(wrong)?]))
                }
                (None, None, Some(side)) if !map.contains_key("longest_edge") => {
                    Ok(Target::ShortestEdge(size(side).ok_or_else(wrong)?))
                }
                _ => Err(wrong()),
            },
            Some(Value::Array(all)) if all.len() == 2 => {
                Ok(Target::Exact([size(&all[0]).ok_or_else(wrong)?, size(&all[1]).ok_or_else(wrong)?]))
            }
            Some(one) => Ok(Target::Exact([size(one).ok_or_else(wrong)?; 2])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(value: Value) -> Result<Preprocessor> {
        let Value::Object(map) = value else { panic!("an object") };
        Preprocessor::parse(Path::new("p.json"), &map)
    }

    #[test]
    fn a_file_survives_and_defaults_are_those_of_vit() {
        let found = parsed(json!({})).unwrap();
        assert_eq!(found.size(), Some([224, 224]));
        assert_eq!((found.filter(), found.statistics()), (Filter::Bilinear, [&[0.5; 3][..]; 2]));
        let deit = parsed(json!({
            "size": 256, "resample": 3, "crop_size": { "height": 224, "width": 200 }, "do_center_crop": true,
            "image_mean": [0.1, 0.2, 0.3], "image_std": [0.5, 0.25, 1.0], "processor_class": null
        }))
        .unwrap();
        assert_eq!(deit.size(), Some([224, 200]));
        let again = parsed(serde_json::from_str(&deit.to_json()).unwrap()).unwrap();
        assert_eq!(again, deit);
    }

    #[test]
    fn unsupported_steps_are_refused() {
        for (value, expected) in [
            (json!({ "do_pad": true }), "unknown key \"do_pad\""),
            (json!({ "resample": 5 }), "resample is 5"),
            (json!({ "size": { "longest_edge": 5 } }), "size is"),
            (json!({ "size": 0 }), "size is 0"),
            (json!({ "image_std": [0.0] }), "image_std is [0.0]"),
            (json!({ "image_mean": [] }), "image_mean is []"),
        ] {
            let error = parsed(value).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(parsed(json!({ "do_pad": false, "pad_size": null })).is_ok());
    }

    #[test]
    fn the_centre_is_cropped_and_a_small_picture_is_in_the_middle() {
        assert_eq!(
            [(5, 3), (5, 2), (4, 4), (3, 5), (2, 5)].map(|(size, crop)| centre(size, crop)),
            [1, 1, 0, -1, -2]
        );
    }

    #[test]
    fn bytes_are_scaled_and_normalised_by_channel() {
        let preprocessor =
            Preprocessor::new([1, 2], Filter::Bilinear, [vec![0.5, 0.0, 0.0], vec![0.5, 1.0, 2.0]]);
        let found = preprocessor.normalised(&Picture::new([1, 2], 3, vec![255, 255, 255, 0, 51, 0]));
        assert_eq!(found, [1.0, -1.0, 1.0, 0.2, 0.5, 0.0]);
    }
}
