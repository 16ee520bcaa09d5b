//! Mixed hostile and honest load for minutes: every honest answer is compared with `polyhead translate`.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::cases::upload;
use super::client::{Client, Seen, book, sentence};
use super::victim::{Setup, Victim};

/// Sentences of the honest clients; repeated ones come from the cache.
const SENTENCES: usize = 1500;

/// Honest clients.
const HONEST: u8 = 3;

/// What the honest clients saw, and the memory of the server by tenths of the time.
#[derive(Debug, Default)]
pub(super) struct Load {
    pub(super) seen: Seen,
    pub(super) wrong: usize,
    pub(super) hostile: usize,
    pub(super) memory: Vec<u64>,
    pub(super) is_within: bool,
}

/// Runs the load for as many seconds as the setup says.
pub(super) fn mixed(setup: &Setup) -> Load {
    let sentences: Vec<String> = (0..SENTENCES).map(|_| sentence()).collect();
    let expected = translated(setup, &sentences);
    let mut victim = setup.start(&[]);
    let is_over = AtomicBool::new(false);
    let (wrong, hostile) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut load = Load::default();
    std::thread::scope(|scope| {
        let (victim, is_over, wrong, hostile) = (&victim, &is_over, &wrong, &hostile);
        let (sentences, expected) = (&sentences, &expected);
        for number in 1..=6 {
            scope.spawn(move || attack(victim, setup, number, is_over, hostile));
        }
        let honest: Vec<_> = (0..HONEST)
            .map(|number| {
                let client = victim.client(200 + number);
                scope.spawn(move || {
                    let mut seen = Seen::default();
                    let mut index = usize::from(number) * SENTENCES / usize::from(HONEST);
                    while !is_over.load(Ordering::Relaxed) {
                        index = (index + 1) % SENTENCES;
                        ask(client, setup, (&sentences[index], &expected[index]), &mut seen, wrong);
                    }
                    seen.milliseconds.sort_by(f64::total_cmp);
                    seen
                })
            })
            .collect();
        let begun = Instant::now();
        let tenth = Duration::from_millis(setup.seconds * 100);
        for part in 1..=10 {
            let mut most = 0;
            while begun.elapsed() < tenth * part {
                most = most.max(victim.now());
                std::thread::sleep(Duration::from_millis(50));
            }
            load.memory.push(most);
        }
        is_over.store(true, Ordering::Relaxed);
        for own in honest {
            load.seen.add(&own.join().unwrap());
        }
    });
    load.wrong = wrong.into_inner();
    load.hostile = hostile.into_inner();
    load.is_within = victim.is_within_memory();
    load
}

/// The translations of the command line.
fn translated(setup: &Setup, sentences: &[String]) -> Vec<String> {
    let mut command = Command::new(&setup.program);
    command.args(["translate", "--quiet", "--from", "en", "--to", setup.to]);
    if let Some(model) = &setup.model {
        command.args(["--model", model]);
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, text) = (child.stdin.take().unwrap(), sentences.join("\n") + "\n");
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let lines: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), sentences.len());
    lines
}

/// One honest request; a refusal is waited for.
fn ask(client: Client, setup: &Setup, (text, expected): (&str, &str), seen: &mut Seen, wrong: &AtomicUsize) {
    match client.translate(text, setup.to) {
        Ok(answer) if answer.status == 200 => {
            seen.milliseconds.push(answer.took.as_secs_f64() * 1e3);
            if answer.json()["translatedText"].as_str() != Some(expected) {
                wrong.fetch_add(1, Ordering::Relaxed);
                eprintln!("wrong: {text:?}: {}, expected {expected:?}", answer.json());
            }
        }
        Ok(answer) if [429, 503].contains(&answer.status) && answer.header("retry-after").is_some() => {
            seen.refused += 1;
            std::thread::sleep(Duration::from_millis(500));
        }
        Ok(answer) => {
            eprintln!("failed: {}", answer.head);
            seen.failed += 1;
        }
        Err(error) => {
            eprintln!("failed: {error}");
            seen.failed += 1;
        }
    }
    std::thread::sleep(Duration::from_millis(20));
}

/// What one hostile client does, each kind in turn, bounded in number.
fn attack(victim: &Victim, setup: &Setup, number: u8, is_over: &AtomicBool, count: &AtomicUsize) {
    let client = victim.client(number);
    let junk = format!("{{\"junk\":[{}{{\"\":0}}]}}", "{\"\":0},".repeat(1 << 20));
    let ids = vec![7; 4096];
    let mut round = usize::from(number);
    while !is_over.load(Ordering::Relaxed) {
        round += 1;
        count.fetch_add(1, Ordering::Relaxed);
        // The answers of hostile requests are of no interest.
        match round % 7 {
            0 => {
                let head =
                    client.head("POST", "/translate_file", junk.len(), "Content-Type: application/json\r\n");
                let _ = client.send(&head, junk.as_bytes(), Duration::from_secs(30));
            }
            1 => {
                let letters: String =
                    book(60_000).chars().filter(char::is_ascii_alphabetic).take(40_000).collect();
                let _ = client.translate(&letters.to_lowercase(), setup.to);
            }
            2 => {
                let _ = client.translate(&book(20_000), setup.to);
            }
            3 => {
                let body = json!({ "source": ids, "target": ids, "kind": "cross", "layer": 0 });
                let _ = client.post("/api/attention", &body, "");
            }
            4 => {
                let open: Vec<_> = (0..40).filter_map(|_| client.connect().ok()).collect();
                std::thread::sleep(Duration::from_secs(1));
                drop(open);
            }
            5 => {
                let files: Vec<_> = (0..4).filter_map(|_| upload(client, 8 << 20).ok()).collect();
                let open = files.iter().filter_map(|answer| {
                    let found = answer.json();
                    let id = found["translatedFileUrl"].as_str()?.rsplit('/').next()?.to_owned();
                    let mut stream = client.connect().ok()?;
                    stream
                        .write_all(client.head("GET", &format!("/download_file/{id}"), 0, "").as_bytes())
                        .ok()?;
                    Some(stream)
                });
                let open: Vec<_> = open.collect();
                std::thread::sleep(Duration::from_secs(2));
                drop(open);
            }
            _ => {
                let text = book(8000);
                let body = json!({ "text": text, "from": "en", "to": setup.to, "n_best": 9, "beam_size": 16, "stream": true });
                let _ = client.post("/v1/translate", &body, "");
            }
        }
    }
}
