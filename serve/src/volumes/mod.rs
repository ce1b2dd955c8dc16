//! Volumes served as block devices to other programs and machines.
//!
//! `offer` says what a server exports, because of commands or of the property `cenote:nbd`; `nbd`
//! shows it to the NBD server. `table` has the servers, and `act` carries out requests about them.
//!
//! The property is looked at when a client asks, so nothing has to follow datasets that come, go
//! or are renamed. Only whether the daemon's own server is needed follows from changes (`follow`).

pub(crate) mod act;
pub(crate) mod follow;
pub(crate) mod nbd;
pub(crate) mod offer;
pub(crate) mod table;
