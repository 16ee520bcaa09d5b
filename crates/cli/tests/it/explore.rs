//! `polyhead explore`, and the .html page of `polyhead inspect`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use crate::program::{folder, polyhead};

/// A small model made with Hugging Face's code.
fn model() -> String {
    format!("{}/../models/tests/golden/opus", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_printed_address_serves_the_page() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_polyhead"))
        .args(["explore", "--model", &model(), "--port", "0", "--no-open"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let host = address.trim().strip_prefix("http://").unwrap().trim_end_matches('/');
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("<title>Polyhead explorer"), "{answer}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_port_in_use_and_a_missing_folder_are_errors() {
    let folder = folder(&[]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let error = polyhead(folder.path(), &["explore", "--model", &model(), "--port", &port, "--no-open"], "")
        .failed(1);
    assert!(error.contains(&format!("error: cannot listen on 127.0.0.1:{port}")), "{error}");
    assert!(error.contains("hint: choose another with --port"), "{error}");
    let error = polyhead(folder.path(), &["explore", "--model", "nowhere"], "").failed(1);
    assert!(error.contains("nowhere: no such folder"), "{error}");
    polyhead(folder.path(), &["explore", "--port", "99999"], "").failed(2);
}

#[test]
fn a_self_contained_page_is_written() {
    let folder = folder(&[]);
    let arguments =
        ["inspect", "--model", &model(), "--to", "tur", "--out", "page.html", "The teacher reads."];
    polyhead(folder.path(), &arguments, "").ok();
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("\"text\":\"The teacher reads.\""));
    let error = polyhead(folder.path(), &["inspect", "--model", &model(), "--out", "no/page.html", "a"], "")
        .failed(1);
    assert!(error.contains("page.html"), "{error}");
}
