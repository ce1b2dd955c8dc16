//! Which addresses count as one client, wherever a server limits what a client gets.
//!
//! A site gets a whole network of IPv6 addresses, so a limit for each address would not limit it.

use std::net::{IpAddr, Ipv6Addr};

/// The address that stands for a client: of IPv6 the network of 64 bits; an IPv4 address that is
/// written as IPv6 is the IPv4 address.
pub fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_site_of_ipv6_is_one_client_and_mapped_ipv4_is_ipv4() {
        let network = address("2001:db8:1:2::");
        assert_eq!(client_of(address("2001:db8:1:2:3::4")), network);
        let mapped = client_of(address("::ffff:10.0.0.1"));
        assert_eq!(mapped, address("10.0.0.1"));
    }
}
