//! Clients that send huge or broken files, or hang up: others do not notice, and nothing is left behind.

use std::io::Write as _;
use std::net::TcpStream;

use super::*;

/// Sends a request and reads nothing.
fn begin(server: &Running, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let (port, length) = (server.port, body.len());
    write!(stream, "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer hostile\r\n{FORM}\r\nContent-Length: {length}\r\n\r\n").unwrap();
    stream.write_all(body).unwrap();
    stream
}

/// Ten minutes of sound.
fn long() -> Vec<u8> {
    wav::encode(&tone(600_000, RATE), RATE)
}

#[test]
fn a_short_sound_is_read_beside_long_ones_whose_clients_hang_up() {
    let server = Running::with(
        RequestLimits::default(),
        SchedulerOptions { threads: 1, ..SchedulerOptions::default() },
    );
    for model in ["plain", "whisper"] {
        let body = form(&[("model", model)], &long());
        let streams: Vec<TcpStream> = (0..3).map(|_| begin(&server, &body)).collect();
        let begun = server.state.scheduler.speech_gauges();
        let start = Instant::now();
        while server.state.scheduler.speech_gauges().steps < begun.steps + 30 {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "{:?}",
                server.state.scheduler.speech_gauges()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        let steps = server.state.scheduler.speech_gauges().steps;
        assert_eq!(server.transcribe(&[("model", model)], &sound(900)).status, 200);
        // Turns: about a step of the others for each of its own.
        let between = server.state.scheduler.speech_gauges().steps - steps;
        assert!(between < 60, "{between} steps");
        assert_eq!(server.classify("", &picture(0).to_png()).status, 200);
        assert_eq!(server.state.scheduler.speech_gauges().items, begun.items + 1);
        drop(streams);
        server.is_quiet_within(Duration::from_secs(20));
        let done = server.state.scheduler.speech_gauges();
        assert_eq!(done.items, begun.items + 1, "{done:?}");
    }
}

#[test]
fn sizes_are_checked_before_anything_is_decoded() {
    let limits = RequestLimits { sound_seconds: 2.0, megapixels: 0.001, ..RequestLimits::default() };
    let server = Running::with(limits, SchedulerOptions { threads: 2, ..SchedulerOptions::default() });
    // A header that promises more than there is, and as much as there is.
    let mut promise = sound(100);
    promise[40..44].copy_from_slice(&0x7fff_0000_u32.to_le_bytes());
    for file in [sound(2100), promise] {
        let answer = server.transcribe(&[], &file);
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (413, &json!("request_too_large")));
        assert!(answer.body.contains("s of sound (limit 2 s)"), "{}", answer.body);
    }
    let mut bomb = picture(0).to_png();
    bomb[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    for (file, part) in [
        (
            Picture::new([40, 40], 1, vec![0; 1600]).to_png(),
            "40×40 pixels are 0.0 megapixels, expected at most 0.001",
        ),
        // Its checksum is wrong, too.
        (bomb, "image: "),
    ] {
        let answer = server.classify("", &file);
        assert_eq!(answer.status, 400, "{}", answer.body);
        assert!(answer.body.contains(part), "{}", answer.body);
    }
    server.is_quiet_within(Duration::from_secs(5));
    assert_eq!(server.state.scheduler.speech_gauges().steps + server.state.scheduler.image_gauges().steps, 0);
}

#[test]
fn memory_is_reserved_before_the_work_and_what_can_never_be_had_is_refused() {
    let server = Running::all();
    server.state.memory.set_limit(64 << 20);
    // Few bytes that become many samples: the rate of the model is eight times that of the file.
    let mut slow = wav::encode(&vec![0.1; 3_000_000], 1_000);
    slow[24..28].copy_from_slice(&1_000_u32.to_le_bytes());
    let answer = server.transcribe(&[], &slow);
    assert_eq!(answer.status, 413, "{}", answer.body);
    assert!(answer.body.contains("MiB of memory for the sound"), "{}", answer.body);
    let wide = Picture::new([1_500, 1_500], 3, vec![7; 3 * 1_500 * 1_500]).to_png();
    let answer = server.classify("", &wide);
    assert_eq!(answer.status, 413, "{}", answer.body);
    assert!(answer.body.contains("MiB of memory for the image"), "{}", answer.body);
    let gauges = [server.state.scheduler.speech_gauges(), server.state.scheduler.image_gauges()];
    assert!(gauges.iter().all(|own| own.steps == 0), "{gauges:?}");
    assert_eq!(server.transcribe(&[], &sound(500)).status, 200);
    server.is_quiet_within(Duration::from_secs(5));
}

#[test]
fn broken_files_are_errors_of_the_client() {
    let server = Running::all();
    let file = sound(300);
    let mut nan = wav::encode(&[0.0; 100], RATE);
    nan.truncate(44);
    nan[20] = 3;
    nan[34] = 32;
    nan[40..44].copy_from_slice(&400_u32.to_le_bytes());
    nan.extend([f32::NAN.to_le_bytes(); 100].concat());
    for (file, part) in [
        (&b""[..], "an empty file, expected WAV"),
        (b"ID3abcdefgh", "an MP3 file, expected WAV"),
        (b"fLaC", "a FLAC file, expected WAV"),
        (&file[..12], "no format and no samples"),
        (&file[..20], "a format of 0 bytes, expected at least 16"),
        (&file[..44], "an empty sound"),
        (&nan, "NaN or infinite"),
    ] {
        let answer = server.transcribe(&[], file);
        assert_eq!(
            (answer.status, &answer.json()["error"]["param"]),
            (400, &json!("file")),
            "{}",
            answer.body
        );
        assert!(answer.body.contains(part), "{part}: {}", answer.body);
    }
    // A file that breaks off is read as far as it goes, and says so.
    let answer = server.transcribe(&[], &file[..file.len() / 2]);
    assert!(
        answer.status == 200 && answer.body.contains("the rest of the file is missing"),
        "{}",
        answer.body
    );
    let limits = RequestLimits { sound: 1000, file: 1000, ..RequestLimits::default() };
    let small = Running::with(limits, SchedulerOptions { threads: 1, ..SchedulerOptions::default() });
    assert_eq!(small.transcribe(&[], &file).status, 413);
    assert_eq!(small.classify("", &vec![0; 1001]).status, 413);
    server.is_quiet_within(Duration::from_secs(5));
}

#[test]
fn a_passed_deadline_is_overload_and_frees_its_work() {
    let limits = RequestLimits { file_deadline: Duration::from_millis(300), ..RequestLimits::default() };
    let server = Running::with(limits, SchedulerOptions { threads: 1, ..SchedulerOptions::default() });
    let answer = server.transcribe(&[], &long());
    assert!([503, 413].contains(&answer.status), "{}", answer.body);
    server.is_quiet_within(Duration::from_secs(5));
    assert_eq!(server.transcribe(&[], &sound(100)).status, 200);
}
