//! Event files compared with those of TensorBoard's own writer.

use polyhead_train::tensorboard::EventWriter;

/// `golden/events.bin` was written by `golden/make_events.py`, which holds the same events.
#[test]
fn bytes_are_those_of_tensorboard() {
    let folder = tempfile::tempdir().unwrap();
    let time = 1.75e9;
    let mut writer = EventWriter::create(folder.path(), time, 300).unwrap();
    for (tag, step, value, wall_time) in [
        ("train/loss", 300, 4.5, time + 1.5),
        ("valid/loss", 300, 0.1, time + 2.5),
        ("ölçüm", 1 << 40, -1e-30, time + 3.25),
        ("train/loss", 301, f64::INFINITY, time + 4.0),
        ("train/loss", 302, 0.0, time + 5.0),
    ] {
        writer.scalar(tag, step, value, wall_time).unwrap();
    }
    writer.text("samples", 302, &"**Günaydın** → good morning\n".repeat(12), time + 6.0).unwrap();
    writer.flush().unwrap();
    let found = std::fs::read(writer.path()).unwrap();
    let expected = include_bytes!("../golden/events.bin");
    let first = found.iter().zip(expected).position(|(found, expected)| found != expected);
    assert_eq!((first, found.len()), (None, expected.len()));
}
