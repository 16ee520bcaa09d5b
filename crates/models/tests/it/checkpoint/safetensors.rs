//! safetensors files: they round-trip, and errors are named without a panic.

use std::fs;
use std::path::Path;

use polyhead_models::Error;
use polyhead_models::checkpoint::safetensors::{Array, ArrayData, TensorFile, Weights, WriteOptions, write};
use polyhead_tensor::Dtype;
use proptest::collection::vec;
use proptest::prelude::*;

/// A file with this header, followed by `data` zero bytes.
fn file(header: &str, data: usize) -> Vec<u8> {
    let length = (header.len() as u64).to_le_bytes();
    [&length[..], header.as_bytes(), &vec![0; data]].concat()
}

/// The error message for such a file.
fn problem(bytes: Vec<u8>) -> String {
    let error = TensorFile::from_bytes("a.safetensors", bytes).unwrap_err();
    assert!(!error.hint().is_empty() && matches!(error, Error::File(_)));
    error.to_string()
}

fn entry(name: &str, shape: &str, offsets: [u64; 2]) -> String {
    format!(r#""{name}":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets:?}}}"#)
}

/// Writes these tensors and renames the files.
fn write_all(folder: &Path, arrays: &[(&str, &[usize], &[f32])], options: WriteOptions) {
    let arrays = arrays.iter().map(|(name, shape, numbers)| Array {
        name: (*name).to_owned(),
        shape: shape.to_vec(),
        data: ArrayData::Floats(vec![numbers]),
    });
    write(folder, arrays.collect(), options).unwrap().finish().unwrap();
}

#[test]
fn problems_of_a_file_are_named() {
    let one = |shape: &str, offsets| format!("{{{}}}", entry("a", shape, offsets));
    let two = |a: [u64; 2], b: [u64; 2]| format!("{{{},{}}}", entry("a", "[1]", a), entry("b", "[1]", b));
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (vec![1, 2, 3], "3 bytes, expected at least 8 for the length of the header"),
        (vec![], "0 bytes, expected at least 8"),
        (
            u64::MAX.to_le_bytes().to_vec(),
            "a header of 18446744073709551615 bytes, expected at most 104857600",
        ),
        (file("{}", 0)[..9].to_vec(), "a header of 2 bytes, but only 1 bytes follow its length"),
        (file("{", 0), "the header is not valid JSON: EOF while parsing"),
        (file("[]", 0), "invalid type: sequence, expected an object with an entry for each tensor"),
        (file("{} x", 0), "the header is not valid JSON: trailing characters"),
        (file(r#"{"a":{"dtype":"F32","shape":[1]}}"#, 4), "entry a: missing field `data_offsets`"),
        (file(r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#, 4), "entry a: invalid value"),
        (
            file(r#"{"a":{"dtype":"Q4","shape":[1],"data_offsets":[0,4]}}"#, 4),
            "tensor a: dtype Q4, expected one of F32",
        ),
        (file(&one("[1]", [4, 0]), 4), "tensor a: begins at byte 4 but ends at byte 0"),
        (file(&one("[2]", [0, 8]), 4), "tensor a: ends at byte 8 of the data, but there are only 4"),
        (file(&one("[2]", [0, 4]), 4), "tensor a: 4 bytes, expected 8 for shape [2] of f32"),
        (file(&one("[1]", [0, u64::MAX]), 4), "tensor a: ends at byte 18446744073709551615 of the data"),
        (
            file(&one("[4294967296,4294967296]", [0, 4]), 4),
            "tensor a: shape [4294967296, 4294967296] has more elements than a u64 can count",
        ),
        (file(&one("[1]", [0, 4]), 6), "2 bytes after a belong to no tensor"),
        (file(&one("[1]", [2, 6]), 6), "2 bytes between the header and tensor a belong to no tensor"),
        (file(&two([0, 4], [2, 6]), 6), "tensor b overlaps a by 2 bytes"),
        (file(&two([0, 4], [6, 10]), 10), "2 bytes between a and tensor b belong to no tensor"),
        (
            file(&format!("{{{},{}}}", entry("a", "[1]", [0, 4]), entry("a", "[1]", [4, 8])), 8),
            "tensor a is listed twice",
        ),
    ];
    for (bytes, expected) in cases {
        let found = problem(bytes);
        assert!(found.starts_with("a.safetensors: ") && found.contains(expected), "{found}\n{expected}");
    }
}

#[test]
fn negative_integers_and_other_dtypes_are_not_ids() {
    let header = r#"{"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}"#;
    let mut bytes = file(header, 8);
    let end = bytes.len();
    bytes[end - 8..].copy_from_slice(&(-100_i64).to_le_bytes());
    let file = TensorFile::from_bytes("a", bytes).unwrap();
    assert_eq!(
        file.ids("a").unwrap_err().to_string(),
        "a: tensor a holds -100, expected ids from 0 to 4294967295"
    );
    assert_eq!(file.tensor("b").unwrap_err().to_string(), "a: no tensor b among 1");
}

#[test]
fn shards_are_read_and_their_problems_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let shards = WriteOptions { max_shard_bytes: 8, ..WriteOptions::default() };
    let arrays: [(&str, &[usize], &[f32]); 3] =
        [("c", &[2], &[5.0, 6.0]), ("a", &[1], &[1.0]), ("b", &[1, 3], &[2.0, 3.0, 4.0])];
    write_all(path, &arrays, shards);
    let weights = Weights::open(path).unwrap();
    assert_eq!(weights.names().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!((weights.files().len(), weights.tensor("c").unwrap().data()), (3, &[5.0, 6.0][..]));

    let index = path.join("model.safetensors.index.json");
    let good = fs::read_to_string(&index).unwrap();
    let problem = |text: &str| {
        fs::write(&index, text).unwrap();
        let error = Weights::open(path).unwrap_err();
        assert!(!error.hint().is_empty());
        error.to_string()
    };
    let cases = [
        (good.replace("00003-of", "00009-of"), "shard model-00009-of-00003.safetensors is missing"),
        (
            good.replace(r#""a":"#, r#""x":"#),
            "the index lists tensor x in model-00001-of-00003.safetensors, which",
        ),
        (good.replace("model-00001", "../model-00001"), "expected a file name in the same folder"),
        (good.replace("weight_map", "map"), "not an index of shards: missing field `weight_map`"),
        ("[".to_owned(), "not an index of shards: "),
    ];
    for (text, expected) in &cases {
        let found = problem(text);
        assert!(found.contains("index.json: ") && found.contains(expected), "{found}");
    }
    let moved = good.replace(r#""c": "model-00003"#, r#""c": "model-00002"#);
    assert!(
        problem(&moved)
            .contains("the index lists tensor c in model-00002-of-00003.safetensors, which does not contain")
    );
}

#[test]
fn a_tensor_missing_from_the_index_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let arrays: [(&str, &[usize], &[f32]); 3] =
        [("a", &[1], &[1.0]), ("b", &[1], &[2.0]), ("c", &[1], &[3.0])];
    write_all(folder.path(), &arrays, WriteOptions { max_shard_bytes: 8, ..WriteOptions::default() });
    let index = folder.path().join("model.safetensors.index.json");
    let text = fs::read_to_string(&index).unwrap();
    fs::write(&index, text.replace("    \"a\": \"model-00001-of-00002.safetensors\",\n", "")).unwrap();
    let error = Weights::open(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("tensor a in model-00001-of-00002.safetensors is missing from the index"),
        "{error}"
    );
}

#[test]
fn missing_weights_are_reported_with_what_is_there_instead() {
    let folder = tempfile::tempdir().unwrap();
    let error = Weights::open(folder.path()).unwrap_err();
    assert!(error.to_string().ends_with(
        "neither model.safetensors nor model.safetensors.index.json nor pytorch_model.bin is there"
    ));
    fs::write(folder.path().join("pytorch_model.bin"), "no weights").unwrap();
    let error = Weights::open(folder.path()).unwrap_err();
    assert!(error.to_string().contains("pytorch_model.bin: "), "{error}");
}

#[test]
fn the_same_tensors_give_the_same_bytes_in_any_order() {
    let bytes = |order: [usize; 3]| {
        let arrays: [(&str, &[usize], &[f32]); 3] =
            [("b", &[1], &[1.0]), ("a", &[2, 1], &[2.0, 3.0]), ("c.0", &[0], &[])];
        let folder = tempfile::tempdir().unwrap();
        write_all(folder.path(), &order.map(|index| arrays[index]), WriteOptions::default());
        fs::read(folder.path().join("model.safetensors")).unwrap()
    };
    let first = bytes([0, 1, 2]);
    assert_eq!(first, bytes([2, 0, 1]));
    let header = concat!(
        r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"#,
        r#""b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},"c.0":{"dtype":"F32","shape":[0],"data_offsets":[12,12]}}"#
    );
    assert!(String::from_utf8_lossy(&first[8..]).starts_with(header));
    assert_eq!(u64::from_le_bytes(first[..8].try_into().unwrap()) % 8, 0);
}

#[test]
fn a_new_model_replaces_all_files_of_an_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let count = || fs::read_dir(folder.path()).unwrap().count();
    let arrays: [(&str, &[usize], &[f32]); 2] = [("a", &[1], &[1.0]), ("b", &[1], &[2.0])];
    write_all(folder.path(), &arrays, WriteOptions { max_shard_bytes: 4, ..WriteOptions::default() });
    assert_eq!(count(), 3);
    write_all(folder.path(), &arrays, WriteOptions::default());
    assert_eq!(count(), 1);
    write_all(folder.path(), &arrays, WriteOptions { max_shard_bytes: 4, ..WriteOptions::default() });
    assert_eq!(count(), 3);
}

#[test]
fn dropped_files_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let array = Array { name: "a".into(), shape: vec![1], data: ArrayData::Floats(vec![&[1.0]]) };
    drop(write(folder.path(), vec![array], WriteOptions::default()).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn values_that_overflow_a_dtype_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let problem = |number: &f32, dtype| {
        let slices = vec![std::slice::from_ref(number)];
        let array = Array { name: "a".into(), shape: vec![1], data: ArrayData::Floats(slices) };
        let options = WriteOptions { dtype, ..WriteOptions::default() };
        write(folder.path(), vec![array], options).unwrap_err().to_string()
    };
    assert!(problem(&7e4, Dtype::F16).ends_with("tensor a: holds 7e4, which overflows f16"));
    assert!(problem(&f32::MAX, Dtype::Bf16).contains("which overflows bf16"));
    assert!(problem(&1.0, Dtype::I64).ends_with("cannot be written as i64, expected f32, f16 or bf16"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn small_dtypes_round_to_nearest_even() {
    let numbers = [0.1, -65504.0, 1.000_488_3, f32::INFINITY, f32::NAN, 1e-7, -0.0];
    let rounded = |dtype| {
        let folder = tempfile::tempdir().unwrap();
        write_all(folder.path(), &[("a", &[7], &numbers)], WriteOptions { dtype, ..WriteOptions::default() });
        let file = TensorFile::open(folder.path().join("model.safetensors")).unwrap();
        assert_eq!(file.dtype("a"), Some(dtype));
        format!("{:?}", file.tensor("a").unwrap().data())
    };
    let half = "[0.099975586, -65504.0, 1.0, inf, NaN, 1.1920929e-7, -0.0]";
    assert_eq!(rounded(Dtype::F16), half);
    assert_eq!(rounded(Dtype::Bf16), "[0.100097656, -65536.0, 1.0, inf, NaN, 1.0011718e-7, -0.0]");
    assert_eq!(rounded(Dtype::F32), format!("{numbers:?}"));
}

/// A valid file with three tensors.
fn valid() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let arrays: [(&str, &[usize], &[f32]); 3] =
        [("a.weight", &[2, 3], &[1.0; 6]), ("b", &[4], &[2.0; 4]), ("c", &[0, 5], &[])];
    write_all(folder.path(), &arrays, WriteOptions { dtype: Dtype::F16, ..WriteOptions::default() });
    fs::read(folder.path().join("model.safetensors")).unwrap()
}

/// Opens a file and reads every tensor it lists.
fn read_everything(bytes: Vec<u8>) {
    if let Ok(file) = TensorFile::from_bytes("a", bytes) {
        for name in file.names() {
            let _ = (file.tensor(name), file.ids(name));
        }
    }
}

#[test]
fn no_bit_flip_or_truncation_panics_and_every_truncation_is_detected() {
    let valid = valid();
    for index in 0..valid.len() {
        for bit in 0..8 {
            let mut bytes = valid.clone();
            bytes[index] ^= 1 << bit;
            read_everything(bytes);
        }
        assert!(TensorFile::from_bytes("a", valid[..index].to_vec()).is_err(), "truncated at {index}");
    }
}

proptest! {
    #[test]
    fn a_damaged_file_never_panics(
        flips in vec((any::<prop::sample::Index>(), 0..8_u32), 0..6),
        length in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = valid();
        for (index, bit) in flips {
            let index = index.index(bytes.len());
            bytes[index] ^= 1 << bit;
        }
        if let Some(length) = length {
            bytes.truncate(length.index(bytes.len()));
        }
        read_everything(bytes);
    }

    #[test]
    fn a_header_with_random_numbers_never_panics(numbers in vec(any::<u64>(), 8), small in any::<bool>()) {
        let n: Vec<u64> = numbers.iter().map(|n| if small { n % 9 } else { *n }).collect();
        let one = |name: &str, n: &[u64]| entry(name, &format!("{:?}", &n[..2]), [n[2], n[3]]);
        read_everything(file(&format!("{{{},{}}}", one("a", &n), one("b", &n[4..])), 16));
    }

    #[test]
    fn written_files_round_trip(
        arrays in prop::collection::btree_map("[a-z.\"\\\\é]{1,8}", vec(any::<f32>(), 0..9), 1..6),
        max_shard_bytes in 1..80_u64,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let list = arrays.iter().map(|(name, numbers)| Array {
            name: name.clone(),
            shape: vec![numbers.len()],
            data: ArrayData::Floats(numbers.chunks(2).collect()),
        });
        let options = WriteOptions { max_shard_bytes, ..WriteOptions::default() };
        write(folder.path(), list.collect(), options).unwrap().finish().unwrap();
        let weights = Weights::open(folder.path()).unwrap();
        prop_assert!(weights.names().eq(arrays.keys()));
        for (name, numbers) in &arrays {
            let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(weights.tensor(name).unwrap().data()), bits(numbers));
        }
    }
}
