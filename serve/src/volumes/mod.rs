//! Volumes served as block devices to other programs and machines.
//!
//! `offer` says what a server exports, because of commands or of the property `cenote:nbd`; `nbd`
//! shows it to the NBD server. `table` has the servers, and `act` carries out requests about them.
//!
//! A server reads the property when a client asks for an export. So it need not keep track of
//! datasets that are created, destroyed or renamed. Changes only decide whether the daemon's own
//! server is needed, and disconnect clients (`follow`).

pub(crate) mod act;
pub(crate) mod follow;
pub(crate) mod nbd;
pub(crate) mod offer;
pub(crate) mod table;
