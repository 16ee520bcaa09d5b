//! Texts of many clients in one running batch: each is what it is alone, and clients have equal shares.

use std::collections::HashMap;
use std::sync::Mutex;

use super::*;

/// Requests of many kinds; some prompts begin alike, some are long.
fn requests() -> Vec<(&'static str, Value)> {
    let shared = "the cat sat on the mat and a man is walking";
    let mut all = Vec::new();
    for (index, end) in [" down", " down the street", "", " with two dogs", " é"].into_iter().enumerate() {
        let prompt = format!("{shared}{end}");
        all.push((
            "/v1/completions",
            json!({ "prompt": prompt, "max_tokens": 8 + index, "n": 1 + index % 3, "seed": index }),
        ));
        all.push((
            "/v1/completions",
            json!({ "prompt": prompt, "max_tokens": 20, "temperature": 0, "logprobs": 1 }),
        ));
        let messages = json!([{ "role": "user", "content": end }]);
        all.push((
            "/v1/chat/completions",
            json!({ "model": "chat", "messages": messages, "seed": 5, "top_k": 1 + index }),
        ));
        all.push((
            "/v1/completions",
            json!({ "model": "chat", "prompt": prompt, "max_tokens": 30, "seed": 9, "stop": "a" }),
        ));
    }
    all
}

/// The part of an answer that depends on the request alone.
fn lasting(answer: &Value) -> Value {
    json!([answer["choices"], answer["usage"]])
}

#[test]
fn sixteen_clients_at_once_get_what_they_get_alone() {
    let server = Running::tiny();
    let requests = requests();
    let alone: Vec<Value> =
        requests.iter().map(|(path, body)| lasting(&server.answered(path, body))).collect();
    let before = server.state.scheduler.generation_gauges();
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for client in 0..16 {
            let (server, requests, alone, wrong) = (&server, &requests, &alone, &wrong);
            scope.spawn(move || {
                for turn in 0..requests.len() {
                    let index = (turn * 7 + client * 3) % requests.len();
                    let (path, body) = &requests[index];
                    let name = format!("client {client}");
                    let is_right = if turn % 3 == 0 {
                        let mut body = body.clone();
                        body["stream"] = true.into();
                        let answer = server.send_as(&name, path, &body);
                        let choices = alone[index][0].as_array().unwrap();
                        answer.status == 200
                            && streamed(&answer.body, choices.len()) == texts(&json!({ "choices": choices }))
                    } else {
                        let answer = server.send_as(&name, path, body);
                        answer.status == 200 && lasting(&answer.json()) == alone[index]
                    };
                    if !is_right {
                        wrong.lock().unwrap().push((client, index));
                    }
                }
            });
        }
    });
    assert_eq!(wrong.into_inner().unwrap(), []);
    let gauges = server.state.scheduler.generation_gauges();
    let [texts, steps] = [gauges.texts - before.texts, gauges.steps - before.steps];
    let tokens = gauges.tokens - before.tokens;
    assert!(
        texts >= 16 * 20 && tokens > 2 * steps,
        "texts share steps: {texts} texts, {tokens} tokens, {steps} steps"
    );
    server.is_quiet_within(Duration::from_secs(10));
}

#[test]
fn a_client_with_much_work_leaves_others_their_turn_and_loses_nothing() {
    let folder = endless();
    let limits = RequestLimits { new_tokens: 100_000, ..RequestLimits::default() };
    let server = Running::new(&[("endless", folder.path().into())], limits);
    let heavy = json!({ "prompt": "a man", "max_tokens": 1500, "min_tokens": 1500, "n": 16, "seed": 1 });
    let light = |seed: u64| json!({ "prompt": "Hello", "max_tokens": 6, "seed": seed });
    let expected: Vec<Value> = (0..6).map(|seed| lasting(&server.complete(&light(seed)))).collect();
    let alone = lasting(&server.complete(&heavy));
    let took: HashMap<bool, Duration> = std::thread::scope(|scope| {
        // 32 texts of one client fill all 24 rows.
        let heavy: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let begin = Instant::now();
                    let answer = server.send_as("heavy", "/v1/completions", &heavy);
                    (lasting(&answer.json()), begin.elapsed())
                })
            })
            .collect();
        let begin = Instant::now();
        while server.state.scheduler.generation_gauges().running < 24 {
            assert!(
                begin.elapsed() < Duration::from_secs(20),
                "{:?}",
                server.state.scheduler.generation_gauges()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut slowest = Duration::ZERO;
        for (seed, expected) in expected.iter().enumerate() {
            let begin = Instant::now();
            let answer = server.send_as("light", "/v1/completions", &light(seed as u64));
            assert_eq!(&lasting(&answer.json()), expected);
            slowest = slowest.max(begin.elapsed());
        }
        let all: Vec<(Value, Duration)> = heavy.into_iter().map(|own| own.join().unwrap()).collect();
        assert!(all.iter().all(|(found, _)| *found == alone), "pauses change nothing");
        HashMap::from([(true, slowest), (false, all.iter().map(|(_, took)| *took).max().unwrap())])
    });
    assert!(took[&true] * 4 < took[&false], "light and heavy: {took:?}");
    let gauges = server.state.scheduler.generation_gauges();
    assert!(gauges.pauses > 0, "{gauges:?}");
    server.is_quiet_within(Duration::from_secs(5));
}

#[test]
fn a_long_prompt_does_not_hold_up_running_texts() {
    let folder = endless();
    let server = Running::new(&[("endless", folder.path().into())], RequestLimits::default());
    let long = json!({ "prompt": vec![5_u32; 6000], "max_tokens": 2, "seed": 0 });
    let body = json!({ "prompt": "Hello", "max_tokens": 40, "min_tokens": 40, "seed": 4 });
    let expected = lasting(&server.complete(&body));
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let begin = Instant::now();
            (server.send_as("long", "/v1/completions", &long).status, begin.elapsed())
        });
        let begin = Instant::now();
        while server.state.scheduler.generation_gauges().running < 1 {
            assert!(begin.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(1));
        }
        let begin = Instant::now();
        let answer = server.send_as("short", "/v1/completions", &body);
        let took = begin.elapsed();
        assert_eq!(lasting(&answer.json()), expected);
        let (status, long) = reading.join().unwrap();
        // Its 40 steps come between the parts of the prompt.
        assert!(status == 200 && took < long * 3, "{took:?} beside {long:?}");
    });
}
