//! Addresses of exports, in the form that NBD clients accept.

use cenote_control::model::NbdServer;
use cenote_words::format::url::escaped;
use std::net::SocketAddr;

/// The URIs of an export, one per address of its server.
pub fn uris(server: &NbdServer, export: &str) -> Vec<String> {
    let has_port = |address: &String| address.parse::<SocketAddr>().is_ok();
    let is_on_network = server.addresses.iter().any(has_port);
    let each = server.addresses.iter().map(|address| {
        let name = escaped(export);
        match has_port(address) {
            true => {
                let scheme = if server.is_encrypted { "nbds" } else { "nbd" };
                format!("{scheme}://{address}/{name}")
            }
            false => {
                // The socket uses TLS only if the server does not listen on the network.
                let is_encrypted = server.is_encrypted && !is_on_network;
                let scheme = if is_encrypted { "nbds" } else { "nbd" };
                format!("{scheme}+unix:///{name}?socket={}", escaped(address))
            }
        }
    });
    each.collect()
}

/// Whether an address can be reached from other machines.
pub fn is_reachable(address: &str) -> bool {
    let parsed = address.parse::<SocketAddr>();
    parsed.is_ok_and(|address| !address.ip().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_what_clients_take() {
        let mut server = NbdServer {
            addresses: vec!["/run/a b".to_owned(), "[::]:10809".to_owned()],
            ..NbdServer::default()
        };
        let expected = [
            "nbd+unix:///tank/v%20w@s?socket=/run/a%20b",
            "nbd://[::]:10809/tank/v%20w@s",
        ];
        assert_eq!(uris(&server, "tank/v w@s"), expected);
        server.is_encrypted = true;
        assert!(uris(&server, "v")[0].starts_with("nbd+unix:"));
        assert!(uris(&server, "v")[1].starts_with("nbds:"));
        server.addresses.pop();
        assert!(uris(&server, "v")[0].starts_with("nbds+unix:"));
        assert!(is_reachable("0.0.0.0:1") && is_reachable("10.0.0.1:1"));
        assert!(!is_reachable("127.0.0.1:1") && !is_reachable("[::1]:1") && !is_reachable("/s"));
    }
}
