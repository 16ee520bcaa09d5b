//! Whose request it is when proxies stand between.
//!
//! `X-Forwarded-For` is a list to which each proxy adds at the end whom it was asked by. Anybody can send one, so that only
//! what a trusted proxy has added is believed: the list is read from its end, past trusted proxies, to the first other.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;

/// The client's address; `peer` is at the other end of the connection.
pub fn address(peer: IpAddr, headers: &HeaderMap, trusted_proxies: &[IpAddr]) -> IpAddr {
    let is_trusted = |address: &IpAddr| {
        trusted_proxies.iter().any(|trusted| trusted.to_canonical() == address.to_canonical())
    };
    let mut last = peer;
    let lines = headers.get_all("x-forwarded-for");
    let lines: Vec<&str> = lines.iter().map(|line| line.to_str().unwrap_or_default()).collect();
    let mut added = lines.iter().rev().flat_map(|line| line.rsplit(','));
    while is_trusted(&last) {
        // What is no address ends the list: nothing before it can be believed either.
        let Some(address) = added.next().and_then(parsed) else { break };
        last = address;
    }
    last.to_canonical()
}

/// An address with or without a port.
fn parsed(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_what_trusted_proxies_add_is_believed() {
        let trusted: Vec<IpAddr> = ["10.0.0.1", "10.0.0.2", "::1"].map(|text| text.parse().unwrap()).to_vec();
        let found = |peer: &str, lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-forwarded-for", HeaderValue::from_str(line).unwrap());
            }
            address(peer.parse().unwrap(), &headers, &trusted).to_string()
        };
        assert_eq!(found("10.0.0.1", &["1.2.3.4"]), "1.2.3.4");
        // A client sends a list of its own; the proxy adds the client.
        assert_eq!(found("10.0.0.1", &["9.9.9.9, 1.2.3.4"]), "1.2.3.4");
        assert_eq!(found("10.0.0.1", &["9.9.9.9", "1.2.3.4, 10.0.0.2"]), "1.2.3.4");
        assert_eq!(found("::ffff:10.0.0.1", &["[2001:db8::1]:443"]), "2001:db8::1");
        assert_eq!(found("::1", &["1.2.3.4:5678"]), "1.2.3.4");
        // A stranger is not believed, and neither is nonsense.
        assert_eq!(found("5.5.5.5", &["1.2.3.4"]), "5.5.5.5");
        assert_eq!(found("10.0.0.1", &["1.2.3.4, unknown"]), "10.0.0.1");
        assert_eq!(found("10.0.0.1", &["1.2.3.4, , 10.0.0.2"]), "10.0.0.2");
        assert_eq!(found("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(found("10.0.0.1", &["10.0.0.2"]), "10.0.0.2");
    }
}
