//! Speech: frames, logits, cross-attention and texts of Hugging Face's Whisper (`golden/speech/make.py`), WAV files of all formats,
//! and laws of transcription.

use std::path::Path;

use polyhead_attention::{Capture, Filter, Pass};
use polyhead_engine::speech::{LogMel, Sound, SpeechTask, TranscribeOptions, Transcript, wav};
use polyhead_engine::{Classifier, LoadOptions, SpeechEngine};
use polyhead_models::checkpoint::safetensors::{Array, ArrayData, WriteOptions, write};
use polyhead_tensor::{Dtype, Tape};
use serde_json::{Value, json};

use crate::{golden, ids, list, text};

/// The largest difference from transformers.
const TOLERANCE: f64 = 1e-4;
const RATE: u32 = 16_000;

fn answers() -> Value {
    let file = std::fs::File::open(golden().join("speech/speech.json.gz")).unwrap();
    serde_json::from_reader(flate2::read::GzDecoder::new(file)).unwrap()
}

fn number(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

fn numbers(value: &Value) -> Vec<f64> {
    list(value).iter().map(|number| number.as_f64().unwrap()).collect()
}

/// The sounds of `make.py`: silence, a rising tone, noise, or one impulse and a quiet tone.
fn sound(samples: usize, kind: usize) -> Vec<f32> {
    let sample = |at: u64| {
        let noise = ((at.wrapping_mul(2_654_435_761).wrapping_add(12_345) % (1 << 32)) >> 8) as f64
            / 16_777_216.0
            - 0.5;
        let phase = (at * (200 + at / 40) % 16_000) as f64 / 16_000.0;
        let triangle = 4.0 * (phase - 0.5).abs() - 1.0;
        let impulse = f64::from(u8::from(at == samples as u64 / 2));
        [0.0, 0.5 * triangle, 0.8 * noise, 0.001 * triangle + impulse][kind] as f32
    };
    (0..samples as u64).map(sample).collect()
}

fn sound_of(case: &Value) -> Vec<f32> {
    sound(number(&case["samples"]), number(&case["kind"]))
}

/// The weight that `make.py` gives a tensor.
fn weight(name: &str, shape: &[usize]) -> Vec<f32> {
    let start = u64::from(crc32(name.as_bytes()));
    let is_norm = shape.len() == 1 && name.ends_with(".weight");
    let scale = if name.contains("proj") || name.contains("fc") { 2.4 } else { 0.8 };
    let value = |index: u64| {
        let bits = ((start + index * 2_654_435_761) % (1 << 32)) >> 8;
        ((bits as f64 / f64::from(1 << 24) - 0.5) * scale + f64::from(u8::from(is_norm))) as f32
    };
    (0..shape.iter().product::<usize>() as u64).map(value).collect()
}

fn crc32(bytes: &[u8]) -> u32 {
    let bit = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| bit(crc)))
}

/// A folder of the golden Whisper, with a tokeniser whose token i is the word `i`.
fn whisper(golden: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tensors: Vec<(String, Vec<usize>, Vec<f32>)> = list(&golden["tensors"])
        .iter()
        .map(|tensor| {
            let shape: Vec<usize> = list(&tensor[1]).iter().map(number).collect();
            (text(&tensor[0]).to_owned(), shape.clone(), weight(text(&tensor[0]), &shape))
        })
        .collect();
    let arrays = tensors.iter().map(|(name, shape, values)| Array {
        name: name.clone(),
        shape: shape.clone(),
        data: ArrayData::Floats(vec![values]),
    });
    write(folder.path(), arrays.collect(), WriteOptions::default()).unwrap().finish().unwrap();
    let vocabulary: serde_json::Map<String, Value> =
        (0..151).map(|id| (format!("Ġ{id}"), json!(id))).collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": []},
    });
    for (name, value) in [
        ("config.json", &golden["config"]),
        ("generation_config.json", &golden["generation"]),
        ("tokenizer.json", &tokenizer),
    ] {
        std::fs::write(folder.path().join(name), value.to_string()).unwrap();
    }
    folder
}

fn engine(folder: &Path) -> SpeechEngine {
    SpeechEngine::load(folder, &LoadOptions::default()).unwrap()
}

fn heard(samples: Vec<f32>) -> Sound {
    Sound { samples, rate: RATE, notes: Vec::new() }
}

fn assert_near(name: &str, found: &[f32], expected: &Value) {
    let expected = numbers(expected);
    assert_eq!(found.len(), expected.len(), "{name}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - expected).abs();
        assert!(error < TOLERANCE, "{name}: {found} at {at}, expected {expected}");
    }
}

#[test]
fn frames_are_those_of_transformers() {
    for case in list(&answers()["features"]) {
        let (n_mels, chunk) = (number(&case["n_mels"]), number(&case["chunk"]));
        let mut samples = sound_of(case);
        samples.truncate(chunk * RATE as usize);
        let name = format!("{} samples of {}, {n_mels} bands", samples.len(), case["kind"]);
        let frames = LogMel::new(RATE as usize, n_mels).frames(&samples, 100 * chunk);
        assert_eq!(frames.len(), 100 * chunk * n_mels, "{name}");
        let rows = list(&case["frames"]).iter().map(number);
        let found: Vec<f32> = rows
            .flat_map(|row| frames[row * n_mels..(row + 1) * n_mels].iter().step_by(7).copied())
            .collect();
        assert_near(&name, &found, &case["values"]);
        let sum: f64 = frames.iter().map(|value| f64::from(*value)).sum();
        let expected = case["sum"].as_f64().unwrap();
        assert!((sum - expected).abs() < TOLERANCE * frames.len() as f64 / 10.0, "{name}: {sum} {expected}");
    }
}

#[test]
fn logits_and_cross_attention_are_those_of_transformers() {
    let golden = answers();
    let folder = whisper(&golden);
    let engine = engine(folder.path());
    let model = engine.model();
    for case in list(&golden["passes"]) {
        let frames = engine.features().frames(&sound_of(case), model.config().max_frames);
        let frames = model.frames(std::iter::once(Some(&frames[..])), model.config().max_frames);
        let given = ids(&case["ids"]);
        let (tape, capture) = (
            Tape::inference(),
            Capture::on(Filter { kind: Some(model.decoder().cross_attention().kind), ..Filter::default() }),
        );
        let pass = Pass::new(&tape, engine.parameters(), &capture);
        let target = model.ids(std::iter::once(Some(&given[..])), given.len());
        let logits = model.forward(&pass, &frames, &target).unwrap();
        assert_near("logits", logits.value().data(), &case["logits"]);
        let cross = capture.take().weights;
        assert_eq!(cross.len(), 2);
        for (found, expected) in cross.iter().zip(list(&case["cross"])) {
            let positions = *found.weights.shape().last().unwrap();
            let rows = found.weights.data().chunks_exact(positions);
            let found: Vec<f32> = rows.flat_map(|row| row.iter().step_by(9).copied()).collect();
            assert_near("cross-attention", &found, expected);
        }
    }
}

fn options_of(case: &Value) -> TranscribeOptions {
    let given = &case["options"];
    TranscribeOptions {
        language: given["language"].as_str().map(str::to_owned),
        task: if given["task"] == "translate" { SpeechTask::Translate } else { SpeechTask::Transcribe },
        timestamps: given["return_timestamps"] == true,
        beam_size: given["num_beams"].as_u64().map(|beams| beams as usize),
        max_tokens: Some(40),
        ..TranscribeOptions::default()
    }
}

/// Segments with their times and tokens; the expected ones of a window end with the first timestamp of what is read again.
fn assert_segments(name: &str, found: &Transcript, expected: &[Value]) {
    for (found, expected) in found.segments.iter().zip(expected) {
        let mut tokens = ids(&expected["ids"]);
        if tokens.len() == found.tokens.len() + 1 {
            let first = tokens.pop();
            assert_eq!(first, tokens.last().copied(), "{name}");
        }
        assert_eq!(found.tokens, tokens, "{name}");
        for (found, key) in [(found.start, "start"), (found.end, "end")] {
            let expected = expected[key].as_f64().unwrap();
            assert!((found - expected).abs() < 1e-9, "{name}: {key} {found}, expected {expected}");
        }
    }
}

#[test]
fn texts_follow_the_rules_of_transformers() {
    let golden = answers();
    let folder = whisper(&golden);
    let engine = engine(folder.path());
    let mut languages = std::collections::HashSet::new();
    for case in list(&golden["generated"]) {
        let found = engine.transcribe(&heard(sound_of(case)), &options_of(case)).unwrap();
        let name = format!("{} {}", case["kind"], case["options"]);
        let expected = list(&case["segments"]);
        assert_eq!(found.segments.len(), expected.len(), "{name}: {found:?}");
        assert_segments(&name, &found, expected);
        if case["options"]["language"].is_null() {
            let detected = ["en", "de", "fr"][number(&case["detected"]) - 42];
            assert_eq!(found.language.as_deref(), Some(detected), "{name}");
            languages.insert(detected);
        }
    }
    assert!(!languages.is_empty());
}

#[test]
fn long_sounds_are_read_window_by_window_as_in_transformers() {
    let golden = answers();
    let folder = whisper(&golden);
    let engine = engine(folder.path());
    for case in list(&golden["long"]) {
        let options = TranscribeOptions {
            language: Some("en".into()),
            max_tokens: Some(40),
            ..TranscribeOptions::default()
        };
        let samples = sound_of(case);
        let found = engine.transcribe(&heard(samples), &options).unwrap();
        let expected = list(&case["segments"]);
        assert!(expected.len() >= 3);
        assert_eq!(found.segments.len(), expected.len(), "{found:?}");
        assert_segments("long", &found, expected);
    }
}

#[test]
fn words_have_times_that_never_decrease_and_int8_is_close() {
    let golden = answers();
    let folder = whisper(&golden);
    let options = TranscribeOptions {
        language: Some("de".into()),
        task: SpeechTask::Translate,
        timestamps: false,
        word_times: true,
        max_tokens: Some(20),
        ..TranscribeOptions::default()
    };
    let found = engine(folder.path()).transcribe(&heard(sound(32_000, 2)), &options).unwrap();
    let words: Vec<_> = found.segments.iter().flat_map(|segment| segment.words.clone().unwrap()).collect();
    let texts: Vec<&str> = words.iter().map(|word| word.word.as_str()).collect();
    assert_eq!(texts.join(" "), found.text);
    assert_eq!(words.len(), 20);
    let mut before = 0.0;
    for word in &words {
        assert!(word.start >= before && word.end >= word.start && word.end <= 2.0, "{words:?}");
        before = word.start;
    }
    assert!(words.last().unwrap().end > words[0].start);
    let int8 =
        SpeechEngine::load(folder.path(), &LoadOptions { dtype: Dtype::Int8, ..LoadOptions::default() })
            .unwrap();
    let near = int8.transcribe(&heard(sound(32_000, 2)), &options).unwrap();
    assert_eq!(near.segments.len(), found.segments.len());
}

#[test]
fn a_sound_alone_has_the_text_that_it_has_among_others_and_in_any_format() {
    let golden = answers();
    let folder = whisper(&golden);
    let engine = engine(folder.path());
    let options = TranscribeOptions {
        language: Some("en".into()),
        max_tokens: Some(10),
        ..TranscribeOptions::default()
    };
    let sounds: Vec<Vec<f32>> =
        [(20_000, 2), (9_000, 1), (1, 2)].map(|(samples, kind)| sound(samples, kind)).to_vec();
    let rows: Vec<&[f32]> = sounds.iter().map(Vec::as_slice).collect();
    let together = engine.recognise_all(&rows, &options).unwrap();
    for (row, expected) in rows.iter().zip(&together) {
        assert_eq!(engine.recognise_all(&[row], &options).unwrap()[0], *expected);
    }
    // Sampling is a function of the seed.
    let drawn = |seed| {
        let options = TranscribeOptions { temperature: 2.0, seed, ..options.clone() };
        engine.recognise_all(&[rows[0]], &options).unwrap()
    };
    assert_eq!(drawn(1), drawn(1));
    assert!((2..8).any(|seed| drawn(seed) != drawn(1)));
    // Other rates are resampled with a note.
    let slow = Sound { samples: sound(8_000, 1), rate: 8_000, notes: Vec::new() };
    let found = engine.transcribe(&slow, &options).unwrap();
    assert_eq!(found.notes, ["8000 samples per second, resampled to 16000"]);
    assert!((found.duration - 1.0).abs() < 1e-9);
}

#[test]
fn wrong_folders_and_options_are_refused() {
    let golden = answers();
    let folder = whisper(&golden);
    let error = Classifier::load(folder.path(), &LoadOptions::default()).unwrap_err();
    assert!(
        error.to_string().contains("a speech recogniser, expected a text encoder or classifier"),
        "{error}"
    );
    assert_eq!(error.hint(), "use it with polyhead transcribe");
    let error = SpeechEngine::load(crate::golden().join("gpt2"), &LoadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("a language model, expected a speech recogniser"), "{error}");
    let engine = engine(folder.path());
    let refused = |options: TranscribeOptions| {
        engine.transcribe(&heard(sound(100, 1)), &options).unwrap_err().to_string()
    };
    let base = TranscribeOptions::default;
    let error = refused(TranscribeOptions { language: Some("xx".into()), ..base() });
    assert_eq!(error, "language \"xx\", expected one of de, en, fr");
    assert!(refused(TranscribeOptions { beam_size: Some(0), ..base() }).contains("a beam size of 0"));
    assert!(refused(TranscribeOptions { temperature: -1.0, ..base() }).contains("a temperature of -1"));
}

/// A WAV file with a format chunk, other chunks and samples.
fn wav_file(tag: u16, bits: u16, channels: u16, rate: u32, data: &[u8]) -> Vec<u8> {
    let frame = channels * bits / 8;
    let mut format = [tag, channels].map(u16::to_le_bytes).concat();
    format.extend([rate, rate * u32::from(frame)].map(u32::to_le_bytes).concat());
    format.extend([frame, bits].map(u16::to_le_bytes).concat());
    let mut all = b"RIFF\0\0\0\0WAVE".to_vec();
    for (name, chunk) in [(b"fmt ", &format[..]), (b"LIST", b"odd"), (b"data", data)] {
        all.extend(name);
        all.extend((chunk.len() as u32).to_le_bytes());
        all.extend(chunk);
        all.extend(&[0][..chunk.len() % 2]);
    }
    all
}

#[test]
fn all_formats_give_the_same_samples() {
    let decoded = |bytes: &[u8]| wav::decode(bytes, "x.wav", 3_600.0).unwrap();
    let samples = [0.0_f32, 0.5, -0.25, -1.0];
    let expected = |found: Sound| {
        assert_eq!((found.samples.as_slice(), found.rate), (&samples[..], 8_000));
        found.notes
    };
    let bytes_of = |sample: &dyn Fn(f64) -> Vec<u8>| {
        samples.iter().flat_map(|own| sample(f64::from(*own))).collect::<Vec<u8>>()
    };
    let i16_bytes = bytes_of(&|own| ((own * 32_768.0) as i16).to_le_bytes().to_vec());
    for (tag, bits, data) in [
        (1, 8, bytes_of(&|own| vec![(own * 128.0 + 128.0) as u8])),
        (1, 16, i16_bytes.clone()),
        (1, 24, bytes_of(&|own| ((own * 8_388_608.0) as i32).to_le_bytes()[..3].to_vec())),
        (1, 32, bytes_of(&|own| ((own * 2_147_483_648.0) as i32).to_le_bytes().to_vec())),
        (3, 32, bytes_of(&|own| (own as f32).to_le_bytes().to_vec())),
        (3, 64, bytes_of(&|own| own.to_le_bytes().to_vec())),
    ] {
        assert!(expected(decoded(&wav_file(tag, bits, 1, 8_000, &data))).is_empty(), "{tag} {bits}");
    }
    // Two channels, whose mean counts.
    let pair = samples.iter().flat_map(|own| [own + 0.25, own - 0.25]);
    let pair: Vec<u8> = pair.flat_map(f32::to_le_bytes).collect();
    assert_eq!(expected(decoded(&wav_file(3, 32, 2, 8_000, &pair))), ["x.wav: 2 channels, mixed to one"]);
    // What is written is read.
    let written = wav::encode(&[0.5, -0.25, 1.0], 44_100);
    let found = decoded(&written);
    assert_eq!((found.samples, found.rate), (vec![0.5, -0.25, 32_767.0 / 32_768.0], 44_100));
    // The size of a stream is unknown.
    let mut open = wav_file(1, 16, 1, 8_000, &i16_bytes);
    let at = open.len() - i16_bytes.len();
    open[at - 4..at].fill(0xff);
    assert!(expected(decoded(&open)).is_empty());
}

#[test]
fn broken_and_huge_sounds_are_refused_or_noted() {
    let whole = wav_file(1, 16, 1, 8_000, &[0; 16_000]);
    let error = |bytes: &[u8]| {
        let error = wav::decode(bytes, "x.wav", 10.0).unwrap_err();
        assert!(error.to_string().starts_with("x.wav: "), "{error}");
        assert!(!error.hint().is_empty());
        error.to_string()
    };
    for (bytes, expected) in [
        (&b""[..], "an empty file, expected WAV: PCM of 8, 16, 24 or 32 bits"),
        (b"ID3\x04rest of it", "an MP3 file"),
        (b"fLaC\0\0\0\0", "a FLAC file"),
        (b"OggS\0\0\0\0", "an Ogg file"),
        (b"\0\0\0\x20ftypM4A ", "an MP4 file"),
        (b"hello world, this", "another kind of file"),
        (&whole[..12], "no format and no samples"),
        (&whole[..40], "no samples"),
        (&wav_file(1, 12, 1, 8_000, &[0; 4]), "format 1 with 12 bits"),
        (&wav_file(6, 8, 1, 8_000, &[0; 4]), "format 6 with 8 bits"),
        (&wav_file(1, 16, 0, 8_000, &[0; 4]), "0 channels"),
        (&wav_file(1, 16, 65, 8_000, &[0; 4]), "65 channels"),
        (&wav_file(1, 16, 1, 0, &[0; 4]), "0 samples per second"),
        (&wav_file(1, 16, 1, 8_000, &[]), "an empty sound"),
        (&wav_file(1, 16, 1, 8_000, &[0]), "an empty sound"),
        (&wav_file(3, 32, 1, 8_000, &f32::NAN.to_le_bytes()), "sample 0 is NaN or infinite"),
        (&wav_file(1, 16, 1, 1_000, &vec![0; 20_002]), "10 s of sound, expected at most 10 s"),
    ] {
        let found = error(bytes);
        assert!(found.contains(expected), "{found}");
    }
    // Any cut of a file is an error or a note, never a panic.
    for end in 0..whole.len().min(200) {
        let _ = wav::decode(&whole[..end], "x.wav", 10.0);
    }
    let cut = wav::decode(&whole[..whole.len() - 8_000], "x.wav", 10.0).unwrap();
    assert_eq!(cut.samples.len(), 4_000);
    assert_eq!(cut.notes, ["x.wav: 0.50 s of 1.00 s: the rest of the file is missing"]);
    // A long sound is refused by its header, before it is read.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.wav");
    let mut long = wav_file(1, 16, 1, 8_000, &[0; 16_000]);
    let at = long.len() - 16_000;
    long[at - 4..at].copy_from_slice(&1_000_000_000_u32.to_le_bytes());
    std::fs::write(&path, long).unwrap();
    let found = wav::read(&path, 3_600.0).unwrap_err().to_string();
    assert!(found.contains("62500 s of sound, expected at most 3600 s"), "{found}");
    // A stream without an end, whose header does not know the size.
    let mut open = wav_file(1, 16, 1, 8_000, &[0; 16_000]);
    open[at - 4..at].copy_from_slice(&u32::MAX.to_le_bytes());
    let endless = std::io::Read::chain(&open[..], std::io::repeat(0));
    let found = wav::read_from(endless, "pipe", 2_000.0).unwrap_err().to_string();
    assert!(found.contains("pipe: 2001 s of sound, expected at most 2000 s"), "{found}");
    assert!(wav::read(&folder.path().join("none.wav"), 1.0).unwrap_err().to_string().contains("cannot open"));
}
