//! Devices in object stores: opened, kept an eye on, let go.
//!
//! Pools see them as devices like others. What they are beside that (what waits to be uploaded, who
//! holds them, whether their store answers) is asked here, of the devices that are open.

pub(crate) mod act;
pub(crate) mod leave;
pub(crate) mod opener;
pub(crate) mod own_disks;
pub(crate) mod rules;
pub(crate) mod status;
pub(crate) mod table;
