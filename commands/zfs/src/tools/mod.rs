//! Small programs of OpenZFS: `zgenhostid`, `zfs_ids_to_path` and `zvol_wait`.

pub mod host_id;
pub mod ids_to_path;
pub mod volume_wait;
