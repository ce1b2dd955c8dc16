//! What clients' addresses did: connections, requests, bytes, and how fast they may go.
//!
//! A connection holds its address's entry, so that a request touches atomics only. An entry without
//! connections stays until its buckets are full again, or a client could evade its rate limit by
//! reconnecting; more than [`IDLE_MAX`] such entries are not kept.

use crate::pace::Pace;
use crate::status::AddressStatus;
use cenote_base::client_of;
use cenote_base::rt::{Mutex, ranks};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Entries without connections, of some 150 bytes each: about 10 MiB.
const IDLE_MAX: usize = 65536;
/// How many of the busiest addresses are shown.
const BUSIEST: usize = 10;

/// What an address did.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub connections: AtomicUsize,
    pub requests: AtomicU64,
    pub bytes: AtomicU64,
    pub request_pace: Pace,
    pub byte_pace: Pace,
}

/// All addresses with an entry.
#[derive(Default)]
pub(crate) struct Addresses(Mutex<HashMap<IpAddr, Arc<Entry>>, ranks::HttpAddresses>);

/// Counts a connection of an address until it is dropped.
#[derive(Debug)]
pub(crate) struct Presence(pub Arc<Entry>);

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Addresses {
    /// Counts a connection; `None` if the address has as many as it may have.
    pub fn enter(&self, address: IpAddr, connections_max: usize) -> Option<Presence> {
        let mut known = self.0.lock();
        let entry = known.entry(client_of(address)).or_default();
        // Only this, under the lock, counts up.
        if entry.connections.load(Ordering::Acquire) >= connections_max {
            return None;
        }
        entry.connections.fetch_add(1, Ordering::AcqRel);
        Some(Presence(Arc::clone(entry)))
    }

    /// Forgets addresses that have no connections, and took nothing that is not made up for.
    pub fn sweep(&self, now: u64) {
        let mut known = self.0.lock();
        let mut idle = 0;
        known.retain(|_, entry| {
            if entry.connections.load(Ordering::Acquire) > 0 {
                return true;
            }
            idle += 1;
            let is_full = entry.request_pace.is_full(now) && entry.byte_pace.is_full(now);
            !is_full && idle <= IDLE_MAX
        });
    }

    /// The addresses with the most connections, then bytes.
    pub fn busiest(&self) -> Vec<AddressStatus> {
        let known = self.0.lock();
        let status = |(address, entry): (&IpAddr, &Arc<Entry>)| AddressStatus {
            address: *address,
            connections: entry.connections.load(Ordering::Relaxed),
            requests: entry.requests.load(Ordering::Relaxed),
            bytes: entry.bytes.load(Ordering::Relaxed),
        };
        let mut all: Vec<_> = known.iter().map(status).collect();
        drop(known);
        let rank = |status: &AddressStatus| {
            let busy = (status.connections, status.bytes, status.requests);
            (std::cmp::Reverse(busy), status.address)
        };
        all.sort_by_key(rank);
        all.truncate(BUSIEST);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn connections_of_an_address_are_limited_and_given_back() {
        let addresses = Addresses::default();
        let first = addresses.enter(address("10.0.0.1"), 2).expect("room");
        let second = addresses.enter(address("10.0.0.1"), 2).expect("room");
        assert!(addresses.enter(address("10.0.0.1"), 2).is_none());
        assert!(addresses.enter(address("10.0.0.2"), 2).is_some());
        drop(second);
        let third = addresses.enter(address("10.0.0.1"), 2).expect("room");
        assert_eq!(addresses.busiest()[0].connections, 2);
        drop((first, third));
    }

    #[test]
    fn an_address_is_forgotten_when_its_rate_is_made_up_for() {
        let addresses = Addresses::default();
        let presence = addresses.enter(address("10.0.0.1"), 2).expect("room");
        assert_eq!(presence.0.request_pace.try_take(0, 1, 1), Ok(()));
        drop(presence);
        addresses.sweep(500_000_000);
        assert_eq!(addresses.busiest().len(), 1, "it still has to wait");
        addresses.sweep(2_000_000_000);
        assert_eq!(addresses.busiest().len(), 0);
    }
}
