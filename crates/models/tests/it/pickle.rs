//! Golden tests: files of weights that PyTorch wrote (`tests/golden/pickle/make.py`), and hostile ones.

use std::io::Write as _;

use polyhead_models::checkpoint::safetensors::TensorFile;
use polyhead_random::Random;
use serde_json::Value;

use crate::outside::golden;

const FILES: [&str; 4] = ["archive.bin", "legacy.bin", "protocol4.bin", "nested.bin"];

fn bytes_of(name: &str) -> Vec<u8> {
    std::fs::read(golden("pickle").join(name)).unwrap()
}

#[test]
fn weights_of_pytorch_are_read_as_pytorch_reads_them() {
    let expected: Value = serde_json::from_slice(&bytes_of("expected.json")).unwrap();
    let expected = expected.as_object().unwrap();
    for name in FILES {
        let file = TensorFile::open(golden("pickle").join(name)).unwrap();
        let mut names: Vec<&str> = file.names().collect();
        names.sort_unstable();
        let mut all: Vec<&str> = expected.keys().map(String::as_str).collect();
        all.sort_unstable();
        assert_eq!(names, all, "{name}");
        for (tensor, expected) in expected {
            let shape: Vec<usize> = serde_json::from_value(expected["shape"].clone()).unwrap();
            assert_eq!(file.shape(tensor), Some(shape.as_slice()), "{name} {tensor}");
            if tensor == "ids" {
                let error = file.ids(tensor).unwrap_err().to_string();
                assert!(error.contains("tensor ids holds -1"), "{error}");
                continue;
            }
            let values: Vec<f32> = serde_json::from_value(expected["values"].clone()).unwrap();
            assert_eq!(file.tensor(tensor).unwrap().data(), values, "{name} {tensor}");
        }
    }
}

/// A pickle as the program of an archive.
fn archive(program: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    let (name, size) = (b"x/data.pkl", (program.len() as u32).to_le_bytes());
    let length = (name.len() as u16).to_le_bytes();
    for part in [&b"PK\x03\x04"[..], &[0; 14], &size, &size, &length, &[0; 2], name, program] {
        all.extend_from_slice(part);
    }
    let start = (all.len() as u32).to_le_bytes();
    for part in [&b"PK\x01\x02"[..], &[0; 16], &size, &size, &length, &[0; 16], name] {
        all.extend_from_slice(part);
    }
    for part in [&b"PK\x05\x06"[..], &[0, 0, 0, 0, 1, 0, 1, 0], &[0; 4], &start, &[0; 2]] {
        all.extend_from_slice(part);
    }
    all
}

#[test]
fn a_pickle_that_would_run_code_is_refused_and_named() {
    let refused = |program: &[u8]| TensorFile::from_bytes("x.bin", archive(program)).unwrap_err().to_string();
    let marker = std::env::temp_dir().join(format!("polyhead-pickle-{}", std::process::id()));
    let command = format!("touch {}", marker.display());
    let mut program = b"\x80\x02cposix\nsystem\nU".to_vec();
    program.push(command.len() as u8);
    program.extend_from_slice(command.as_bytes());
    program.extend_from_slice(b"\x85R.");
    let error = refused(&program);
    assert!(
        error.contains("a pickle that names posix.system, which Python would run: it is not read"),
        "{error}"
    );
    assert!(!marker.exists());
    for (program, expected) in [
        (&b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93."[..], "names builtins.eval"),
        (
            b"ctorch._utils\n_rebuild_tensor_v2\n)R.",
            "a call of torch._utils._rebuild_tensor_v2 with other arguments",
        ),
        (b"ccollections\nOrderedDict\n)b.", "attributes of an object"),
        (b"}.", "no tensors"),
        (b"N.", "no dictionary"),
        (b"t.", "empty stack"),
        (b"h\x05.", "an object that was not made before"),
        (b"i", "instruction 0x69 at byte 0"),
        (b"X\xff\xff\xff\xff", "ends too early"),
        (b"", "ends too early"),
        (b"]q\0h\0a.", "no dictionary"),
    ] {
        let error = refused(program);
        assert!(error.contains(expected), "{error}");
    }
    let endless = vec![b'N'; 9 << 20];
    assert!(refused(&endless).contains("instructions"));
}

#[test]
fn damaged_files_are_errors() {
    for name in FILES {
        let good = bytes_of(name);
        for length in (0..good.len()).step_by(61) {
            let _ = TensorFile::from_bytes("cut", good[..length].to_vec());
        }
        for seed in 0..3000 {
            let random = Random::new(seed);
            let mut bytes = good.clone();
            for change in 0..=random.below(4, 0) as u64 {
                let at = random.below(bytes.len(), 1 + 2 * change);
                bytes[at] = random.below(256, 2 + 2 * change) as u8;
            }
            // Read or refused; never a panic.
            if let Ok(file) = TensorFile::from_bytes("changed", bytes) {
                let names: Vec<String> = file.names().map(str::to_owned).collect();
                for name in names {
                    let _ = file.tensor(&name);
                    let _ = file.ids(&name);
                }
            }
        }
    }
    let text = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n";
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text).unwrap();
    let error = TensorFile::open(file.path()).unwrap_err();
    assert!(error.to_string().contains("a pointer of Git LFS, not the file itself"), "{error}");
    assert!(error.hint().contains("git lfs pull"), "{}", error.hint());
}
