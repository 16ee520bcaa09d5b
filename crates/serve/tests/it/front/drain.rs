//! Shutdown of a server.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use polyhead_serve::front::listen::{ConnectionOptions, Drained};

use super::{Server, plain, quick, rest, until};

fn slow() -> Router {
    plain()
        .route(
            "/slow",
            get(async || {
                tokio::time::sleep(Duration::from_millis(500)).await;
                "at last"
            }),
        )
        .route("/never", get(async || std::future::pending::<()>().await))
}

#[test]
fn running_requests_are_answered_and_idle_connections_end_at_once() {
    let server = Server::start(slow(), quick());
    let mut running: Vec<_> = (0..20).map(|_| server.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
    let mut idle = server.connect();
    let mut reused = server.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    until(&mut reused, "hello");
    server.wait_for_open(22);
    let address = server.address;
    let begin = Instant::now();
    let stopped = std::thread::spawn(move || server.stop());
    assert_eq!((rest(&mut idle), rest(&mut reused)), (String::new(), String::new()));
    assert!(begin.elapsed() < Duration::from_millis(400), "{:?}", begin.elapsed());
    assert!(std::net::TcpStream::connect(address).is_err(), "the port still accepts");
    for stream in &mut running {
        let answer = rest(stream);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("at last"), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }
    assert_eq!(stopped.join().unwrap(), Drained { drained: 22, cut: 0 });
    assert!(begin.elapsed() < Duration::from_secs(2));
}

#[test]
fn requests_that_take_too_long_are_cut() {
    let server = Server::start(slow(), ConnectionOptions { drain: Duration::from_millis(300), ..quick() });
    let mut never = server.send("GET /never HTTP/1.1\r\nHost: a\r\n\r\n");
    let _idle = server.connect();
    server.wait_for_open(2);
    let connections = server.connections.clone();
    let begin = Instant::now();
    assert_eq!(server.stop(), Drained { drained: 1, cut: 1 });
    let took = begin.elapsed();
    assert!(took >= Duration::from_millis(280) && took < Duration::from_secs(2), "{took:?}");
    assert_eq!((rest(&mut never), connections.open()), (String::new(), 0));
}

#[test]
fn busy_clients_lose_no_answer_at_shutdown() {
    let server = Server::start(plain(), quick());
    let address = server.address;
    let [sent, answered] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let is_over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (sent, answered, is_over) = (sent.clone(), answered.clone(), is_over.clone());
            std::thread::spawn(move || {
                let Ok(mut stream) = std::net::TcpStream::connect(address) else { return };
                while !is_over.load(Ordering::SeqCst) {
                    stream.write_all(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                    sent.fetch_add(1, Ordering::SeqCst);
                    let answer = until(&mut stream, "hello");
                    answered.fetch_add(1, Ordering::SeqCst);
                    if answer.contains("connection: close") {
                        return;
                    }
                }
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    let drained = server.stop();
    is_over.store(true, Ordering::SeqCst);
    for client in clients {
        client.join().unwrap();
    }
    assert_eq!((sent.load(Ordering::SeqCst), drained.cut), (answered.load(Ordering::SeqCst), 0));
    assert!(sent.load(Ordering::SeqCst) > 50);
}
