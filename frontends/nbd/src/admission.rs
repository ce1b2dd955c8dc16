//! Which connections a server keeps when more clients come than it has room for.
//!
//! Anyone who reaches a port can open connections and stay silent. Such connections must not keep
//! other clients out, so those that have not made a request yet make room:
//!
//! - A client may have [`HANDSHAKES_PER_CLIENT`] handshakes under way. One more ends its oldest.
//! - A client of a port may have three quarters of all connections, so that one address alone
//!   never takes all.
//! - If all connections are taken, the oldest that has not made a request makes room, of the
//!   client that has most of these.
//!
//! A connection that has made a request is never ended for another: a disk that rests is in use.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Handshakes that one client may have under way.
pub(crate) const HANDSHAKES_PER_CLIENT: usize = 32;

/// A connection, as admission sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    /// Grows with each connection, so the smallest is the oldest.
    pub id: u64,
    /// The client; `None` on a unix socket, which only its owner reaches.
    pub client: Option<IpAddr>,
    /// Whether the handshake is under way.
    pub is_new: bool,
    /// Whether a request was carried out.
    pub has_asked: bool,
}

/// What happens to a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is room.
    Admit,
    /// There is room if this connection ends.
    Displace(u64),
    /// This client has as many connections as it may have.
    ClientIsFull,
    /// All connections are in use.
    Full,
}

/// Whether a connection of `client` gets a place among `seats`, of which there may be
/// `connections`.
pub(crate) fn admit(seats: &[Seat], client: Option<IpAddr>, connections: usize) -> Verdict {
    let own = || seats.iter().filter(move |seat| seat.client == client);
    let client_max = connections - connections / 4;
    if own().filter(|seat| seat.is_new).count() >= HANDSHAKES_PER_CLIENT.min(client_max) {
        return oldest(own().filter(|seat| seat.is_new)).map_or(Verdict::Full, Verdict::Displace);
    }
    if client.is_some() && own().count() >= client_max {
        let silent = oldest(own().filter(|seat| !seat.has_asked));
        return silent.map_or(Verdict::ClientIsFull, Verdict::Displace);
    }
    if seats.len() < connections {
        return Verdict::Admit;
    }
    let mut silent = BTreeMap::<Option<IpAddr>, (usize, std::cmp::Reverse<u64>)>::new();
    for seat in seats.iter().filter(|seat| !seat.has_asked) {
        let (count, first) = silent
            .entry(seat.client)
            .or_insert((0, std::cmp::Reverse(seat.id)));
        *count += 1;
        *first = (*first).max(std::cmp::Reverse(seat.id));
    }
    let most = silent.values().max();
    most.map_or(Verdict::Full, |(_, first)| Verdict::Displace(first.0))
}

fn oldest<'a>(seats: impl Iterator<Item = &'a Seat>) -> Option<u64> {
    seats.map(|seat| seat.id).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, number]))
    }

    fn seats(of: &[(Option<IpAddr>, bool, bool)]) -> Vec<Seat> {
        let seat = |(id, &(client, is_new, has_asked))| Seat {
            id,
            client,
            is_new,
            has_asked,
        };
        (0..).zip(of).map(seat).collect()
    }

    #[test]
    fn silent_connections_of_one_address_keep_nobody_out() {
        let silent = seats(&[(client(1), true, false); HANDSHAKES_PER_CLIENT]);
        assert_eq!(admit(&silent, client(2), 256), Verdict::Admit);
        assert_eq!(admit(&silent, client(1), 256), Verdict::Displace(0));
        // They chose an export, and make no requests.
        let settled = seats(&[(client(1), false, false); 192]);
        assert_eq!(admit(&settled, client(1), 256), Verdict::Displace(0));
        assert_eq!(admit(&settled, client(2), 256), Verdict::Admit);
    }

    #[test]
    fn connections_in_use_are_never_ended_for_others() {
        let used = seats(&[(client(1), false, true); 192]);
        assert_eq!(admit(&used, client(1), 256), Verdict::ClientIsFull);
        let mut all = vec![(client(1), false, true); 4];
        assert_eq!(admit(&seats(&all), client(2), 4), Verdict::Full);
        all[2] = (client(3), false, false);
        assert_eq!(admit(&seats(&all), client(2), 4), Verdict::Displace(2));
    }

    #[test]
    fn the_client_with_most_silent_connections_makes_room() {
        let mut all = vec![(client(1), true, false)];
        all.extend([(client(2), true, false); 3]);
        assert_eq!(admit(&seats(&all), client(3), 4), Verdict::Displace(1));
    }

    /// The owner of a unix socket may use all connections.
    #[test]
    fn a_unix_socket_has_no_limit_for_one_client() {
        let used = seats(&[(None, false, true); 200]);
        assert_eq!(admit(&used, None, 256), Verdict::Admit);
    }
}
