//! Images prepared as by Hugging Face's preprocessors (`tests/golden/images.py`), labelled sets from files, and damaged files.

use std::fs;
use std::path::Path;

use polyhead_engine::image::decode::{self, ImageLimits};
use polyhead_engine::image::sets::{FolderImages, class_names, read_cifar, read_folders, read_idx};
use polyhead_engine::image::{Filter, ImageClassifier, ImageOptions, PREPROCESSOR, Picture, Preprocessor};
use polyhead_engine::{Classifier, LoadOptions};
use polyhead_models::checkpoint::{CheckpointLayout, SaveOptions, save};
use polyhead_models::vision::ImageSpec;
use polyhead_models::{DataSpec, Model, ModelConfig};
use polyhead_random::Random;
use polyhead_tensor::{Dtype, Parameters};
use serde_json::{Value, json};

fn golden() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/images.json.gz");
    serde_json::from_reader(flate2::read::GzDecoder::new(fs::File::open(path).unwrap())).unwrap()
}

/// The image that `images.py` makes.
fn image(width: usize, height: usize, channels: usize) -> Picture {
    let mut data = Vec::with_capacity(width * height * channels);
    for y in 0..height {
        for x in 0..width {
            for c in 0..channels {
                let wave = (x * (3 + c) + y * (5 - c)) % 511;
                let wave = if wave > 255 { 510 - wave } else { wave };
                let noise = ((x * 73_856_093) ^ (y * 19_349_663) ^ (c * 83_492_791)) % 256;
                data.push(if (x / 16 + y / 16) % 3 == 0 { noise } else { wave } as u8);
            }
        }
    }
    Picture::new([height, width], channels, data)
}

fn crc32(bytes: impl Iterator<Item = u8>) -> u32 {
    let mut table = [0_u32; 256];
    for (index, entry) in table.iter_mut().enumerate() {
        *entry =
            (0..8).fold(index as u32, |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 });
    }
    !bytes.fold(!0, |crc: u32, byte| crc >> 8 ^ table[usize::from(crc as u8 ^ byte)])
}

#[test]
fn prepared_images_are_those_of_transformers_to_the_bit() {
    let mut count = 0;
    for preprocessor in golden()["preprocessors"].as_array().unwrap() {
        let name = &preprocessor["name"];
        let own = Preprocessor::parse(Path::new(PREPROCESSOR), preprocessor["config"].as_object().unwrap())
            .unwrap();
        let [mean, deviation] = own.statistics().map(<[f32]>::to_vec);
        for case in preprocessor["cases"].as_array().unwrap() {
            let list = |key: &str| -> Vec<usize> { serde_json::from_value(case[key].clone()).unwrap() };
            let (size, shape) = (list("size"), list("shape"));
            let picture = image(size[0], size[1], size[2]).with_channels(3);
            let framed = own.framed(&picture);
            assert_eq!(framed.size(), [shape[1], shape[2]], "{name} {size:?}");
            let found = own.normalised(&framed);
            let samples: Vec<f32> = serde_json::from_value(case["samples"].clone()).unwrap();
            let step = (found.len() / 5).max(1);
            for (found, expected) in found.iter().step_by(step).zip(samples) {
                assert!((found - expected).abs() < 1e-6, "{name} {size:?}: {found}, expected {expected}");
            }
            let plane = shape[1] * shape[2];
            let bytes = found.iter().enumerate().map(|(at, value)| {
                let channel = (at / plane).min(mean.len() - 1);
                ((value * deviation[channel] + mean[channel]) * 255.0).round() as u8
            });
            assert_eq!(Value::from(crc32(bytes)), case["crc"], "{name} {size:?}");
            count += 1;
        }
    }
    assert!(count >= 90, "{count}");
}

#[test]
fn jpeg_files_have_the_pixels_of_pillow_but_for_rounding_and_damaged_ones_never_panic() {
    let limits = ImageLimits::default();
    for (index, jpeg) in golden()["jpegs"].as_array().unwrap().iter().enumerate() {
        let list = |key: &str| -> Vec<u8> { serde_json::from_value(jpeg[key].clone()).unwrap() };
        let (file, size) = (list("file"), list("size"));
        let found = decode::decode(&file, Path::new("x.jpg"), limits).unwrap().with_channels(3);
        assert_eq!(found.size(), [size[1], size[0]].map(usize::from), "file {index}");
        let differences = found.data().iter().zip(list("pixels")).map(|(a, b)| a.abs_diff(b));
        let (largest, sum) =
            differences.fold((0, 0), |(most, sum), own| (own.max(most), sum + u32::from(own)));
        // Inverse transforms and the interpolation of colours round differently.
        assert!(largest <= 24 && sum <= found.data().len() as u32 * 3 / 2, "file {index}: {largest}, {sum}");
        let random = Random::new(7).stream(index as u64);
        for attempt in 0..200 {
            let mut damaged = file.clone();
            for place in 0..3 {
                let at = random.below(file.len(), 6 * attempt + place);
                damaged[at] = random.below(256, 6 * attempt + 3 + place) as u8;
            }
            damaged.truncate(random.below(file.len(), 5000 + attempt) + file.len() / 2);
            drop(decode::decode(&damaged, Path::new("x.jpg"), limits));
        }
    }
    let png = image(13, 9, 3).to_png();
    let random = Random::new(8);
    for attempt in 0..400 {
        let mut damaged = png.clone();
        let at = random.below(png.len() - 8, 2 * attempt) + 8;
        damaged[at] = random.below(256, 2 * attempt + 1) as u8;
        drop(decode::decode(&damaged, Path::new("x.png"), limits));
    }
}

/// A folder of a model with random weights.
fn model(folder: &Path, keys: Value, layout: CheckpointLayout) {
    let mut keys = keys;
    keys["model_type"] = json!("vit");
    let labels = ["cat", "dog", "fish"].map(str::to_owned).to_vec();
    let images = ImageSpec { size: [12, 16], channels: 3 };
    let data = DataSpec { labels, images, ..DataSpec::default() };
    let config = ModelConfig::from_recipe(keys.as_object().unwrap()).unwrap().with_data(&data).unwrap();
    let mut parameters = Parameters::default();
    Model::new(&config, &mut parameters).unwrap();
    parameters.initialise(4);
    save(folder, config, &parameters, &SaveOptions { layout, ..SaveOptions::default() }).unwrap();
    let preprocessor = Preprocessor::new([12, 16], Filter::Bicubic, [vec![0.5; 3], vec![0.25; 3]]);
    fs::write(folder.join(PREPROCESSOR), preprocessor.to_json()).unwrap();
}

fn tiny() -> Value {
    json!({ "d_model": 8, "n_layers": 2, "n_heads": 2, "d_ff": 12, "patch_size": 4 })
}

#[test]
fn an_image_alone_has_the_classes_that_it_has_in_a_batch_at_any_size_and_as_int8() {
    let folder = tempfile::tempdir().unwrap();
    model(folder.path(), tiny(), CheckpointLayout::Vit);
    let pictures: Vec<Picture> =
        [(9, 31, 3), (64, 20, 3), (5, 5, 1)].map(|(w, h, c)| image(w, h, c)).to_vec();
    for (dtype, size) in [(Dtype::F32, None), (Dtype::Int8, None), (Dtype::F32, Some([20, 20]))] {
        let options = LoadOptions { dtype, ..LoadOptions::default() };
        let classifier = ImageClassifier::load(folder.path(), &options, ImageOptions { size }).unwrap();
        let together = classifier.classify(&pictures).unwrap();
        for (picture, expected) in pictures.iter().zip(&together) {
            assert_eq!(&classifier.classify(std::slice::from_ref(picture)).unwrap()[0], expected);
            assert_eq!(expected.len(), 3);
            assert!((expected.iter().map(|class| class.probability).sum::<f64>() - 1.0).abs() < 1e-6);
            let attended = classifier.attend(picture, None).unwrap();
            assert_eq!((&attended.classes, attended.tokens), (expected, 1));
            assert_eq!(attended.grid, if size.is_some() { [5, 5] } else { [3, 4] });
            assert_eq!(attended.trace.weights.len(), 2);
        }
    }
    let error =
        ImageClassifier::load(folder.path(), &LoadOptions::default(), ImageOptions { size: Some([3, 9]) });
    assert!(error.unwrap_err().to_string().contains("expected at least a patch of 4"));
    // A command for texts says which one to use.
    let error = Classifier::load(folder.path(), &LoadOptions::default()).unwrap_err();
    assert!(
        error.to_string().contains("an image classifier, expected a text encoder or classifier"),
        "{error}"
    );
    assert_eq!(error.hint(), "use it with polyhead classify --image");
    fs::remove_file(folder.path().join(PREPROCESSOR)).unwrap();
    let error = ImageClassifier::load(folder.path(), &LoadOptions::default(), ImageOptions::default());
    assert!(error.unwrap_err().to_string().contains("no preprocessor_config.json"));
}

/// An idx file.
fn idx(path: &Path, magic: u32, sizes: &[u32], bytes: &[u8]) {
    let header = [magic].iter().chain(sizes).flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>();
    fs::write(path, [&header, bytes].concat()).unwrap();
}

#[test]
fn idx_files_are_read_and_damaged_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [images, labels] = ["images", "labels"].map(|name| folder.path().join(name));
    let pixels: Vec<u8> = (0..12).collect();
    idx(&images, 0x803, &[2, 2, 3], &pixels);
    idx(&labels, 0x801, &[2], &[4, 1]);
    let set = read_idx(&images, &labels).unwrap();
    assert_eq!((set.size, set.channels, set.labels.as_slice()), ([2, 3], 1, &[4, 1][..]));
    assert_eq!((set.image(1), set.names.len()), (&pixels[6..], 5));
    let refused = || read_idx(&images, &labels).unwrap_err();
    let error = read_idx(&labels, &images).unwrap_err();
    assert!(error.to_string().contains("magic number 0x00000801, expected 0x00000803 (images)"), "{error}");
    assert_eq!(error.hint(), "this file has labels: exchange the two");
    idx(&labels, 0x801, &[3], &[4, 1, 0]);
    assert!(refused().to_string().contains("3 labels for 2 images"));
    idx(&labels, 0x801, &[3], &[4, 1]);
    assert!(refused().to_string().contains("2 bytes after the header, expected 3"));
    idx(&images, 0x803, &[u32::MAX, u32::MAX, u32::MAX], &pixels);
    assert!(refused().to_string().contains("12 bytes after the header, expected fewer"));
    idx(&images, 0x803, &[2, 0, 3], &[]);
    assert!(refused().to_string().contains("2 images of 3×0 pixels"));
    idx(&images, 0x0d03, &[2, 2, 3], &pixels);
    assert!(refused().to_string().contains("magic number 0x00000d03"));
    for bytes in [&b""[..], b"\0\0", b"\0\0\x08\x03\0\0", b"\x1f\x8bxx"] {
        fs::write(&images, bytes).unwrap();
        refused();
    }
}

#[test]
fn cifar_files_are_read_by_their_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data_batch_1.bin");
    let record = |labels: &[u8], value: u8| {
        let planes = [0, 1, 2].map(|plane| vec![value + plane; 1024]).concat();
        [labels, &planes].concat()
    };
    fs::write(&path, [record(&[7], 10), record(&[0], 20)].concat()).unwrap();
    let set = read_cifar(&path).unwrap();
    assert_eq!(
        (set.size, set.channels, set.labels.as_slice(), set.names.len()),
        ([32, 32], 3, &[7, 0][..], 10)
    );
    assert_eq!(set.image(1)[..6], [20, 21, 22, 20, 21, 22]);
    fs::write(folder.path().join("batches.meta.txt"), "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n").unwrap();
    assert_eq!(read_cifar(&path).unwrap().names[7], "h");
    fs::write(&path, record(&[3, 99], 1)).unwrap();
    assert_eq!((read_cifar(&path).unwrap().labels[0], read_cifar(&path).unwrap().names.len()), (99, 100));
    for bytes in [vec![], vec![0; 3000], record(&[10], 0)] {
        fs::write(&path, bytes).unwrap();
        let error = read_cifar(&path).unwrap_err().to_string();
        assert!(error.contains("expected records of 3073 bytes"), "{error}");
    }
}

#[test]
fn folders_of_images_have_a_folder_for_each_class() {
    let folder = tempfile::tempdir().unwrap();
    let options = FolderImages::new([4, 6], 3, Filter::Bilinear, ImageLimits::default());
    let read = |names: &[&str]| {
        read_folders(
            folder.path(),
            &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(),
            &options,
        )
    };
    assert!(
        class_names(folder.path())
            .unwrap_err()
            .to_string()
            .contains("an empty folder, expected a folder for each")
    );
    for (class, name) in [("cat", "b.PNG"), ("cat", "a.png"), ("dog", "c.png")] {
        fs::create_dir_all(folder.path().join(class)).unwrap();
        fs::write(folder.path().join(class).join(name), image(9, 7, 3).to_png()).unwrap();
    }
    fs::write(folder.path().join("notes.txt"), "about the images").unwrap();
    assert_eq!(class_names(folder.path()).unwrap(), ["cat", "dog"]);
    let set = read(&["cat", "dog"]).unwrap();
    assert_eq!((set.labels.as_slice(), set.len(), set.image(2).len()), (&[0, 0, 1][..], 3, 72));
    let error = read(&["dog", "fish"]).unwrap_err().to_string();
    assert!(error.contains("class \"cat\", expected one of \"dog\", \"fish\""), "{error}");
    let odd = folder.path().join("cat/d.gif");
    fs::write(&odd, "GIF89a").unwrap();
    let error = read(&["cat", "dog"]).unwrap_err().to_string();
    assert!(error.contains("d.gif: extension \"gif\", expected one of png, jpg, jpeg"), "{error}");
    fs::rename(&odd, folder.path().join("cat/d.png")).unwrap();
    let error = read(&["cat", "dog"]).unwrap_err().to_string();
    assert!(error.contains("d.png: an unknown format, expected PNG or JPEG"), "{error}");
    fs::remove_file(folder.path().join("cat/d.png")).unwrap();
    fs::create_dir(folder.path().join("fish")).unwrap();
    let error = read(&["cat", "dog", "fish"]).unwrap_err().to_string();
    assert!(error.contains("fish: an empty folder, expected images"), "{error}");
    fs::write(folder.path().join("stray.png"), image(2, 2, 3).to_png()).unwrap();
    assert!(class_names(folder.path()).unwrap_err().to_string().contains("an image beside the folders"));
}

#[test]
fn cut_off_images_and_headers_that_promise_too_much_are_errors() {
    let whole = image(40, 30, 3).to_png();
    for length in [0, 7, 20, 40, whole.len() / 2] {
        let error = decode::decode(&whole[..length], Path::new("x.png"), ImageLimits::default()).unwrap_err();
        assert!(error.to_string().starts_with("x.png: ") && !error.hint().is_empty(), "{error}");
    }
    // A JPEG header of 65,535 × 65,535 pixels, without the pixels.
    let mut jpeg = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00".to_vec();
    jpeg.extend(b"\xff\xc0\x00\x11\x08\xff\xff\xff\xff\x03\x01\x22\x00\x02\x11\x01\x03\x11\x01\xff\xda\x00\x0c\x03\x01\x00\x02\x11\x03\x11\x00\x3f\x00");
    let error = decode::decode(&jpeg, Path::new("x.jpg"), ImageLimits::default()).unwrap_err().to_string();
    assert!(error.contains("65535×65535 pixels are 4294.8 megapixels, expected at most 64"), "{error}");
    let missing = decode::read(Path::new("nowhere.png"), ImageLimits::default()).unwrap_err().to_string();
    assert!(missing.contains("nowhere.png"), "{missing}");
}
