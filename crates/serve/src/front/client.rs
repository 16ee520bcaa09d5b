//! The client's address behind proxies.
//!
//! Each proxy appends the address of its client to `X-Forwarded-For`. Anybody can send that header, so only entries that a
//! trusted proxy has added count: the list is read from its end, past trusted proxies, to the first other address.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;

/// The client's address; `peer` is the other end of the connection.
pub fn address(peer: IpAddr, headers: &HeaderMap, trusted_proxies: &[IpAddr]) -> IpAddr {
    let is_trusted = |address: &IpAddr| {
        trusted_proxies.iter().any(|trusted| trusted.to_canonical() == address.to_canonical())
    };
    let mut last = peer;
    let lines = headers.get_all("x-forwarded-for");
    let lines: Vec<&str> = lines.iter().map(|line| line.to_str().unwrap_or_default()).collect();
    let mut added = lines.iter().rev().flat_map(|line| line.rsplit(','));
    while is_trusted(&last) {
        // An invalid entry ends the list: nothing before it can be trusted either.
        let Some(address) = added.next().and_then(parsed) else { break };
        last = address;
    }
    last.to_canonical()
}

/// Parses an address with or without a port.
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
    fn only_entries_of_trusted_proxies_count() {
        let trusted: Vec<IpAddr> = ["10.0.0.1", "10.0.0.2", "::1"].map(|text| text.parse().unwrap()).to_vec();
        let found = |peer: &str, lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-forwarded-for", HeaderValue::from_str(line).unwrap());
            }
            address(peer.parse().unwrap(), &headers, &trusted).to_string()
        };
        assert_eq!(found("10.0.0.1", &["1.2.3.4"]), "1.2.3.4");
        // The client sends a list of its own; the proxy appends the client.
        assert_eq!(found("10.0.0.1", &["9.9.9.9, 1.2.3.4"]), "1.2.3.4");
        assert_eq!(found("10.0.0.1", &["9.9.9.9", "1.2.3.4, 10.0.0.2"]), "1.2.3.4");
        assert_eq!(found("::ffff:10.0.0.1", &["[2001:db8::1]:443"]), "2001:db8::1");
        assert_eq!(found("::1", &["1.2.3.4:5678"]), "1.2.3.4");
        // An untrusted peer does not count, and neither does an invalid entry.
        assert_eq!(found("5.5.5.5", &["1.2.3.4"]), "5.5.5.5");
        assert_eq!(found("10.0.0.1", &["1.2.3.4, unknown"]), "10.0.0.1");
        assert_eq!(found("10.0.0.1", &["1.2.3.4, , 10.0.0.2"]), "10.0.0.2");
        assert_eq!(found("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(found("10.0.0.1", &["10.0.0.2"]), "10.0.0.2");
    }
}
