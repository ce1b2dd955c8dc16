//! Requests of HTTP/1.1: the one client, of object stores and of alarms.
//!
//! `hyper` speaks the protocol and keeps connections for the next request. Ours is how a
//! connection begins ([`Client`]: proxies, TLS, limits of the kernel's), whose certificates are
//! trusted ([`tls`]), and a body that says how far it is ([`Payload`]). A request ends when its
//! future is dropped; [`wait`] is for callers on threads of their own.
//!
//! *Invariants*: no redirection is followed, because a signature is for one host and a POST would
//! become a GET. A request is sent again only while none of it was sent.
//!
//! Not here: HTTP/2, cookies, compression, proxies of SOCKS.

#![forbid(unsafe_code)]

mod body;
mod client;
mod connect;
mod error;
mod listed;
mod setup;
pub mod tls;
mod wait;

pub use body::Payload;
pub use client::{Answer, Client, basic_auth};
pub use error::HttpError;
pub use http;
pub use setup::Setup;
pub use wait::wait;
