//! One hostile client beside honest ones: memory, time and turns of the server.
//!
//! `./check` runs short attacks on a tiny model. `bench/attack` runs them all on a release build with the bundled model, and
//! prints a table. Everything is bounded in number and time, and stays on the loopback interface.

mod cases;
mod client;
mod encoders;
mod load;
mod rules;
mod victim;

use std::time::Duration;

use self::cases::Finding;
use self::victim::Setup;

/// A tiny model, a debug build, short attacks.
fn quick() -> Setup {
    Setup {
        program: env!("CARGO_BIN_EXE_polyhead").into(),
        model: Some(concat!(env!("CARGO_MANIFEST_DIR"), "/../models/tests/golden/opus").into()),
        memory: 300,
        seconds: 2,
        // Other tests run beside it.
        slowest: 5000.0,
        to: "tr",
    }
}

#[track_caller]
fn held(finding: &Finding) {
    assert!(finding.is_held, "{}: {}", finding.name, finding.text);
}

#[test]
fn idle_connections_of_one_client_leave_room_for_others() {
    held(&cases::idle_connections(&quick()));
}

#[test]
fn unfinished_bodies_of_one_client_leave_room_for_others() {
    held(&cases::slow_bodies(&quick()));
}

#[test]
fn millions_of_json_values_neither_fill_the_memory_nor_stall_the_network() {
    held(&cases::json_values(&quick()));
}

#[test]
fn unread_downloads_are_counted() {
    held(&cases::unread_downloads(&quick()));
}

#[test]
fn a_large_attention_is_refused_before_it_is_computed() {
    held(&cases::explorer_attention(&quick()));
}

#[test]
fn large_requests_to_an_encoder_leave_turns_and_memory_to_others() {
    held(&encoders::encoder_requests(&quick(), 32));
}

/// The program, the model and the time of a long run.
fn long(seconds: u64) -> Setup {
    Setup {
        program: variable("PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_polyhead").into()),
        model: variable("MODEL"),
        memory: 512,
        seconds: variable("SECONDS").and_then(|text| text.parse().ok()).unwrap_or(seconds),
        slowest: 1000.0,
        to: "de",
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(format!("POLYHEAD_ATTACK_{name}")).ok()
}

/// Mixed hostile and honest load.
#[test]
#[ignore = "ten minutes: bench/attack/run --load"]
fn ten_minutes() {
    let setup = long(600);
    let load = load::mixed(&setup);
    println!("{} s, {} hostile requests", setup.seconds, load.hostile);
    println!("{}, {} wrong", load.seen.text(), load.wrong);
    println!("RSS by tenths of the time, MiB: {:?}", load.memory);
    assert!(load.is_within, "memory");
    assert_eq!((load.wrong, load.seen.failed), (0, 0), "wrong and lost answers");
    let [first, last] = [&load.memory[..5], &load.memory[5..]].map(|half| half.iter().max().copied());
    assert!(last <= first.map(|first| first + first / 10), "memory grows");
}

/// All attacks, on the program and for the time that `bench/attack/run` names.
#[test]
#[ignore = "minutes: bench/attack/run"]
fn all_attacks() {
    let setup = long(12);
    let only = variable("ONLY");
    let attacks: [fn(&Setup) -> Finding; 14] = [
        cases::explorer_attention,
        cases::explorer_traces,
        cases::json_values,
        cases::slow_bodies,
        cases::long_words,
        cases::hopeless_text,
        cases::books,
        cases::cache_flood,
        cases::unread_downloads,
        cases::slow_readers,
        cases::idle_connections,
        cases::open_heads,
        rules::small_rules,
        |setup| encoders::encoder_requests(setup, 384),
    ];
    let mut failed = 0;
    for (index, attack) in attacks.into_iter().enumerate() {
        if only.as_ref().is_some_and(|only| !only.split(',').any(|own| own == index.to_string())) {
            continue;
        }
        let finding = attack(&setup);
        failed += usize::from(!finding.is_held);
        let verdict = if finding.is_held { "held  " } else { "FAILED" };
        println!("{verdict} {}\n       {}", finding.name, finding.text.replace('\n', "\n       "));
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(failed, 0, "attacks that succeeded");
}
