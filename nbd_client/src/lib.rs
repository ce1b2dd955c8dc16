//! Disks over the network: the client of NBD, and what it shares with the server.
//!
//! * [`protocol`] has the bytes of all messages, [`transport`] what carries them, [`tls`] the
//!   encrypted kind, [`receiver`] the receiving side of both.
//! * [`NbdDevice`] is an export as a device. `negotiate` connects, `link` is one connection,
//!   `core` holds requests and connections together, `journal` keeps what is not flushed, `again`
//!   tells whether a server that came back is the same disk.
//! * [`NbdOpener`] opens devices by the names that [`Location`] explains.
//!
//! *Promise.* A flush that succeeds covers all writes that succeeded before, whatever happened to
//! server and network in between. A request has a result after a limited time.

#![forbid(unsafe_code)]

mod again;
mod asked;
mod check;
mod core;
mod device;
mod error;
mod journal;
mod link;
mod location;
mod negotiate;
mod opener;
mod own;
pub mod protocol;
pub mod receiver;
pub mod tls;
pub mod transport;

pub use check::{Monologue, check_server};
pub use device::NbdDevice;
pub use error::NbdError;
pub use location::{Location, LocationError, Place, SCHEMES, TlsOptions};
pub use opener::NbdOpener;
