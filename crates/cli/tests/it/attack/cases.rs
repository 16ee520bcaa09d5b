//! The attacks: each starts a server of its own and says whether it held.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{Answer, Client, Seen, book, light};
use super::victim::{Setup, Victim};

/// The result of an attack.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) name: &'static str,
    pub(super) is_held: bool,
    pub(super) text: String,
}

impl Finding {
    pub(super) fn new(name: &'static str, victim: &mut Victim, is_held: bool, text: &str) -> Self {
        let is_within = victim.is_within_memory();
        Self { name, is_held: is_held && is_within, text: format!("RSS {} MiB; {text}", victim.peak()) }
    }
}

/// The number of the light client.
const LIGHT: u8 = 200;

/// Runs `attack` beside a light client, for `seconds` or until it ends, whichever is later.
pub(super) fn beside(
    victim: &Victim,
    setup: &Setup,
    seconds: u64,
    attack: impl FnOnce(&AtomicBool) + Send,
) -> Seen {
    let is_over = AtomicBool::new(false);
    let client = victim.client(LIGHT);
    std::thread::scope(|scope| {
        let attacking = scope.spawn(|| attack(&is_over));
        // The attack comes first.
        std::thread::sleep(Duration::from_millis(300));
        let seen = scope.spawn(|| light(client, setup.to, Duration::from_millis(20), &is_over));
        std::thread::sleep(Duration::from_secs(seconds));
        is_over.store(true, Ordering::Relaxed);
        attacking.join().unwrap();
        seen.join().unwrap()
    })
}

/// True if a light client was served well: answers, none lost, the slowest in hundred soon enough.
pub(super) fn is_served(seen: &Seen, setup: &Setup) -> bool {
    let is_soon = seen.percentile(0.99) <= setup.slowest;
    seen.failed == 0 && seen.refused == 0 && !seen.milliseconds.is_empty() && is_soon
}

/// Attention of 4,096 × 4,096 tokens, twice at once, and again as long as it goes on.
pub(super) fn explorer_attention(setup: &Setup) -> Finding {
    let mut victim = setup.start(&[]);
    let ids = vec![7; 4096];
    let body = json!({ "source": ids, "target": ids, "kind": "cross", "layer": 0 });
    let attack = |number: u8| victim.client(number).post("/api/attention", &body, "");
    let mut answers: Vec<std::io::Result<Answer>> = Vec::new();
    let seen = beside(&victim, setup, setup.seconds, |_| {
        answers = std::thread::scope(|scope| {
            let running = [1, 2].map(|number| scope.spawn(move || attack(number)));
            running.map(|own| own.join().unwrap()).into()
        });
    });
    let took = answers.iter().flatten().map(|answer| answer.took.as_secs_f64()).fold(0.0, f64::max);
    let bytes = answers.iter().flatten().map(|answer| answer.body.len()).max().unwrap_or(0);
    let statuses: Vec<u16> =
        answers.iter().map(|answer| answer.as_ref().map_or(0, |own| own.status)).collect();
    let is_held = took < 32.0
        && statuses.iter().all(|status| [200, 413, 503].contains(status))
        && is_served(&seen, setup);
    let text = format!("statuses {statuses:?} after {took:.1} s, {} MB; {}", bytes / 1_000_000, seen.text());
    Finding::new("explorer: attention of 4096 x 4096 tokens, twice", &mut victim, is_held, &text)
}

/// Long texts with a wide beam for the explorer, from one client.
pub(super) fn explorer_traces(setup: &Setup) -> Finding {
    let mut victim = setup.start(&["--deadline", "10"]);
    let text = book(19_000).replace(". ", ", ");
    let body = json!({ "text": text, "from": "en", "to": setup.to, "beam_size": 16 });
    let hostile = victim.client(1);
    let mut slowest = 0.0;
    let seen = beside(&victim, setup, setup.seconds, |_| {
        let times: Vec<f64> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        hostile.post("/api/trace", &body, "").map_or(120.0, |own| own.took.as_secs_f64())
                    })
                })
                .collect();
            running.into_iter().map(|own| own.join().unwrap()).collect()
        });
        slowest = times.into_iter().fold(0.0, f64::max);
    });
    let is_held = slowest < 12.0 && is_served(&seen, setup);
    let text = format!("deadline 10 s, slowest answer {slowest:.1} s; {}", seen.text());
    Finding::new("explorer: eight texts of 19,000 letters, beam 16", &mut victim, is_held, &text)
}

/// Four bodies of 8 MiB with millions of JSON values, without a key.
pub(super) fn json_values(setup: &Setup) -> Finding {
    let mut victim = setup.start(&[]);
    let mut body = b"{\"junk\":[{\"\":0}".to_vec();
    while body.len() + 10 < 8 << 20 {
        body.extend(b",{\"\":0}");
    }
    body.extend(b"]}");
    let health = victim.client(LIGHT);
    let mut slowest = 0.0_f64;
    let mut answered = 0;
    let seen = beside(&victim, setup, setup.seconds, |is_over| {
        std::thread::scope(|scope| {
            let attackers: Vec<_> = (1..=4)
                .map(|number| {
                    let (client, body) = (victim.client(number), &body);
                    scope.spawn(move || {
                        let head = client.head(
                            "POST",
                            "/translate_file",
                            body.len(),
                            "Content-Type: application/json\r\n",
                        );
                        let mut count = 0;
                        while !is_over.load(Ordering::Relaxed) {
                            count += usize::from(client.send(&head, body, Duration::from_secs(60)).is_ok());
                        }
                        count
                    })
                })
                .collect();
            while !is_over.load(Ordering::Relaxed) {
                let took = health.get("/health", "").map_or(60.0, |answer| answer.took.as_secs_f64());
                slowest = slowest.max(took);
                std::thread::sleep(Duration::from_millis(10));
            }
            answered = attackers.into_iter().map(|own| own.join().unwrap()).sum();
        });
    });
    let is_held = slowest * 1e3 < setup.slowest / 2.0 && is_served(&seen, setup);
    let text = format!("{answered} bodies; slowest /health {:.0} ms; {}", slowest * 1e3, seen.text());
    Finding::new("bodies: four clients with 8 MiB of JSON values", &mut victim, is_held, &text)
}

/// Two clients, each with 49,999 letters without a full stop, or without a space.
pub(super) fn long_words(setup: &Setup) -> Finding {
    let mut victim = setup.start(&[]);
    // Another text each time, since the cache knows the last one; with spaces it is one sentence that is cut into parts.
    let word = |is_cut: bool| {
        let is_kept = |letter: &char| letter.is_ascii_alphabetic() || (is_cut && *letter == ' ');
        let letters: String = book(90_000).chars().filter(is_kept).collect();
        letters[..49_999].to_lowercase()
    };
    let mut statuses = Vec::new();
    let seen = beside(&victim, setup, setup.seconds, |is_over| {
        statuses = std::thread::scope(|scope| {
            let attackers = [1, 2].map(|number| {
                let (client, word) = (victim.client(number), &word);
                scope.spawn(move || {
                    let mut found = Vec::new();
                    while !is_over.load(Ordering::Relaxed) {
                        found.push(
                            client
                                .translate(&word(found.len() % 2 == 0), setup.to)
                                .map_or(0, |answer| answer.status),
                        );
                        std::thread::sleep(Duration::from_millis(50));
                    }
                    found
                })
            });
            attackers.into_iter().flat_map(|own| own.join().unwrap()).collect()
        });
    });
    let text = format!("{}; {}", counted(&statuses), seen.text());
    Finding::new(
        "work: two clients with 49,999 letters without an end of sentence",
        &mut victim,
        is_served(&seen, setup),
        &text,
    )
}

/// Four clients with books; the light client against itself alone.
pub(super) fn books(setup: &Setup) -> Finding {
    let mut victim = setup.start(&["--cache", "0"]);
    let alone = beside(&victim, setup, setup.seconds.min(10), |_| {});
    let mut statuses = Vec::new();
    let seen = beside(&victim, setup, setup.seconds, |is_over| {
        statuses = std::thread::scope(|scope| {
            let attackers = [1, 2, 3, 4].map(|number| {
                let client = victim.client(number);
                scope.spawn(move || {
                    let mut found = Vec::new();
                    while !is_over.load(Ordering::Relaxed) {
                        found.push(
                            client.translate(&book(20_000), setup.to).map_or(0, |answer| answer.status),
                        );
                    }
                    found
                })
            });
            attackers.into_iter().flat_map(|own| own.join().unwrap()).collect()
        });
    });
    let [before, after] = [&alone, &seen].map(|own| own.percentile(0.5));
    let is_held = after <= 5.0 * before && is_served(&seen, setup);
    let text = format!(
        "books: {}; alone p50 {before:.0} ms, {:.1} times; {}",
        counted(&statuses),
        after / before,
        seen.text()
    );
    Finding::new("turns: four books beside a light client", &mut victim, is_held, &text)
}

/// 80 downloads of 8 MiB files that are never read, from one client.
pub(super) fn unread_downloads(setup: &Setup) -> Finding {
    let mut victim = setup.start(&[]);
    let client = victim.client(1);
    let mut open: Vec<TcpStream> = Vec::new();
    let mut statuses = Vec::new();
    let seen = beside(&victim, setup, setup.seconds, |_| {
        for _ in 0..80 {
            let Ok(answer) = upload(client, 8 << 20) else {
                statuses.push(0);
                continue;
            };
            statuses.push(answer.status);
            let found = answer.json();
            let Some(path) =
                found["translatedFileUrl"].as_str().and_then(|url| url.split("/download_file/").nth(1))
            else {
                continue;
            };
            let mut stream = client.connect().unwrap();
            let head = client.head("GET", &format!("/download_file/{path}"), 0, "");
            if stream.write_all(head.as_bytes()).is_ok() {
                open.push(stream);
            }
        }
    });
    let text = format!("{} downloads open, uploads {}; {}", open.len(), counted(&statuses), seen.text());
    Finding::new("answers: 80 unread downloads of 8 MiB", &mut victim, is_served(&seen, setup), &text)
}

/// Uploads a file that needs no translation; its URL is the answer.
pub(super) fn upload(client: Client, bytes: usize) -> std::io::Result<Answer> {
    let text = format!("<p>Guten Morgen.</p><!-- {} -->", "x".repeat(bytes - 2000));
    let mut body = String::new();
    for (name, value) in [("source", "de"), ("target", "de")] {
        body += &format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
    }
    body += "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.html\"\r\n\r\n";
    body += &text;
    body += "\r\n--XX--\r\n";
    let kind = "Content-Type: multipart/form-data; boundary=XX\r\n";
    client.send(
        &client.head("POST", "/translate_file", body.len(), kind),
        body.as_bytes(),
        Duration::from_secs(30),
    )
}

/// Eight connections without a key that send 8 MiB but never the end.
pub(super) fn slow_bodies(setup: &Setup) -> Finding {
    let mut victim = setup.start(&[]);
    let client = victim.client(1);
    let seen = beside(&victim, setup, setup.seconds, |is_over| {
        let part = vec![b' '; (8 << 20) - 8];
        let mut open: Vec<TcpStream> = Vec::new();
        for _ in 0..8 {
            let mut stream = client.connect().unwrap();
            stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
            let head = client.head("POST", "/translate_file", 8 << 20, "Content-Type: application/json\r\n");
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(&part);
            open.push(stream);
        }
        while !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
        drop(open);
    });
    Finding::new(
        "bodies: eight unfinished bodies of 8 MiB",
        &mut victim,
        is_served(&seen, setup),
        &seen.text(),
    )
}

/// 120 idle connections of one client where 50 are allowed.
pub(super) fn idle_connections(setup: &Setup) -> Finding {
    let mut victim = setup.start(&["--max-connections", "50"]);
    let client = victim.client(1);
    let seen = beside(&victim, setup, setup.seconds, |is_over| {
        let open: Vec<TcpStream> = (0..120).filter_map(|_| client.connect().ok()).collect();
        while !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
        drop(open);
    });
    Finding::new(
        "connections: 120 idle ones of one client, 50 allowed",
        &mut victim,
        is_served(&seen, setup),
        &seen.text(),
    )
}

/// 2,000 connections with heads of 30 kB that never end.
pub(super) fn open_heads(setup: &Setup) -> Finding {
    let mut victim = setup.start(&[]);
    let mut count = 0;
    let seen = beside(&victim, setup, setup.seconds, |is_over| {
        let part = format!("GET / HTTP/1.1\r\nX: {}", "a".repeat(30_000));
        let mut open: Vec<TcpStream> = Vec::new();
        for index in 0..2000 {
            let Ok(mut stream) = victim.client(1 + (index % 2) as u8).connect() else { continue };
            let _ = stream.set_write_timeout(Some(Duration::from_millis(200)));
            if stream.write_all(part.as_bytes()).is_ok() {
                open.push(stream);
            }
        }
        count = open.len();
        while !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let text = format!("{count} open; {}", seen.text());
    Finding::new(
        "connections: 2,000 heads of 30 kB without an end",
        &mut victim,
        is_served(&seen, setup),
        &text,
    )
}

/// Downloads whose reader takes a few bytes a second.
pub(super) fn slow_readers(setup: &Setup) -> Finding {
    let mut victim = setup.start(&[]);
    let client = victim.client(1);
    let answer = upload(client, 8 << 20).unwrap().json();
    let url = answer["translatedFileUrl"].as_str().unwrap_or_default().to_owned();
    let path = url.split("/download_file/").nth(1).unwrap_or_default().to_owned();
    let mut stream = client.connect().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(client.head("GET", &format!("/download_file/{path}"), 0, "").as_bytes()).unwrap();
    let begun = Instant::now();
    let mut closed = None;
    // Half the size of the file fits into the buffers of the system; the rest never comes to be read.
    let mut buffer = [0; 512];
    while begun.elapsed() < Duration::from_secs(90) {
        std::thread::sleep(Duration::from_millis(500));
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => {
                closed = Some(begun.elapsed());
                break;
            }
            Ok(_) => {}
        }
        if victim.client(LIGHT).get("/metrics", "").is_ok_and(|own| open_connections(&own) <= 1.0) {
            closed = Some(begun.elapsed());
            break;
        }
    }
    let text = closed
        .map_or("still open after 90 s".into(), |own| format!("closed after {:.0} s", own.as_secs_f64()));
    Finding::new("answers: a download read at 1 kB/s", &mut victim, closed.is_some(), &text)
}

/// The number of open connections in the metrics, the asking one included.
fn open_connections(answer: &Answer) -> f64 {
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("polyhead_connections "));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(f64::NAN)
}

/// A text that cannot be done by the deadline.
pub(super) fn hopeless_text(setup: &Setup) -> Finding {
    let mut victim = setup.start(&["--deadline", "1", "--cache", "0"]);
    // So that the server knows its speed.
    for _ in 0..6 {
        let _ = victim.client(1).translate(&book(4000), setup.to);
    }
    let answer = victim.client(1).translate(&book(49_000), setup.to);
    let (is_held, text) = match answer {
        Ok(answer) => {
            let error = answer.json()["error"].as_str().unwrap_or_default().to_owned();
            let is_held =
                answer.status == 413 && answer.took < Duration::from_secs(1) && error.contains("deadline");
            (is_held, format!("{} after {:.0} ms: {error:?}", answer.status, answer.took.as_secs_f64() * 1e3))
        }
        Err(error) => (false, error.to_string()),
    };
    Finding::new("deadline: 49,000 letters within 1 s", &mut victim, is_held, &text)
}

/// New sentences with nine translations each, as fast as possible.
pub(super) fn cache_flood(setup: &Setup) -> Finding {
    let mut victim = setup.start(&[]);
    let seen = beside(&victim, setup, setup.seconds, |is_over| {
        std::thread::scope(|scope| {
            for number in 1..=8 {
                let client = victim.client(number);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let body = json!({ "text": book(2000), "from": "en", "to": setup.to, "n_best": 9, "beam_size": 16, "alignment": true });
                        let _ = client.post("/v1/translate", &body, "");
                    }
                });
            }
        });
    });
    Finding::new(
        "work: eight clients with n-best lists, beam 16",
        &mut victim,
        is_served(&seen, setup),
        &seen.text(),
    )
}

/// Statuses and how often each occurred.
fn counted(statuses: &[u16]) -> String {
    let mut all: Vec<u16> = statuses.to_vec();
    all.sort_unstable();
    all.dedup();
    let each = all
        .iter()
        .map(|status| format!("{status}: {}", statuses.iter().filter(|own| *own == status).count()));
    format!("{{{}}}", each.collect::<Vec<_>>().join(", "))
}
