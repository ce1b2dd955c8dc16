//! What a server says about itself.

use std::net::IpAddr;

/// What a client's address did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressStatus {
    /// The address; of IPv6 the first 64 bits.
    pub address: IpAddr,
    /// Connections that it has.
    pub connections: usize,
    /// Requests since it was first seen. An address without connections is forgotten after a while.
    pub requests: u64,
    /// Bytes of answers' bodies since then.
    pub bytes: u64,
}

/// What a server did since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Connections that are open.
    pub connections: usize,
    /// Of these, connections with a request under way.
    pub busy: usize,
    /// Connections without a request for which nothing is kept but the socket.
    pub resting: usize,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that were refused because a limit was reached.
    pub refused: u64,
    /// Connections that were ended because the client was too slow.
    pub slow: u64,
    /// Requests.
    pub requests: u64,
    /// Requests by the first digit of their status: `answers[1]` counts 2xx.
    pub answers: [u64; 5],
    /// Bytes of answers' bodies.
    pub bytes: u64,
    /// Requests that were answered from memory at once, to the end: no thread waited.
    pub from_memory: u64,
    /// Requests that wait for the storage, or are being answered by a thread that may wait.
    pub waiting: usize,
    /// Lines that the access log could not take in time.
    pub log_lines_dropped: u64,
    /// The addresses with the most connections, then bytes; at most 10.
    pub busiest: Vec<AddressStatus>,
}
