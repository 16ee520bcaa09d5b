//! `translate` and `evaluate` on long input: lines are written as they are done, in order, and an interrupt keeps them.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/golden/opus")
}

fn start(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_polyhead"))
        .args(arguments)
        .args(["--threads", "1", "--to", "tur", "--model"])
        .arg(golden())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

fn stderr(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

/// Peak memory of a process in kB.
#[cfg(target_os = "linux")]
fn peak_memory(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn endless_input_gives_lines_in_flat_memory_and_an_interrupt_keeps_them() {
    let mut child = start(&["translate"]);
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        let lines = "Nobody slept well!\nThe teacher reads a book today.\r\n".repeat(500);
        // Ends when the program does.
        while input.write_all(lines.as_bytes()).is_ok() {}
    });
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let (mut lines, mut read) = (Vec::new(), 0);
    let mut warm = 0;
    while read < 3000 {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        read += 1;
        if read == 1000 {
            warm = peak_memory(&child);
        }
        lines.push(line);
    }
    let grown = peak_memory(&child) - warm;
    assert!(grown < 10_000, "{grown} kB more after 2,000 more lines");
    interrupt(&child);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    writer.join().unwrap();
    lines.extend(rest.split_inclusive('\n').map(str::to_owned));
    let err = stderr(&mut child);
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let told = err.lines().find(|line| line.starts_with("interrupted: ")).unwrap_or_else(|| panic!("{err}"));
    // A window may be written and not counted yet.
    let (told, written) = (digits(told).parse::<usize>().unwrap(), lines.len());
    assert!(told <= written && written <= told + 1024, "{told} told, {written} written");
    for (index, line) in lines.iter().enumerate() {
        assert_eq!(line, &lines[index % 2], "line {index}");
    }
    assert!(!lines[0].ends_with("\r\n") && lines[1].ends_with("\r\n"), "line ends stay: {:?}", &lines[..2]);
}

#[test]
fn an_interrupted_evaluation_keeps_its_translations() {
    let folder = tempfile::tempdir().unwrap();
    let [source, out] = ["source", "out"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    fs::write(&source, "The teacher reads a book today.\n".repeat(50_000)).unwrap();
    let partial = folder.path().join("out.partial");
    let mut child = start(&["evaluate", "--source", &source, "--reference", &source, "--out", &out]);
    let began = Instant::now();
    while !fs::metadata(&partial).is_ok_and(|file| file.len() > 0) {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing was written");
        std::thread::sleep(Duration::from_millis(10));
    }
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let err = stderr(&mut child);
    assert!(err.contains("lines are in ") && err.contains("out.partial"), "{err}");
    let lines = fs::read_to_string(&partial).unwrap();
    assert!(lines.ends_with('\n') && lines.lines().count() < 50_000 && !Path::new(&out).exists());
}

#[test]
fn line_ends_of_standard_input_stay() {
    let mut child = start(&["translate"]);
    child.stdin.take().unwrap().write_all(b"a\r\nNobody slept well!\n\r\na\r\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let ends: Vec<bool> = text.split_inclusive('\n').map(|line| line.ends_with("\r\n")).collect();
    assert_eq!(ends, [true, false, true, true], "{text:?}");
}
