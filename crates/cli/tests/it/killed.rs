//! Resuming: a run that is killed ten times ends with the same bits as one that is not; interrupts; verification.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::polyhead;

const CONFIG: &str = r#"
[data]
train = { source = "train.source", target = "train.target" }
valid = { source = "valid.source", target = "valid.target" }
[tokenizer]
kind = "word"
vocab_size = 0
[model]
preset = "tiny"
d_model = 32
n_layers = 1
n_heads = 2
d_ff = 64
[schedule]
peak = 0.01
warmup_steps = 30
[train]
max_tokens = 300
max_steps = 200
log_every = 10
ema = 0.95
[validation]
every_steps = 40
[checkpoint]
every_steps = 3
final = "average_last"
average = 3
"#;

/// Digits and the same digits backwards.
pub(crate) fn write_digits(folder: &Path) {
    for (name, pairs, seed) in [("train", 400_u64, 1_u64), ("valid", 20, 77)] {
        let line = |pair: u64| -> Vec<String> {
            let mut state = pair * 2_654_435_761 + seed;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state >> 33
            };
            let length = 2 + next() % 6;
            (0..length).map(|_| (next() % 10).to_string()).collect()
        };
        let side = |backwards: bool| -> String {
            let text = |pair| {
                let mut digits = line(pair);
                if backwards {
                    digits.reverse();
                }
                digits.join(" ") + "\n"
            };
            (0..pairs).map(text).collect()
        };
        std::fs::write(folder.join(format!("{name}.source")), side(false)).unwrap();
        std::fs::write(folder.join(format!("{name}.target")), side(true)).unwrap();
    }
}

fn start(folder: &Path, out: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_polyhead"))
        .args(["train", "toy.toml", "--resume", "--threads", "1", "--out", out])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_run_killed_ten_times_ends_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    write_digits(folder.path());
    std::fs::write(folder.path().join("toy.toml"), CONFIG).unwrap();
    let began = Instant::now();
    polyhead(folder.path(), &["train", "toy.toml", "--out", "whole", "--threads", "2"], "").ok();
    let whole = began.elapsed();
    let mut kills = 0;
    let mut random = 12_345_u64;
    while kills < 10 {
        let mut child = start(folder.path(), "killed");
        // Between 2 % and 32 % of the whole run, so that each attempt makes progress.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let share = 0.02 + 0.3 * (random >> 40) as f64 / (1_u64 << 24) as f64;
        std::thread::sleep(Duration::from_secs_f64(whole.as_secs_f64() * share));
        // SIGKILL, which the program cannot handle.
        child.kill().unwrap();
        let status = child.wait().unwrap();
        if status.success() {
            break;
        }
        kills += 1;
    }
    let last = polyhead(folder.path(), &["train", "toy.toml", "--resume", "--out", "killed"], "");
    assert_eq!(last.code, 0, "{}", last.err);
    for file in ["model/model.safetensors", "checkpoints/step-00000200/trainer/model.safetensors"] {
        let bytes = |run: &str| std::fs::read(folder.path().join(run).join(file)).unwrap();
        assert!(bytes("whole") == bytes("killed"), "{file} differs after {kills} kills");
    }
    assert!(kills > 3, "the run ended after {kills} kills already");
}

#[cfg(unix)]
#[test]
fn an_interrupt_saves_and_prints_how_to_resume() {
    let folder = tempfile::tempdir().unwrap();
    write_digits(folder.path());
    let endless = CONFIG.replace("max_steps = 200", "max_steps = 1000000");
    std::fs::write(folder.path().join("toy.toml"), endless).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_polyhead"))
        .args(["train", "toy.toml", "--out", "run"])
        .current_dir(folder.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let first = folder.path().join("run/checkpoints/step-00000003");
    let began = Instant::now();
    while !first.exists() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let signalled = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(err.contains("resume with: polyhead train run --resume"), "{err}");
    let used = "use the newest checkpoint with: polyhead translate --model run < TEXT";
    assert!(err.contains(used), "{err}");
    for command in
        [&["translate", "--model", "run"][..], &["info", "run"], &["quantize", "run", "--out", "x"]]
    {
        let input = if command[0] == "translate" { "1 2\n" } else { "" };
        let used = polyhead(folder.path(), command, input);
        assert_eq!(used.code, 0, "{}", used.err);
        assert!(
            used.err.contains("the newest checkpoint of the run: training has not finished"),
            "{}",
            used.err
        );
    }
    let again = polyhead(folder.path(), &["train", "run", "--resume", "--max-minutes", "0.001"], "");
    assert!(again.err.contains("resuming after step"), "{}", again.err);
}

#[test]
fn a_moved_run_resumes_where_it_is_and_no_foreign_folder_is_used() {
    let folder = tempfile::tempdir().unwrap();
    write_digits(folder.path());
    std::fs::write(folder.path().join("toy.toml"), CONFIG.replace("max_steps = 200", "max_steps = 3"))
        .unwrap();
    polyhead(folder.path(), &["train", "toy.toml", "--out", "run"], "").ok();
    std::fs::rename(folder.path().join("run"), folder.path().join("moved")).unwrap();
    polyhead(folder.path(), &["train", "moved", "--resume", "--set", "train.max_steps=6"], "").ok();
    assert!(!folder.path().join("run").exists());
    assert!(folder.path().join("moved/checkpoints/step-00000006").exists());
    let refused = polyhead(folder.path(), &["train", "toy.toml", "--out", "."], "");
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("expected an empty folder for a new run"), "{}", refused.err);
    let used = polyhead(folder.path(), &["translate", "--model", "moved", "1 2"], "");
    assert_eq!(used.code, 0, "{}", used.err);
    assert!(used.err.contains("using moved/model, the finished model of the run"), "{}", used.err);
}

#[test]
fn a_run_is_verified_and_an_altered_metric_is_found() {
    let folder = tempfile::tempdir().unwrap();
    write_digits(folder.path());
    std::fs::write(folder.path().join("toy.toml"), CONFIG.replace("max_steps = 200", "max_steps = 50"))
        .unwrap();
    polyhead(folder.path(), &["train", "toy.toml", "--out", "run"], "").ok();
    let found = polyhead(folder.path(), &["verify-run", "run", "--steps", "45", "--threads", "1"], "").ok();
    assert_eq!(found, "repeated 45 steps: 5 lines and 1 weight checksum are equal bit for bit\n");
    let path = folder.path().join("run/metrics.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let first = text.find("\"loss\":").unwrap() + 7;
    let digit = first + 6;
    let other = if &text[digit..=digit] == "7" { "8" } else { "7" };
    std::fs::write(&path, format!("{}{other}{}", &text[..digit], &text[digit + 1..])).unwrap();
    let found = polyhead(folder.path(), &["verify-run", "run", "--steps", "20"], "");
    assert_eq!(found.code, 1);
    assert!(found.err.contains("step 10, loss"), "{}", found.err);
}
