//! The limit of connections, and the peer address.

use std::io::Read as _;
use std::time::Duration;

use axum::Extension;
use axum::routing::get;
use polyhead_serve::front::listen::{ConnectionOptions, Peer};

use super::{Server, plain, quick, until};

#[test]
fn past_the_limit_clients_wait_until_others_leave() {
    let server = Server::start(plain(), ConnectionOptions { most: Some(3), ..quick() });
    let hello = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut first: Vec<_> = (0..3).map(|_| server.send(hello)).collect();
    for stream in &mut first {
        until(stream, "hello");
    }
    let mut next = server.send(hello);
    next.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(next.read(&mut [0; 1]).is_err(), "a fourth was accepted");
    assert_eq!(server.connections.open(), 3);
    first.pop();
    next.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    until(&mut next, "hello");
    drop((first, next));
    server.is_well();
    assert_eq!(server.connections.accepted(), 5);
}

#[test]
fn a_handler_knows_its_peer() {
    let routes = plain().route("/peer", get(async |Extension(Peer(peer)): Extension<Peer>| peer.to_string()));
    let server = Server::start(routes, quick());
    let mut stream = server.send("GET /peer HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let own = stream.local_addr().unwrap().to_string();
    assert!(super::rest(&mut stream).ends_with(&own));
    drop(stream);
    server.is_well();
}
