//! `polyhead generate` and `polyhead perplexity` with tiny models of transformers.

use std::path::Path;

use serde_json::{Value, json};

use crate::program::{folder, polyhead};

/// A tiny model with random weights, made with transformers.
fn golden(name: &str) -> String {
    format!("{}/../engine/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn rows(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs `generate` with 12 new tokens.
fn generate(folder: &Path, model: &str, arguments: &[&str], input: &str) -> crate::program::Run {
    let model = golden(model);
    let all = [&["generate", "--model", &model, "--max-new-tokens", "12"], arguments].concat();
    polyhead(folder, &all, input)
}

#[test]
fn prompts_come_from_arguments_a_file_or_standard_input_and_results_keep_their_order() {
    let prompts = ["the cat sat", "a", "the cat sat on the mat and the dog sat on the rug", "Hello"];
    let lines = prompts.join("\n") + "\n";
    let folder = folder(&[("prompts.txt", &lines)]);
    let run = |arguments: &[&str], input: &str| {
        let all = [&["--format", "jsonl", "--seed", "5"], arguments].concat();
        generate(folder.path(), "gpt2", &all, input).ok()
    };
    let expected = run(&prompts, "");
    let found = rows(&expected);
    assert_eq!(found.iter().map(|row| row["prompt"].as_str().unwrap()).collect::<Vec<_>>(), prompts);
    for row in &found {
        let ids = row["ids"].as_array().unwrap();
        let reason = row["finish_reason"].as_str().unwrap();
        assert!(ids.len() == 12 && reason == "length" || reason == "end", "{row}");
        assert!(row["log_probability"].as_f64().unwrap() < 0.0 && row["text"].is_string());
    }
    assert_eq!(run(&["--file", "prompts.txt", "--threads", "1"], ""), expected);
    assert_eq!(run(&[], &lines), expected);
    assert_eq!(run(&["--file", "-"], &lines), expected);
    assert_eq!(run(&prompts[..1], ""), expected.lines().next().unwrap().to_owned() + "\n", "alone");
    // As text, and as it is generated.
    let one = generate(folder.path(), "gpt2", &["--seed", "5", prompts[0]], "").ok();
    assert_eq!(one, format!("{}{}\n", prompts[0], found[0]["text"].as_str().unwrap()));
    assert_eq!(generate(folder.path(), "gpt2", &["--seed", "5", "--stream", prompts[0]], "").ok(), one);
    // Several samples, and the best of a beam.
    let samples = rows(&run(&["--n", "3", "Hello"], ""));
    assert_eq!(samples.iter().map(|row| row["sample"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(samples[0]["ids"], found[3]["ids"]);
    assert_ne!(samples[0]["ids"], samples[1]["ids"]);
    let best = rows(&run(&["--beam", "3", "--n", "2", "Hello"], ""));
    let score = |row: &Value| row["log_probability"].as_f64().unwrap();
    assert!(best.len() == 2 && score(&best[0]) > score(&samples[0]), "{best:?}");
    // An empty prompt begins with the start token.
    assert_eq!(rows(&run(&[""], ""))[0]["prompt_tokens"], 1);
}

#[test]
fn a_text_ends_before_a_stop_string() {
    let folder = folder(&[]);
    let greedy = ["--temperature", "0", "--format", "jsonl", "the cat sat"];
    let whole = &rows(&generate(folder.path(), "gpt2", &greedy, "").ok())[0];
    let text = whole["text"].as_str().unwrap();
    let stop: String = text.chars().skip(2).take(2).collect();
    let all = [&["--stop", "never", "--stop", &stop], &greedy[..]].concat();
    let found = &rows(&generate(folder.path(), "gpt2", &all, "").ok())[0];
    assert_eq!(found["text"].as_str().unwrap(), &text[..text.find(&stop).unwrap()]);
    assert_eq!(found["finish_reason"], "stop");
}

#[test]
fn chats_are_answered_by_the_models_template() {
    let chat = json!({ "messages": [{ "role": "user", "content": "Hello there" }] });
    let own =
        json!([{ "role": "system", "content": "Be brief." }, { "role": "user", "content": "Hello there" }]);
    let folder = folder(&[("chats.jsonl", &format!("{chat}\n{own}\n"))]);
    let run = |arguments: &[&str], input: &str| {
        generate(folder.path(), "llama", &[&["--temperature", "0"], arguments].concat(), input)
    };
    let found = rows(&run(&["--messages", "chats.jsonl", "--format", "jsonl"], "").ok());
    assert_eq!(found[0]["prompt"], "<s>[INST] Hello there [/INST]");
    assert_eq!(found[0]["messages"], chat["messages"]);
    assert!(found[1]["prompt"].as_str().unwrap().contains("<<SYS>>\nBe brief."), "{}", found[1]);
    let answer = |row: &Value| row["text"].as_str().unwrap().to_owned() + "\n";
    assert_eq!(run(&["--messages", "chats.jsonl"], "").ok(), answer(&found[0]) + &answer(&found[1]));
    // A chat keeps its history: the second answer is that to all turns.
    let out = run(&["--chat"], "Hello there\n\nthe cat\n").ok();
    assert!(out.starts_with(&answer(&found[0])), "{out:?}");
    let turns = json!([
        chat["messages"][0], { "role": "assistant", "content": found[0]["text"] }, { "role": "user", "content": "the cat" },
    ]);
    std::fs::write(folder.path().join("turns.jsonl"), turns.to_string()).unwrap();
    let second = run(&["--messages", "turns.jsonl"], "").ok();
    assert_eq!(out, answer(&found[0]) + &second);
    assert_eq!(run(&["--chat", "Hello there", "the cat"], "").ok(), out);
    // A system message makes turns of prompts.
    assert_eq!(run(&["--system", "Be brief.", "Hello there"], "").ok(), answer(&found[1]));
    assert_eq!(run(&["--chat", "--system", "Be brief."], "Hello there\n").ok(), answer(&found[1]));
    assert_eq!(
        run(&["--messages", "chats.jsonl", "--system", "Be brief."], "").ok(),
        answer(&found[1]).repeat(2)
    );

    for (line, message) in [
        ("{", "wrong.jsonl:1: EOF while parsing an object"),
        ("{\"messages\": []}", "wrong.jsonl:1: an empty chat"),
        ("[{\"role\": \"user\"}]", "wrong.jsonl:1: a message without role or content"),
        ("{\"text\": 1}", "wrong.jsonl:1: no list of messages"),
    ] {
        std::fs::write(folder.path().join("wrong.jsonl"), line).unwrap();
        let err = run(&["--messages", "wrong.jsonl"], "").failed(1);
        assert!(err.contains(message) && err.contains("hint: write a chat on each line"), "{err}");
    }
    let refused = json!([{ "role": "user", "content": "a" }, { "role": "user", "content": "b" }]);
    std::fs::write(folder.path().join("wrong.jsonl"), refused.to_string()).unwrap();
    let err = run(&["--messages", "wrong.jsonl"], "").failed(2);
    assert!(
        err.contains("wrong.jsonl:1: the chat template refuses the messages: After the optional"),
        "{err}"
    );
    let err = generate(folder.path(), "gpt2", &["--chat"], "Hello\n").failed(2);
    assert!(err.contains("a model without a chat template") && err.contains("hint: "), "{err}");
}

#[test]
fn a_long_prompt_is_refused_with_its_line_or_slides() {
    let long = "a man ".repeat(60);
    let folder = folder(&[("prompts.txt", &format!("Hello\n{long}\n"))]);
    let run = |arguments: &[&str]| generate(folder.path(), "llama", arguments, "");
    let refused = run(&["--file", "prompts.txt"]);
    assert!(refused.out.starts_with("Hello"), "what came before is printed: {}", refused.out);
    let err = refused.failed(2);
    assert!(err.contains("prompts.txt:2: a prompt of ") && err.contains("expected at most 96"), "{err}");
    assert!(
        err.contains("hint: shorten the prompt, or drop its oldest tokens with --overflow slide"),
        "{err}"
    );
    let slid = run(&["--file", "prompts.txt", "--overflow", "slide"]);
    assert!(
        slid.err.contains("note: prompts.txt:2: the oldest ") && slid.err.contains("were dropped"),
        "{}",
        slid.err
    );
    assert_eq!(slid.ok().lines().next().map(|line| line.starts_with("Hello")), Some(true));
    // In a chat the oldest turns go.
    let turns = "the cat sat on the mat and the dog\n".repeat(8);
    let chat = generate(folder.path(), "llama", &["--chat", "--overflow", "slide"], &turns);
    assert!(
        chat.err.contains("the oldest 1 turn was dropped, so that the chat fits the context"),
        "{}",
        chat.err
    );
    chat.ok();
    generate(folder.path(), "llama", &["--chat"], &turns).failed(2);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let folder = folder(&[]);
    for (arguments, message) in [
        (&["--stop", ""][..], "expected some text: every text would end before it began"),
        (&["--n", "2", "--temperature", "0"], "2 samples at temperature 0, expected a temperature above 0"),
        (&["--temperature", "-1"], "the temperature is -1, expected a number not below 0"),
        (&["--top-p", "2"], "top-p is 2, expected a probability"),
        (&["--repetition-penalty", "0"], "the repetition penalty is 0, expected a positive number"),
        (&["--beam", "2", "--stop", "x"], "stop strings in beam search, expected one of the two"),
        (&["--beam", "2", "--n", "3"], "3 texts of 2 beams"),
        (&["--max-new-tokens", "0"], "expected a whole number of 1 or more"),
        (&["--overflow", "wrap"], "refuse, slide"),
        (&["--chat", "--format", "jsonl"], "--chat with --format jsonl"),
        (&["--stream", "--format", "jsonl"], "--stream with --format jsonl"),
        (&["--stream", "--n", "2"], "expected one text as it is generated"),
        (&["--file", "x.txt"], "cannot be used with"),
    ] {
        let model = golden("gpt2");
        let all = [&["generate", "--model", &model], arguments, &["a"]].concat();
        let err = polyhead(folder.path(), &all, "").failed(2);
        assert!(err.contains(message) && err.contains("hint: "), "{arguments:?}: {err}");
    }
    let err = polyhead(folder.path(), &["generate", "--model", "nowhere", "a"], "").failed(1);
    assert!(err.contains("no such folder"), "{err}");
}

#[cfg(unix)]
#[test]
fn a_reader_that_leaves_ends_the_program_quietly() {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_polyhead"))
        .args(["generate", "--max-new-tokens", "4", "--threads", "1", "--model", &golden("gpt2")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // Ends when the program does.
    let writer = std::thread::spawn(move || while input.write_all(b"the cat sat\n").is_ok() {});
    let mut first = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut first).unwrap();
    assert!(first.starts_with("the cat sat"), "{first}");
    drop(output);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    writer.join().unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(!err.contains("error"), "{err}");
}

#[test]
fn perplexity_is_measured_in_windows() {
    let text = "the cat sat on the mat and the dog sat on the rug\n".repeat(4);
    let folder = folder(&[("text.txt", &text), ("few.txt", "")]);
    std::fs::write(folder.path().join("wrong.txt"), b"abc\xff").unwrap();
    let model = golden("gpt2");
    let run = |arguments: &[&str], input: &str| {
        polyhead(folder.path(), &[&["perplexity", "--model", &model], arguments].concat(), input)
    };
    let found: Value = serde_json::from_str(&run(&["--format", "json", "text.txt"], "").ok()).unwrap();
    assert_eq!((&found["context"], &found["stride"]), (&json!(64), &json!(32)));
    assert_eq!(found["characters"], text.len());
    let number = |key: &str| found[key].as_f64().unwrap();
    assert!((number("perplexity") - number("nats_per_token").exp()).abs() < 1e-9);
    assert!((number("bits_per_token") - number("nats_per_token") / std::f64::consts::LN_2).abs() < 1e-12);
    let shown = run(&[], &text).ok();
    assert!(shown.starts_with(&format!("perplexity  {:.4}\n", number("perplexity"))), "{shown}");
    assert!(shown.contains("of 64 tokens, 32 further each"), "{shown}");
    let shorter = run(&["--context", "16", "--stride", "16", "text.txt"], "").ok();
    assert!(shorter.contains("of 16 tokens, 16 further each") && shorter.contains("predicted"), "{shorter}");

    let err = run(&["wrong.txt"], "").failed(2);
    assert!(err.contains("wrong.txt: invalid UTF-8 at byte 4"), "{err}");
    let err = run(&["few.txt"], "").failed(2);
    assert!(err.contains("a text of 0 tokens, expected some text"), "{err}");
    run(&["nowhere.txt"], "").failed(1);
    let err = run(&["--context", "65", "text.txt"], "").failed(2);
    assert!(err.contains("a context of 65 tokens, expected at most 64"), "{err}");
    let err = run(&["--stride", "0", "text.txt"], "").failed(2);
    assert!(err.contains("expected a whole number of 1 or more"), "{err}");
    let err = polyhead(folder.path(), &["perplexity", "--model", "text.txt", "few.txt"], "").failed(2);
    assert!(err.contains("hint: polyhead ngram perplexity measures with n-gram models"), "{err}");
}

/// A recurrent model has no context that would end an answer.
#[cfg(unix)]
#[test]
fn an_interrupt_stops_an_answer_and_the_chat_goes_on() {
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};
    const RECIPE: &str = r#"
task = "language-model"
out = "run"
[data]
train = { text = "text.txt" }
valid = { text = "text.txt" }
[tokenizer]
kind = "word"
vocab_size = 0
min_frequency = 1
[model]
model_type = "recurrent_language_model"
n_layers = 1
d_embedding = 8
d_model = 8
[train]
device = "cpu"
max_tokens = 128
max_steps = 3
[validation]
every_steps = 3
"#;
    let folder = folder(&[("run.toml", RECIPE), ("text.txt", &"one two three four five six\n".repeat(20))]);
    polyhead(folder.path(), &["train", "run.toml"], "").ok();
    let model = folder.path().join("run/model");
    std::fs::write(model.join("chat_template.jinja"), "{% for m in messages %}{{ m.content }} {% endfor %}")
        .unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_polyhead"))
        .args(["generate", "--chat", "--lines", "1000000000", "--max-new-tokens", "1000000000", "--model"])
        .arg(&model)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    input.write_all(b"one\n").unwrap();
    let mut some = [0; 400];
    output.read_exact(&mut some).unwrap();
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    drop(input);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(
        child.wait().unwrap().code(),
        Some(0),
        "the answer was stopped, and the chat ended with its input"
    );
}
