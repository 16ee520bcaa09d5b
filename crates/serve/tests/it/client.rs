//! A minimal HTTP client for the tests.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

/// An answer of the server.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// Sends a request with these headers; `Host` is the loopback address unless they name one.
pub(crate) fn send(port: u16, call: [&str; 2], headers: &[&str], body: &str) -> Answer {
    send_bytes(port, call, headers, body.as_bytes())
}

/// The same with any bytes.
pub(crate) fn send_bytes(port: u16, [method, path]: [&str; 2], headers: &[&str], body: &[u8]) -> Answer {
    let host = format!("Host: 127.0.0.1:{port}");
    let own = headers.iter().any(|header| header.starts_with("Host:"));
    let mut lines: Vec<&str> = if own { Vec::new() } else { vec![&host] };
    lines.extend(headers);
    let head = lines.join("\r\n");
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    // A server that refuses a request may close before it has read all of it.
    let _ = stream.write_all(&[request.as_bytes(), body].concat());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (headers, body) = text.split_once("\r\n\r\n").unwrap();
    let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
    let is_chunked = headers.to_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { joined(body) } else { body.to_owned() };
    Answer { status, headers: headers.to_lowercase(), body }
}

pub(crate) fn get(port: u16, path: &str) -> Answer {
    send(port, ["GET", path], &[], "")
}

pub(crate) fn post(port: u16, path: &str, body: &Value) -> Answer {
    send(port, ["POST", path], &["Content-Type: application/json"], &body.to_string())
}

/// Joins the chunks of a body.
fn joined(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        body.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
    }
    body
}
